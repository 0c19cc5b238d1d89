"""Undo, bulk answers and triage on the pages, with plain forms and without scripts."""

import re
from typing import Any

import pytest

from assent.breakpoints.usecases.undo_window import HoldingService
from assent.kernel.settings import Settings
from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in

POSTS = ("decide", "confirm", "comment", "undo", "claim", "snooze")
LISTS = ("/bulk/confirm", "/bulk/decide", "/bulk/undo", "/views", "/views/remove")


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found.model_copy(update={"undo_seconds": 6})


async def seen(node: Node, breakpoint_id: str) -> dict[str, Any]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}", await node.token("agent"))
    found: dict[str, Any] = answer.json()
    return found


async def csrf(browser: Visitor) -> str:
    return (await browser.page("/")).form("/sign-out").fields["csrf"]


async def test_undoing_an_answer_restores_it_in_the_form(node: Node) -> None:
    browser = await signed_in(node)
    form = {"properties": {"budget": {"type": "integer"}, "region": {"type": "string", "enum": ["eu", "us"]}}}
    created = await node.create(payload={"question": "?", "options": ["a", "b"], "form": form})
    typed = {"option": "1", "field-0": "5", "field-1": "1", "comment": "My words"}
    answer = await browser.decide(created["id"], "approve", **typed)
    page = await browser.page(answer.headers["location"])
    assert "Sending in 6 s." in " ".join(page.text.split())
    meanwhile = await seen(node, created["id"])
    assert (meanwhile["status"], meanwhile["version"], meanwhile["responses"]) == ("waiting", created["version"], [])
    undone = await browser.post(page.form("/undo").action, page.form("/undo").fields)
    assert undone.status_code == 200
    page = Page(undone.text)
    assert "Undone. The agent was not notified." in page.text
    assert "My words" in page.text
    field = next(control for control in page.all("input") if control.get("id") == "field-0")
    assert field["value"] == "5"
    assert (await seen(node, created["id"]))["version"] == created["version"]


async def test_an_answer_cannot_be_undone_after_it_takes_effect(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.decide(created["id"], "approve")
    undo = (await browser.page(answer.headers["location"])).form("/undo")
    clock.advance(7)
    while await node.assent.database.write(node.assent[HoldingService].commit_due):
        pass
    assert (await seen(node, created["id"]))["decision"] == "approved"
    late = await browser.post(undo.action, undo.fields)
    assert late.status_code == 409
    assert "It was approved by ann" in late.text


async def test_another_reviewer_sees_a_pending_answer_and_cannot_undo_it(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    await ann.decide(created["id"], "approve")
    assert "approving…" in (await ann.page("/")).text
    page = await bea.page(f"/breakpoints/{created['id']}?after={created['id']}")
    assert "ann is approving, 6 s" in " ".join(page.text.split())
    assert "Sending" not in page.text
    assert "ann is approving, 6 s" in " ".join((await bea.page("/")).text.split())
    undo = await bea.post(f"/breakpoints/{created['id']}/undo", {"csrf": await csrf(bea)})
    assert undo.status_code == 200
    assert "approving…" in (await ann.page("/")).text, "only its author undoes an answer"


async def test_bulk_answers_exclude_other_gates_and_list_the_reasons(node: Node) -> None:
    browser = await signed_in(node)
    star = {"question": "Star?", "breakpointId": "star"}
    same = [await node.create(title=f"Star {n}", payload=star) for n in range(3)]
    alone = [
        await node.create(title="Another", payload={"question": "?", "breakpointId": "other"}),
        await node.create(title="Risky", payload=star | {"risk": "high"}),
        await node.create(title="Stop", payload=star | {"hardStop": True}),
        await node.create(title="For ever", tags=["irreversible"], payload=star),
        await node.create(title="Which", payload=star | {"options": ["a", "b"]}),
    ]
    picks = {f"pick-{each['id']}": "1" for each in (*same, *alone)}
    answer = await browser.send("/", "/bulk/confirm", decision="approve", **picks)
    text = " ".join(Page(answer.text).text.split())
    assert "Approve 3 breakpoints?" in text
    for why in ("different gate", "high risk", "hard stop", "irreversible", "needs additional input"):
        assert why in text, why
    form = Page(answer.text).form("/bulk/decide")
    done = await browser.post(form.action, form.fields)
    page = await browser.page(done.headers["location"])
    assert "Answered 3 breakpoints." in page.text
    assert page.text.count("approving…") == 3
    assert {(await seen(node, each["id"]))["status"] for each in (*same, *alone)} == {"waiting"}
    undone = await browser.post(page.form("/bulk/undo").action, page.form("/bulk/undo").fields)
    assert "Undone. The agent was not notified." in undone.text
    assert "approving…" not in undone.text
    again = await browser.post(page.form("/bulk/undo").action, page.form("/bulk/undo").fields)
    assert "Nothing to undo" in again.text


async def test_undoing_a_batch_reports_the_answers_already_sent(node: Node) -> None:
    browser = await signed_in(node)
    late = await node.create(ttlSeconds=1, payload={"question": "?", "breakpointId": "star"})
    calm = await node.create(payload={"question": "?", "breakpointId": "star"})
    picks = {f"pick-{each['id']}": each["digest"] for each in (late, calm)}
    done = await browser.post("/bulk/decide", {"csrf": await csrf(browser), "decision": "approve"} | picks)
    page = await browser.page(done.headers["location"])
    assert "Answered 2 breakpoints." in page.text
    undone = await browser.post(page.form("/bulk/undo").action, page.form("/bulk/undo").fields)
    assert "Undone: 1. Already sent: 1." in undone.text
    assert [(await seen(node, each["id"]))["status"] for each in (late, calm)] == ["released", "waiting"]


async def test_bulk_answers_cannot_be_overrides(node: Node) -> None:
    await person(node, "bea", "reviewer")
    browser = await signed_in(node, "root", "admin")
    created = await node.create(payload={"question": "?", "expert": "bea"})
    picks = {f"pick-{created['id']}": created["digest"]}
    answer = await browser.send("/", "/bulk/confirm", decision="approve", **picks)
    assert "your answer would override the assigned reviewers" in answer.text
    done = await browser.post("/bulk/decide", {"csrf": await csrf(browser), "decision": "approve"} | picks)
    assert "1 could not be answered" in (await browser.page(done.headers["location"])).text
    assert (await seen(node, created["id"]))["responses"] == []


@pytest.mark.parametrize(
    "query", ["batch=a&count=²", "batch=a&count=" + "9" * 250, "batch=²", "said=undone", "after=x"]
)
async def test_a_crafted_query_string_does_not_display_a_false_notice(node: Node, query: str) -> None:
    page = await (await signed_in(node)).page(f"/?{query}")
    assert not re.search("Undone|Approved|Rejected|Sending", page.text)


async def test_bulk_answers_from_a_stale_page_are_refused(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = {"csrf": await csrf(browser), "decision": "approve", f"pick-{created['id']}": "0" * 64}
    done = await browser.post("/bulk/decide", form)
    page = await browser.page(done.headers["location"])
    assert "1 could not be answered" in page.text
    assert "approving…" not in page.text


async def test_a_bulk_rejection_requires_a_reason(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = {"csrf": await csrf(browser), "decision": "reject", f"pick-{created['id']}": created["digest"]}
    answer = await browser.post("/bulk/decide", form)
    assert "A reason is required" in answer.text
    assert "rejecting…" not in (await browser.page("/")).text


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_an_oversized_bulk_comment_is_refused_and_kept_in_the_form(node: Node, decision: str) -> None:
    browser = await signed_in(node)
    created = await node.create()
    comment = "x" * 20_001
    picks = {f"pick-{created['id']}": created["digest"]}
    form = {"csrf": await csrf(browser), "decision": decision, "comment": comment} | picks
    answer = await browser.post("/bulk/decide", form)
    assert answer.status_code == 422
    assert "The comment has 20,001 characters, but the limit is 20,000. Shorten it." in answer.text
    page = Page(answer.text)
    assert comment in page.text
    assert page.form("/bulk/decide").fields.items() >= picks.items()
    assert (await seen(node, created["id"]))["status"] == "waiting"


async def test_claims_snoozes_and_views_work_without_scripts(node: Node) -> None:
    ann = await signed_in(node, "ann")
    await person(node, "bea", "reviewer")
    created = await node.create(tags=["x"])
    one = f"/breakpoints/{created['id']}"
    for form, said in (
        ({"to": "me"}, "claimed by ann"),
        ({"to": "bea"}, "claimed by bea"),
    ):
        done = await ann.post(f"{one}/claim", {"csrf": await csrf(ann)} | form)
        assert said in " ".join((await ann.page(done.headers["location"])).text.split())
    done = await ann.post(f"{one}/snooze", {"csrf": await csrf(ann), "minutes": "60"})
    assert "Snoozed" in (await ann.page(done.headers["location"])).text
    assert created["id"] not in str((await ann.page("/")).links())
    assert created["id"] in str((await ann.page("/?snoozed=1")).links())
    done = await ann.post(f"{one}/snooze", {"csrf": await csrf(ann), "minutes": "0"})
    assert created["id"] in str((await ann.page("/")).links())
    saved = await ann.post("/views", {"csrf": await csrf(ann), "name": "Mine <b>", "query": "tag=x&mine=1"})
    assert saved.headers["location"] == "/?mine=1&tag=x"
    assert "Mine <b>" in (await ann.page("/?mine=1&tag=x")).text
    await ann.post("/views/remove", {"csrf": await csrf(ann), "name": "Mine <b>"})
    assert "Mine <b>" not in (await ann.page("/?mine=1&tag=x")).text


@pytest.mark.parametrize("form", [{}, {"minutes": "x"}, {"minutes": "-5"}, {"minutes": "999999"}, {"minutes": "²"}])
async def test_an_invalid_snooze_duration_is_refused(node: Node, form: dict[str, str]) -> None:
    browser = await signed_in(node)
    created = await node.create()
    answer = await browser.post(f"/breakpoints/{created['id']}/snooze", {"csrf": await csrf(browser)} | form)
    assert answer.status_code == 422
    assert created["id"] in str((await browser.page("/")).links())


async def test_forms_without_a_csrf_token_or_from_another_origin_are_refused(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    paths = [*(f"/breakpoints/{created['id']}/{each}" for each in POSTS), *LISTS]
    key = await csrf(browser)
    for path in paths:
        sent = {"decision": "approve", "digest": created["digest"], "to": "me", "minutes": "60", "text": "x"}
        assert (await browser.post(path, sent)).status_code == 403, path
        assert (await browser.post(path, sent | {"csrf": key}, origin="https://evil.example")).status_code == 403, path
    assert (await seen(node, created["id"]))["version"] == created["version"]
    assert "approving…" not in (await browser.page("/")).text


async def test_forms_cannot_change_breakpoints_in_another_project(node: Node) -> None:
    admin = await node.token("admin")
    await node.call("POST", "/api/projects", admin, json={"id": "other"})
    theirs = await node.create(await node.token("agent", project="other", name="theirs"))
    browser = await signed_in(node)
    key = await csrf(browser)
    sent = {"csrf": key, "decision": "approve", "digest": theirs["digest"], "to": "me", "minutes": "60", "text": "x"}
    for each in POSTS:
        assert (await browser.post(f"/breakpoints/{theirs['id']}/{each}", sent)).status_code == 404, each
    for path in ("/bulk/confirm", "/bulk/decide"):
        answer = await browser.post(path, sent | {f"pick-{theirs['id']}": theirs["digest"]})
        assert answer.status_code == 404, path


@pytest.mark.parametrize("role", ["viewer", "auditor", "rule-admin"])
async def test_people_without_permission_cannot_change_anything_with_a_form(node: Node, role: str) -> None:
    browser = await signed_in(node, "vic", role)
    created = await node.create()
    sent = {"csrf": await csrf(browser), "decision": "approve", "digest": created["digest"], "to": "me", "text": "x"}
    for each in POSTS:
        answer = await browser.post(f"/breakpoints/{created['id']}/{each}", sent | {"minutes": "60"})
        assert answer.status_code == (200 if each == "undo" else 403), each
    done = await browser.post("/bulk/decide", sent | {f"pick-{created['id']}": created["digest"]})
    assert "1 could not be answered" in (await browser.page(done.headers["location"])).text
    assert (await seen(node, created["id"]))["version"] == created["version"]


async def test_a_rejection_cancels_a_pending_approval_and_notifies_its_author(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create(title="Deploy")
    await ann.decide(created["id"], "approve", comment="Looks fine to me.")
    confirmed = await bea.send(f"/breakpoints/{created['id']}", "/confirm", decision="reject", comment="Not today.")
    assert "ann is approving this. Your rejection takes effect immediately" in confirmed.text
    answer = await bea.decide(created["id"], "reject", comment="Not today.")
    told = " ".join((await bea.page(answer.headers["location"])).text.split())
    assert "Rejected Deploy." in told
    assert "This cancelled the pending approval by ann." in told
    assert (await seen(node, created["id"]))["decision"] == "rejected"
    for path in ("/", f"/breakpoints/{created['id']}", "/rules"):
        page = await ann.page(path)
        text = " ".join(page.text.split())
        assert (
            "Your approval was not sent. Deploy: bea rejected the breakpoint. Your comment was saved on the breakpoint."
            in text
        )
    assert "Looks fine to me." in (await ann.page(f"/breakpoints/{created['id']}")).text
    assert "was not sent" not in (await bea.page("/")).text
    form = page.form("/unsent/dismiss")
    fields = form.fields | {"id": re.findall("unsent-(ua_[a-z0-9]+)", (await ann.get("/")).text)[0]}
    assert (await ann.post(form.action, fields)).status_code == 303
    assert "was not sent" not in (await ann.page("/")).text


async def test_an_approval_refused_during_a_pending_rejection_keeps_its_comment(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    await ann.decide(created["id"], "reject", comment="Not today.")
    answer = await bea.send(f"/breakpoints/{created['id']}", "/confirm", decision="approve", comment="But I agree.")
    assert answer.status_code == 409
    assert "ann is rejecting this." in answer.text
    assert "But I agree." in answer.text


async def test_a_late_rejection_displays_its_unsent_reason(node: Node, clock: ManualClock) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    page = await bea.page(f"/breakpoints/{created['id']}")
    await ann.decide(created["id"], "approve")
    clock.advance(7)
    while await node.assent.database.write(node.assent[HoldingService].commit_due):
        pass
    form = page.form("/confirm")
    late = await bea.post(form.action, form.fields | {"decision": "reject", "comment": "Stop, wrong version!"})
    assert late.status_code == 409
    assert "Comment (not sent)" in Page(late.text).text
    assert "Stop, wrong version!" in late.text


async def test_each_failed_bulk_answer_is_listed_with_its_reason(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    star = {"question": "?", "breakpointId": "star"}
    made = [await node.create(title=f"Star {n}", payload=star) for n in range(2)]
    await ann.decide(made[0]["id"], "reject", comment="No.")
    picks = {f"pick-{each['id']}": each["digest"] for each in made}
    form = {"csrf": await csrf(bea), "decision": "approve", "comment": "All good."} | picks
    done = await bea.post("/bulk/decide", form)
    text = " ".join((await bea.page(done.headers["location"])).text.split())
    assert "Answered 1 breakpoint. 1 could not be answered." in text
    assert "Your approval was not sent. Star 0: ann is rejecting this." in text
    assert "Your comment: All good." in text


async def test_undoing_a_batch_restores_its_comment(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    form = {"csrf": await csrf(browser), "decision": "reject", "comment": "A long reason."}
    done = await browser.post("/bulk/decide", form | {f"pick-{created['id']}": created["digest"]})
    page = await browser.page(done.headers["location"])
    undone = await browser.post(page.form("/bulk/undo").action, page.form("/bulk/undo").fields)
    assert "A long reason." in undone.text
