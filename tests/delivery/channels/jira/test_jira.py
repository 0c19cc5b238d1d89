"""The Jira channel with a fake Jira server: one issue for each breakpoint, even after lost responses and errors."""

import json
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.delivery.channels.jira.text import plain
from assent.delivery.message import Purpose
from assent.kernel.outbound import Permanent, Transient
from assent.kernel.ports import Incoming
from tests.delivery.channels.jira.conftest import HOOK, Make
from tests.delivery.channels.notes import AT, PLACE, REVIEW, closing, expiring, many, note
from tests.support.jira import US, Jira


async def test_an_issue_contains_the_question_and_a_review_link(channel: Make, jira: Jira) -> None:
    posted = await channel(jira, labels=["audit"]).send(note(PLACE))
    issue = jira.issues["OPS-1"]
    assert posted.trace == {"key": "OPS-1", "url": f"{jira.url}/browse/OPS-1"}
    assert issue.fields["summary"] == "Deploy to production (bp_1)"
    assert issue.fields["labels"] == ["breakpoint", "bp-bp_1", "audit"]
    said = json.dumps(issue.fields["description"])
    assert REVIEW in said
    assert "Gate" in said
    assert "it passed" in said


@pytest.mark.parametrize(
    ("settings", "due", "ended"),
    [
        ({}, "2027-01-15 08:00 UTC", "2027-01-15 08:00 UTC"),
        ({"timezone": "Europe/Berlin"}, "2027-01-15 09:00 CET", "2027-01-15 09:00 CET"),
    ],
    ids=["without a setting", "Europe/Berlin"],
)
async def test_times_are_shown_in_the_configured_time_zone(
    channel: Make, jira: Jira, settings: dict[str, str], due: str, ended: str
) -> None:
    await channel(jira, **settings).send(note(PLACE, asked={"due_at": AT}))
    await channel(jira, **settings).close(closing(PLACE, id="dlv_2"))
    said = plain(jira.issues["OPS-1"].fields["description"])
    assert due in said.replace("\\", "")
    assert ended in jira.texts("OPS-1")[0].replace("\\", "")


async def test_an_unknown_time_zone_is_rejected(channel: Make, jira: Jira) -> None:
    with pytest.raises(InvalidRequest) as refused:
        channel(jira, timezone="Mars/Olympus")
    assert refused.value.details["errors"] == [
        {"pointer": "/settings/timezone", "detail": "must be a time zone such as Europe/Berlin or UTC"}
    ]


async def test_a_retry_searches_for_the_issue_before_creating_one(channel: Make, jira: Jira) -> None:
    await channel(jira).send(note(PLACE))
    posted = await channel(jira).send(note(PLACE, attempt=2))
    assert posted.trace["key"] == "OPS-1"
    assert len(jira.issues) == 1
    assert jira.count("POST issue") == 1


async def test_a_retry_finds_the_issue_if_the_response_was_lost(channel: Make, jira: Jira) -> None:
    jira.drop()
    with pytest.raises(Transient) as failed:
        await channel(jira).send(note(PLACE))
    assert failed.value.retry_after == 30
    assert jira.count("POST issue") == 1
    assert (await channel(jira).send(note(PLACE, attempt=2))).trace["key"] == "OPS-1"
    assert len(jira.issues) == 1


async def test_a_timed_out_attempt_is_retried_only_when_search_can_find_the_issue(channel: Make, cloud: Jira) -> None:
    cloud.hold()
    with pytest.raises(Transient, match="in time") as failed:
        await channel(cloud, patience=0.3).send(note(PLACE))
    assert failed.value.retry_after == 30
    cloud.let_go()


async def test_a_server_error_leaves_the_outcome_unknown(channel: Make, cloud: Jira) -> None:
    cloud.fail("POST issue", 502)
    with pytest.raises(Transient) as failed:
        await channel(cloud).send(note(PLACE))
    assert failed.value.retry_after == 30
    assert cloud.count("POST issue") == 1
    assert not failed.value.unsent


async def test_a_failed_search_creates_no_issue(channel: Make, cloud: Jira) -> None:
    cloud.fail("GET search", 502)
    with pytest.raises(Transient) as failed:
        await channel(cloud).send(note(PLACE))
    assert failed.value.unsent


async def test_a_rate_limited_request_waits_as_long_as_jira_specifies(channel: Make, cloud: Jira) -> None:
    cloud.fail("POST issue", 429, retry_after="7")
    cloud.fail("GET search", 429, retry_after="9")
    for seconds in (9, 7):
        with pytest.raises(Transient) as failed:
            await channel(cloud).send(note(PLACE))
        assert failed.value.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "Check the user setting"),
        (403, "permissions"),
        (404, "Check the url and project settings"),
        (400, "Check the issueType, approve and reject settings"),
    ],
)
async def test_client_errors_are_permanent_and_say_what_to_check(
    channel: Make, cloud: Jira, status: int, advice: str
) -> None:
    cloud.fail("POST issue", status)
    with pytest.raises(Permanent, match=advice):
        await channel(cloud).send(note(PLACE))
    assert cloud.issues == {}


async def test_a_wrong_token_is_reported_without_revealing_it(
    channel: Make, jira: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JIRA_TOKEN", "hunter2")
    with pytest.raises(Permanent, match="responded with 401") as failed:
        await channel(jira).check()
    assert "hunter2" not in str(failed.value)


async def test_a_channel_check_does_not_create_an_issue(channel: Make, jira: Jira) -> None:
    assert await channel(jira).check() == "Signed in to Jira. Project OPS: Operations."
    assert jira.issues == {}


@pytest.mark.parametrize(("purpose", "words"), [(Purpose.REMIND, "Reminder: "), (Purpose.ESCALATE, "Escalated: ")])
async def test_reminders_and_escalations_are_posted_as_comments_on_the_issue(
    channel: Make, jira: Jira, purpose: Purpose, words: str
) -> None:
    first = await channel(jira).send(note(PLACE))
    posted = await channel(jira).send(note(PLACE, purpose, id="dlv_2", thread=first.trace))
    (said,) = jira.texts("OPS-1")
    assert posted.trace["key"] == "OPS-1"
    assert words in said
    assert len(jira.issues) == 1


async def test_a_retry_searches_for_the_comment_that_may_have_arrived(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    jira.drop()
    with pytest.raises(Transient):
        await channel(jira).send(note(PLACE, Purpose.REMIND, id="dlv_2", thread=first.trace))
    await channel(jira).send(note(PLACE, Purpose.REMIND, id="dlv_2", thread=first.trace, attempt=2))
    assert len(jira.texts("OPS-1")) == 1


async def test_a_reminder_creates_the_issue_if_none_exists(channel: Make, jira: Jira) -> None:
    await channel(jira).send(note(PLACE, Purpose.REMIND))
    assert len(jira.issues) == 1


async def test_closing_adds_a_comment_and_transitions_the_issue(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    await channel(jira, closeTransition="Done").close(closing(PLACE, thread=first.trace))
    assert "Assent: Approved by ann (web)" in jira.texts("OPS-1")[0].replace("\\", "")
    assert jira.issues["OPS-1"].status == "Done"


async def test_an_issue_that_is_already_done_is_not_transitioned(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    jira.move("OPS-1", "Done", by="acc-bob")
    await channel(jira, closeTransition="To Done").close(expiring(PLACE, thread=first.trace))
    assert "Expired" in jira.texts("OPS-1")[0]
    assert jira.count("POST issue/OPS-1/transitions") == 0


async def test_an_issue_that_a_reviewer_moved_to_answer_is_not_moved_again(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    jira.move("OPS-1", "Approved", by="acc-ann")
    await channel(jira, closeTransition="Done").close(closing(PLACE, via="jira", thread=first.trace))
    assert jira.issues["OPS-1"].status == "Approved"
    assert len(jira.texts("OPS-1")) == 1


async def test_an_unavailable_transition_is_recorded(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    posted = await channel(jira, closeTransition="Archive").close(closing(PLACE, thread=first.trace))
    assert posted is not None
    assert posted.trace["transition"] == "the transition Archive is not available for this issue"


async def test_closing_without_an_issue_does_nothing(channel: Make, jira: Jira) -> None:
    assert await channel(jira).close(closing(PLACE)) is None
    assert jira.issues == {}


async def test_digests_are_not_supported(channel: Make, jira: Jira) -> None:
    with pytest.raises(Permanent):
        await channel(jira).digest(many(30, PLACE))


async def test_agent_text_never_becomes_a_mention_or_macro(channel: Make, jira: Jira) -> None:
    text = "[~accountid:x] @all {code} [evil|http://evil.org] \u202eevil"
    await channel(jira).send(note(PLACE, asked={"title": text, "payload": {"question": text}, "risk": "high"}))
    description = jira.issues["OPS-1"].fields["description"]
    said = json.dumps(description, ensure_ascii=False)
    assert "High risk: open Review to approve or reject." in said
    assert "\u202e" not in said
    if jira.cloud:
        assert '"mention"' not in said
        assert said.count('"link"') == 1
    else:
        assert r"\[\~accountid:x\] \@all \{code\} \[evil\|http://evil.org\]" in description


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"url": "ftp://x"}, "/settings/url"),
        ({"url": "http://169.254.169.254"}, "/settings/url"),
        ({"project": 'OPS" OR labels = "x'}, "/settings/project"),
        ({"user": None}, "/settings/token"),
        ({"bearer": "env:JIRA_TOKEN"}, "/settings/token"),
        ({"token": "hunter2"}, "/settings/token"),
        ({"approve": ['x" OR "y']}, "/settings/approve/0"),
        ({"reject": ["approved"]}, "/settings/reject"),
        ({"approve": "Approved"}, "/settings/approve"),
        ({"commentWords": "yes"}, "/settings/commentWords"),
        ({"pollSeconds": -1}, "/settings/pollSeconds"),
        ({"labels": ["a b"]}, "/settings/labels/0"),
        ({"apiUrl": "x"}, "/settings/apiUrl"),
    ],
)
async def test_the_error_for_an_invalid_setting_points_to_it(
    channel: Make, cloud: Jira, settings: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidRequest, match=pointer) as refused:
        channel(cloud, **settings)
    assert "hunter2" not in str(refused.value)


async def test_our_own_transitions_and_comments_never_count_as_answers(channel: Make, jira: Jira) -> None:
    first = await channel(jira).send(note(PLACE))
    await channel(jira, closeTransition="Approved").close(closing(PLACE, thread=first.trace))
    live = channel(jira, commentWords=True)
    await live.check()
    assert jira.issues["OPS-1"].history[-1]["author"] == jira.person(US)
    headers, body = jira.hook("OPS-1", secret=HOOK)
    assert live.hear(Incoming(headers, body, 0)) == []
