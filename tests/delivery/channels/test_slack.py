"""Messages in Slack: contents, recipients, deduplication and closing."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.access import Actor, Kind
from assent.core.breakpoint import Breakpoint, Response, Status, answered, cancel, expire, release, time_out
from assent.core.errors import InvalidRequest
from assent.core.strategies import Decision
from assent.delivery.channels.registry import KINDS
from assent.delivery.channels.slack.blocks import SHOWN, closed, listing, message
from assent.delivery.channels.slack.channel import SECRETS, SETTINGS, SlackChannel, manifest
from assent.delivery.channels.slack.manifest import SCOPES
from assent.delivery.channels.slack.modal import fillable, modal
from assent.delivery.channels.slack.text import escaped
from assent.delivery.message import Addressee, Digest, Notice, Purpose
from assent.kernel.outbound import Limits, Outbound, Permanent, Transient, Undelivered
from tests.delivery.channels.slack_kit import (
    ANN,
    BASE,
    DIGEST,
    LOOPBACK,
    PERSONS,
    ROOM,
    note,
    now,
    raised,
    speaking,
    tools,
)
from tests.support.slack import TEAM, FakeSlack, invalid, texts

OUR_DATE = re.compile(r"(Answer by|Ended): <!date\^\d+\^\{date_short_pretty\} \{time\}\|[\d :UTC-]+>")
HOSTILE = "<!channel> <@U123> <https://evil.example|Approve> *bold* _it_ ~no~ `code` :tada: & \u202egnp.exe"
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"budget": {"type": "integer", "title": "Budget"}, "why": {"type": "string"}},
    "required": ["budget"],
}


def asked(**changes: Any) -> Breakpoint:
    return raised(**changes)[0]


def approved(current: Breakpoint, *, via: str = "web", **changes: Any) -> Breakpoint:
    last = Response("ann", approved=True, at=now(), via=via, **changes)
    result = answered(Decision.APPROVED, [last], last=last)
    return release(current, Decision.APPROVED, actor=ANN, at=now(), result=result)[0]


async def test_a_message_shows_the_question_agent_and_deadline() -> None:
    files = [{"path": "plan.diff", "format": "code"}, {"path": "notes.md", "format": "markdown"}]
    current = asked(
        payload={"question": "Deploy 1.4.2?", "options": ["eu", "us"], "context": {"files": files}},
        risk="medium",
        due_at=1_800_000_000_000_000,
    )
    async with speaking() as (slack, channel):
        posted = await channel.send(note(current))
        sent = await slack.posted()

    assert posted.trace == {"channel": "C0ROOM", "ts": sent.ts, "team": TEAM}
    assert sent.delivery_id == "dl_1"
    for expected in (
        *("Deploy to production", "Deploy 1.4.2?", "Gate: deploy.prod", "Agent: agent-1", "Risk: medium"),
        *(
            "Tags: prod",
            "Answer by: <!date^1800000000^",
            "|2027-01-15 08:00 UTC>",
            "Content hash: dddddddddddd",
            "• eu",
            "• us",
            "• plan.diff",
        ),
    ):
        assert expected in sent.shown
    assert "Deploy to production" in sent.text
    assert sent.arguments["unfurl_links"] == "false"


async def test_a_button_contains_only_the_delivery_id() -> None:
    async with speaking() as (slack, channel):
        await channel.send(note())
        buttons = (await slack.posted()).buttons

    assert {label: each.get("value") for label, each in buttons.items()} == {
        "Approve": "dl_1",
        "Reject…": "dl_1",
        "Review": None,
    }
    assert buttons["Review"]["url"] == f"{BASE}/breakpoints/bp_1"


@pytest.mark.parametrize("payload", [{"options": ["eu", "us"]}, {"form": FORM}])
async def test_options_and_forms_are_answered_in_a_modal(payload: dict[str, Any]) -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(asked(payload=payload)))
        assert list((await slack.posted()).buttons) == ["Approve…", "Reject…", "Review"]


async def test_a_high_risk_message_offers_only_the_review_link_and_says_why() -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(asked(risk="high")))
        sent = await slack.posted()

    assert list(sent.buttons) == ["Review"]
    assert "High risk: open Review to approve or reject." in sent.shown


@pytest.mark.parametrize(
    "payload",
    [
        {"options": ["x" * 80, "y"]},
        {"options": [str(n) for n in range(101)]},
        {"form": {"type": "object", "properties": {"a": {"type": "string", "enum": ["&" * 20]}}}},
        {"form": {"type": "object", "properties": {"a": {"type": "string", "minLength": 3001}}}},
    ],
)
async def test_options_and_forms_too_large_for_slack_cannot_be_approved_there(payload: dict[str, Any]) -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(asked(payload=payload)))
        sent = await slack.posted()

    assert list(sent.buttons) == ["Reject…", "Review"]
    assert "is too large for Slack" in sent.shown


async def test_approving_a_medium_risk_breakpoint_requires_confirmation() -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(asked(risk="medium")))
        assert "confirm" in (await slack.posted()).buttons["Approve"]


def marked_up(value: object) -> list[str]:
    """Return all texts that Slack renders as markup, at any depth."""
    if isinstance(value, list):
        return [text for each in value for text in marked_up(each)]
    if not isinstance(value, dict):
        return []
    here = [str(value["text"])] if value.get("type") == "mrkdwn" else []
    return here + [text for each in value.values() for text in marked_up(each)]


async def test_agent_text_never_creates_mentions_links_or_formatting() -> None:
    form = {"type": "object", "title": HOSTILE, "properties": {HOSTILE: {"type": "string", "description": HOSTILE}}}
    current = asked(
        title=HOSTILE,
        agent_id=HOSTILE,
        gate=HOSTILE,
        tags=(HOSTILE,),
        payload={
            "question": f"{HOSTILE} twice",
            "options": [HOSTILE[:40]],
            "form": form,
            "context": {"files": [{"path": HOSTILE}]},
        },
    )
    async with speaking() as (slack, channel):
        await channel.send(note(current))
        sent = await slack.posted()
    ended = approved(current, comment=HOSTILE, option=HOSTILE)
    total = listing(Digest(id="dg", to=Addressee(), waiting=(current,), total=1, ended=0, inbox_url=BASE, urls={}))

    for each in (sent.blocks, closed(note(ended))["blocks"], modal(current, "dl_1", approve=True), total["blocks"]):
        written = json.dumps(each, ensure_ascii=False)
        assert all(OUR_DATE.fullmatch(text) for text in marked_up(each)), "only our own dates may contain markup"
        for harmful in ("<!channel>", "<@U123>", "<https://", "\u202e"):
            assert harmful not in written
    assert "&lt;!channel&gt;" in sent.text
    assert "<" not in sent.text
    assert "⟦U+202E⟧" in sent.shown
    assert sent.arguments["parse"] == "none"


anything = st.text(max_size=6000)
texts_of_all_kinds = st.one_of(anything, st.text("&<>", max_size=6000), st.text("\r\n\u202e\u0301", max_size=4000))


@given(texts_of_all_kinds, st.integers(2, 3000))
def test_truncated_text_fits_the_limit_and_contains_no_markup(text: str, longest: int) -> None:
    found = escaped(text, longest)

    assert len(found) <= longest
    assert "<" not in found
    assert ">" not in found
    left = found.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
    assert "&" not in left


@given(
    st.fixed_dictionaries(
        {
            "title": st.none() | texts_of_all_kinds,
            "gate": st.text(min_size=1, max_size=300),
            "agent_id": st.text(max_size=300),
            "tags": st.lists(st.text(max_size=100), max_size=60).map(tuple),
            "risk": st.sampled_from([None, "low", "medium", "high"]),
            "due_at": st.integers(0, 2**55),
        }
    ),
    st.fixed_dictionaries(
        {
            "question": texts_of_all_kinds,
            "options": st.lists(st.text(max_size=100), max_size=120, unique=True),
            "context": st.fixed_dictionaries(
                {"files": st.lists(st.fixed_dictionaries({"path": st.text(max_size=300)}), max_size=30)}
            ),
        }
    ),
)
def test_every_message_stays_within_slacks_limits(fields: dict[str, Any], payload: dict[str, Any]) -> None:
    current = asked(**fields, payload=payload)
    ended = approved(current, comment=payload["question"] or None)
    many = Digest(
        id="dg", to=Addressee(), waiting=(current,) * 30, total=99, ended=3, inbox_url=BASE, urls={"bp_1": BASE}
    )

    for content in (message(note(current)), closed(note(ended)), listing(many)):
        assert invalid(content["blocks"]) is None
        assert 0 < len(content["text"]) <= 1000
    if fillable(current):
        assert invalid(modal(current, "dl_1", approve=True)["blocks"], most=100) is None


async def test_without_a_room_each_linked_person_gets_a_direct_message() -> None:
    async with speaking(PERSONS) as (slack, channel):
        await channel.send(note(to=Addressee("ann", identity=f"{TEAM}:U1")))
        await channel.send(note(to=Addressee("ann", identity=f"{TEAM}:U1"), id="dl_2"))

    assert [each.channel for each in slack.messages] == ["D0U1", "D0U1"]
    assert [method for method, _ in slack.calls].count("conversations.open") == 1


async def test_an_unlinked_person_is_found_by_email_address() -> None:
    async with speaking(PERSONS) as (slack, channel):
        slack.people["ann@example.com"] = "U7"
        await channel.send(note(to=Addressee("ann", email="ann@example.com")))

    assert slack.messages[0].channel == "D0U7"


@pytest.mark.parametrize(
    ("to", "words"),
    [
        (Addressee("ann", email="nobody@example.com"), "The person must link their account"),
        (Addressee("ann"), "has not linked a Slack account"),
    ],
)
async def test_sending_to_a_person_who_cannot_be_found_fails_permanently(to: Addressee, words: str) -> None:
    async with speaking(PERSONS) as (_, channel):
        with pytest.raises(Permanent, match=words):
            await channel.send(note(to=to))


@pytest.mark.parametrize(
    ("fault", "kind", "after", "words"),
    [
        ((429, 30), Transient, 30, "429"),
        ("ratelimited", Transient, 30, "rate limit"),
        (500, Transient, None, "500"),
        ("internal_error", Transient, None, "internal_error"),
        ("<script>", Transient, None, "an unknown error"),
        ("invalid_auth", Permanent, None, "Reinstall the app"),
        ("account_inactive", Permanent, None, "Reinstall the app"),
        ("channel_not_found", Permanent, None, "Check the room setting"),
        ("is_archived", Permanent, None, "a different channel"),
        ("not_in_channel", Permanent, None, "/invite"),
    ],
)
async def test_slack_errors_say_what_to_do_and_whether_to_retry(
    fault: str | int | tuple[int, int], kind: type[Exception], after: int | None, words: str
) -> None:
    async with speaking() as (slack, channel):
        slack.fail("chat.postMessage", fault)
        with pytest.raises(kind, match=words) as caught:
            await channel.send(note())

    assert getattr(caught.value, "retry_after", None) == after


async def test_a_slack_timeout_is_retried() -> None:
    async with speaking(limits=Limits(connect=5, read=0.1, total=0.2)) as (slack, channel):
        slack.hold("chat.postMessage")
        with pytest.raises(Transient, match="in time"):
            await channel.send(note())
        slack.let_go("chat.postMessage")


async def test_a_message_whose_response_was_lost_is_not_sent_twice() -> None:
    async with speaking() as (slack, channel):
        slack.lose("chat.postMessage")
        with pytest.raises(Transient):
            await channel.send(note())
        posted = await channel.send(note(attempt=2))

    assert len(slack.messages) == 1
    assert posted.trace == {"channel": "C0ROOM", "ts": slack.messages[0].ts, "team": TEAM}


async def test_a_retry_finds_the_earlier_message_among_many_long_ones() -> None:
    long = asked(payload={"question": "long " * 600, "options": ["x" * 79] * 12})
    async with speaking() as (slack, channel):
        first = await channel.send(note())
        for n in range(20):
            await channel.send(note(long, id=f"dl_other{n}"))
        again = await channel.send(note(attempt=2))

    assert again == first
    assert len(slack.messages) == 21


async def test_a_history_too_large_to_read_is_requested_in_smaller_pages() -> None:
    async with speaking(limits=Limits(body=5000)) as (slack, channel):
        first = await channel.send(note())
        for n in range(5):
            await channel.send(note(asked(payload={"question": "long " * 500}), id=f"dl_other{n}"))
        again = await channel.send(note(attempt=2))

    assert again == first
    assert {arguments["limit"] for method, arguments in slack.calls if method.endswith("history")} == {"15", "5", "1"}


async def test_the_outcome_is_posted_if_the_history_cannot_be_read_in_full() -> None:
    closing = note(approved(asked()), id="dl_2", purpose=Purpose.CLOSE, unconfirmed=("dl_1",))
    async with speaking(limits=Limits(body=5000)) as (slack, channel):
        await channel.send(note(asked(payload={"question": "long " * 2000}), id="dl_1"))
        slack.messages[0].metadata["event_payload"]["padding"] = "x" * 10_000
        await channel.close(closing)

    assert "Approved by ann" in slack.messages[-1].shown


async def test_a_request_that_never_arrived_is_retried() -> None:
    async with speaking() as (slack, channel):
        slack.fail("chat.postMessage", 500)
        with pytest.raises(Transient):
            await channel.send(note())
        await channel.send(note(attempt=2))

    assert len(slack.messages) == 1


@pytest.mark.parametrize(
    ("method", "fault", "unsent"),
    [
        ("conversations.open", 500, True),
        ("conversations.history", 500, True),
        ("chat.postMessage", "is_archived", True),
        ("chat.postMessage", "ratelimited", True),
        ("chat.postMessage", "internal_error", False),
    ],
)
async def test_a_failed_attempt_records_whether_a_message_may_have_arrived(
    method: str, fault: Any, *, unsent: bool
) -> None:
    async with speaking(PERSONS) as (slack, channel):
        slack.fail(method, fault)
        with pytest.raises(Undelivered) as failed:
            await channel.send(note(to=Addressee("ann", identity=f"{TEAM}:U1"), attempt=2))

    assert failed.value.unsent is unsent
    assert slack.messages == []


async def test_a_retry_posts_again_if_the_app_lacks_the_history_scope() -> None:
    async with speaking() as (slack, channel):
        slack.fail("conversations.history", "missing_scope")
        await channel.send(note(attempt=2))

    assert len(slack.messages) == 1


async def test_a_retry_posts_nothing_while_the_history_is_rate_limited() -> None:
    async with speaking() as (slack, channel):
        slack.fail("conversations.history", (429, 7))
        with pytest.raises(Transient):
            await channel.send(note(attempt=2))

    assert slack.messages == []


async def test_the_history_of_a_room_configured_by_name_is_searched_by_its_id() -> None:
    async with speaking(ROOM | {"room": "#room"}) as (slack, channel):
        first = await channel.send(note())
        again = await channel.send(note(attempt=2))

    assert again.trace == first.trace
    assert len(slack.messages) == 1


async def test_reminders_and_escalations_are_posted_in_the_thread() -> None:
    async with speaking() as (slack, channel):
        first = await channel.send(note())
        await channel.send(note(id="dl_2", purpose=Purpose.REMIND, thread=first.trace))
        await channel.send(note(id="dl_3", purpose=Purpose.ESCALATE, thread=first.trace))
        await channel.send(note(id="dl_3", purpose=Purpose.ESCALATE, thread=first.trace, attempt=2))

    _, reminder, escalation = slack.messages
    assert (reminder.thread_ts, reminder.broadcast) == (first.trace["ts"], False)
    assert "Reminder" in reminder.shown
    assert (escalation.thread_ts, escalation.broadcast) == (first.trace["ts"], True)
    assert "Escalated" in escalation.shown
    assert list(escalation.buttons) == ["Review"]


async def test_an_escalation_to_a_new_recipient_contains_the_whole_question() -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(purpose=Purpose.ESCALATE))
        sent = await slack.posted()

    assert "Escalated" in sent.shown
    assert list(sent.buttons) == ["Approve", "Reject…", "Review"]


ENDS: dict[str, Callable[[Breakpoint], Breakpoint]] = {
    "Approved by ann (web), ": approved,
    "Rejected by ann": lambda current: release(
        current, Decision.REJECTED, actor=ANN, at=now(), result={"approved": False}
    )[0],
    "Rejected automatically: no one responded in time": lambda current: time_out(
        current.but(on_timeout="reject"), at=now()
    )[0],
    "Expired by ann": lambda current: expire(current, actor=ANN, at=now())[0],
    "Cancelled by agent bot": lambda current: cancel(current, actor=Actor(Kind.AGENT, "bot"), at=now())[0],
}


@pytest.mark.parametrize("words", ENDS)
async def test_a_closed_message_shows_the_outcome_without_buttons(words: str) -> None:
    async with speaking() as (slack, channel):
        first = await channel.send(note())
        posted = await channel.close(note(ENDS[words](asked()), id="dl_2", purpose=Purpose.CLOSE, thread=first.trace))
        sent = await slack.posted()

    assert posted is not None
    assert posted.trace == first.trace
    assert words in sent.shown
    assert words in sent.text
    assert " UTC" in sent.text
    assert sent.buttons == {}
    assert len(slack.messages) == 1


async def test_a_closed_message_shows_the_comment_and_the_option() -> None:
    ended = approved(asked(), comment="Mind the <cache>", option="eu")

    assert any("“Mind the &lt;cache&gt;”" in text for text in texts(closed(note(ended))["blocks"]))
    assert "Option: eu" in texts(closed(note(ended))["blocks"])


async def test_closing_has_no_effect_if_the_message_does_not_exist() -> None:
    ended = approved(asked())
    async with speaking() as (slack, channel):
        assert await channel.close(note(ended, purpose=Purpose.CLOSE)) is None
        gone = {"channel": "C0ROOM", "ts": "1.000001", "team": TEAM}
        assert await channel.close(note(ended, purpose=Purpose.CLOSE, thread=gone)) is None

    assert slack.updates == []


async def test_closing_finds_a_message_whose_response_was_lost() -> None:
    ended = approved(asked())
    async with speaking() as (slack, channel):
        slack.lose("chat.postMessage")
        with pytest.raises(Transient):
            await channel.send(note())
        lost = note(ended, id="dl_2", purpose=Purpose.CLOSE, unconfirmed=(slack.messages[0].delivery_id,))
        for attempt in (1, 2):
            posted = await channel.close(replace(lost, attempt=attempt))
            assert posted is not None
            assert posted.trace["ts"] == slack.messages[0].ts

    assert len(slack.messages) == 1
    assert slack.messages[0].buttons == {}


async def test_closing_posts_nothing_if_the_message_never_arrived() -> None:
    async with speaking() as (slack, channel):
        closing = note(approved(asked()), id="dl_2", purpose=Purpose.CLOSE, unconfirmed=("dl_1",))
        assert await channel.close(closing) is None

    assert slack.messages == []


async def test_the_outcome_is_posted_if_the_app_lacks_the_history_scope() -> None:
    async with speaking() as (slack, channel):
        slack.fail("conversations.history", "missing_scope")
        await channel.close(note(approved(asked()), id="dl_2", purpose=Purpose.CLOSE, unconfirmed=("dl_1",)))

    [said] = slack.messages
    assert "Approved by ann" in said.shown
    assert said.buttons == {}


async def test_closing_sends_no_new_message_to_a_person_who_lost_access() -> None:
    closing = note(approved(asked()), id="dl_2", purpose=Purpose.CLOSE, unconfirmed=("dl_1",), may_be_told=False)
    async with speaking() as (slack, channel):
        slack.fail("conversations.history", "missing_scope")
        assert await channel.close(closing) is None
        assert slack.messages == []
        sent = await channel.send(note())
        slack.fail("chat.update", "edit_window_closed")
        assert await channel.close(replace(closing, unconfirmed=(), thread=sent.trace)) is None

    assert len(slack.messages) == 1


async def test_a_message_that_can_no_longer_be_edited_is_closed_in_its_thread() -> None:
    async with speaking() as (slack, channel):
        first = await channel.send(note())
        slack.fail("chat.update", "edit_window_closed")
        await channel.close(note(approved(asked()), id="dl_2", purpose=Purpose.CLOSE, thread=first.trace))

    assert slack.messages[1].thread_ts == first.trace["ts"]
    assert "Approved by ann" in slack.messages[1].shown


async def test_a_message_about_an_ended_breakpoint_has_no_buttons() -> None:
    async with speaking() as (slack, channel):
        await channel.send(note(approved(asked())))
        assert (await slack.posted()).buttons == {}


async def test_a_digest_lists_20_breakpoints_and_counts_the_rest() -> None:
    waiting = tuple(asked(id=f"bp_{n}", title=f"Question {n}") for n in range(25))
    digest = Digest(
        id="dg_1",
        to=Addressee(),
        waiting=waiting,
        total=1000,
        ended=4,
        inbox_url=f"{BASE}/inbox",
        urls={each.id: f"{BASE}/breakpoints/{each.id}" for each in waiting},
    )
    async with speaking() as (slack, channel):
        await channel.digest(digest)
        await channel.digest(Digest(**{name: getattr(digest, name) for name in digest.__slots__} | {"attempt": 2}))
        sent = await slack.posted()

    assert len(slack.messages) == 1
    rows = [block["elements"] for block in sent.blocks if str(block.get("block_id", "")).startswith("digest-")]
    links = [each["url"] for elements in rows for each in elements]
    assert links == [f"{BASE}/breakpoints/bp_{n}" for n in range(SHOWN)]
    assert "1,000 approvals pending" in sent.text
    assert "And 980 more" in sent.shown
    assert "4 ended since the last message" in sent.shown


async def test_a_channel_check_reports_its_findings_without_sending_a_message() -> None:
    async with speaking() as (slack, channel):
        found = await channel.check()
        slack.scopes = ",".join(each for each in SCOPES if each != "users:read.email")
        less = await channel.check()

    assert found == "Connected to Acme as assent using Socket Mode. Messages are sent to C0ROOM."
    assert "Missing scopes: users:read.email" in less
    assert slack.messages == []


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        ("auth.test", "invalid_auth", "Reinstall the app"),
        ("conversations.history", "not_in_channel", "/invite"),
        ("apps.connections.open", "not_allowed_token_type", "xapp-"),
    ],
)
async def test_a_channel_check_reports_invalid_tokens_and_missing_scopes(method: str, error: str, words: str) -> None:
    async with speaking() as (slack, channel):
        slack.fail(method, error)
        with pytest.raises(Permanent, match=words):
            await channel.check()


async def test_a_channel_check_fails_without_the_chat_write_scope() -> None:
    async with speaking() as (slack, channel):
        slack.scopes = "users:read"
        with pytest.raises(Permanent, match="chat:write"):
            await channel.check()


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({}, "/settings/token"),
        ({"token": 1}, "/settings/token"),
        ({"token": "env:A", "colour": "red"}, "/settings/colour"),
        ({"token": "env:A", "room": "general"}, "/settings/room"),
        ({"token": "env:A", "apiUrl": "http://169.254.169.254/"}, "/settings/apiUrl"),
        ({"token": "env:A", "apiUrl": "http://slack.example/api/"}, "/settings/apiUrl"),
        ({"token": "env:A", "apiUrl": "nonsense"}, "/settings/apiUrl"),
    ],
)
async def test_the_error_for_an_invalid_setting_points_to_it(settings: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SlackChannel(settings, tools(FakeSlack(), Outbound(allow=LOOPBACK)))

    assert caught.value.details["errors"][0]["pointer"] == pointer  # type: ignore[index]


async def test_the_error_for_an_unreadable_secret_names_its_setting() -> None:
    async with speaking(ROOM | {"token": "env:NOWHERE"}) as (slack, channel):
        with pytest.raises(Permanent, match="Cannot read the token setting of the Slack channel"):
            await channel.send(note())

    assert slack.calls == []


def test_the_slack_channel_is_registered_with_its_secret_settings() -> None:
    kind = KINDS["slack"]

    assert kind.secrets == SECRETS <= SETTINGS
    assert kind.edits
    assert kind.personal({"token": "env:A"})
    assert not kind.personal({"token": "env:A", "room": "C0ROOM"})


def test_the_manifest_requests_exactly_the_scopes_that_are_used() -> None:
    socket, http = manifest(f"{BASE}/", socket=True), manifest(f"{BASE}/", socket=False, channel_id="ch_1")

    assert socket["oauth_config"]["scopes"]["bot"] == list(SCOPES)
    assert socket["settings"]["socket_mode_enabled"]
    assert "request_url" not in socket["settings"]["interactivity"]
    assert http["settings"]["interactivity"]["request_url"] == f"{BASE}/callbacks/ch_1"
    assert not http["settings"]["socket_mode_enabled"]


def test_a_message_contains_its_content_hash() -> None:
    ids = [block.get("block_id") for block in message(note())["blocks"]]

    assert f"digest-{DIGEST}" in ids
    assert asked().status is Status.WAITING


async def test_an_account_notice_is_sent_to_the_person_and_never_to_the_room() -> None:
    about = Notice(
        id="ntc_1",
        to=Addressee("bob", "Bob", identity=f"{TEAM}:U0BOB"),
        title="ann changed your access to Assent",
        text="ann reset your access.",
        link="https://assent.example/account",
        link_label="Your account",
    )
    async with speaking() as (slack, channel):
        posted = await channel.notify(about)
        sent = await slack.posted()
        with pytest.raises(Permanent, match="has not linked"):
            await channel.notify(replace(about, to=Addressee("bob")))

    assert ("conversations.open", {"users": "U0BOB"}) in slack.calls
    assert posted.trace["channel"] != "C0ROOM"
    assert "ann reset your access." in sent.shown
