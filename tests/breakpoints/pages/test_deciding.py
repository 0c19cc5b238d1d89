"""Answering a breakpoint on its page, from the confirmation to the result that the agent receives."""

import re
from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, person, signed_in, visitor


async def seen(node: Node, breakpoint_id: str) -> dict[str, Any]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}", await node.token("agent"))
    found: dict[str, Any] = answer.json()
    return found


async def confirmation(browser: Visitor, breakpoint_id: str, **typed: str) -> Page:
    answer = await browser.send(f"/breakpoints/{breakpoint_id}", "/confirm", **typed)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


async def test_the_confirmation_page_states_the_consequences_without_deciding(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(payload={"question": "Deploy build 4812?", "breakpointId": "deploy.production"})
    page = await confirmation(browser, created["id"], decision="approve", comment="Go ahead.")
    for text in (
        "Approve this?", "deploy.production", "agent-1", "Deploy build 4812?", created["digest"], "Go ahead.",
        "The agent continues immediately. This cannot be undone.",
    ):  # fmt: skip
        assert text in page.text, text
    assert (await seen(node, created["id"]))["version"] == created["version"]


async def test_an_approval_reaches_the_agent_with_its_comment(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.decide(created["id"], "approve", comment="Go\r\nahead.")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/?after={created['id']}")
    result = (await seen(node, created["id"]))["result"]
    assert (result["approved"], result["respondedBy"], result["via"]) == (True, "ann", "web")
    assert result["feedback"] == "Go\nahead."


async def test_a_rejection_reaches_the_agent_with_its_reason(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(payload={"question": "?", "options": ["a", "b"], "risk": "high"})
    await browser.decide(created["id"], "reject", comment="Not on a Friday.", option="1")
    result = (await seen(node, created["id"]))["result"]
    assert (result["approved"], result["feedback"], result.get("option")) == (False, "Not on a Friday.", None)


async def test_the_page_after_a_decision_shows_the_outcome_and_the_next_breakpoint(node: Node) -> None:
    browser = await signed_in(node)
    created, other = await node.create(), await node.create(title="The next one")
    answer = await browser.decide(created["id"], "approve")
    assert answer.headers["location"] == f"/breakpoints/{other['id']}?after={created['id']}"
    page = await browser.page(answer.headers["location"])
    assert "Approved" in page.text
    assert "The next one" in page.text
    answer = await browser.decide(other["id"], "reject", comment="No.")
    page = await browser.page(answer.headers["location"])
    assert "Rejected" in page.text
    assert "No pending approvals." in page.text


async def test_a_crafted_url_cannot_display_a_decision_that_was_not_made(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    for path in (f"/breakpoints/{created['id']}", "/"):
        page = await browser.page(f"{path}?after={created['id']}")
        assert not re.search("You (approve|reject|answered)", page.text)


async def test_a_rejection_requires_a_reason(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    for action in ("/confirm", "/decide"):
        form = (await browser.page(f"/breakpoints/{created['id']}")).form("/confirm").fields
        path = f"/breakpoints/{created['id']}{action}"
        answer = await browser.post(path, form | {"decision": "reject", "comment": " \n "})
        page = Page(answer.text)
        assert answer.status_code == 422
        assert "is required when rejecting" in page.text
        assert "#comment" in page.links()
    assert (await seen(node, created["id"]))["status"] == "waiting"


@pytest.mark.parametrize("decision", ["", "APPROVE", "yes", "approve "])
async def test_decision_values_other_than_approve_and_reject_are_refused(node: Node, decision: str) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = (await browser.page(f"/breakpoints/{created['id']}")).form("/confirm").fields
    for action in ("confirm", "decide"):
        answer = await browser.post(f"/breakpoints/{created['id']}/{action}", form | {"decision": decision})
        assert answer.status_code == 422
    assert (await seen(node, created["id"]))["status"] == "waiting"


async def test_an_option_is_selected_by_index_regardless_of_its_label(node: Node) -> None:
    browser = await signed_in(node)
    labels = ["Canary 5 %", 'two\nlines "and" <quotes>', "0"]
    for place, label in enumerate(labels):
        created = await node.create(payload={"question": "Which?", "options": labels})
        await browser.decide(created["id"], "approve", option=str(place))
        assert (await seen(node, created["id"]))["result"]["option"] == label


@pytest.mark.parametrize("option", ["", "3", "-1", "Canary", "²", "1.0"])
async def test_an_approval_requires_one_of_the_options(node: Node, option: str) -> None:
    browser = await signed_in(node)
    created = await node.create(payload={"question": "Which?", "options": ["Canary", "b", "c"]})
    answer = await browser.send(
        f"/breakpoints/{created['id']}", "/confirm", decision="approve", option=option, comment="My draft"
    )
    assert answer.status_code == 422
    assert "My draft" in answer.text, "what was typed is kept"
    assert (await seen(node, created["id"]))["status"] == "waiting"


async def test_form_answers_keep_the_types_of_their_fields(node: Node) -> None:
    browser = await signed_in(node)
    form = {
        "properties": {
            "budget": {"type": "integer"},
            "ratio": {"type": "number"},
            "sure": {"type": "boolean", "title": "Are you sure?"},
            "region": {"type": "string", "enum": ["eu", "us"]},
            "note": {"type": "string"},
            "skipped": {"type": "string"},
        },
        "required": ["budget"],
    }
    created = await node.create(payload={"question": "?", "form": form})
    typed = {"field-0": "5", "field-1": "0.25", "field-2": "no", "field-3": "1", "field-4": "a\nb"}
    page = await confirmation(browser, created["id"], decision="approve", **typed)
    assert "Are you sure?" in page.text
    await browser.post(page.form("/decide").action, page.form("/decide").fields)
    result = (await seen(node, created["id"]))["result"]
    assert result["answers"] == {"budget": 5, "ratio": 0.25, "sure": False, "region": "us", "note": "a\nb"}


@pytest.mark.parametrize("typed", [{}, {"field-0": "x"}, {"field-0": "9"}, {"field-0": "1.5"}])
async def test_an_invalid_form_marks_the_field_with_the_error(node: Node, typed: dict[str, str]) -> None:
    browser = await signed_in(node)
    form = {"properties": {"budget": {"type": "integer", "title": "Budget", "maximum": 8}}, "required": ["budget"]}
    created = await node.create(payload={"question": "?", "form": form})
    answer = await browser.send(f"/breakpoints/{created['id']}", "/confirm", decision="approve", **typed)
    page = Page(answer.text)
    assert answer.status_code == 422
    assert "Budget: " in page.text
    assert "#field-0" in page.links()
    field = next(control for control in page.all("input") if control.get("id") == "field-0")
    assert (field["aria-invalid"], field["value"]) == ("true", typed.get("field-0", ""))


async def test_approving_high_risk_requires_typing_the_gate_name(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(payload={"question": "?", "risk": "high", "breakpointId": "drop.table"})
    for typed in ("", "drop table", "DROP.TABLE"):
        answer = await browser.decide(created["id"], "approve", confirm=typed)
        assert answer.status_code == 422
        assert "Type the gate name exactly as shown" in answer.text
    assert (await seen(node, created["id"]))["status"] == "waiting"
    answer = await browser.decide(created["id"], "approve", confirm="drop.table")
    assert answer.status_code == 303
    assert (await seen(node, created["id"]))["decision"] == "approved"


async def test_the_decision_records_the_displayed_digest(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    await browser.decide(created["id"], "approve")
    events = (await node.call("GET", f"/api/breakpoints/{created['id']}/events", await node.token("agent"))).json()
    responded = next(event for event in events["items"] if event["type"] == "responded")
    assert responded["metadata"]["shownDigest"] == created["digest"]


@pytest.mark.parametrize("digest", ["", "0" * 64, "not a digest"])
async def test_a_decision_with_a_mismatched_digest_is_refused(node: Node, digest: str) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = (await browser.page(f"/breakpoints/{created['id']}")).form("/confirm").fields
    for action in ("confirm", "decide"):
        answer = await browser.post(
            f"/breakpoints/{created['id']}/{action}", form | {"decision": "approve", "digest": digest}
        )
        assert answer.status_code == 412
        assert "The content has changed" in answer.text
    assert (await seen(node, created["id"]))["status"] == "waiting"


async def test_a_late_decision_is_refused_with_the_name_and_time_of_the_first(node: Node, clock: ManualClock) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    page = await confirmation(bea, created["id"], decision="reject", comment="No.")
    early = (await bea.page(f"/breakpoints/{created['id']}")).form("/confirm")
    await ann.decide(created["id"], "approve")
    clock.advance(120)
    late = [
        await bea.post(page.form("/decide").action, page.form("/decide").fields),
        await bea.post(early.action, early.fields | {"decision": "approve"}),
    ]
    for answer in late:
        text = " ".join(Page(answer.text).text.split())
        assert answer.status_code == 409
        assert "Too late. It was approved by ann 2 min ago (2027-01-15 08:00:00 UTC). Nothing was changed." in text
    assert (await seen(node, created["id"]))["decision"] == "approved"


async def test_answering_after_the_deadline_reports_that_the_breakpoint_expired(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    created = await node.create(ttlSeconds=60)
    page = await confirmation(browser, created["id"], decision="approve")
    clock.advance(61)
    answer = await browser.post(page.form("/decide").action, page.form("/decide").fields)
    text = " ".join(Page(answer.text).text.split())
    assert answer.status_code == 409
    assert "Too late. It expired at the deadline" in text


@pytest.mark.parametrize("roles", [("viewer",), ("auditor",), ("rule-admin",)])
async def test_people_without_permission_cannot_decide_by_posting_the_form(node: Node, roles: tuple[str, ...]) -> None:
    browser = await signed_in(node, "vic", *roles)
    created = await node.create()
    key = (await browser.page("/")).form("/sign-out").fields["csrf"]
    form = {"csrf": key, "decision": "approve", "digest": created["digest"], "text": "Hi"}
    for action in ("confirm", "decide", "comment"):
        answer = await browser.post(f"/breakpoints/{created['id']}/{action}", form)
        assert answer.status_code == 403
        assert "lacks the “" in answer.text
    assert (await seen(node, created["id"]))["version"] == created["version"]


async def test_a_person_cannot_decide_their_own_breakpoint(node: Node) -> None:
    token = await node.person("ann", "reviewer")
    created = await node.create(token)
    browser = visitor(node)
    await browser.post(f"/sign-in/{await link(node, 'ann')}", {})
    key = (await browser.page("/")).form("/sign-out").fields["csrf"]
    form = {"csrf": key, "decision": "approve", "digest": created["digest"]}
    answer = await browser.post(f"/breakpoints/{created['id']}/decide", form)
    assert answer.status_code == 403
    assert "You cannot respond to your own breakpoint" in answer.text


async def test_a_vote_is_shown_and_can_be_changed_until_the_decision(node: Node) -> None:
    for name in ("bea", "cem"):
        await person(node, name, "reviewer", password=None)
    browser = await signed_in(node, "ann")
    created = await node.create(payload={"question": "?", "expert": ["ann", "bea", "cem"], "strategy": "quorum"})
    page = await confirmation(browser, created["id"], decision="approve")
    assert "Your answer is one of 3 votes." in page.text
    answer = await browser.post(page.form("/decide").action, page.form("/decide").fields)
    page = await browser.page(answer.headers["location"])
    text = " ".join(page.text.split())
    assert "Other reviewers still need to answer." in text
    page = await browser.page(f"/breakpoints/{created['id']}")
    text = " ".join(page.text.split())
    assert "pending bea" in text
    assert "You approved this" in text
    await browser.decide(created["id"], "reject", comment="On second thoughts, no.")
    responses = (await seen(node, created["id"]))["responses"]
    assert [(each["respondedBy"], each["approved"]) for each in responses] == [("ann", False)]


async def test_a_second_answer_for_the_same_expert_is_refused(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    admin = await node.token("admin")
    await person(node, "cem", "reviewer", password=None)
    await node.call("PUT", "/api/groups/team", admin, json={"members": ["ann", "bea"]})
    created = await node.create(payload={"question": "?", "expert": ["team", "cem"], "strategy": "collect-all"})
    page = await confirmation(bea, created["id"], decision="approve")
    await ann.decide(created["id"], "approve")
    answer = await bea.post(page.form("/decide").action, page.form("/decide").fields)
    assert answer.status_code == 409
    assert "Someone has already answered for team." in answer.text


async def test_admins_are_warned_that_their_decision_is_an_override(node: Node) -> None:
    await person(node, "bea", "reviewer", password=None)
    created = await node.create(payload={"question": "?", "expert": "bea"})
    browser = await signed_in(node, "root", "admin")
    assert "recorded as an override" in (await browser.page(f"/breakpoints/{created['id']}")).text
    page = await confirmation(browser, created["id"], decision="approve")
    assert "recorded as an override" in page.text
    await browser.post(page.form("/decide").action, page.form("/decide").fields)
    assert (await seen(node, created["id"]))["responses"][0]["override"] is True


async def test_a_comment_is_displayed_without_deciding(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.send(f"/breakpoints/{created['id']}", "/comment", text=" Who is on call? \r\n")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        f"/breakpoints/{created['id']}?said=commented#comments",
    )
    found = await seen(node, created["id"])
    assert (found["status"], found["feedback"][0]["comment"]) == ("waiting", "Who is on call?")
    assert "Who is on call?" in (await browser.page(f"/breakpoints/{created['id']}")).text


@pytest.mark.parametrize("text", ["", " \n ", "x" * 20_001, "a\x00b"])
async def test_empty_oversized_and_malformed_comments_are_refused(node: Node, text: str) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.send(f"/breakpoints/{created['id']}", "/comment", text=text)
    assert answer.status_code == 422
    assert (await seen(node, created["id"]))["feedback"] == []


async def test_an_expired_session_redirects_to_sign_in_and_back_to_the_breakpoint(
    node: Node, clock: ManualClock
) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = (await browser.page(f"/breakpoints/{created['id']}")).form("/confirm")
    clock.advance(13 * 3600)
    answer = await browser.post(form.action, form.fields | {"decision": "approve"})
    assert answer.headers["location"] == f"/sign-in?next=%2Fbreakpoints%2F{created['id']}"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"decision=approve&csrf=%ff", "application/x-www-form-urlencoded", 422),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 422),
        (b"&".join(b"a%d=1" % n for n in range(1000)), "application/x-www-form-urlencoded", 422),
        (b"x" * (1024 * 1024 + 1), "application/x-www-form-urlencoded", 413),
        (b"{}", "application/json", 415),
        (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x", 415),
    ],
)
async def test_a_malformed_form_body_gets_an_html_error_page(
    node: Node, content: bytes, kind: str, status: int
) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.client.post(
        f"/breakpoints/{created['id']}/decide", content=content, headers={"content-type": kind}
    )
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
