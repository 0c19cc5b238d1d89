"""Answers in Jira: webhooks, polling, signatures, identities, and changes that are not answers."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import AlreadyEnded, DigestMismatch, Forbidden, InvalidRequest, Unauthenticated
from assent.delivery.channels.jira.channel import NO_REASON, JiraChannel, Polled
from assent.delivery.channels.jira.reading import Meaning
from assent.delivery.ports import Heard, Told, Wish
from assent.kernel.outbound import Transient
from assent.kernel.ports import Incoming
from tests.delivery.channels.jira.conftest import HOOK, Make
from tests.delivery.channels.notes import AT, PLACE, asked, note, tools
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


async def test_moving_an_issue_to_a_configured_status_is_an_answer(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    assert (heard.wish, heard.identity, heard.breakpoint_id) == (Wish.ANSWER, "acc-ann", "bp_1")
    answer = live.answer(heard, asked()[0])
    assert answer is not None
    assert (answer.approved, answer.comment, answer.digest) == (True, None, "d" * 64)


@pytest.mark.parametrize("reason", [None, "Too late"])
async def test_a_comment_added_during_a_move_is_the_reason(channel: Make, jira: Jira, reason: str | None) -> None:
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
async def test_a_move_to_any_other_status_is_ignored(channel: Make, jira: Jira, status: str) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", status, by="acc-ann")
    assert live.hear(hook(jira)) == []


async def test_polling_and_webhooks_report_the_same_answer(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    await live.look(found.take)
    (told,) = found
    assert live.hear(told) == live.hear(hook(jira))
    assert live.heard_at() is not None


async def test_polling_reports_each_change_only_once(channel: Make, jira: Jira) -> None:
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


async def test_changes_missed_by_a_failed_poll_are_found_by_the_next_poll(channel: Make, cloud: Jira) -> None:
    live, found = channel(cloud), Taken()
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    cloud.fail("GET issue/OPS-1/changelog", 500)
    with pytest.raises(Transient):
        await live.look(found.take)
    assert not found
    await live.look(found.take)
    assert len(found) == 1


async def test_an_answer_that_could_not_be_processed_is_reported_again_by_the_next_poll(
    channel: Make, cloud: Jira
) -> None:
    live, found = channel(cloud), Taken()
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")

    async def busy(incoming: Incoming) -> None:
        raise Forbidden(str(incoming.at))

    with pytest.raises(Forbidden):
        await live.look(busy)
    await live.look(found.take)
    assert len(found) == 1


async def test_a_move_reverted_before_the_next_poll_is_not_reported(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    jira.move("OPS-1", "To Do", by="acc-ann")
    await live.look(found.take)
    assert [heard for each in found for heard in live.hear(each)] == []


async def test_a_comment_added_before_the_move_is_not_the_reason(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "I like it", by="acc-ann")
    jira.move("OPS-1", "Declined", by="acc-ann")
    await live.look(found.take)
    assert [each.comment for each in live.hear(found[0])] == [None]


async def test_polling_finds_every_changed_issue_across_pages(channel: Make, jira: Jira) -> None:
    live, found = channel(jira), Taken()
    for number in range(65):
        await live.send(note(PLACE, asked={"id": f"bp_{number}"}))
        jira.move(f"OPS-{number + 1}", "Approved", by="acc-ann")
    await live.look(found.take)
    assert {live.hear(each)[0].breakpoint_id for each in found} == {f"bp_{number}" for number in range(65)}


async def test_a_listener_continues_after_an_outage(channel: Make, cloud: Jira) -> None:
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
async def test_polling_is_skipped_if_it_is_disabled_or_no_answer_statuses_are_configured(
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
async def test_a_comment_that_starts_with_a_verdict_is_an_answer(
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


async def test_a_rejecting_comment_without_a_reason_gets_a_reply_asking_for_one(channel: Make, jira: Jira) -> None:
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
    assert "a rejection requires a reason" in said


TOO_LONG = "x" * 20_001


@pytest.mark.parametrize("moved", [True, False])
async def test_the_reply_to_an_approval_with_an_overlong_comment_says_what_to_do(
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
async def test_a_rejection_with_an_overlong_comment_counts_but_its_comment_is_truncated(
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


async def test_a_rejection_whose_comment_fits_gets_no_reply(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.move("OPS-1", "Declined", by="acc-ann", comment=TOO_LONG[:-1])
    (heard,) = live.hear(hook(jira))
    before = len(jira.texts("OPS-1"))
    await live.reply(heard, Told(done=True, message=""))
    assert len(jira.texts("OPS-1")) == before


@pytest.mark.parametrize("text", ["I approve", "approval pending", "Approve what?", "approve?", "", "not approved"])
async def test_a_comment_without_a_clear_verdict_is_ignored(channel: Make, jira: Jira, text: str) -> None:
    live = channel(jira, commentWords=True)
    await live.send(note(PLACE))
    jira.say("OPS-1", text, by="acc-ann")
    assert live.hear(hook(jira)) == []


async def test_a_comment_edited_by_another_person_is_not_an_answer(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann", edited_by="acc-eve")
    assert live.hear(hook(jira)) == []
    await live.look(found.take)
    assert [each for told in found for each in live.hear(told)] == []


async def test_only_the_latest_answer_of_each_person_counts(channel: Make, jira: Jira) -> None:
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


async def test_a_later_move_replaces_the_comment_of_the_same_person(channel: Make, jira: Jira) -> None:
    live, found = channel(jira, commentWords=True), Taken()
    await live.send(note(PLACE))
    jira.say("OPS-1", "approve", by="acc-ann")
    jira.move("OPS-1", "Declined", by="acc-ann")
    await live.look(found.take)
    assert [each.said["approved"] for told in found for each in live.hear(told)] == [False]


async def test_reverting_an_answer_does_not_restore_an_older_one(channel: Make, jira: Jira) -> None:
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


def test_the_order_of_comments_in_a_response_does_not_matter() -> None:
    assert approvals(SAID, []) == approvals(SAID[::-1], []) == [True]


def test_rejections_are_ordered_by_edit_time_and_approvals_by_creation_time() -> None:
    first, last = SAID
    assert approvals([first | {"updated": LATEST}, last], []) == [False]
    unsure = [first | {"body": "approve", "updated": LATEST}, last | {"body": "reject: no"}]
    assert approvals(unsure, []) == [False]


def test_a_simultaneous_approval_and_rejection_count_as_a_rejection() -> None:
    move = {"id": "3", "author": ANN, "created": LATE, "items": [{"field": "status", "toString": "Approved"}]}
    assert approvals([SAID[0] | {"created": LATE}], [move]) == [False]
    assert approvals(SAID, [move]) == [True]


async def test_only_signed_webhooks_are_accepted(channel: Make, cloud: Jira) -> None:
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
def test_changing_any_byte_of_a_webhook_invalidates_it(data: st.DataObject) -> None:
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


async def test_a_replayed_webhook_has_the_same_deduplication_key_despite_a_different_header(
    channel: Make, cloud: Jira
) -> None:
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
async def test_an_issue_without_our_labels_is_ignored(channel: Make, cloud: Jira, labels: object) -> None:
    live = channel(cloud)
    await live.send(note(PLACE))
    cloud.move("OPS-1", "Approved", by="acc-ann")
    cloud.issues["OPS-1"].fields["labels"] = labels
    assert live.hear(hook(cloud)) == []


@pytest.mark.parametrize("summary", ["Order lunch (bp_1)", "Deploy to production (bp_2)", "", None])
async def test_an_answer_on_an_issue_with_a_changed_summary_is_refused(
    channel: Make, jira: Jira, summary: str | None
) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    jira.issues["OPS-1"].fields["summary"] = summary
    jira.move("OPS-1", "Approved", by="acc-ann")
    (heard,) = live.hear(hook(jira))
    with pytest.raises(DigestMismatch):
        live.answer(heard, asked()[0])


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_not_json_is_rejected(channel: Make, cloud: Jira, body: bytes) -> None:
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
def test_arbitrary_messages_are_ignored_without_errors(told: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIRA_TOKEN", "x")
        settings = {"url": "https://jira.example.com", "project": "OPS", "bearer": "env:JIRA_TOKEN"}
        live = JiraChannel(settings | {"approve": ["Approved"], "commentWords": True}, tools())
        assert live.hear(Polled({}, json.dumps(told).encode(), AT)) == []


async def test_a_refusal_is_posted_as_a_single_comment_without_the_link(channel: Make, jira: Jira) -> None:
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


async def test_accepted_and_late_answers_get_no_reply_comment(channel: Make, jira: Jira) -> None:
    live = channel(jira)
    await live.send(note(PLACE))
    said = {"key": "OPS-1", "approved": True, "mention": "x"}
    heard = Heard(key="k1", wish=Wish.ANSWER, identity="acc-ann", breakpoint_id="bp_1", said=said)
    ours = Heard(key="k2", wish=Wish.ANSWER, identity=US, breakpoint_id="bp_1", said=said)
    await live.reply(heard, Told(done=True, message="Done."))
    await live.reply(heard, Told(done=False, message="Late.", error=AlreadyEnded("It has ended.")))
    await live.reply(ours, Told(done=False, message="Who?", error=Forbidden("We do not know you.")))
    assert jira.texts("OPS-1") == []
