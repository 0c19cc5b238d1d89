"""Seven kinds of tampering, each detected by Assent and by an independent verifier that shares no code with it."""

import asyncio
import base64
import json
from pathlib import Path

import pytest

from assent.audit import merkle
from assent.audit.checkpoint import Checkpoint, entry, key_id, read, read_verifier_key, sign, verifier_key
from assent.audit.usecases.checkpoints import CheckpointService
from assent.core.chain import Part
from assent.core.errors import Unavailable
from assent.core.receipts import public_key, spelt
from assent.kernel.settings import Settings
from tests.audit.usecases.logging_lives import VERIFIER, Logged, lived, second_opinion
from tests.support.tampering import Event, Raw, forge, put, resting, unlocked, write


@pytest.fixture
def logged(settings: Settings, tmp_path: Path) -> Logged:
    return lived(settings, tmp_path)


def others_key() -> tuple[bytes, bytes]:
    seed = bytes(range(32))
    return seed, public_key(seed)


def rewrite_log(opened: Raw) -> None:
    """Rewrite the log to match the current events; only the signatures cannot be forged."""
    opened.run(
        """UPDATE assent_leaves SET hash = coalesce(
            (SELECT e.hash FROM assent_events e WHERE e.breakpoint_id = subject_id AND e.seq = assent_leaves.seq),
            (SELECT r.hash FROM assent_rule_events r WHERE r.rule_id = subject_id AND r.seq = assent_leaves.seq),
            (SELECT a.hash FROM assent_admin_events a WHERE a.chain_id = subject_id AND a.seq = assent_leaves.seq))"""
    )


def sign_again(opened: Raw, seed: bytes) -> None:
    """Re-sign every checkpoint of the current log with the key from this seed, and store that key instead of ours."""
    leaves = [row[0] for row in opened.all("SELECT hash FROM assent_leaves ORDER BY position")]
    rows = opened.all("SELECT number, size, note FROM assent_checkpoints ORDER BY number")
    public = public_key(seed)
    tree = merkle.Growing()
    for number, size, note in rows:
        for each in leaves[tree.size : size]:
            tree.add(merkle.leaf(entry(each)))
        old, _ = read(note)
        mine = Checkpoint(origin=old.origin, number=number, size=size, root=tree.root(), at=old.at)
        named = key_id(old.origin, public)
        changes = {"root": mine.root.hex(), "key_id": named, "note": sign(mine, seed)}
        write(opened, "assent_checkpoints", {"number": number}, changes)
        write(opened, "assent_checkpoint_keys", {"version": 1}, {"key_id": named, "public_key": spelt(public)})


def roll_back(opened: Raw) -> None:
    """Remove the last checkpoint and everything it covers, as restoring an older backup would."""
    ((number, size),) = opened.all("SELECT number, size FROM assent_checkpoints ORDER BY number DESC LIMIT 1 OFFSET 1")
    gone = opened.all("SELECT subject_id, seq FROM assent_leaves WHERE position >= :size", size=size)
    opened.run("DELETE FROM assent_leaves WHERE position >= :size", size=size)
    opened.run("DELETE FROM assent_checkpoints WHERE number > :number", number=number)
    for subject, seq in gone:
        put(opened, "assent_unsigned_events", {"subject_id": subject, "seq": seq})


def change_an_event(opened: Raw, ids: dict[str, str]) -> None:
    opened.run("UPDATE assent_events SET actor = :eve WHERE breakpoint_id = :id", id=ids["rejected"], eve="person:eve")


def remove_an_event(opened: Raw, ids: dict[str, str]) -> None:
    opened.run("DELETE FROM assent_events WHERE breakpoint_id = :id AND seq = 2", id=ids["approved"])


def reorder_events(opened: Raw, ids: dict[str, str]) -> None:
    for before, after in ((1, 1000), (2, 1), (1000, 2)):
        write(opened, "assent_events", {"breakpoint_id": ids["approved"], "seq": before}, {"seq": after})


def insert_an_event(opened: Raw, ids: dict[str, str]) -> None:
    forge(opened, ids["waiting"], lambda events: events.append(events[-1] | {"type": "claimed", "metadata": {}}))
    opened.run("DELETE FROM assent_unsigned_events WHERE subject_id = :id", id=ids["waiting"])


def change_a_decision(opened: Raw, ids: dict[str, str]) -> None:
    write(opened, "assent_breakpoints", {"id": ids["rejected"]}, {"decision": "approved"})


def raised_by_another(events: list[Event]) -> None:
    events[0]["actor"] = "agent:other"


def rewrite_a_chain(opened: Raw, ids: dict[str, str]) -> None:
    """Forge a breakpoint's creator and all hashes that depend on it."""
    forge(opened, ids["cancelled"], raised_by_another)
    write(opened, "assent_breakpoints", {"id": ids["cancelled"]}, {"created_by": "agent:other"})


def rewrite_a_chain_and_the_log(opened: Raw, ids: dict[str, str]) -> None:
    rewrite_a_chain(opened, ids)
    rewrite_log(opened)


KINDS = [
    change_an_event,
    remove_an_event,
    reorder_events,
    insert_an_event,
    change_a_decision,
    rewrite_a_chain,
    rewrite_a_chain_and_the_log,
]


def test_an_unmodified_log_passes_both_verifiers(logged: Logged) -> None:
    assert logged.found() == []
    assert logged.second_opinion() == []
    assert logged.second_opinion(project="default") == []


@pytest.mark.parametrize("tamper", KINDS, ids=lambda each: each.__name__)
def test_tampering_is_detected_by_both_verifiers_without_an_anchor(logged: Logged, tamper: object) -> None:
    assert callable(tamper)
    with unlocked(logged.settings) as opened:
        tamper(opened, logged.ids)
    assert logged.found(anchors=False)
    assert logged.second_opinion(anchors=False)


def test_a_rewritten_chain_is_detected_from_the_checkpoints_alone(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        rewrite_a_chain(opened, logged.ids)
    findings = logged.found(anchors=False)
    assert {each.part for each in findings} == {Part.LOG}
    assert {each.breakpoint_id for each in findings} == {logged.ids["cancelled"]}

    with unlocked(logged.settings) as opened:
        rewrite_log(opened)
    assert [each.what for each in logged.found(anchors=False)] == ["checkpoint 1 does not match the log"]


def test_the_complete_removal_of_a_breakpoint_is_detected(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        if logged.settings.database_url is None:
            opened.run("PRAGMA foreign_keys = OFF")
        for table in ("events", "labels", "comments", "responses"):
            column = "id" if table == "labels" else "breakpoint_id"
            opened.run(f"DELETE FROM assent_{table} WHERE {column} = :id", id=logged.ids["cancelled"])
        opened.run("DELETE FROM assent_breakpoints WHERE id = :id", id=logged.ids["cancelled"])
    findings = logged.found(anchors=False)
    assert {each.part for each in findings} == {Part.LOG}
    assert logged.second_opinion(anchors=False)


def test_a_removed_checkpoint_is_detected_with_an_anchor(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        roll_back(opened)
    assert logged.found(anchors=False) == []
    assert logged.second_opinion(anchors=False) == []
    assert [each.what for each in logged.found()] == [
        "checkpoint 3 is in anchors.jsonl, but not in the database: it was removed, or an older backup was restored"
    ]
    assert logged.second_opinion() == ["checkpoint 3 from the anchor file is missing or different."]


def test_a_checkpoint_missing_from_the_middle_is_detected_without_an_anchor(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        opened.run("DELETE FROM assent_checkpoints WHERE number = 2")
    assert [each.what for each in logged.found(anchors=False)] == ["the checkpoints between 1 and 3 are missing"]
    assert logged.second_opinion(anchors=False)


def test_a_log_re_signed_with_another_key_is_detected_with_an_anchor_or_a_known_key(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        ((origin, spelt_key),) = opened.all("SELECT origin, public_key FROM assent_checkpoint_keys")
        rewrite_a_chain_and_the_log(opened, logged.ids)
        sign_again(opened, others_key()[0])
        anchored = [json.loads(line) for line in logged.anchors.read_text().splitlines()]
        ours = dict([_key_of(spelt_key, origin)])
    assert [each.part for each in logged.found(anchors=False)] == [Part.ADMIN, Part.ADMIN], "the key was exchanged"
    assert len(logged.found()) == len(anchored) + 2
    assert logged.found(anchors=False, keys=ours)
    exported = logged.exported()
    assert second_opinion(exported) == []
    assert len(second_opinion(exported, anchors=logged.anchors)) == len(anchored)
    assert second_opinion(exported, keys=[verifier_key(origin, each) for each in ours.values()])


def _key_of(spelt_key: str, origin: str) -> tuple[str, bytes]:
    return read_verifier_key(verifier_key(origin, base64.b64decode(spelt_key)))


def test_stored_fields_of_a_checkpoint_must_match_its_signed_content(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        write(opened, "assent_checkpoints", {"number": 2}, {"at": 5})
    assert [each.what for each in logged.found()] == [
        "the stored fields of checkpoint 2 do not match its signed content"
    ]


@pytest.mark.parametrize("change", ["remove", "change", "cut"])
def test_a_modified_anchor_is_detected(logged: Logged, change: str) -> None:
    if change == "remove":
        logged.anchors.unlink()
    else:
        lines = logged.anchors.read_text().splitlines(keepends=True)
        lines[0] = lines[0].replace("number 1", "number 9") if change == "change" else lines[0][:40] + "\n"
        logged.anchors.write_text("".join(lines))
    assert [each.part for each in logged.found()] == [Part.LOG]


def test_signing_stops_after_the_log_was_modified(logged: Logged) -> None:
    with unlocked(logged.settings) as opened:
        rewrite_a_chain_and_the_log(opened, logged.ids)

    async def run() -> None:
        async with resting(logged.settings) as node:
            with pytest.raises(Unavailable, match="does not match the last signed checkpoint"):
                await node.database.write(node[CheckpointService].make)

    asyncio.run(run())


def test_a_modified_line_of_an_export_is_detected(logged: Logged) -> None:
    path = logged.exported()
    lines = path.read_bytes().splitlines(keepends=True)
    removed, twice, cut = [*lines[:3], *lines[4:]], [*lines[:4], *lines[3:]], lines[:-1]
    for touched in (removed, twice, cut, [*lines, lines[-1]]):
        path.write_bytes(b"".join(touched))
        assert second_opinion(path)


def test_the_independent_verifier_is_short_and_does_not_import_assent() -> None:
    text = VERIFIER.read_text()
    assert len(text.splitlines()) <= 200
    imported = [each for each in text.splitlines() if each.startswith(("import ", "from "))]
    assert not [each for each in imported if "assent" in each]
