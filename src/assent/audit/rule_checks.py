"""Checks that rules match their recorded events, and that auto-approvals follow from the rule's version at the time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from assent.audit.chain_checks import Stored
from assent.core.access import Kind
from assent.core.canonical import Json, link
from assent.core.chain import PURGED, UNREADABLE, Finding, Part, broken_links
from assent.core.errors import PatternError
from assent.core.patterns.pattern import Pattern, match, parse
from assent.core.plurals import plural
from assent.core.rule_changes import CHANGED, CREATED, REMOVED, RuleEvent, body, content
from assent.core.rulebook import Rule, RuleAction, RuleMode
from assent.core.rules import Source, subject_of
from assent.core.terms import Terms
from assent.core.timestamps import SECOND, from_iso

APART = 60 * SECOND
"""Tolerance between two timestamps. A change is dated when it is made, but other nodes see it only after the commit,
and correctly use the earlier version until then."""
COUNT = Source.AFTER_N.value


@dataclass(frozen=True, slots=True)
class StoredRule:
    """Everything that the database stores about one rule."""

    rule: Rule
    events: Sequence[RuleEvent]


@dataclass(frozen=True, slots=True)
class Shadow:
    """A stored match of a shadow rule, with the shadow results in the breakpoint's creation event."""

    rule_id: str
    breakpoint_id: str
    rule_version: int
    recommended: int
    at: int
    created_at: int | None
    told: Sequence[Mapping[str, Json]]
    said: Mapping[str, Json] | None
    """The rule's content in that version; None if the version does not exist."""


def rule_findings(stored: StoredRule) -> list[Finding]:
    """Return every inconsistency in a rule's rows, which would indicate tampering."""
    try:
        return list(_rule(stored))
    except UNREADABLE as error:
        what = f"its rows are inconsistent and cannot be read: {type(error).__name__}: {error}"
        return [Finding(Part.ROWS, None, None, what, stored.rule.id)]


def _rule(stored: StoredRule) -> Iterator[Finding]:
    rule, events = stored.rule, stored.events
    for seq, what in broken_links(events, _hash, version=rule.version, head=rule.head):
        yield Finding(Part.CHAIN, None, seq, what, rule.id)
    for event in events:
        expected = {CREATED} if event.seq == 1 else {CHANGED, REMOVED} if event is events[-1] else {CHANGED}
        if event.type not in expected:
            what = f"{event.type!r} is not a valid rule event here"
            yield Finding(Part.FOLD, None, event.seq, what, rule.id)
    if not events:
        yield Finding(Part.FOLD, None, None, "its first event is not a creation event", rule.id)
        return
    for name, row, events_say in _compared(rule, events):
        if row != events_say:
            what = f"its {name} is {row!s}, but its events say {events_say!s}"
            yield Finding(Part.FOLD, None, None, what, rule.id)


def _hash(event: RuleEvent) -> str:
    return link(event.previous, body(event))


def _compared(rule: Rule, events: Sequence[RuleEvent]) -> Iterator[tuple[str, Json, Json]]:
    first, last = events[0], events[-1]
    yield "project", rule.project, first.metadata.get("project")
    yield "source", rule.source, first.metadata.get("source")
    yield "created_by", rule.created_by, str(first.actor)
    yield "created_at", rule.created_at, first.at
    yield "updated_at", rule.updated_at, last.at
    yield "removed_at", rule.removed_at, last.at if last.type == REMOVED else None
    yield "content", content(rule), last.metadata.get("rule")


def approving(stored: Stored) -> str | None:
    """Return the name of the rule that approved a breakpoint, or None if a rule did not approve it."""
    by = stored.breakpoint.ended_by
    return by.name if by is not None and by.kind is Kind.RULE else None


def shadows_told(stored: Stored) -> list[str]:
    """Return the shadow rules that matched, according to the creation event."""
    try:
        return [each["rule"] for each in stored.events[0].metadata.get("shadow") or ()] if stored.events else []
    except UNREADABLE:
        return []  # the event's hash does not match either, and this is reported separately


def approval_findings(stored: Stored, history: Sequence[RuleEvent], *, approvals: int) -> list[Finding]:
    """Return every reason why an auto-approval is not valid.

    `history` contains the events of the approving rule, and `approvals` is the actual number of consecutive human
    approvals.
    """
    try:
        return list(_approval(stored, history, approvals))
    except UNREADABLE as error:
        what = f"its auto-approval cannot be read: {type(error).__name__}: {error}"
        return [Finding(Part.ROWS, stored.breakpoint.id, None, what)]


def _approval(stored: Stored, history: Sequence[RuleEvent], approvals: int) -> Iterator[Finding]:
    current, name = stored.breakpoint, approving(stored)
    recommended = current.auto_approval.get("recommended") is True
    if recommended and name is None:
        what = f"a rule approved it at creation, but its status is {current.decision or current.status}"
        yield Finding(Part.FOLD, current.id, None, what)
    if name is None:
        return
    yield from _alone(stored)
    if not recommended:
        yield _wrong(stored, f"it was approved by rule:{name}, but its creation event does not recommend an approval")
    for reason in _stops(stored):
        yield _wrong(stored, f"it was approved by rule:{name}, but {reason}")
    problems = _counted(stored, approvals) if name == COUNT else _followed(stored, name, history)
    for problem in problems:
        yield _wrong(stored, f"it was approved by rule:{name}, {problem}")


def _wrong(stored: Stored, what: str) -> Finding:
    return Finding(Part.PEOPLE, stored.breakpoint.id, None, what)


def _alone(stored: Stored) -> Iterator[Finding]:
    """Check that the breakpoint was released when it was created, with no events other than warnings and a purge."""
    lived = [(each.type, each.at) for each in stored.events if each.type not in {"warned", PURGED}]
    at = stored.breakpoint.created_at
    if lived != [("created", at), ("released", at)]:
        what = "a rule approved it, but it was not released immediately after its creation"
        yield Finding(Part.ENDS, stored.breakpoint.id, None, what)


def _stops(stored: Stored) -> Iterator[str]:
    """Yield the reasons, as far as they can still be checked, why no rule could approve the breakpoint."""
    current = stored.breakpoint
    if current.risk == "high":
        yield "it is high risk"
    if current.payload.get("hardStop") is True:
        yield "its agent required human approval"
    if not Terms.of(current.gate, current.payload).plain:
        yield "it requires an option or form answers"


def wanted(stored: Stored) -> int:
    """Return how many consecutive approvals a breakpoint requires, or 1 if a purge has deleted this number."""
    asked: Any = stored.breakpoint.payload.get("autoApproveAfterN")
    return 1 if stored.purged_at is not None else asked if isinstance(asked, int) else 0


def _counted(stored: Stored, approvals: int) -> Iterator[str]:
    said, asked = stored.breakpoint.auto_approval, wanted(stored)
    if "matchedRule" in said:
        yield "but its creation event records a rule"
    if asked < 1:
        yield "but it does not request auto-approval"
    elif said["consecutiveApprovals"] < asked:
        recorded = said["consecutiveApprovals"]
        yield f"but its creation event records {plural(recorded, 'consecutive approval')} instead of {asked}"
    elif approvals < asked:
        yield f"but the number of consecutive approvals was {approvals} instead of {asked}"


def _followed(stored: Stored, name: str, history: Sequence[RuleEvent]) -> Iterator[str]:
    created: Mapping[str, Json] = stored.events[0].metadata if stored.events else {}
    matched, version = stored.breakpoint.auto_approval.get("matchedRule"), created.get("ruleVersion")
    if matched != name:
        yield f"but its creation event records {matched or 'no rule'}"
    stood = next((each for each in history if each.seq == version), None)
    if not history:
        yield "which does not exist"
    elif stood is None:
        yield f"which has no version {version}"
    else:
        yield from _as_it_stood(stored, stood, history)


def _as_it_stood(stored: Stored, stood: RuleEvent, history: Sequence[RuleEvent]) -> Iterator[str]:
    current, said = stored.breakpoint, stood.metadata["rule"]
    at = current.created_at
    if history[0].metadata.get("project") != current.project:
        yield "which belongs to another project"
    if (said["action"], said["mode"], said["enabled"]) != (RuleAction.AUTO, RuleMode.LIVE, True):
        yield f"whose version {stood.seq} does not approve anything"
    elif stood.type == REMOVED or (said["expiresAt"] is not None and from_iso(said["expiresAt"]) <= at):
        yield f"whose version {stood.seq} had expired or been removed"
    after = [each.at for each in history if each.seq == stood.seq + 1]
    if stood.at > at + APART or any(each < at - APART for each in after):
        yield f"whose version {stood.seq} was not the current one at that time"
    if not _fits(said["pattern"], stored):
        yield "whose pattern does not match it"


def _fits(text: str, stored: Stored) -> bool:
    pattern, current = _read(text), stored.breakpoint
    if pattern is None:
        return False
    # A purge deletes the values that the expression compares, so only the gate can still be checked.
    if stored.purged_at is not None:
        return pattern.glob.matches(current.gate)
    return match(pattern, subject_of(current, claimed=current.agent_id_claimed)) is True


@lru_cache(maxsize=4096)
def _read(text: str) -> Pattern | None:
    try:
        return parse(text)
    except PatternError:
        return None


def missing_shadows(stored: Stored, there: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each shadow-mode match that the creation event records but that is not stored."""
    for name in sorted(set(shadows_told(stored)) - set(there)):
        what = f"the rule {name} matched it in shadow mode, but the match is not stored"
        yield Finding(Part.FOLD, stored.breakpoint.id, 1, what)


def shadow_findings(row: Shadow) -> list[Finding]:
    entry = {"rule": row.rule_id, "version": row.rule_version, "recommended": bool(row.recommended)}
    same = row.recommended in (0, 1) and row.at == row.created_at and entry in row.told
    if not same:
        what = f"the stored shadow result of rule {row.rule_id} differs from its creation event"
        return [Finding(Part.FOLD, row.breakpoint_id, 1, what)]
    if row.said is None or row.said.get("mode") != RuleMode.SHADOW:
        what = (
            f"the rule {row.rule_id} is recorded as a shadow match, but its version {row.rule_version} is "
            "not in shadow mode"
        )
        return [Finding(Part.FOLD, row.breakpoint_id, 1, what)]
    return []
