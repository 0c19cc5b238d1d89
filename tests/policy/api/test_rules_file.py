"""Import and export of rules: all or nothing, without duplicates, and only by people who may write rules."""

import asyncio
from typing import Any

import pytest

from assent.core.rules_file import SCHEMA_VERSION
from assent.policy.usecases.rules import MAX_RULES
from tests.support.nodes import ManualClock, Node

IMPORT, EXPORT = "/api/rules/import", "/api/rules/export"


def file_of(*patterns: str, **more: Any) -> dict[str, Any]:
    rules = [{"id": f"old-{n}", "pattern": each, "action": "auto-approve", **more} for n, each in enumerate(patterns)]
    return {"schemaVersion": SCHEMA_VERSION, "rules": rules}


async def writer(node: Node) -> str:
    if "rule-writer" not in node.tokens:
        node.tokens["rule-writer"] = await node.person("rita", "rule-admin")
    return node.tokens["rule-writer"]


async def imported(node: Node, document: Any, **query: str) -> dict[str, Any]:
    answer = await node.call("POST", IMPORT, await writer(node), json=document, params=query)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


async def exported(node: Node) -> dict[str, Any]:
    answer = await node.call("GET", EXPORT, await writer(node))
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def listed(node: Node) -> list[dict[str, Any]]:
    answer = await node.call("GET", "/api/rules", await writer(node))
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def counts(done: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return done["added"], done["changed"], done["unchanged"], done["removed"], done["totalRules"]


async def test_an_import_applies_immediately_and_is_idempotent(node: Node) -> None:
    document = file_of("confirm.*", "deploy.*")
    document["rules"][1]["action"] = "never-auto-approve"
    assert counts(await imported(node, document)) == (2, 0, 0, 0, 2)
    made = await node.create(payload={"question": "?", "breakpointId": "confirm.star"})
    assert made["decision"] == "approved"
    before = await listed(node)
    assert counts(await imported(node, document)) == (0, 0, 2, 0, 2)
    assert await listed(node) == before


async def test_imported_rules_keep_their_order_after_the_existing_ones(node: Node) -> None:
    await imported(node, file_of("first"))
    await imported(node, file_of(*(f"p{n}.*" for n in range(40))))
    assert [each["pattern"] for each in await listed(node)] == ["first", *(f"p{n}.*" for n in range(40))]


async def test_an_imported_rule_records_its_importer_and_its_original_author(node: Node, clock: ManualClock) -> None:
    clock.advance(60)
    document = file_of("a.*", createdBy="somebody else", createdAt="2020-01-01T00:00:00Z", source="cli", note="n")
    done = await imported(node, document, why="Moved over.")
    rule_id = done["items"][0]["id"]
    (rule,) = await listed(node)
    assert (rule["id"], rule["createdBy"], rule["source"]) == (rule_id, "person:rita", "import:old-0")
    events = await node.call("GET", f"/api/rules/{rule_id}/events", await writer(node))
    (event,) = events.json()["items"]
    assert (event["actor"], event["metadata"]["why"]) == ("person:rita", "Moved over.")
    assert event["metadata"]["imported"] == {
        "id": "old-0",
        "createdBy": "somebody else",
        "createdAt": "2020-01-01T00:00:00Z",
        "source": "cli",
    }


async def test_an_export_restores_the_rules_in_another_project(node: Node, clock: ManualClock) -> None:
    sent: list[dict[str, Any]] = [
        {"pattern": "a.*", "action": "auto-approve", "expiresAt": "2027-02-01T00:00:00Z", "order": 4},
        {"pattern": "b", "action": "never-auto-approve", "note": "n", "enabled": False, "order": 4},
        {"pattern": "a.*", "action": "auto-approve", "mode": "shadow", "order": 4},
    ]
    for each in sent:
        answer = await node.call("POST", "/api/rules", await writer(node), json=each)
        assert answer.status_code == 201, answer.text
    document = await exported(node)
    clock.advance(30 * 24 * 3600)  # the first rule has expired by now, but is still exported
    assert await exported(node) == document
    assert counts(await imported(node, document)) == (0, 0, 3, 0, 3)
    said = ("pattern", "action", "mode", "enabled", "order", "note", "expiresAt")
    before = [{name: each[name] for name in said} for each in await listed(node)]
    assert counts(await imported(node, file_of(), replace="true")) == (0, 0, 0, 3, 0)
    again = await imported(node, document, replace="true")
    assert counts(again) == (3, 0, 0, 0, 3)
    assert [{name: each[name] for name in said} for each in await listed(node)] == before
    old = {each["id"] for each in document["rules"]}
    assert not old & {each["id"] for each in again["items"]}, "removed rules are created again with new ids"


async def test_importing_an_edited_export_changes_the_original_rules(node: Node) -> None:
    await imported(node, file_of("a.*", "b.*"))
    document = await exported(node)
    document["rules"][0]["pattern"] = "a.narrow"
    del document["rules"][1]
    assert counts(await imported(node, document, replace="true", dryRun="true")) == (0, 1, 0, 1, 1)
    assert [each["pattern"] for each in await listed(node)] == ["a.*", "b.*"]
    done = await imported(node, document, replace="true", why="Narrower.")
    assert [each["outcome"] for each in done["items"]] == ["changed", "removed"]
    (rule,) = await listed(node)
    assert (rule["id"], rule["pattern"], rule["version"]) == (document["rules"][0]["id"], "a.narrow", 2)


async def test_an_import_never_enables_a_disabled_rule(node: Node) -> None:
    document = file_of("a.*")
    rule_id = (await imported(node, document))["items"][0]["id"]
    await node.call("PATCH", f"/api/rules/{rule_id}", await writer(node), json={"enabled": False})
    assert counts(await imported(node, document)) == (0, 0, 1, 0, 1)
    assert [each["enabled"] for each in await listed(node)] == [False]


WRONG: dict[str, Any] = {
    "a pattern": file_of("fine.*", "a(tags = 'x')"),
    "an action": file_of("fine.*", action="sometimes"),
    "a mode": file_of("fine.*", mode="off"),
    "a moment": file_of("fine.*", expiresAt="tomorrow"),
    "an unknown field": file_of("fine.*", conditions=[]),
    "an id twice": file_of("fine.*", "also.fine", id="same"),
    "no pattern": {"schemaVersion": SCHEMA_VERSION, "rules": [{"action": "auto-approve"}]},
    "another version": file_of("fine.*") | {"schemaVersion": "2030"},
    "no version": {"rules": []},
    "no rules": {"schemaVersion": SCHEMA_VERSION},
    "more beside them": file_of("fine.*") | {"profile": {}},
    "a list": [],
}


@pytest.mark.parametrize("what", WRONG)
async def test_importing_a_file_with_any_error_changes_nothing(node: Node, what: str) -> None:
    await imported(node, file_of("standing.*"))
    before = await listed(node)
    for query in ({}, {"dryRun": "true"}, {"replace": "true"}):
        answer = await node.call("POST", IMPORT, await writer(node), json=WRONG[what], params=query)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert await listed(node) == before


@pytest.mark.parametrize("query", ["dryrun=true", "dryRun=1", "dryRun=true&dryRun=false", "replace=yes", "why="])
async def test_an_import_with_an_invalid_option_imports_nothing(node: Node, query: str) -> None:
    answer = await node.call("POST", f"{IMPORT}?{query}", await writer(node), json=file_of("a.*"))
    assert answer.status_code == 422, answer.text
    assert await listed(node) == []


async def test_an_import_cannot_exceed_the_maximum_number_of_rules(node: Node) -> None:
    await imported(node, file_of("standing"))
    answer = await node.call("POST", IMPORT, await writer(node), json=file_of(*["p"] * MAX_RULES))
    assert answer.status_code in {413, 422}, answer.text
    assert len(await listed(node)) == 1


async def test_importing_requires_permission_to_write_rules_and_agents_cannot_export(node: Node) -> None:
    for kind in ("agent", "viewer", "reviewer", "auditor"):
        answer = await node.call("POST", IMPORT, await node.token(kind), json=file_of("a.*"))
        assert answer.status_code == 403, kind
    assert (await node.call("GET", EXPORT, await node.token("agent"))).status_code == 403
    assert (await node.call("GET", EXPORT, await node.token("viewer"))).status_code == 200
    assert await listed(node) == []


async def test_a_project_reads_and_changes_only_its_own_rules(node: Node) -> None:
    await imported(node, file_of("a.*"))
    mine = await exported(node)
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    foreign = await node.person("eve", "rule-admin", project="elsewhere")
    answer = await node.call("POST", f"{IMPORT}?replace=true", foreign, json=mine)
    assert counts(answer.json()) == (1, 0, 0, 0, 1)
    assert (await node.call("GET", EXPORT, foreign)).json()["rules"][0]["id"] != mine["rules"][0]["id"]
    assert await exported(node) == mine


async def test_only_one_of_several_concurrent_imports_adds_rules(node: Node) -> None:
    document = file_of(*(f"p{n}" for n in range(20)))
    await writer(node)
    done = await asyncio.gather(*(imported(node, document) for _ in range(6)))
    assert sorted(each["added"] for each in done) == [0] * 5 + [20]
    assert len(await listed(node)) == 20


async def test_import_and_export_are_not_treated_as_rule_ids(node: Node) -> None:
    token = await writer(node)
    for method, path in (("GET", IMPORT), ("DELETE", EXPORT), ("PATCH", "/api/rules/check")):
        assert (await node.call(method, path, token)).status_code == 405
    assert (await node.call("GET", "/api/rules/nonsense", token)).status_code == 404
