"""Checkpoints, proofs and the export on the command line."""

import asyncio
import json
from pathlib import Path

import pytest

from assent.audit import checkpoint as checkpoints
from assent.audit import merkle
from assent.kernel.settings import Settings
from tests.audit.usecases.living import live
from tests.audit.usecases.logging_lives import second_opinion
from tests.cli.commands import here, here_json
from tests.support.nodes import ManualClock, running_node
from tests.support.tampering import unlocked


@pytest.fixture
def lived(sqlite_settings: Settings) -> dict[str, str]:
    async def run() -> dict[str, str]:
        clock = ManualClock()
        async with running_node(sqlite_settings, clock=clock) as node:
            return (await live(node, clock)).ids

    return asyncio.run(run())


@pytest.fixture
def at(sqlite_settings: Settings, lived: dict[str, str]) -> tuple[str, str]:
    assert lived
    return ("--data", str(sqlite_settings.data_dir))


def test_a_checkpoint_can_be_created_and_verified(at: tuple[str, str]) -> None:
    assert here("audit", "keys", *at).exit_code == 1
    made = here_json("audit", "checkpoint", *at)
    assert made["events"] == made["checkpoint"]["size"] > 0
    assert here_json("audit", "checkpoint", *at)["events"] == 0
    key = here("audit", "keys", *at).stdout.strip()
    assert checkpoints.check(made["checkpoint"]["note"], dict([checkpoints.read_verifier_key(key)])).number == 1
    counted = here_json("audit", "verify", "--key", key, *at)
    assert (counted["ok"], counted["checkpoints"], counted["logEntries"]) == (True, 1, made["events"])
    checks = {each["name"]: each for each in here_json("fsck", *at)["checks"]}
    assert checks["I11"]["state"] == "holds"
    rotated = here("audit", "rotate-key", *at).stdout.split()
    assert (len(rotated), rotated[1]) == (2, key)
    assert here("audit", "verify", "--key", rotated[0], *at).exit_code == 1
    assert here("audit", "verify", "--key", "nonsense", *at).exit_code == 1


def test_a_proof_covers_a_breakpoint_or_a_single_event(at: tuple[str, str], lived: dict[str, str]) -> None:
    here("audit", "checkpoint", *at)
    whole = here_json("audit", "proof", lived["approved"], *at)
    one = here_json("audit", "proof", f"{lived['approved']}:2", *at)
    assert one["events"] == whole["events"][1:2]
    signed, _ = checkpoints.read(one["checkpoint"]["note"])
    (event,) = one["events"]
    assert event["seq"] == 2
    assert len(event["path"]) <= signed.size.bit_length()
    assert merkle.leaf(checkpoints.entry(event["hash"])) != signed.root
    assert signed.origin in here("audit", "proof", lived["approved"], *at).stdout
    assert here("audit", "proof", f"{lived['approved']}:x", *at).exit_code == 1
    assert here_json("audit", "consistency", "1", *at)["path"] == []
    assert here("audit", "consistency", "1", "7", *at).exit_code == 1


def test_an_export_is_verified_by_an_independent_program(at: tuple[str, str], tmp_path: Path) -> None:
    here("audit", "checkpoint", *at)
    for name, more in (("all.jsonl", ()), ("one.jsonl", ("--project", "default"))):
        written = here_json("audit", "export", str(tmp_path / name), *more, *at)
        assert written["checkpoints"] == 1
        assert second_opinion(tmp_path / name) == []
    assert here("audit", "export", str(tmp_path / "all.jsonl"), *at).exit_code == 1
    assert here("audit", "export", str(tmp_path / "no.jsonl"), "--project", "nowhere", *at).exit_code == 1
    assert here("audit", "export", str(tmp_path / "no" / "no.jsonl"), *at).exit_code == 1
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["all.jsonl", "one.jsonl"]


def test_verify_compares_checkpoints_with_the_given_anchors(
    at: tuple[str, str], sqlite_settings: Settings, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors.jsonl"
    here("audit", "checkpoint", *at, ASSENT_CHECKPOINT_FILE=str(anchors))
    assert json.loads(anchors.read_text())["number"] == 1
    assert here("audit", "verify", "--anchors", str(anchors), *at).exit_code == 0
    with unlocked(sqlite_settings) as opened:
        opened.run("DELETE FROM assent_checkpoints")
        opened.run("INSERT INTO assent_unsigned_events SELECT subject_id, seq FROM assent_leaves")
        opened.run("DELETE FROM assent_leaves")
    assert here("audit", "verify", *at).exit_code == 0
    done = here("audit", "verify", "--anchors", str(anchors), *at)
    assert done.exit_code == 1
    assert "checkpoint 1 is in anchors.jsonl, but not in the database" in done.stdout
