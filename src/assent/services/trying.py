"""A pattern tried out: held against real breakpoints of the past, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from assent.domain.access import Permission, Principal
from assent.domain.expressions import Truth
from assent.domain.patterns import Finding, Pattern, explain, match, parse
from assent.domain.rules import subject_of
from assent.ports import Database
from assent.store.transaction import Transaction

LOOKED_AT = 1_000
"""How many of the newest breakpoints are looked at for gates that a pattern fits."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Example:
    """A breakpoint of the past, and what each part of the pattern met in it."""

    id: str
    gate: str
    title: str | None
    created_at: int
    held: Truth
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Explained:
    pattern: Pattern
    examples: Sequence[Example]


async def explained(database: Database[Transaction], text: str, *, by: Principal) -> Explained:
    """Read a pattern, or raise PatternError; show what it means for the newest breakpoints of its gates."""
    by.require(Permission.READ_PEOPLE)
    pattern = parse(text)
    found = await database.read(partial(_examples, pattern=pattern, project=by.project))
    return Explained(pattern, found)


def _examples(tx: Transaction, *, pattern: Pattern, project: str) -> list[Example]:
    return [_example(tx, pattern, breakpoint_id, project) for breakpoint_id in _newest(tx, pattern, project)]


def _newest(tx: Transaction, pattern: Pattern, project: str) -> list[str]:
    """Return the newest whose gate the pattern fits and whose content is still there."""
    if pattern.glob.literal:
        named = tx.history.newest(project, pattern.glob.text, limit=SHOWN * 2)
        gone = tx.holds.purged_at
        return [row.id for row in named if gone(row.id, project=project) is None][:SHOWN]
    rows = tx.metrics.newest(project, 0, tx.now() + 1, limit=LOOKED_AT)
    return [row.id for row in rows if row.purged_at is None and pattern.glob.matches(row.gate)][:SHOWN]


def _example(tx: Transaction, pattern: Pattern, breakpoint_id: str, project: str) -> Example:
    found = tx.breakpoints.look(breakpoint_id, project=project)
    subject = subject_of(found)
    findings = explain(pattern, subject)
    return Example(found.id, found.gate, found.title, found.created_at, match(pattern, subject), findings)
