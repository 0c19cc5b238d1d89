"""Every response that contains a rule on part of a command also contains a warning."""

from tests.support.nodes import Node

PREFIX = "shell.*(payload.command startswith 'git status')"


async def test_a_partial_command_rule_has_a_warning_when_created_changed_shown_and_imported(node: Node) -> None:
    admin = await node.token("admin")
    new = {"pattern": PREFIX, "action": "auto-approve"}
    made = (await node.call("POST", "/api/rules", admin, json=new)).json()
    (said,) = made["warnings"]
    assert "'git status; rm -rf ~'" in said
    path = f"/api/rules/{made['id']}"
    assert (await node.call("GET", path, admin)).json()["warnings"] == [said]
    exact = {"pattern": "shell.*(payload.command = 'git status')"}
    assert (await node.call("PATCH", path, admin, json=exact)).json()["warnings"] == []
    assert (await node.call("PATCH", path, admin, json={"pattern": PREFIX})).json()["warnings"] == [said]
    document = {"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [new]}
    exported = (await node.call("GET", "/api/rules/export", admin)).json()
    document["schemaVersion"] = exported["schemaVersion"]
    imported = (await node.call("POST", "/api/rules/import", admin, json=document)).json()
    assert [each["warnings"] for each in imported["items"]] == [[said]]
