"""Checks that the log matches all events, and that the checkpoints match the log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assent.audit import merkle
from assent.audit.checkpoint import BadCheckpoint, check, entry, read
from assent.core.chain import Finding, Part
from assent.platform.admin_events import is_admin_chain


class SignedSize(Protocol):
    """A stored checkpoint."""

    @property
    def number(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def root(self) -> str: ...

    @property
    def at(self) -> int: ...

    @property
    def key_id(self) -> str: ...

    @property
    def note(self) -> str: ...


def about(subject_id: str | None, seq: int | None, what: str) -> Finding:
    """Return a finding about an event of a breakpoint, rule or admin chain."""
    if subject_id is not None and is_admin_chain(subject_id):
        return Finding(Part.LOG, None, seq, what, admin_chain=subject_id)
    if subject_id is not None and subject_id.startswith("rule-"):
        return Finding(Part.LOG, None, seq, what, rule_id=subject_id)
    return Finding(Part.LOG, subject_id, seq, what)


def _said(what: str) -> Finding:
    return about(None, None, what)


@dataclass(slots=True)
class LogCheck:
    """Rebuilds the tree from the log's entries and compares each checkpoint with it."""

    keys: Mapping[str, bytes]
    tree: merkle.Growing = field(default_factory=merkle.Growing)
    position: int = 0
    """The expected position of the next entry: the size of the tree, unless entries are missing."""
    made: list[merkle.Subtree] = field(default_factory=list[merkle.Subtree])
    """Completed subtrees that the caller has not yet compared with the stored hashes."""
    number: int = 0
    at: int = 0
    forked: bool = False
    """True if a root did not match. No later root can match either, so only the first mismatch is reported."""

    def entry(self, position: int, subject_id: str, seq: int, logged: str, happened: str | None) -> Iterator[Finding]:
        """Add the next entry, and yield any problems with it."""
        if position != self.position:
            yield about(subject_id, seq, f"the log entries before it are missing, starting at position {self.position}")
        self.position = position + 1
        if happened is None:
            yield about(subject_id, seq, f"it is entry {position} of the log, but no longer exists")
        elif happened != logged:
            yield about(subject_id, seq, f"it does not match entry {position} of the log")
        self.made += self.tree.add(merkle.leaf(entry(logged)))

    def checkpoint(self, stored: SignedSize) -> Iterator[Finding]:
        """Compare a checkpoint with the log; call this after adding exactly the entries that it covers."""
        name = f"checkpoint {stored.number}"
        if stored.number != self.number + 1:
            yield _said(f"the checkpoints between {self.number} and {stored.number} are missing")
        self.number = stored.number
        try:
            signed = check(stored.note, self.keys)
            _, key_id = read(stored.note)
        except BadCheckpoint as error:
            # Without a valid signature, the checkpoint's content proves nothing, so it is not compared.
            yield _said(f"{name} is not valid: {error}")
            return
        said = (signed.number, signed.size, signed.root.hex(), signed.at, key_id)
        if said != (stored.number, stored.size, stored.root, stored.at, stored.key_id):
            yield _said(f"the stored fields of {name} do not match its signed content")
        if signed.at < self.at:
            yield _said(f"{name} is older than the previous checkpoint")
        # Keep the latest time, so that one checkpoint with an earlier time does not hide others.
        self.at = max(self.at, signed.at)
        if (self.tree.size, self.tree.root()) != (signed.size, signed.root) and not self.forked:
            self.forked = True
            yield _said(f"{name} does not match the log")

    def subtree(self, kept: bytes | None, made: merkle.Subtree) -> Iterator[Finding]:
        """Compare the stored hash of a subtree with the computed hash."""
        if kept != made.hash and not self.forked:
            yield _said(f"the stored hash {made.n} at level {made.level} does not match the log")


def anchor_findings(where: str, anchored: Mapping[str, object], stored: SignedSize | None) -> Iterator[Finding]:
    """Compare a checkpoint that was published elsewhere with the stored checkpoint of the same number."""
    name = f"checkpoint {anchored['number']}"
    if stored is None:
        yield _said(f"{name} is in {where}, but not in the database: it was removed, or an older backup was restored")
    elif stored.note != anchored["note"]:
        yield _said(f"{name} differs between {where} and the database")
