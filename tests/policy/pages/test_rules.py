"""Rule pages: create, test, change, observe and remove rules, with permission and with a reason."""

import json
import re
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from assent.kernel.settings import Settings
from tests.support.nodes import ManualClock, Node
from tests.web.corpus import SPOOFS, XSS
from tests.web.reading import Form, Page
from tests.web.visitors import Visitor, signed_in

DAY = 86_400
HTMX = {"accept": "text/html", "hx-request": "true"}


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def rita(node: Node) -> Visitor:
    return await signed_in(node, "rita", "rule-admin")


async def send(browser: Visitor, path: str, address: str, typed: dict[str, str]) -> httpx2.Response:
    """Open a page, and fill in and submit the form with this action URL; the form also has a field named `action`."""
    form = (await browser.page(path)).form(address)
    return await browser.post(form.action, form.fields | typed)


def switch(page: Page, address: str) -> Form:
    """Return the form that enables or disables a rule."""
    return [form for form in page.forms if form.action == address][-1]


async def write(browser: Visitor, pattern: str, **typed: str) -> str:
    """Create a rule with the form, and return its URL."""
    given = {"action": "auto-approve", "mode": "live", "why": "To test.", "do": "save", "pattern": pattern} | typed
    answer = await send(browser, "/rules/new", "/rules", given)
    assert answer.status_code == 303, answer.text
    address: str = answer.headers["location"]
    return address


async def rules(node: Node) -> list[dict[str, Any]]:
    answer = await node.call("GET", "/api/rules", await node.token("admin"))
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_a_rule_can_be_created_changed_disabled_and_removed(node: Node) -> None:
    browser = await rita(node)
    assert "No rules yet" in (await browser.page("/rules")).text
    one = await write(browser, "deploy.*", note="Routine", expires="2030-01-31T18:00")
    (rule,) = await rules(node)
    assert (rule["pattern"], rule["note"], rule["source"], rule["createdBy"]) == (
        "deploy.*", "Routine", "web", "person:rita",
    )  # fmt: skip
    assert rule["expiresAt"] == "2030-01-31T18:00:00.000000Z"
    listed = await browser.page("/rules")
    assert "deploy.*" in listed.text
    assert one in listed.links()

    typed = {"pattern": "deploy.api", "action": "never-auto-approve", "mode": "live", "note": "", "place": "7"}
    typed |= {"enabled": "yes", "expires": "2030-01-31T18:00", "why": "Only one."}
    answer = await send(browser, one, one, typed)
    assert answer.status_code == 303, answer.text
    (rule,) = await rules(node)
    assert (rule["pattern"], rule["action"], rule["note"], rule["order"]) == (
        "deploy.api", "never-auto-approve", None, 7,
    )  # fmt: skip
    assert rule["expiresAt"] == "2030-01-31T18:00:00.000000Z", "left alone, it stays what it was"

    form = switch(await browser.page(one), one)
    assert (await browser.post(form.action, form.fields | {"why": "Not now."})).status_code == 303
    assert [each["enabled"] for each in await rules(node)] == [False]

    page = await browser.page(one)
    assert "Only one." in page.text
    assert "Not now." in page.text
    assert re.search(r"pattern: deploy\.\* → deploy\.api", " ".join(page.text.split()))

    answer = await browser.send(f"{one}/remove", "/remove", why="Done with it.")
    assert answer.headers["location"] == "/rules?removed=yes"
    assert await rules(node) == []
    gone = await browser.page(one)
    assert "Done with it." in gone.text
    assert "removed" in gone.text
    assert [form.action for form in gone.forms if "rules" in form.action] == []


async def test_every_rule_change_requires_a_reason(node: Node) -> None:
    browser = await rita(node)
    typed = {"pattern": "a", "action": "auto-approve", "mode": "live", "do": "save"}
    refused = await send(browser, "/rules/new", "/rules", typed)
    assert refused.status_code == 422
    assert await rules(node) == []
    one = await write(browser, "a")
    form = switch(await browser.page(one), one)
    for path, fields in ((one, form.fields), (f"{one}/remove", form.fields)):
        answer = await browser.post(path, fields | {"why": "  "})
        assert answer.status_code == 422
        assert "recorded in the history" in answer.text
    (rule,) = await rules(node)
    assert (rule["enabled"], rule["version"]) == (True, 1)


async def test_concurrent_changes_to_a_rule_are_not_overwritten(node: Node) -> None:
    browser, other = await rita(node), await signed_in(node, "rob", "rule-admin")
    one = await write(browser, "a")
    mine = (await browser.page(one)).form(one)
    theirs = switch(await other.page(one), one)
    await other.post(one, theirs.fields | {"why": "First."})
    for path in (one, f"{one}/remove"):
        answer = await browser.post(path, mine.fields | {"pattern": "b", "why": "Second."})
        assert answer.status_code == 412
        assert "Nothing was changed" in answer.text
    (rule,) = await rules(node)
    assert (rule["pattern"], rule["version"]) == ("a", 2)


@pytest.mark.parametrize("role", ["viewer", "reviewer", "auditor"])
async def test_people_without_write_permission_can_only_read_and_test_rules(node: Node, role: str) -> None:
    writer, reader = await rita(node), await signed_in(node, "val", role)
    one = await write(writer, "a")
    key = (await reader.page("/rules")).form("/sign-out").fields["csrf"]
    for path in ("/rules", one, "/rules/test?pattern=a", "/rules/rules.json"):
        assert (await reader.get(path)).status_code == 200, path
    assert not [form for form in (await reader.page(one)).forms if "/rules" in form.action]
    for path in ("/rules/new", f"{one}/remove", "/rules/import"):
        assert (await reader.get(path)).status_code == 403, path
    full = {"csrf": key, "pattern": "b", "action": "auto-approve", "why": "x", "version": "1", "enabled": "no"}
    for path in ("/rules", one, f"{one}/remove", "/rules/import"):
        assert (await reader.post(path, full)).status_code == 403, path
        assert (await reader.post(path, full | {"csrf": "wrong"})).status_code == 403, path
    (rule,) = await rules(node)
    assert (rule["pattern"], rule["enabled"], rule["version"]) == ("a", True, 1)


async def test_pages_for_nonexistent_rules_return_404(node: Node) -> None:
    browser = await rita(node)
    for path in ("/rules/rule-0", "/rules/nonsense", "/rules/rule-0/remove", "/rules/rule-%00", f"/rules/{'x' * 300}"):
        assert (await browser.get(path)).status_code == 404, path


async def test_an_invalid_pattern_is_shown_with_the_error_position(node: Node) -> None:
    browser = await rita(node)
    bad = "deploy.*(tags contains 'a'\n AND colour = 'red')"
    shown = await browser.page("/rules/test?" + _query(bad))
    assert "Line 2, column 6" in shown.text
    assert "AND colour = 'red')" in shown.text
    assert any("caret" in attributes.get("class", "") for attributes in shown.all("span"))
    key = (await browser.page("/rules/new")).form("/rules").fields
    given = key | {"action": "auto-approve", "mode": "live", "why": "x", "do": "save"}
    for wrong in (bad, "", "a b", "x" * 2001, "a(payload.b matches)", "*" * 1999 + "("):
        answer = await browser.post("/rules", given | {"pattern": wrong})
        assert answer.status_code == 422, wrong
    for name, value in {"mode": "loud", "action": "maybe", "expires": "soon", "note": "n" * 1001}.items():
        answer = await browser.post("/rules", given | {"pattern": "a", name: value})
        assert answer.status_code == 422, name
    assert (await browser.post("/rules", given | {"pattern": "a", "expires": "2001-01-01T00:00"})).status_code == 422
    assert await rules(node) == []


def _query(pattern: str, action: str = "auto-approve") -> str:
    return urlencode({"pattern": pattern, "action": action})


async def past(node: Node, clock: ManualClock) -> dict[str, str]:
    """Create breakpoints over several days: approved, rejected and pending ones."""
    reviewer = await node.token("reviewer")
    ids: dict[str, str] = {}
    for n, name in enumerate(("approved", "rejected", "other", "waiting")):
        gate = "deploy.api" if name != "other" else "drop.table"
        body = {"question": f"Deploy {name}?", "breakpointId": gate, "cost": n}
        created = await node.create(title=f"Deploy {name}", tags=["staging"], payload=body)
        ids[name] = created["id"]
        if name in {"approved", "rejected"}:
            await node.feedback(created["id"], reviewer, approved=name == "approved", comment="Seen.")
        clock.advance(DAY)
    return ids


async def test_a_pattern_is_explained_and_back_tested_on_recent_breakpoints(node: Node, clock: ManualClock) -> None:
    ids = await past(node, clock)
    browser = await signed_in(node, "val", "viewer")
    shown = await browser.page("/rules/test?" + _query("deploy.*(payload.cost < 2 AND tags contains 'staging')"))
    text = " ".join(shown.text.split())
    assert "payload.cost < 2" in text
    assert "did not match" in text
    assert "2 of 4 breakpoints match" in text
    assert f"/breakpoints/{ids['rejected']}" in shown.links()
    (figure,) = shown.all("figure")
    chart = json.loads(figure["data-chart"])
    assert {each["label"]: sum(each["values"]) for each in chart["series"]} == {
        "approved by people": 1, "rejected by people": 1, "auto-approved": 0, "expired or cancelled": 0,
        "still pending": 0,
    }  # fmt: skip
    assert len(chart["at"]) == 31

    never = await browser.page("/rules/test?" + _query("deploy.*", "never-auto-approve"))
    assert "sent 3 of them to a reviewer" in " ".join(never.text.split())
    nothing = await browser.page("/rules/test?" + _query("nothing.like.this"))
    assert "No matches among" in nothing.text
    assert "no recent breakpoint" in nothing.text


async def test_an_htmx_request_gets_only_the_requested_part(node: Node, clock: ManualClock) -> None:
    await past(node, clock)
    browser = await signed_in(node, "val", "viewer")
    path = "/rules/test?" + _query("deploy.*")
    quick = await browser.client.get(path, headers=HTMX | {"hx-target": "div#trial"})
    assert "<html" not in quick.text
    assert "deploy.api" in quick.text
    assert "data-chart" not in quick.text, "the back-test comes when typing has stopped"
    (later,) = re.findall(r'hx-get="([^"]+)"', quick.text)
    whole = await browser.client.get(later.replace("&amp;", "&"), headers=HTMX | {"hx-target": "div#backtest"})
    assert "<html" not in whole.text
    assert "data-chart" in whole.text


async def test_testing_a_pattern_saves_no_rule_and_keeps_the_form_values(node: Node) -> None:
    browser = await rita(node)
    typed = {"pattern": "a.*", "action": "never-auto-approve", "note": "N", "do": "test"}
    answer = await send(browser, "/rules/new", "/rules", typed)
    assert answer.status_code == 303
    assert await rules(node) == []
    assert "csrf" not in answer.headers["location"]
    back = await browser.get(answer.headers["location"])
    assert 'value="N"' in back.text
    assert re.search(r'value="never-auto-approve" selected', back.text)
    assert "a.*" in Page(back.text).text


async def test_the_page_for_a_shadow_rule_lists_decisions_that_disagree_with_the_rule(node: Node) -> None:
    browser = await rita(node)
    one = await write(browser, "deploy.*", mode="shadow")
    reviewer = await node.token("reviewer")
    for approved in (True, True, False):
        created = await node.create(title="Deploy it", payload={"question": "?", "breakpointId": "deploy.api"})
        await node.feedback(created["id"], reviewer, approved=approved, comment="Not on a Friday.")
    page = await browser.page(one)
    assert re.search(r"people agreed\s*2", page.text)
    assert re.search(r"people disagreed\s*1", page.text)
    assert f"/breakpoints/{created['id']}" in page.links()
    assert "Not on a Friday." in page.text


async def test_rules_can_be_exported_and_imported(node: Node) -> None:
    browser = await rita(node)
    await write(browser, "deploy.*", note="Routine")
    answer = await browser.get("/rules/rules.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="rules.json"'
    document = answer.json()
    document["rules"].append({"pattern": "confirm.*", "action": "auto-approve"})
    text = json.dumps(document)
    seen = await browser.send("/rules/import", "/import", file=text, do="check")
    assert seen.status_code == 200
    assert "1 added, 0 changed, 1 unchanged, 0 removed. Total after the import: 2." in Page(seen.text).text
    assert len(await rules(node)) == 1
    assert (await browser.send("/rules/import", "/import", file=text, do="import", why=" ")).status_code == 422
    done = await browser.send("/rules/import", "/import", file=text, do="import", why="Moved over.")
    assert done.status_code == 303
    assert [each["pattern"] for each in await rules(node)] == ["deploy.*", "confirm.*"]
    for wrong in ("", "{", "[]", '{"schemaVersion": "x", "rules": []}', '{"rules": 1}', '{"a": 1, "a": 2}'):
        refused = await browser.send("/rules/import", "/import", file=wrong, do="import", why="x")
        assert refused.status_code in {400, 422}, wrong
    assert len(await rules(node)) == 2


async def test_a_long_list_of_rules_is_paginated(node: Node) -> None:
    browser = await rita(node)
    entries = [{"pattern": f"gate-{n:03}", "action": "auto-approve"} for n in range(120)]
    body = {"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": entries}
    await browser.send("/rules/import", "/import", file=json.dumps(body), do="import", why="Many.")
    first = await browser.page("/rules")
    assert "1–100 of 120 rules" in first.text
    (following,) = [link for link in first.links() if "after=" in link]
    second = await browser.page(following)
    assert "101–120 of 120 rules" in second.text
    assert "gate-119" in second.text


async def test_html_in_rules_and_breakpoints_is_escaped(node: Node) -> None:
    browser = await rita(node)

    async def pages(text: str) -> list[Page]:
        tag = text[:100]
        payload = {"question": text, "breakpointId": "gate"}
        await node.create(agentId=text, title=text, tags=[tag], payload=payload)
        one = await write(browser, "gate", note=text, why=text)
        found = [
            await browser.page(one),
            await browser.page("/rules/test?" + _query("gate(tags contains 'a' AND title = 'b')")),
            Page((await browser.get("/rules/test?" + _query(f"gate(title = {text}"))).text),
            await browser.page("/rules"),
        ]
        await browser.send(f"{one}/remove", "/remove", why=text)
        return found

    expected = [page.structure for page in (await pages("harmless"))[:1]]
    for text in XSS[::5]:
        found = await pages(text)
        assert [page.structure for page in found[:1]] == expected, text
        for page in found:
            assert all(tag not in {"iframe", "object", "embed"} for tag, _ in page.elements)
            assert not [each for _, attributes in page.elements for each in attributes if each.startswith("on")]
            sources = [each.get("src", "/static/") for each in page.all("script")]
            assert all(each.startswith("/static/") for each in sources)


@pytest.mark.parametrize("name", ["bidi override", "zero-width space", "tag characters"])
async def test_spoofing_characters_in_tags_and_notes_are_made_visible(node: Node, name: str) -> None:
    text, shown = SPOOFS[name]
    browser = await rita(node)
    await node.create(tags=[text[:100]], title=text, payload={"question": "?", "breakpointId": "gate"})
    one = await write(browser, "gate", note=text, why=text)
    for path in (one, "/rules", "/rules/test?" + _query("gate(tags contains 'a')")):
        page = await browser.page(path)
        assert text not in page.text, path
        assert shown in page.text, path
