"""The rendered JSON of any stored breakpoint conforms to the wire models."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from assent.breakpoints.api import views
from assent.breakpoints.store.breakpoints import row_of
from assent.breakpoints.store.reading import STATUS_COLUMNS, SUMMARY_COLUMNS, WHOLE_COLUMNS, StatusRow, Summary, Whole
from assent.contracts import breakpoints as wire
from assent.contracts.create import CreateBreakpoint
from assent.contracts.models import read
from assent.contracts.shape import json_of
from assent.core.access import Actor, Kind
from assent.core.breakpoint import (
    NEVER,
    Action,
    Breakpoint,
    Response,
    Status,
    advance,
    answered,
    cancel,
    expire,
    record,
    release,
    time_out,
)
from assent.core.draft import draft
from assent.core.seats import Directory, seats_for
from assent.core.strategies import Decision
from assent.core.timestamps import iso
from assent.kernel.ports import Hint

AGENT = Actor(Kind.AGENT, "ci")
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
moments = st.integers(0, 4_000_000_000_000_000)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid request body for a new breakpoint."""
    maybe: dict[str, st.SearchStrategy[Any]] = {
        "question": words,
        "expert": st.lists(st.sampled_from(["ann", "ben", "owner", "ghost", "ops"]), min_size=1, max_size=4),
        "tags": st.lists(words, max_size=3),
        "attempt": st.integers(0, 1_000_000),
        "risk": st.sampled_from(["low", "medium", "high"]),
        "options": st.lists(words, min_size=1, max_size=3, unique=True),
        "strategy": st.sampled_from(["single", "first-response-wins"]),
        "extra": documents,
    }
    payload = {name: draw(maybe[name]) for name in draw(st.sets(st.sampled_from(sorted(maybe))))}
    top: dict[str, st.SearchStrategy[Any]] = {
        "runId": words,
        "title": words,
        "tags": st.lists(words, max_size=3),
        "ttlSeconds": st.integers(1, 366 * 24 * 3600),
        "onTimeout": st.sampled_from(["expire", "reject"]),
        "callbackUrl": st.just("https://example.org/hook"),
        "priority": st.sampled_from(["low", "normal", "high", "urgent"]),
    }
    given_top = {name: draw(top[name]) for name in draw(st.sets(st.sampled_from(sorted(top))))}
    return {"agentId": draw(words), "payload": payload, **given_top}


@st.composite
def responses(draw: st.DrawFn) -> Response:
    return Response(
        person=draw(words),
        approved=draw(st.booleans()),
        at=draw(moments),
        via=draw(st.sampled_from(["api", "web", "slack"])),
        comment=draw(st.none() | words),
        option=draw(st.none() | words),
        answers=draw(st.none() | st.dictionaries(words, documents, max_size=2)),
        edits=draw(st.none() | st.dictionaries(words, documents, max_size=2)),
        seat=draw(st.none() | words),
        in_place_of=tuple(draw(st.lists(words, max_size=2))),
        override=draw(st.booleans()),
    )


@st.composite
def stored(draw: st.DrawFn) -> tuple[Breakpoint, list[Response]]:
    """Draw a breakpoint in any state that can be stored, with its responses."""
    wanted = draft(CreateBreakpoint.model_validate(draw(bodies())).model_dump(by_alias=True, exclude_unset=True))
    directory = Directory(frozenset({"ann", "ben", "boss"}), {"ops": frozenset({"ann"})}, "boss")
    seats, missing = seats_for(wanted.experts, directory)
    at = draw(moments)
    new = Breakpoint(
        id="bp_" + "0" * 26,
        project="default",
        agent_id=wanted.agent_id,
        run_id=wanted.run_id,
        title=wanted.title,
        gate=wanted.gate,
        payload=wanted.payload,
        tags=wanted.tags,
        seats=seats,
        strategy=wanted.strategy,
        risk=wanted.risk,
        priority=wanted.priority,
        on_timeout=wanted.on_timeout or "expire",
        ttl_seconds=wanted.ttl_seconds,
        callback_url=wanted.callback_url,
        digest=wanted.digest("default"),
        created_at=at,
        created_by=AGENT,
        created_by_id="tok_1",
        due_at=at + wanted.ttl_seconds * 1_000_000 if wanted.ttl_seconds else NEVER,
        auto_approval={"recommended": False, "reason": "No rule.", "consecutiveApprovals": 0},
        warnings=tuple(f"Nobody is called {name}." for name in missing),
    )
    new, _ = record(new, "created", actor=AGENT, at=at)
    given_ = draw(st.lists(responses(), max_size=3))
    for each in given_:
        new, _ = advance(new, Action.RESPOND, actor=AGENT, at=each.at, metadata={})
    return _ended(draw, new, given_, at), given_


def _ended(draw: st.DrawFn, new: Breakpoint, given_: list[Response], at: int) -> Breakpoint:
    how = draw(st.sampled_from(["waiting", "released", "expired", "cancelled", "timed out"]))
    if how == "released" and given_:
        decision = draw(st.sampled_from(Decision))
        result = answered(decision, given_, last=given_[-1])
        return release(new, decision, actor=Actor(Kind.PERSON, "ann"), at=at, result=result)[0]
    endings = {"expired": expire, "cancelled": cancel}
    if how in endings:
        return endings[how](new, actor=AGENT, at=at)[0]
    return time_out(new, at=at)[0] if how == "timed out" else new


def _columns(found: Breakpoint, names: tuple[str, ...]) -> list[Any]:
    row = row_of(found)
    return [row[name] for name in names]


comments = st.lists(
    st.tuples(st.just("bp_" + "0" * 26), st.just("fb_1"), st.just("person:ann"), words, moments), max_size=3
)


@settings(max_examples=200)
@given(stored(), comments)
def test_a_rendered_breakpoint_is_a_valid_breakpoint_view(
    drawn: tuple[Breakpoint, list[Response]], said: list[Any]
) -> None:
    found, given_ = drawn
    body = views.whole(Whole(*_columns(found, WHOLE_COLUMNS)), said, given_)
    sent = json.loads(body)
    view = read(wire.Breakpoint, sent)
    assert json_of(view) == sent
    assert sent["payload"] == found.payload
    assert (view.decision is not None) == (view.status == "released")
    assert (view.result is not None) == (view.status != "waiting")
    assert view.result is None or view.result.approved is (view.decision == "approved")
    assert view.deadline is None or view.deadline[:19] == iso(found.due_at)[:19]


@given(stored(), st.none() | words)
def test_a_rendered_page_is_a_valid_breakpoint_page(
    drawn: tuple[Breakpoint, list[Response]], cursor: str | None
) -> None:
    row = Summary(*_columns(drawn[0], SUMMARY_COLUMNS))
    counts = {"waiting": 3} if cursor else None
    rendered = views.Rendered(entries=10, largest=100_000)
    fresh, again = (views.page([row, row], next_cursor=cursor, counts=counts, rendered=rendered) for _ in range(2))
    assert fresh == again
    page = read(wire.BreakpointPage, json.loads(fresh))
    assert (page.next_cursor, page.counts) == (cursor, counts)
    assert page.items == [page.items[0]] * 2
    assert json_of(page.items[0]) == json.loads(fresh)["items"][0]
    assert page.items[0].status == drawn[0].status.value


@given(stored(), comments)
def test_a_rendered_status_is_a_valid_breakpoint_status(
    drawn: tuple[Breakpoint, list[Response]], said: list[Any]
) -> None:
    body = views.status(StatusRow(*_columns(drawn[0], STATUS_COLUMNS)), said)
    view = read(wire.Status, json.loads(body))
    assert (view.status, view.decision) == (drawn[0].status.value, drawn[0].decision)
    assert len(view.feedback or []) == len(said)


@given(moments)
def test_timestamps_are_rendered_without_loss(at: int) -> None:
    shown = views.moment(at)
    assert (shown.timestamp() * 1_000_000 - at) ** 2 < 1
    assert shown.strftime("%Y-%m-%dT%H:%M:%S.%fZ") == iso(at)


@given(words, documents)
def test_an_event_is_always_a_single_block_in_the_stream(actor: str, said: Any) -> None:
    new = Breakpoint(
        **{name: None for name in Breakpoint.__dataclass_fields__}  # type: ignore[arg-type]  # noqa: C420
        | {"id": "bp_1", "version": 0, "head": "0" * 64}
    )
    _, event = record(new, "commented", actor=Actor(Kind.PERSON, actor), at=5, metadata={"comment": said})
    block = views.sse(event)
    assert block.endswith(b"\n\n")
    assert block.count(b"\n") == 4
    lines = block.decode().split("\n")
    assert lines[:2] == ["id: 1", "event: commented"]
    assert read(wire.Event, json.loads(lines[2].removeprefix("data: "))).metadata == {"comment": said}


def test_a_rendered_body_is_reused_only_for_the_same_version() -> None:
    rendered = views.Rendered(entries=2, largest=5)
    rendered.keep("a", 1, b"one")
    assert (rendered.find("a", 1), rendered.find("a", 2), rendered.find("b", 1)) == (b"one", None, None)
    rendered.keep("a", 2, b"two")
    assert (rendered.find("a", 1), rendered.find("a", 2)) == (None, b"two")
    rendered.keep("b", 1, b"too large")
    assert rendered.find("b", 1) is None
    rendered.keep("c", 1, b"c")
    rendered.keep("d", 1, b"d")
    assert (rendered.find("a", 2), rendered.find("c", 1), rendered.find("d", 1)) == (None, b"c", b"d")


def test_a_hint_contains_the_changed_breakpoint() -> None:
    block = views.hint(Hint("default", "bp_1", Status.EXPIRED, 3))
    assert block == b'event: changed\ndata: {"breakpointId":"bp_1","status":"expired","version":3}\n\n'
