"""Audits of the log: each difference from the logged and signed events is reported once, with its subject."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from assent.audit import checkpoint as checkpoints
from assent.audit import merkle
from assent.audit.checkpoint import Checkpoint
from assent.audit.log_checks import LogCheck, about, anchor_findings
from assent.core.chain import Finding, Part
from assent.core.receipts import public_key

SEED, LATER_SEED, STRANGE_SEED = bytes(range(32)), b"\x07" * 32, b"\x09" * 32
ORIGIN = "assent.log/0011223344556677"
NOW = 1_800_000_000_000_000
EVENTS = [f"{n:064x}" for n in range(600)]


def key(seed: bytes) -> str:
    return checkpoints.key_id(ORIGIN, public_key(seed))


KEYS = {key(seed): public_key(seed) for seed in (SEED, LATER_SEED)}


@dataclass(frozen=True)
class Row:
    """A checkpoint as stored in the database."""

    number: int
    size: int
    root: str
    at: int
    key_id: str
    note: str


def signed(number: int, events: Sequence[str], *, at: int | None = None, seed: bytes = SEED) -> Row:
    """Return a signed checkpoint of a log with these events."""
    tree = merkle.Growing()
    for each in events:
        tree.add(merkle.leaf(each.encode()))
    moment = NOW + number if at is None else at
    made = Checkpoint(origin=ORIGIN, number=number, size=len(events), root=tree.root(), at=moment)
    return Row(number, len(events), made.root.hex(), moment, key(seed), checkpoints.sign(made, seed))


def entries(log: LogCheck, first: int, end: int, **happened: str | None) -> list[Finding]:
    """Check a range of the log in which each entry is the first event of a breakpoint, with some events replaced."""
    found: list[Finding] = []
    for n in range(first, end):
        found += log.entry(n, f"bp_{n}", 1, EVENTS[n], happened.get(f"bp_{n}", EVENTS[n]))
    return found


def after(count: int, keys: Mapping[str, bytes] = KEYS) -> LogCheck:
    """Return a check that has processed this many valid entries."""
    log = LogCheck(keys)
    assert entries(log, 0, count) == []
    return log


def said(*whats: str) -> list[Finding]:
    return [Finding(Part.LOG, None, None, what) for what in whats]


def test_an_unchanged_log_matches_any_number_of_checkpoints() -> None:
    log = LogCheck(KEYS)
    for number, (first, end) in enumerate([(0, 2), (2, 3), (3, 7), (7, 7), (7, 300)], 1):
        assert entries(log, first, end) == []
        seed = SEED if number < 4 else LATER_SEED
        assert list(log.checkpoint(signed(number, EVENTS[:end], seed=seed))) == []


def test_an_empty_log_can_be_signed_and_checkpoints_may_have_the_same_time() -> None:
    log = LogCheck(KEYS)
    assert list(log.checkpoint(signed(1, [], at=0))) == []
    assert entries(log, 0, 1) == []
    assert list(log.checkpoint(signed(2, EVENTS[:1], at=0))) == [], "equal times are in order"


@pytest.mark.parametrize(
    ("subject", "finding"),
    [
        ("bp_1", Finding(Part.LOG, "bp_1", 3, "x")),
        ("bp_rule-1", Finding(Part.LOG, "bp_rule-1", 3, "x")),
        ("rule-1", Finding(Part.LOG, None, 3, "x", rule_id="rule-1")),
        (None, Finding(Part.LOG, None, 3, "x")),
    ],
)
def test_a_finding_concerns_a_breakpoint_a_rule_or_the_whole_log(subject: str | None, finding: Finding) -> None:
    assert about(subject, 3, "x") == finding


@pytest.mark.parametrize(
    ("happened", "what"),
    [
        (EVENTS[9], "it does not match entry 1 of the log"),
        ("", "it does not match entry 1 of the log"),
        (None, "it is entry 1 of the log, but no longer exists"),
    ],
)
def test_a_changed_or_missing_event_is_reported_and_the_log_remains_valid(happened: str | None, what: str) -> None:
    log = LogCheck(KEYS)
    assert entries(log, 0, 3, bp_1=happened) == [Finding(Part.LOG, "bp_1", 1, what)]
    assert list(log.checkpoint(signed(1, EVENTS[:3]))) == [], "the checkpoint matches the log"


def test_a_missing_rule_event_is_reported_with_its_rule() -> None:
    found = list(LogCheck(KEYS).entry(0, "rule-7", 4, EVENTS[0], None))
    what = "it is entry 0 of the log, but no longer exists"
    assert found == [Finding(Part.LOG, None, 4, what, rule_id="rule-7")]


@pytest.mark.parametrize(("before", "first"), [(0, 1), (2, 3), (2, 9), (3, 1)])
def test_missing_entries_are_reported_once_at_the_next_entry(before: int, first: int) -> None:
    log = after(before)
    what = f"the log entries before it are missing, starting at position {before}"
    assert entries(log, first, first + 3) == [Finding(Part.LOG, f"bp_{first}", 1, what)]


def test_a_log_with_a_missing_entry_does_not_match_its_checkpoint() -> None:
    log = after(2)
    entries(log, 3, 5)
    what = "checkpoint 1 does not match the log"
    assert list(log.checkpoint(signed(1, EVENTS[:5]))) == said(what)


@pytest.mark.parametrize("numbers", [(2, 3), (1, 3, 4), (1, 2, 9, 10), (1, 1, 2), (1, 2, 1, 2)], ids=str)
def test_a_gap_between_checkpoints_is_reported_once_with_both_ends(numbers: tuple[int, ...]) -> None:
    log, before, found, expected = after(3), 0, list[Finding](), list[Finding]()
    for number in numbers:
        found += log.checkpoint(signed(number, EVENTS[:3], at=NOW))
        if number != before + 1:
            expected += said(f"the checkpoints between {before} and {number} are missing")
        before = number
    assert len(expected) == 1
    assert found == expected


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (signed(1, EVENTS[:3], seed=STRANGE_SEED).note, f"it is signed with the key {key(STRANGE_SEED)}, which is not"),
        (signed(1, EVENTS[:3]).note.replace("\n3\n", "\n4\n"), f"its signature by key {key(SEED)} is not valid"),
        ("", "this is not a checkpoint"),
    ],
    ids=["a stranger", "modified", "nothing"],
)
def test_a_checkpoint_without_our_signature_is_invalid_and_otherwise_ignored(note: str, why: str) -> None:
    log = after(3)
    (found,) = log.checkpoint(replace(signed(1, EVENTS[:2], at=NOW + 99), note=note))
    assert found.what.startswith(f"checkpoint 1 is not valid: {why}")
    assert found == about(None, None, found.what)
    assert list(log.checkpoint(signed(2, EVENTS[:3]))) == [], "it is not missing, and its time is ignored"


@pytest.mark.parametrize(
    "change", [{"size": 2}, {"root": "00" * 32}, {"at": NOW}, {"key_id": "00000000"}, {"key_id": key(LATER_SEED)}],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_whose_row_differs_from_its_note_is_detected(change: dict[str, Any]) -> None:
    stored = replace(signed(1, EVENTS[:3]), **change)
    assert list(after(3).checkpoint(stored)) == said(
        "the stored fields of checkpoint 1 do not match its signed content"
    )


def test_a_checkpoint_stored_under_another_number_is_detected() -> None:
    log, later = after(3), signed(3, EVENTS[:3])
    assert list(log.checkpoint(signed(1, EVENTS[:3]))) == []
    assert list(log.checkpoint(replace(later, number=2))) == said(
        "the stored fields of checkpoint 2 do not match its signed content"
    )


def test_a_checkpoint_older_than_a_previous_one_is_reported() -> None:
    log, found = after(3), list[Finding]()
    for number, at in enumerate([NOW, NOW + 9, NOW + 3, NOW + 8, NOW + 9, NOW + 10], 1):
        found += log.checkpoint(signed(number, EVENTS[:3], at=at))
    assert found == said(*(f"checkpoint {number} is older than the previous checkpoint" for number in (3, 4)))


@pytest.mark.parametrize("other", [EVENTS[:2], EVENTS[:4], EVENTS[1:4], [EVENTS[1], EVENTS[0], EVENTS[2]]], ids=len)
def test_a_log_that_differs_from_its_checkpoints_is_reported_once(other: list[str]) -> None:
    log = after(3)
    first, second, third = (signed(number, other) for number in (1, 2, 3))
    assert list(log.checkpoint(first)) == said("checkpoint 1 does not match the log")
    assert list(log.checkpoint(second)) == []
    assert list(log.checkpoint(replace(third, at=NOW))) == said(
        "the stored fields of checkpoint 3 do not match its signed content"
    )


def test_every_completed_subtree_is_collected_for_comparison() -> None:
    log = after(255)
    assert log.made == []
    entries(log, 255, 600)
    assert [(each.level, each.n) for each in log.made] == [(8, 0), (8, 1)]
    assert log.made[0].hash.hex() == signed(1, EVENTS[:256]).root


@pytest.mark.parametrize("kept", [None, b"", bytes(32)])
def test_a_stored_hash_that_differs_from_the_log_is_detected(kept: bytes | None) -> None:
    log, made = after(3), merkle.Subtree(8, 5, b"\x01" * 32)
    what = "the stored hash 5 at level 8 does not match the log"
    assert list(log.subtree(kept, made)) == said(what)
    assert list(log.subtree(made.hash, made)) == []


def test_stored_hashes_are_not_reported_if_the_log_does_not_match_a_checkpoint() -> None:
    log = after(3)
    assert len(list(log.checkpoint(signed(1, EVENTS[:2])))) == 1
    made = merkle.Subtree(8, 5, b"\x01" * 32)
    assert list(log.subtree(None, made)) == list(log.subtree(made.hash, made)) == []


def test_published_checkpoints_must_match_the_database() -> None:
    stored, other = signed(4, EVENTS[:3]), signed(4, EVENTS[:2])
    told = {"number": 4, "note": stored.note}
    assert list(anchor_findings("anchors.jsonl", told, stored)) == []
    assert list(anchor_findings("anchors.jsonl", told, other)) == said(
        "checkpoint 4 differs between anchors.jsonl and the database"
    )
    assert list(anchor_findings("anchors.jsonl", told, None)) == said(
        "checkpoint 4 is in anchors.jsonl, but not in the database: it was removed, or an older backup was restored"
    )
