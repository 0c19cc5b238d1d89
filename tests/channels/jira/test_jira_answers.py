"""Answers given in Jira: webhooks and polling, signatures, identities, and what is never an answer."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.channels.jira.channel import NO_REASON, JiraChannel, Polled
from assent.channels.jira.reading import Meaning
from assent.domain.errors import AlreadyEnded, DigestMismatch, Forbidden, InvalidRequest, Unauthenticated
from assent.outbound import Transient
from assent.ports import Heard, Incoming, Told, Wish
from tests.channels.jira.conftest import HOOK, Make
from tests.channels.notes import AT, PLACE, asked, note, tools
from tests.support.jira import US, Jira, signed


def hook(jira: Jira, key: str = "OPS-1") -> Incoming:
    headers, body = jira.hook(key, secret=HOOK)
    return Incoming(headers, body, AT)


class Taken(list[Incoming]):
    """Records the messages that a listener received, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()

    async def take(self, incoming: Incoming) -> Mapping[str, Any] | None:
        self.append(incoming)
        self.arrived.set()
        return None


async def test_a_move_to_a_status_that_counts_is_an_answer(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    assert (heard.wish, heard.identity, heard.breakpoint_id) == (Wish.ANSWER, "acc-ann", "bp_1")
    answer = live.answer(heard, asked()[0])
    assert answer is not None
    assert (answer.approved, answer.comment, answer.digest) == (True, None, "d" * 64)


@pytest.mark.parametrize("reason", [None, "Too late"])
async def test_the_reason_is_what_the_person_wrote_or_none(channel: Make, jira: Jira, reason: str | None) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", "Declined", by="acc-ann", comment=reason)
    (heard,) = live.hear(hook(jira))
    answer = live.answer(heard, asked()[0])
    assert answer is not None
    assert (answer.approved, answer.comment) == (False, reason)
    found = Taken()
    await live.look(found.take)
    assert [each.comment for each in live.hear(found[0])] == [reason]


@pytest.mark.parametrize("status", ["Done", "To Do"])
async def test_any_other_move_says_nothing(channel: Make, jira: Jira, status: str) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", status, by="acc-ann")
    assert live.hear(hook(jira)) == []


async def test_what_we_find_ourselves_counts_as_the_same(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    await live.look(found.take)
    (told,) = found
    assert live.hear(told) == live.hear(hook(jira))
    assert live.heard_at() is not None


async def test_what_we_have_seen_is_not_looked_at_again(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    await live.look(found.take)
    await live.look(found.take)
    assert len(found) == 1
    jira.move("OPS-1", "Declined", by="acc-ann")
    await live.look(found.take)
    assert len(found) == 2
    assert 'labels = breakpoint AND updated >= -1440m AND status in ("Approved", "Declined")' in jira.searches[1]
    assert "updated >= -10m" in jira.searches[2]


async def test_a_look_that_failed_is_made_up_for(channel: Make, cloud: Jira) -> None:
    live, found = channel(cloud), Taken()
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    cloud.fail("GET issue/OPS-1/changelog", 500)
    with pytest.raises(Transient):
        await live.look(found.take)
    assert not found
    await live.look(found.take)
    assert len(found) == 1


async def test_what_was_not_taken_is_found_again(channel: Make, cloud: Jira) -> None:
    live, found = channel(cloud), Taken()
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")

    async def busy(incoming: Incoming) -> None:
        raise Forbidden(str(incoming.at))

    with pytest.raises(Forbidden):
        await live.look(busy)
    await live.look(found.take)
    assert len(found) == 1


async def test_a_move_that_was_taken_back_before_we_looked_is_not_said(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    jira.move("OPS-1", "To Do", by="acc-ann")
    await live.look(found.take)
    assert [heard for each in found for heard in live.hear(each)] == []


async def test_a_comment_of_another_hour_is_not_the_reason(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "I like it", by="acc-ann")
    jira.move("OPS-1", "Declined", by="acc-ann")
    await live.look(found.take)
    assert [each.comment for each in live.hear(found[0])] == [None]


async def test_many_changed_issues_are_all_found(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    for number in range(65):
        await live.send(note(PLACE, asked={"id": f"bp_{number}"}))
        jira.move(f"OPS-{number + 1}", "Approved", by="acc-ann")
    await live.look(found.take)
    assert {live.hear(each)[0].breakpoint_id for each in found} == {f"bp_{number}" for number in range(65)}


async def test_a_listener_survives_an_outage(channel: Make, cloud: Jira) -> None:
    live, found = channel(cloud, pollSeconds=1), Taken()
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    cloud.fail("GET search", 503)
    listening = asyncio.create_task(live.listen(found.take))
    await asyncio.wait_for(found.arrived.wait(), 60)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert cloud.count("GET search") >= 2


@pytest.mark.parametrize("settings", [{"pollSeconds": 0}, {"approve": [], "reject": []}])
async def test_a_listener_with_nothing_to_find_asks_nothing(
    channel: Make, cloud: Jira, settings: dict[str, Any]
) -> None:
    listening = asyncio.create_task(channel(cloud, **settings).listen(Taken().take))
    await asyncio.sleep(0)
    assert not listening.done()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert cloud.requests == []


@pytest.mark.parametrize(
    ("text", "approved", "comment"),
    [
        ("Approve", True, None),
        ("approved: well done", True, "well done"),
        ("reject - too late", False, "too late"),
        ("Rejected", False, None),
    ],
)
async def test_a_comment_that_begins_with_the_word_is_an_answer(
    channel: Make,
    jira: Jira,
    text: str,
    approved: bool,  # noqa: FBT001
    comment: str | None,
) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", text, by="acc-ann")
    (heard,) = live.hear(hook(jira))
    assert (heard.said["approved"], heard.comment, heard.identity) == (approved, comment, "acc-ann")
    await live.look(found.take)
    assert [each for told in found for each in live.hear(told)] == [heard]
    assert channel(jira).hear(hook(jira)) == []


async def test_a_rejecting_comment_without_a_reason_is_answered_with_how_to_give_one(channel: Make, jira: Jira) -> None:
    live = channel(jira, commentWords=True)
    await live.send(note(PLACE))
    jira.say("OPS-1", "Reject!", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    with pytest.raises(InvalidRequest) as refused:
        live.answer(heard, asked()[0])
    problems = {"/comment": NO_REASON}
    for _ in range(2):
        told = Told(done=False, message=refused.value.message, problems=problems, error=refused.value)
        await live.reply(heard, told)
    [said] = jira.texts("OPS-1")[1:]
    assert "a rejection needs a reason" in said


TOO_LONG = "x" * 20_001


@pytest.mark.parametrize("moved", [True, False])
async def test_an_approval_with_too_long_a_comment_is_answered_with_what_to_do(
    channel: Make, jira: Jira, *, moved: bool
) -> None:
    live = channel(jira, commentWords=True)
    await live.send(note(PLACE))
    if moved:
        jira.move("OPS-1", "Approved", by="acc-ann", comment=TOO_LONG)
    else:
        jira.say("OPS-1", f"approve: {TOO_LONG}", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    answer = live.answer(heard, asked()[0])
    assert answer is not None
    assert answer.comment == TOO_LONG
    problems = {"/comment": "is longer than 20,000 characters"}
    await live.reply(heard, Told(done=False, message="", problems=problems, error=InvalidRequest("")))
    said = jira.texts("OPS-1")[-1]
    assert "the comment is longer than 20,000 characters" in said
    assert ("Move the issue back" if moved else "Add a new comment") in said


@pytest.mark.parametrize("moved", [True, False])
async def test_a_rejection_with_too_long_a_comment_counts_and_the_issue_says_what_was_stored(
    channel: Make, jira: Jira, *, moved: bool
) -> None:
    live = channel(jira, commentWords=True)
    await live.send(note(PLACE))
    if moved:
        jira.move("OPS-1", "Declined", by="acc-ann", comment=TOO_LONG)
    else:
        jira.say("OPS-1", f"Reject: {TOO_LONG}", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    answer = live.answer(heard, asked()[0])
    assert answer is not None
    assert (answer.approved, answer.comment) == (False, TOO_LONG[:20_000])
    before = len(jira.texts("OPS-1"))
    for again in (True, False, False):
        await live.reply(heard, Told(done=True, message="", again=again))
    [said] = jira.texts("OPS-1")[before:]
    assert "only the first 20,000 characters of the comment were stored" in said


async def test_a_rejection_with_a_comment_that_fits_is_not_commented_on(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", "Declined", by="acc-ann", comment=TOO_LONG[:-1])
    (heard,) = live.hear(hook(jira))
    before = len(jira.texts("OPS-1"))
    await live.reply(heard, Told(done=True, message=""))
    assert len(jira.texts("OPS-1")) == before


@pytest.mark.parametrize("text", ["I approve", "approval pending", "Approve what?", "approve?", "", "not approved"])
async def test_any_other_comment_says_nothing(channel: Make, jira: Jira, text: str) -> None:
    live = channel(jira, commentWords=True)
    await live.send(note(PLACE))
    jira.say("OPS-1", text, by="acc-ann")
    assert live.hear(hook(jira)) == []


async def test_nobody_speaks_for_another_by_changing_their_comment(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann", edited_by="acc-eve")
    assert live.hear(hook(jira)) == []
    await live.look(found.take)
    assert [each for told in found for each in live.hear(told)] == []


async def test_of_several_answers_of_one_person_the_last_counts(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann")
    jira.say("OPS-1", "reject: not today", by="acc-bob")
    jira.move("OPS-1", "Approved", by="acc-ann")
    jira.say("OPS-1", "reject: I read it again", by="acc-ann")
    jira.say("OPS-1", "What is this about", by="acc-ann")
    await live.look(found.take)
    heard = [each for told in found for each in live.hear(told)]
    assert [(each.identity, each.said["approved"], each.comment) for each in heard] == [
        ("acc-bob", False, "not today"),
        ("acc-ann", False, "I read it again"),
    ]


async def test_a_move_counts_instead_of_what_its_author_wrote_before(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann")
    jira.move("OPS-1", "Declined", by="acc-ann")
    await live.look(found.take)
    assert [each.said["approved"] for told in found for each in live.hear(told)] == [False]


async def test_an_answer_that_was_taken_back_brings_no_older_one_back(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann")
    jira.move("OPS-1", "Declined", by="acc-ann")
    jira.move("OPS-1", "To Do", by="acc-bob")
    await live.look(found.take)
    assert [each for told in found for each in live.hear(told)] == []


ANN = {"accountId": "acc-ann"}
EARLY, LATE, LATEST = (f"2026-11-16T10:0{n}:00.000+0000" for n in range(3))
SAID = [
    {"id": "9", "author": ANN, "body": "reject: no", "created": EARLY},
    {"id": "10", "author": ANN, "body": "approve", "created": LATE},
]


def approvals(comments: list[dict[str, Any]], history: list[dict[str, Any]]) -> list[bool]:
    fields = {"labels": ["breakpoint", "bp-bp_1"], "status": {"name": "Approved"}}
    meaning = Meaning({"approved": "Approved"}, {"declined": "Declined"}, words=True)
    found = meaning.found({"key": "OPS-1", "fields": fields}, history, comments)
    return [each.said["approved"] for told in found if (each := meaning.read(told, "f", me=None)) is not None]


def test_the_order_in_which_jira_lists_them_does_not_matter() -> None:
    assert approvals(SAID, []) == approvals(SAID[::-1], []) == [True]


def test_a_comment_that_is_changed_rejects_from_then_on_and_approves_from_before() -> None:
    first, last = SAID
    assert approvals([first | {"updated": LATEST}, last], []) == [False]
    unsure = [first | {"body": "approve", "updated": LATEST}, last | {"body": "reject: no"}]
    assert approvals(unsure, []) == [False]


def test_a_yes_and_a_no_of_the_same_moment_are_a_no() -> None:
    move = {"id": "3", "author": ANN, "created": LATE, "items": [{"field": "status", "toString": "Approved"}]}
    assert approvals([SAID[0] | {"created": LATE}], [move]) == [False]
    assert approvals(SAID, [move]) == [True]


async def test_only_what_is_signed_is_heard(channel: Make, cloud: Jira) -> None:
    live = channel(cloud)
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    good = hook(cloud)
    for headers in ({}, {"x-hub-signature": ""}, {"x-hub-signature": "sha256="}, signed(good.body, secret="other")):
        with pytest.raises(Unauthenticated):
            live.hear(Incoming(headers, good.body, AT))
    with pytest.raises(Unauthenticated):
        live.hear(Incoming(good.headers, good.body.replace(b"acc-ann", b"acc-eve"), AT))
    with pytest.raises(Unauthenticated):
        channel(cloud, webhookSecret=None).hear(good)
    with pytest.raises(Unauthenticated):
        channel(cloud, webhookSecret=None).hear(Incoming(signed(good.body, secret=""), good.body, AT))


@given(st.data())
def test_no_changed_byte_is_heard(data: st.DataObject) -> None:
    body = json.dumps({"issue": {"key": "OPS-1"}}).encode()
    place = data.draw(st.integers(0, len(body) - 1))
    changed = body[:place] + bytes([body[place] ^ data.draw(st.integers(1, 255))]) + body[place + 1 :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIRA_TOKEN", "x")
        patch.setenv("JIRA_HOOK", HOOK)
        settings = {"url": "https://jira.example.com", "project": "OPS", "bearer": "env:JIRA_TOKEN"}
        live = JiraChannel(settings | {"webhookSecret": "env:JIRA_HOOK"}, tools())
        assert live.hear(Incoming(signed(body, secret=HOOK), body, AT)) == []
        with pytest.raises(Unauthenticated):
            live.hear(Incoming(signed(body, secret=HOOK), changed, AT))


async def test_a_replayed_webhook_has_the_same_key_whatever_its_header_says(channel: Make, cloud: Jira) -> None:
    live = channel(cloud)
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    first = hook(cloud)
    again = Incoming({**first.headers, "x-atlassian-webhook-identifier": "another"}, first.body, AT)
    assert live.hear(first) == live.hear(again)
    cloud.move("OPS-1", "To Do", by="acc-ann")
    cloud.move("OPS-1", "Approved", by="acc-ann")
    assert live.hear(hook(cloud))[0].key != live.hear(first)[0].key


@pytest.mark.parametrize("labels", [[], ["breakpoint"], ["bp-bp_1"], ["breakpoint", "bp-bp_1", "bp-bp_2"], None, "x"])
async def test_an_issue_that_is_not_ours_says_nothing(channel: Make, cloud: Jira, labels: object) -> None:
    live = channel(cloud)
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    cloud.issues["OPS-1"].fields["labels"] = labels
    assert live.hear(hook(cloud)) == []


@pytest.mark.parametrize("summary", ["Order lunch (bp_1)", "Deploy to production (bp_2)", "", None])
async def test_an_issue_with_another_name_answers_nothing(channel: Make, jira: Jira, summary: str | None) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.issues["OPS-1"].fields["summary"] = summary
    jira.move("OPS-1", "Approved", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    with pytest.raises(DigestMismatch):
        live.answer(heard, asked()[0])


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
async def test_what_is_not_json_is_refused(channel: Make, cloud: Jira, body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        channel(cloud).hear(Incoming(signed(body, secret=HOOK), body, AT))


PLAIN = st.none() | st.booleans() | st.text(max_size=5)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
FIELDS = JSON | st.fixed_dictionaries({"labels": JSON})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "issue": JSON | st.fixed_dictionaries({"key": JSON, "fields": FIELDS}),
            "changelog": JSON | st.fixed_dictionaries({"id": JSON, "items": JSON}),
            "comment": JSON | st.fixed_dictionaries({"body": JSON, "author": JSON}),
            "user": JSON,
        },
    )
)
def test_any_message_is_read_or_means_nothing(told: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIRA_TOKEN", "x")
        settings = {"url": "https://jira.example.com", "project": "OPS", "bearer": "env:JIRA_TOKEN"}
        live = JiraChannel(settings | {"approve": ["Approved"], "commentWords": True}, tools())
        assert live.hear(Polled({}, json.dumps(told).encode(), AT)) == []


async def test_a_refusal_is_said_once_and_gives_nothing_away(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    heard = Heard(
        key="OPS-1:change:7",
        wish=Wish.ANSWER,
        identity="acc-ann",
        breakpoint_id="bp_1",
        said={"key": "OPS-1", "approved": True, "mention": "acc-ann"},
    )
    told = Told(done=False, message="Open https://assent.example.com/link/secret", error=Forbidden("no"))
    await live.reply(heard, told)
    await live.reply(heard, told)
    (said,) = jira.texts("OPS-1")
    assert "this move was not counted" in said
    assert "link/secret" not in said
    assert "acc-ann" in said


async def test_what_was_taken_or_came_too_late_is_not_commented_on(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    said = {"key": "OPS-1", "approved": True, "mention": "x"}
    heard = Heard(key="k1", wish=Wish.ANSWER, identity="acc-ann", breakpoint_id="bp_1", said=said)
    ours = Heard(key="k2", wish=Wish.ANSWER, identity=US, breakpoint_id="bp_1", said=said)
    await live.reply(heard, Told(done=True, message="Done."))
    await live.reply(heard, Told(done=False, message="Late.", error=AlreadyEnded("It has ended.")))
    await live.reply(ours, Told(done=False, message="Who?", error=Forbidden("We do not know you.")))
    assert jira.texts("OPS-1") == []
