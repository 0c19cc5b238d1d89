"""Verifying the data and placing legal holds on the command line."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from tests.audit.usecases.living import live
from tests.cli.commands import Desk, here, here_json
from tests.support.nodes import ManualClock, running_node
from tests.support.tampering import unlocked


@pytest.fixture
def lived(sqlite_settings: Settings) -> dict[str, str]:
    async def run() -> dict[str, str]:
        clock = ManualClock()
        async with running_node(sqlite_settings, clock=clock) as node:
            return (await live(node, clock)).ids

    return asyncio.run(run())


def place(settings: Settings) -> tuple[str, str]:
    return ("--data", str(settings.data_dir))


def test_verifying_untouched_data_exits_with_code_0(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    done = here("audit", "verify", *place(sqlite_settings))
    counted = here_json("audit", "verify", *place(sqlite_settings))

    assert done.exit_code == 0
    assert "No problems found" in done.stdout
    assert (counted["ok"], counted["breakpoints"], counted["purged"]) == (True, len(lived), 0)
    assert counted["findings"] == []


def test_every_finding_is_listed_and_the_exit_code_is_1(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    with unlocked(sqlite_settings) as opened:
        opened.run("UPDATE assent_events SET actor = 'person:eve' WHERE breakpoint_id = :id", id=lived["rejected"])

    done = here("audit", "verify", *place(sqlite_settings))
    told = here("audit", "verify", "--json", *place(sqlite_settings))

    assert (done.exit_code, told.exit_code) == (1, 1)
    assert f"{lived['rejected']} event 1: its hash does not match its content." in done.stdout
    found = json.loads(told.stdout)
    assert found["ok"] is False
    assert found["findings"][0] == {
        "breakpointId": lived["rejected"],
        "seq": 1,
        "part": "chain",
        "what": "its hash does not match its content",
    }


def test_an_audit_can_be_limited_to_a_breakpoint_or_project(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    with unlocked(sqlite_settings) as opened:
        opened.run("UPDATE assent_breakpoints SET votes = 7 WHERE id = :id", id=lived["rejected"])
    at = place(sqlite_settings)

    assert here("audit", "verify", "--breakpoint", lived["expired"], *at).exit_code == 0
    assert here("audit", "verify", "--breakpoint", lived["rejected"], *at).exit_code == 1
    assert here("audit", "verify", "--project", "default", *at).exit_code == 1
    for unknown in (("--breakpoint", "bp_none"), ("--project", "nowhere")):
        refused = here("audit", "verify", *unknown, *at)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith("Error: ")
        assert f"{unknown[1]} not found" in refused.stderr


def test_an_audit_does_not_modify_the_data(sqlite_settings: Settings, tmp_path: Path) -> None:
    missing = here("audit", "verify", "--data", str(tmp_path / "nowhere"))
    assert (missing.exit_code, list(tmp_path.glob("nowhere"))) == (1, [])
    before = dump(sqlite_settings)
    assert here("fsck", *place(sqlite_settings)).exit_code == 0
    assert dump(sqlite_settings) == before


def dump(settings: Settings) -> list[str]:
    connection = sqlite3.connect(settings.sqlite_path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_an_audit_works_while_a_server_is_running(desk: Desk) -> None:
    for n in range(3):
        desk.asked(f"Number {n}?")
    assert here_json("audit", "verify", "--data", str(desk.data))["breakpoints"] >= 3
    assert here_json("fsck", "--data", str(desk.data))["ok"]


def test_fsck_lists_every_invariant_and_what_it_could_not_check(
    sqlite_settings: Settings, lived: dict[str, str]
) -> None:
    del lived
    shown = here("fsck", *place(sqlite_settings))
    checks = {each["name"]: each for each in here_json("fsck", *place(sqlite_settings))["checks"]}

    assert shown.exit_code == 0
    assert [name for name in checks if name.startswith("I")] == [f"I{n}" for n in range(1, 14)]
    assert all(f" {name} " in shown.stdout for name in checks)
    assert {name for name, each in checks.items() if each["state"] == "nothing to check"} == {"I10", "I11"}
    assert checks["I11"]["why"] == "no checkpoints yet"
    assert checks["I4"]["lookedAt"] > 0


def test_fsck_reports_a_broken_invariant_with_exit_code_1(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    with unlocked(sqlite_settings) as opened:
        opened.run("UPDATE assent_labels SET project_id = 'x' WHERE id = :id", id=lived["waiting"])

    done = here("fsck", *place(sqlite_settings))

    assert done.exit_code == 1
    assert "✗ I12" in done.stdout
    assert lived["waiting"] in done.stdout


def test_fsck_compares_the_data_with_acknowledged_writes(
    sqlite_settings: Settings, lived: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "acked.jsonl"
    file.write_text(json.dumps({"id": lived["approved"], "decision": "approved"}) + "\n")
    assert here("fsck", "--expect", str(file), *place(sqlite_settings)).exit_code == 0
    file.write_text(json.dumps({"id": "bp_lost", "status": "waiting"}) + "\n")
    lost = here("fsck", "--expect", str(file), *place(sqlite_settings))
    assert lost.exit_code == 1
    assert "it was acknowledged as waiting, but it does not exist" in lost.stdout
    for nonsense in ("nonsense", "[]", '{"status": "waiting"}', '{"id": "x", "stauts": "released"}'):
        file.write_text(nonsense + "\n")
        refused = here("fsck", "--expect", str(file), *place(sqlite_settings))
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "line 1" in refused.stderr
    assert here("fsck", "--expect", str(tmp_path / "none"), *place(sqlite_settings)).exit_code == 1


def test_control_characters_in_the_data_are_escaped(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    with unlocked(sqlite_settings) as opened:
        opened.run(
            "UPDATE assent_events SET type = :type WHERE breakpoint_id = :id", type="\x1b[2Jx", id=lived["waiting"]
        )
    done = here("audit", "verify", *place(sqlite_settings))
    assert "\x1b[2J" not in done.stdout


def test_a_hold_can_be_placed_listed_and_lifted(settings: Settings) -> None:
    where = {"ASSENT_DATA_DIR": str(settings.data_dir), "ASSENT_DATABASE_URL": settings.database_url}
    env = {name: value for name, value in where.items() if value is not None}

    placed = here_json("hold", "place", "--reason", "The court asked.", **env)
    listed = here_json("hold", "list", **env)["items"]
    lifted = here("hold", "lift", placed["id"], **env)
    again = here("hold", "lift", placed["id"], **env)

    assert (placed["breakpointId"], placed["placedBy"]) == (None, "system:cli")
    assert listed == [placed]
    assert lifted.exit_code == 0
    assert (again.exit_code, again.stdout) == (1, "")
    (after,) = here_json("hold", "list", **env)["items"]
    assert after["liftedBy"] == "system:cli"
    assert "The court asked." in here("hold", "list", **env).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("place", "--reason", ""),
        ("place", "--reason", "x", "--breakpoint", "bp_none"),
        ("place", "--reason", "x", "--project", "nowhere"),
        ("list", "--project", "nowhere"),
        ("lift", "hold_none"),
    ],
)
def test_an_invalid_hold_yields_a_one_line_error(sqlite_settings: Settings, arguments: tuple[str, ...]) -> None:
    done = here("hold", *arguments, *place(sqlite_settings))
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_hold_can_cover_a_single_breakpoint(sqlite_settings: Settings, lived: dict[str, str]) -> None:
    placed = here_json("hold", "place", "--reason", "x", "--breakpoint", lived["approved"], *place(sqlite_settings))
    assert placed["breakpointId"] == lived["approved"]
