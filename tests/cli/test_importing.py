"""Importing from the original service keeps times and outcomes, and approves nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assent.core.timestamps import from_iso
from assent.kernel.settings import Settings
from assent.people.store.people import People
from tests.cli.commands import here, here_json
from tests.support.nodes import Node, running_node
from tests.support.original import OriginalService, minute

QUESTION = {"question": "Deploy?", "breakpointId": "deploy.web"}


@pytest.fixture
def original(tmp_path: Path) -> OriginalService:
    return OriginalService(tmp_path / "breakpoints.db")


@pytest.fixture
def env(settings: Settings) -> dict[str, str]:
    return _env(settings)


def _env(settings: Settings) -> dict[str, str]:
    env = {"ASSENT_DATA_DIR": str(settings.data_dir)}
    if settings.database_url:
        env |= {
            "ASSENT_DATABASE_URL": settings.database_url,
            "ASSENT_SECRET_KEYS": ",".join(settings.secret_keys or ()),
        }
    return env


def imported(original: OriginalService, env: dict[str, str], *options: str) -> Any:
    return here_json("import", str(original.path), *options, **env)


def rules_file(folder: Path, *rules: dict[str, Any]) -> str:
    file = folder / "rules.json"
    file.write_text(json.dumps({"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": rules}))
    return str(file)


async def found(settings: Settings, breakpoint_id: str, *more: str) -> Any:
    async with running_node(settings) as node:
        answers = [
            await node.call("GET", f"/api/breakpoints/{breakpoint_id}{each}", await node.token("admin"))
            for each in ("", *more)
        ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    bodies = [answer.json() for answer in answers]
    return bodies if more else bodies[0]


def sound(env: dict[str, str]) -> None:
    """Assert that hash chains are valid, rows match their events, and all invariants hold."""
    assert here_json("audit", "verify", **env)["findings"] == []
    checks = here_json("fsck", **env)
    assert checks["ok"], checks


def many(original: OriginalService) -> None:
    """Create one breakpoint in every state that the original service supports."""
    for author in ("ann", "telegram:bob", "Ann Example", "ann\x07\n", "x" * 300):
        released = original.create(QUESTION, title="Deploy", tags='["prod","web"]', run_id="run-1", ttl_seconds=3600)
        original.feedback(released, "carl", "Why now?", minute(1))
        original.feedback(released, author, "Go.", minute(2), release=True)
        original.feedback(released, "carl", "Too late, I see.", minute(3))
    original.end(original.create({"summary": "x"}, ttl_seconds=60), "expired", "system", minute(1))
    original.end(original.create({"summary": "x"}), "cancelled", "agent", minute(1))
    original.end(original.create(["not", "an", "object"]), "released", "telegram", minute(1))
    original.end(original.create({"strategy": "no-such", "expert": 7}), "cancelled", "agent", minute(1))
    original.end(original.create({"strategy": "quorum", "expert": ["a", "b"]}), "released", "ann", minute(1))
    original.end(original.create({"title": "other"}, title="one"), "released", "ann", minute(1))
    late = original.create(QUESTION, ttl_seconds=60)
    original.feedback(late, "ann", "After its time.", minute(9), release=True)
    files = {"files": [{"path": "docs/plan.md", "label": "Plan"}, {"path": "a.js", "format": "code", "language": "js"}]}
    original.feedback(original.create({"question": "Plan?", "context": files}), "ann", "Fine.", minute(3), release=True)
    original.create(QUESTION)
    original.create(QUESTION, status="lost")
    original.create({}, status="expired", expired_at="yesterday")
    original.create({}, status="expired", expired_at=minute(1), payload="{")
    original.create({"n": 2**60}, status="expired", expired_at=minute(1))
    original.create({}, status="expired", expired_at=minute(1), ttl_seconds=-5)
    original.write("INSERT INTO extensions_config VALUES ('telegram', 1, '{\"token\": \"t0p-s3cret\"}', '', '')")


def test_imported_data_passes_all_checks(original: OriginalService, env: dict[str, str]) -> None:
    many(original)
    done = imported(original, env)
    assert (len(done["imported"]), done["alreadyThere"], done["comments"]) == (14, 0, 12)
    sound(env)


def test_a_second_import_changes_nothing(original: OriginalService, env: dict[str, str], tmp_path: Path) -> None:
    many(original)
    rules = rules_file(tmp_path, {"id": "rule-1", "pattern": "confirm.*", "action": "auto-approve"})
    first = imported(original, env, "--rules", rules)
    before = here_json("audit", "verify", **env)
    again = imported(original, env, "--rules", rules)
    assert (again["imported"], again["alreadyThere"]) == ([], len(first["imported"]))
    assert (first["rules"], again["rules"]) == (
        {"added": 1, "changed": 0, "unchanged": 0},
        {"added": 0, "changed": 0, "unchanged": 1},
    )
    assert here_json("audit", "verify", **env) == before


def test_a_dry_run_reports_the_same_and_writes_nothing(original: OriginalService, env: dict[str, str]) -> None:
    many(original)
    told = imported(original, env, "--dry-run")
    assert here_json("audit", "verify", **env)["breakpoints"] == 0
    assert imported(original, env) == told | {"dryRun": False}


def test_skipped_items_are_listed_with_a_reason(original: OriginalService, env: dict[str, str]) -> None:
    many(original)
    done = imported(original, env)
    left = done["notCarried"]
    kinds = {kind: [each["why"] for each in left if each["kind"] == kind] for kind in {each["kind"] for each in left}}
    assert sorted(why.split(":")[0].split(",")[0] for why in kinds["breakpoint"]) == [
        "Invalid time",
        "The payload is not valid JSON.",
        "The payload is not valid JSON.",
        "This breakpoint is still pending",
        "Unknown status 'lost'.",
    ]
    assert {kind: len(whys) for kind, whys in kinds.items() if kind != "breakpoint"} == {
        "comment": 5,
        "payload": 3,
        "files": 1,
        "ttlSeconds": 1,
        "extension": 1,
    }
    assert "t0p-s3cret" not in json.dumps(done)


async def test_an_imported_release_keeps_its_time_and_text_and_is_marked_as_imported(
    original: OriginalService, settings: Settings
) -> None:
    asked = original.create(QUESTION, title="Deploy", tags='["prod","web"]', run_id="run-1", ttl_seconds=3600)
    original.feedback(asked, "carl", "Why now?", minute(1))
    original.feedback(asked, "ann", "Go.", minute(2), release=True)
    (first,) = (await asyncio.to_thread(imported, original, _env(settings)))["imported"]
    whole, events = await found(settings, first["id"], "/events")
    assert (whole["status"], whole["decision"]) == ("released", "approved")
    assert from_iso(whole["createdAt"]) == from_iso(minute(0))
    assert (whole["result"]["via"], whole["result"]["feedback"]) == ("import", "Go.")
    assert whole["result"]["respondedBy"] == "import/ann"
    assert (whole["tags"], whole["runId"], whole["gate"]) == (["prod", "web"], "run-1", "deploy.web")
    assert [(each["type"], each["actor"], from_iso(each["timestamp"])) for each in events["items"]] == [
        ("created", "system:import", from_iso(minute(0))),
        ("commented", "person:import/carl", from_iso(minute(1))),
        ("responded", "person:import/ann", from_iso(minute(2))),
        ("released", "person:import/ann", from_iso(minute(2))),
    ]
    created = events["items"][0]["metadata"]
    assert (created["via"], created["imported"]) == ("import", {"id": first["from"], "ttlSeconds": 3600})
    assert [each["metadata"].get("via") for each in events["items"][1:3]] == ["import", "import"]


async def test_an_imported_approval_does_not_permit_new_calls(original: OriginalService, settings: Settings) -> None:
    """The approval does not count toward auto-approval, has no receipt, and is not visible to agents."""
    for n in range(5):
        original.feedback(original.create(QUESTION, minute(n)), "ann", "Go.", minute(n), release=True)
    env = _env(settings)
    done = await asyncio.to_thread(imported, original, env)
    async with running_node(settings) as node:
        for each in done["imported"]:
            receipt = await node.call("GET", f"/api/breakpoints/{each['id']}/receipt", await node.token("admin"))
            assert receipt.json()["code"] == "no_receipt", receipt.text
            seen = await node.call("GET", f"/api/breakpoints/{each['id']}", await node.token("agent"))
            assert seen.status_code == 404
        asked = await node.create(agentId="agent-1", payload=QUESTION | {"autoApproveAfterN": 3})
    assert (asked["status"], asked["autoApproval"]["consecutiveApprovals"]) == ("waiting", 0)


async def test_an_imported_author_cannot_sign_in(original: OriginalService, settings: Settings) -> None:
    original.feedback(original.create(QUESTION), "ann", "Go.", minute(1), release=True)
    async with running_node(settings) as node:
        await node.person("ann", "reviewer")
    await asyncio.to_thread(imported, original, _env(settings))
    async with running_node(settings) as node:
        people = await node.assent.database.read(lambda tx: {each.name: each for each in tx[People].every()})
        assert not people["import/ann"].active
        assert people["import/ann"].password_hash is None
        assert people["ann"].active
        grants = await node.assent.database.read(lambda tx: tx[People].grants(people["import/ann"].id))
        assert grants == {}


@pytest.mark.parametrize(("live", "status"), [(False, "waiting"), (True, "released")])
async def test_imported_auto_approve_rules_start_in_shadow_mode_by_default(
    original: OriginalService, settings: Settings, tmp_path: Path, *, live: bool, status: str
) -> None:
    rules = rules_file(
        tmp_path,
        {"id": "rule-1", "pattern": "deploy.*", "action": "auto-approve", "enabled": True, "mode": "live"},
        {"id": "rule-2", "pattern": "gate.*", "action": "never-auto-approve"},
    )
    done = await asyncio.to_thread(
        imported, original, _env(settings), "--rules", rules, *(["--live-rules"] if live else [])
    )
    assert done["rules"] == {"added": 2, "changed": 0, "unchanged": 0}
    async with running_node(settings) as node:
        asked = await node.create(payload=QUESTION)
        modes = {each["pattern"]: each["mode"] for each in await _rules(node)}
    assert asked["status"] == status
    assert modes == {"deploy.*": "live" if live else "shadow", "gate.*": "live"}


async def _rules(node: Node) -> Any:
    return (await node.call("GET", "/api/rules", await node.token("admin"))).json()["items"]


def test_an_invalid_rule_aborts_the_import_before_it_starts(
    original: OriginalService, env: dict[str, str], tmp_path: Path
) -> None:
    many(original)
    rules = rules_file(tmp_path, {"pattern": "a.*(", "action": "auto-approve"})
    refused = here("import", str(original.path), "--rules", rules, **env)
    assert refused.exit_code == 1
    assert here_json("audit", "verify", **env)["breakpoints"] == 0


def test_breakpoints_that_end_after_an_import_are_imported_by_the_next_one(
    original: OriginalService, env: dict[str, str]
) -> None:
    waiting = original.create(QUESTION)
    assert imported(original, env)["imported"] == []
    original.feedback(waiting, "ann", "Go.", minute(5), release=True)
    assert [each["from"] for each in imported(original, env)["imported"]] == [waiting]
    sound(env)


def test_importing_an_older_file_with_the_same_people_passes_all_checks(
    original: OriginalService, env: dict[str, str], tmp_path: Path
) -> None:
    original.feedback(original.create(QUESTION, minute(30)), "ann", "Go.", minute(31), release=True)
    older = OriginalService(tmp_path / "older.db")
    older.feedback(older.create(QUESTION, minute(1)), "ann", "Go.", minute(2), release=True)
    imported(original, env)
    imported(older, env)
    sound(env)


def test_the_import_does_not_modify_the_original_file(original: OriginalService, sqlite_settings: Settings) -> None:
    many(original)
    before = original.path.read_bytes()
    original.path.chmod(0o400)
    imported(original, _env(sqlite_settings))
    assert original.path.read_bytes() == before
    assert {each.name for each in original.path.parent.glob("breakpoints.db*")} == {"breakpoints.db"}


@pytest.mark.parametrize("content", [None, b"not a database, but long enough to look at", b""])
def test_a_file_from_another_program_is_rejected(
    tmp_path: Path, sqlite_settings: Settings, content: bytes | None
) -> None:
    file = tmp_path / "other.db"
    if content is not None:
        file.write_bytes(content)
    refused = here("import", str(file), **_env(sqlite_settings))
    assert refused.exit_code == 1
    assert "other.db" in refused.stderr


def test_importing_into_an_unknown_project_is_rejected(original: OriginalService, sqlite_settings: Settings) -> None:
    assert here("import", str(original.path), "--project", "nowhere", **_env(sqlite_settings)).exit_code == 1
