"""Hash chains of events, the findings of their verification, and the metadata that remains after a purge."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from assent.core.canonical import GENESIS, Json, canonical, sha256

_STUB = re.compile(r"[0-9a-f]{64}")


class Part(StrEnum):
    """The subject of a finding."""

    CHAIN = "chain"
    ENDS = "ends"
    FOLD = "fold"
    ANSWERS = "answers"
    CONTENT = "content"
    PEOPLE = "people"
    ROWS = "rows"
    LOG = "log"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Finding:
    """An inconsistency in the chain of a breakpoint, rule or admin subject, and the event at which it was found."""

    part: Part
    breakpoint_id: str | None
    seq: int | None
    what: str
    rule_id: str | None = None
    """Set instead of the breakpoint if the finding is about a rule."""
    admin_chain: str | None = None
    """Set instead of the breakpoint if the finding is about admin events."""


def stub(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """Return what a purge keeps of an event's metadata: its digest, which the event's hash covers."""
    return {PURGED: sha256(canonical(metadata))}


def stubbed(metadata: Mapping[str, Json]) -> str | None:
    """Return the digest in a stub, or None if the metadata is not a stub."""
    kept = metadata.get(PURGED) if len(metadata) == 1 else None
    return kept if isinstance(kept, str) and _STUB.fullmatch(kept) else None


UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that rows with unexpected values can cause, for example after tampering. They are reported as findings."""


class Linked(Protocol):
    """An event in a chain."""

    @property
    def seq(self) -> int: ...

    @property
    def previous(self) -> str: ...

    @property
    def hash(self) -> str: ...


Link = TypeVar("Link", bound=Linked)


def broken_links(
    events: Sequence[Link], hash_of: Callable[[Link], str], *, version: int, head: str
) -> Iterator[tuple[int | None, str]]:
    """Yield each problem in a chain with its event number. The last event must match `version` and `head`."""
    last, before = GENESIS, 0
    for event in events:
        if event.seq != before + 1:
            yield event.seq, f"the events between {before} and {event.seq} are missing"
        if event.previous != last:
            yield event.seq, "it does not link to the event before it"
        if event.hash != hash_of(event):
            yield event.seq, "its hash does not match its content"
        # Continue with the stored hash and number, so that a broken event does not cause findings for later events.
        last, before = event.hash, event.seq
    if version != before:
        yield None, f"its version is {version}, but its last event is number {before}"
    if head != last:
        yield None, "its head does not match the hash of its last event"


PURGED = "purged"
