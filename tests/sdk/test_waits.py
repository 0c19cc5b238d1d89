"""Waiting with listeners and following the event stream, without sockets."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.contracts.breakpoints import Event
from assent.sdk import errors
from assent.sdk.protocol import LONGEST_LINE, LONGEST_PAUSE, Lines, Outcome, Pace, Pause, Reply, Request
from assent.sdk.waits import (
    QUICK_ANSWERS,
    SLICE_SECONDS,
    Audience,
    Hear,
    Heard,
    Listen,
    StreamOutcome,
    following,
    waiting,
)
from tests.sdk.test_protocol import BROKEN, GONE, ID, World, refusal, status

STREAM = Reply(200, {"content-type": "text/event-stream; charset=utf-8"}, b"")
END = Heard(b"")


def comment(n: int, author: str = "person:ann") -> dict[str, Any]:
    return {"id": f"fb_{n}", "breakpointId": ID, "author": author, "comment": f"c{n}", "createdAt": "t"}


def said(*comments: dict[str, Any], updated: str, name: str = "waiting") -> Reply:
    body: dict[str, Any] = {"status": name, "updatedAt": updated, "feedback": list(comments)}
    if name == "released":
        body |= {"decision": "approved", "result": {"approved": True, "status": name, "auto": False}}
    return Reply(200, {}, json.dumps(body).encode())


def event(seq: int, kind: str = "commented", **metadata: Any) -> dict[str, Any]:
    return {
        "id": f"{ID}.{seq}", "breakpointId": ID, "seq": seq, "type": kind, "actor": "person:ann", "timestamp": "t",
        "metadata": metadata, "hash": "h",
    }  # fmt: skip


def events(*items: dict[str, Any]) -> Reply:
    return Reply(200, {}, json.dumps({"items": items}).encode())


def sse(*items: dict[str, Any]) -> bytes:
    return b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (each["seq"], each["type"].encode(), json.dumps(each).encode())
        for each in items
    )


def heard_in(world: World, audience: Audience) -> Any:
    return world.run(lambda pace: waiting(ID, pace=pace, patience=60, audience=audience))


def test_each_comment_is_reported_once_including_earlier_ones() -> None:
    told: list[str] = []
    world = World([
        (0.0, said(comment(1), updated="t1")),
        (0.0, said(comment(1), updated="t1")),
        (3.0, said(comment(1), comment(2), updated="t2")),
        (0.0, said(comment(1), comment(2), updated="t2")),
        (1.0, said(comment(1), comment(2), updated="t3", name="released")),
    ])  # fmt: skip

    assert heard_in(world, Audience(on_comment=lambda each: told.append(each.comment))).approved
    assert told == ["c1", "c2"]


def test_a_wait_with_callbacks_fetches_the_breakpoint_first_and_after_each_update() -> None:
    world = World([
        (0.0, said(updated="t1")),
        (0.0, said(updated="t1")),
        (3.0, said(comment(1), updated="t2")),
        (0.0, said(comment(1), updated="t2")),
        (1.0, status("released")),
    ])  # fmt: skip

    heard_in(world, Audience(on_comment=lambda _: None))

    assert ["wait" in dict(request.query) for request in world.requests] == [False, False, True, False, True]
    assert world.pauses == []


def test_text_returned_by_a_comment_callback_is_posted_as_a_reply() -> None:
    whole = Reply(200, {}, json.dumps(_whole()).encode())
    world = World([
        (0.0, said(comment(1), updated="t1")),
        (0.0, whole),
        (0.0, said(comment(1), comment(2, "agent:a"), updated="t2")),
        (0.0, said(comment(1), comment(2, "agent:a"), updated="t2")),
        (0.0, status("released", updated="t3")),
    ])  # fmt: skip

    heard_in(world, Audience(on_comment=lambda each: f"Re: {each.comment}"))

    (reply,) = [request for request in world.requests if request.method == "POST"]
    assert (reply.path, reply.body) == (f"/api/breakpoints/{ID}/feedback", b'{"comment": "Re: c1"}')
    assert reply.headers["Idempotency-Key"] == "reply-fb_1"


def test_a_reply_that_arrives_after_the_decision_is_not_an_error() -> None:
    late = Reply(409, {}, b'{"code": "already_ended", "detail": "Too late."}')
    world = World([
        (0.0, said(comment(1), updated="t1")),
        (0.0, late),
        (0.0, said(comment(1), comment(2), updated="t2", name="released")),
    ])  # fmt: skip

    assert heard_in(world, Audience(on_comment=lambda each: f"Re: {each.comment}")).approved
    assert len(world.requests) == 3


def _whole() -> dict[str, Any]:
    return {
        "id": ID, "breakpointId": ID, "status": "waiting", "agentId": "a", "gate": "g", "tags": [], "experts": [],
        "strategy": "single", "priority": "normal", "createdAt": "t1", "updatedAt": "t1", "payload": {},
        "feedback": [], "responses": [], "autoApproval": {}, "digest": "d", "onTimeout": "expire",
        "createdBy": "agent:a", "warnings": [], "version": 1,
    }  # fmt: skip


def test_events_are_reported_in_order_up_to_the_last() -> None:
    told: list[int] = []
    world = World([
        (0.0, said(updated="t1")),
        (0.0, events(event(1, "created"))),
        (0.0, said(updated="t1")),
        (5.0, said(updated="t3", name="released")),
        (0.0, events(event(1, "created"), event(2, "responded"), event(3, "released"))),
    ])  # fmt: skip

    heard_in(world, Audience(on_event=lambda each: told.append(each.seq)))

    assert told == [1, 2, 3]


def test_polling_slows_down_if_the_update_time_changes_on_every_request() -> None:
    world = World([(0.0, status(updated=f"t{n}")) for n in range(100)] + [(0.0, status("released"))])

    world.wait()

    assert len(world.pauses) >= 100 - QUICK_ANSWERS
    assert world.pauses[-1].seconds > LONGEST_PAUSE / 2


def test_a_quiet_slice_allows_fast_polling_again() -> None:
    hour = [(0.0, status(updated=f"a{n}")) for n in range(15)] + [(SLICE_SECONDS, status(updated="a14"))]
    more = [(0.0, status(updated=f"b{n}")) for n in range(15)]
    world = World([(SLICE_SECONDS, status(updated="t")), *hour, *more, (0.0, status("released"))])

    world.wait()

    assert world.pauses == []


class Radio:
    """Performs the flow of a stream with scripted outcomes."""

    def __init__(self, outcomes: Sequence[StreamOutcome], *, after: int = 0, patience: float = 60.0) -> None:
        self.clock = 1000.0
        self.events: list[int] = []
        self.pauses: list[Pause] = []
        self.resumed: list[str] = []
        self._left = list(outcomes)
        pace = Pace(lambda: self.clock, lambda: 0.5)
        self._flow = following(ID, after=after, pace=pace, patience=patience)

    def run(self) -> "Radio":
        outcome: StreamOutcome = None
        while True:
            try:
                step = self._flow.send(outcome)
            except StopIteration:
                return self
            outcome = self._do(step)

    def _do(self, step: object) -> StreamOutcome:
        if isinstance(step, Event):
            self.events.append(step.seq)
            return None
        if isinstance(step, Pause):
            self.pauses.append(step)
            self.clock += step.seconds
            return None
        if isinstance(step, Listen):
            self.resumed.append(step.request.headers["Last-Event-ID"])
        assert isinstance(step, Listen | Hear | Request)
        return self._left.pop(0)


def test_a_stream_yields_every_event_and_ends_after_the_last() -> None:
    radio = Radio([STREAM, Heard(sse(event(1, "created"), event(2))), Heard(sse(event(3, "released"), event(4)))]).run()

    assert radio.events == [1, 2, 3]
    assert radio.pauses == []


@pytest.mark.parametrize("trouble", [END, BROKEN, GONE], ids=["ended", "broken", "gone"])
def test_an_interrupted_stream_resumes_after_the_last_complete_event(trouble: StreamOutcome) -> None:
    half = sse(event(3))[:-20]
    radio = Radio(
        [STREAM, Heard(sse(event(1), event(2))), Heard(half), trouble, STREAM, Heard(sse(event(3, "expired")))]
    )

    assert radio.run().events == [1, 2, 3]
    assert radio.resumed == ["0", "2"]
    assert len(radio.pauses) == 1


@pytest.mark.parametrize("trouble", [GONE, refusal(503, "unavailable"), refusal(502), refusal(429, "rate_limited")])
def test_failed_stream_connections_back_off_between_attempts(trouble: Outcome) -> None:
    radio = Radio([trouble] * 8 + [STREAM, Heard(sse(event(1, "released")))]).run()

    assert radio.events == [1]
    assert len(radio.pauses) == 8
    assert radio.pauses[-1].seconds > radio.pauses[0].seconds


def test_streams_that_end_immediately_are_retried_with_backoff() -> None:
    quiet: list[StreamOutcome] = [STREAM, END, status()]
    radio = Radio([*quiet * 10, STREAM, Heard(sse(event(1, "released")))]).run()

    assert len(radio.pauses) == 10
    assert radio.pauses[-1].seconds > LONGEST_PAUSE / 2


def test_keep_alive_comments_reset_the_patience() -> None:
    alive: list[StreamOutcome] = [STREAM, Heard(b": still waiting\n\n"), BROKEN]
    radio = Radio([*alive * 30, STREAM, Heard(sse(event(1, "released")))], patience=10)

    assert radio.run().events == [1]


def test_a_stream_gives_up_if_the_server_is_unreachable_for_longer_than_the_patience() -> None:
    with pytest.raises(errors.Unreachable):
        Radio([GONE] * 1000, patience=30).run()


def test_a_stream_ends_if_the_breakpoint_ended_before_the_requested_event() -> None:
    radio = Radio([STREAM, END, status("released"), STREAM, END], after=7).run()

    assert radio.events == []
    assert radio.resumed == ["7", "7"]


def test_a_breakpoint_that_ends_between_two_streams_is_still_reported() -> None:
    radio = Radio([STREAM, END, status("released"), STREAM, Heard(sse(event(8, "released")))], after=7).run()

    assert radio.events == [8]


@pytest.mark.parametrize(("code", "problem"), [(401, "unauthenticated"), (404, "not_found"), (422, "invalid_request")])
def test_a_stream_raises_immediately_on_permanent_errors(code: int, problem: str) -> None:
    with pytest.raises(errors.BY_CODE[problem]):
        Radio([refusal(code, problem)]).run()


@pytest.mark.parametrize(
    "answer", [[Reply(200, {"content-type": "text/html"}, b"")], [STREAM, Heard(b"data: {}\n\n")], [refusal(302)]]
)
def test_a_stream_from_another_service_raises_unexpected_answer(answer: list[StreamOutcome]) -> None:
    with pytest.raises(errors.UnexpectedAnswer):
        Radio(answer).run()


@given(cuts=st.lists(st.integers(0, 900)), text=st.text(max_size=60))
def test_chunk_boundaries_do_not_affect_the_parsed_events(cuts: list[int], text: str) -> None:
    whole = b": alive\n\n" + sse(event(1, comment=text), event(2)) + sse(event(3, "released")).replace(b"\n", b"\r\n")
    places = [0, *sorted(cuts), len(whole)]
    pieces = [whole[begin:end] for begin, end in itertools.pairwise(places) if begin < end]

    assert Radio([STREAM, *map(Heard, pieces)]).run().events == [1, 2, 3]


@given(st.lists(st.binary(max_size=20)))
def test_lines_are_split_only_at_line_feeds(chunks: list[bytes]) -> None:
    lines = Lines()
    found = [line for chunk in chunks for line in lines.add(chunk)] + lines.end()
    expected = [line.removesuffix(b"\r") for line in b"".join(chunks).split(b"\n")[:-1]]

    assert found[: len(expected)] == expected
    assert b"".join(found[len(expected) :]) == b"".join(chunks).split(b"\n")[-1]


def test_an_endless_line_is_rejected_before_it_exhausts_memory() -> None:
    lines = Lines()

    lines.add(b"x" * LONGEST_LINE)
    with pytest.raises(errors.UnexpectedAnswer, match="ASSENT_URL"):
        lines.add(b"x")
