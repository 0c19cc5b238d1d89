"""“Always approve” proposes the narrowest rule and back-tests it, without deciding the breakpoint."""

from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import signed_in


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def raised(node: Node, **payload: Any) -> str:
    body = {"question": "Restart?", "breakpointId": "restart.api"} | payload
    created = await node.create(agentId="ops-bot", title="Restart", tags=["staging"], payload=body)
    return f"/breakpoints/{created['id']}"


async def rules(node: Node) -> list[dict[str, Any]]:
    answer = await node.call("GET", "/api/rules", await node.token("admin"))
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_saving_a_proposed_rule_leaves_its_breakpoint_pending(node: Node) -> None:
    browser = await signed_in(node, "rita", "rule-admin", "reviewer")
    before = await raised(node)
    await node.feedback(before.rpartition("/")[2], await node.token("reviewer"), approved=True)
    one = await raised(node)
    page = await browser.page(f"{one}/always")
    text = " ".join(page.text.split())
    assert "restart.api(tags contains 'staging')" in text
    assert "does not approve this breakpoint" in text
    assert "2 of 2 breakpoints match" in text
    assert one in page.links(), "it is among what waits and would have matched"

    pattern = "restart.api(tags contains 'staging')"
    saved = await browser.send(f"{one}/always", "/always", pattern=pattern, note="Routine", do="save")
    assert saved.status_code == 303
    (rule,) = await rules(node)
    assert (rule["pattern"], rule["action"], rule["note"], rule["source"]) == (
        pattern, "auto-approve", "Routine", "always-approve",
    )  # fmt: skip
    after = await browser.page(saved.headers["location"])
    assert "This breakpoint is still pending" in after.text
    assert f"{one}#decide" in after.links()
    waiting = await node.call("GET", f"/api{one}/status", await node.token("agent"))
    assert waiting.json()["status"] == "waiting"
    following = await node.create(
        agentId="ops-bot", tags=["staging"], payload={"question": "Restart?", "breakpointId": "restart.api"}
    )
    assert following["status"] == "released"


async def test_a_dialog_request_gets_only_the_inner_part_of_the_page(node: Node) -> None:
    browser = await signed_in(node, "rita", "rule-admin")
    headers = {"accept": "text/html", "hx-request": "true", "hx-target": "dialog#dialog"}
    answer = await browser.client.get(f"{await raised(node)}/always", headers=headers)
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert "restart.api" in Page(answer.text).text


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"presentAlwaysApprove": False}, "does not allow “Always approve”"),
        ({"hardStop": True}, "always requires human approval"),
    ],
)
async def test_no_rule_is_offered_if_the_agent_always_requires_approval(
    node: Node, payload: dict[str, Any], said: str
) -> None:
    browser = await signed_in(node, "rita", "rule-admin")
    one = await raised(node, **payload)
    shown = await browser.get(f"{one}/always")
    assert shown.status_code == 422
    assert said in shown.text
    key = (await browser.page("/rules")).form("/sign-out").fields["csrf"]
    refused = await browser.post(f"{one}/always", {"csrf": key, "pattern": "restart.*", "do": "save"})
    assert refused.status_code == 422
    assert await rules(node) == []


@pytest.mark.parametrize("role", ["viewer", "reviewer", "auditor"])
async def test_always_approve_requires_permission_to_write_rules(node: Node, role: str) -> None:
    browser = await signed_in(node, "val", role)
    one = await raised(node)
    assert (await browser.get(f"{one}/always")).status_code == 403
    key = (await browser.page("/rules")).form("/sign-out").fields["csrf"]
    refused = await browser.post(f"{one}/always", {"csrf": key, "pattern": "restart.*", "do": "save"})
    assert refused.status_code == 403
    assert await rules(node) == []


async def test_an_invalid_rule_is_not_saved_and_the_form_keeps_its_values(node: Node) -> None:
    browser = await signed_in(node, "rita", "rule-admin")
    one = await raised(node)
    for wrong in ({"pattern": "restart.api(tags"}, {"expires": "2001-01-01T00:00"}, {"pattern": ""}):
        typed = {"pattern": "restart.api", "note": "Keep me", "do": "save"} | wrong
        answer = await browser.send(f"{one}/always", "/always", **typed)
        assert answer.status_code == 422, wrong
        assert 'value="Keep me"' in answer.text
    tested = await browser.send(f"{one}/always", "/always", pattern="restart.*", do="test")
    assert "restart.*" in (await browser.page(tested.headers["location"])).text
    assert (await browser.get("/breakpoints/bp_nothing/always")).status_code == 404
    assert await rules(node) == []


BASH = {"breakpointId": "tool.bash", "tool": "Bash", "arguments": {"command": "git status"}, "directory": "/srv/shop"}
SETTINGS = {"breakpointId": "tool.write", "tool": "Write", "arguments": {"file_path": ".claude/settings.json"}}


async def test_the_rule_proposed_for_a_tool_call_matches_only_that_call(node: Node) -> None:
    browser = await signed_in(node, "rita", "rule-admin", "reviewer")
    one = await raised(node, **BASH)
    assert f"{one}/always" in (await browser.page(one)).links()
    assert "payload.arguments.command = 'git status'" in (await browser.page(f"{one}/always")).text
    proposed = await node.call("POST", f"/api{one}/always-approve", await node.token("admin"), json={})
    pattern = proposed.json()["pattern"]
    assert "payload.arguments.command = 'git status' AND payload.directory = '/srv/shop'" in pattern
    assert (await browser.send(f"{one}/always", "/always", pattern=pattern, do="save")).status_code == 303
    again = await node.create(agentId="ops-bot", tags=["staging"], payload=BASH)
    other = await node.create(
        agentId="ops-bot", tags=["staging"], payload=BASH | {"arguments": {"command": "git push"}}
    )
    assert (again["status"], other["status"]) == ("released", "waiting")


@pytest.mark.parametrize("payload", [{"breakpointId": "tool.bash"}, SETTINGS])
async def test_no_rule_is_offered_for_an_entire_tool_or_a_gate_configuration_file(
    node: Node, payload: dict[str, Any]
) -> None:
    browser = await signed_in(node, "rita", "rule-admin", "reviewer")
    one = await raised(node, **payload)
    assert f"{one}/always" not in (await browser.page(one)).links()
    assert (await browser.get(f"{one}/always")).status_code == 422
    answer = await node.call("POST", f"/api{one}/always-approve", await node.token("admin"), json={})
    assert answer.status_code == 422
    assert "No rule can be suggested" in answer.json()["detail"]


async def test_a_catch_all_rule_does_not_approve_changes_to_agent_settings(node: Node) -> None:
    admin = await node.token("admin")
    await node.call("POST", "/api/rules", admin, json={"pattern": "tool.*", "action": "auto-approve"})
    asked = await node.create(agentId="ops-bot", payload=SETTINGS | {"autoApproveAfterN": 1})
    assert asked["status"] == "waiting"
    whole = (await node.call("GET", f"/api/breakpoints/{asked['id']}", admin)).json()
    assert whole["autoApproval"]["recommended"] is False
    assert ".claude" in whole["autoApproval"]["reason"]
