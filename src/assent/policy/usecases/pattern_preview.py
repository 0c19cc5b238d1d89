"""Previews a pattern: evaluates it against past breakpoints, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from assent.audit.store.retention import Holds
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.history import History
from assent.breakpoints.store.metrics import Metrics
from assent.core.access import Permission, Principal
from assent.core.patterns.expressions import Truth
from assent.core.patterns.pattern import Finding, Pattern, explain, match, parse
from assent.core.rules import subject_of
from assent.db.transaction import Transaction
from assent.kernel.ports import Database

LOOKED_AT = 1_000
"""Number of recent breakpoints that are searched for matching gates."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Example:
    """A past breakpoint, with the result of each part of the pattern."""

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


async def explained(database: Database[Transaction], text: str, *, by: Principal, loose: bool = False) -> Explained:
    """Parse a pattern and evaluate it against the newest breakpoints at matching gates.

    Raises PatternError for an invalid pattern. Set `loose` for patterns of `never` rules.
    """
    by.require(Permission.READ_PEOPLE)
    pattern = parse(text)
    found = await database.read(partial(_examples, pattern=pattern, project=by.project, loose=loose))
    return Explained(pattern, found)


def _examples(tx: Transaction, *, pattern: Pattern, project: str, loose: bool) -> list[Example]:
    newest = _newest(tx, pattern, project, loose=loose)
    return [_example(tx, pattern, breakpoint_id, project, loose=loose) for breakpoint_id in newest]


def _newest(tx: Transaction, pattern: Pattern, project: str, *, loose: bool) -> list[str]:
    """Return the newest breakpoints whose gates match and whose content has not been purged."""
    if pattern.glob.literal and not loose:
        # Read more breakpoints than are shown, because some may have been purged.
        named = tx[History].newest(project, pattern.glob.text, limit=SHOWN * 2)
        gone = tx[Holds].purged_at
        return [row.id for row in named if gone(row.id, project=project) is None][:SHOWN]
    rows = tx[Metrics].newest(project, 0, tx.now() + 1, limit=LOOKED_AT)
    fits = pattern.glob.matches_loosely if loose else pattern.glob.matches
    return [row.id for row in rows if row.purged_at is None and fits(row.gate)][:SHOWN]


def _example(tx: Transaction, pattern: Pattern, breakpoint_id: str, project: str, *, loose: bool) -> Example:
    found = tx[Breakpoints].look(breakpoint_id, project=project)
    subject = subject_of(found, claimed=found.agent_id_claimed)
    held, findings = match(pattern, subject, loose=loose), explain(pattern, subject, loose=loose)
    return Example(found.id, found.gate, found.title, found.created_at, held, findings)
