"""Reads complete rules with their events and shadow results in batches, for verification."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec

from assent.audit.rule_checks import APART, Shadow, StoredRule
from assent.core.breakpoint import Breakpoint
from assent.core.canonical import Json
from assent.core.chain import Finding, Part
from assent.core.rule_changes import RuleEvent
from assent.db.sql import Row, among
from assent.db.transaction import Store
from assent.policy.store.rules import COLUMNS, EVENT_COLUMNS, rule_event_of, rule_of

_RULES = f"SELECT {', '.join(COLUMNS)} FROM assent_rules WHERE id > :after"
_ONE_PROJECT = " AND project_id = :project_id"
_EVENTS = f"SELECT {', '.join(EVENT_COLUMNS)} FROM assent_rule_events"
_ENABLED = COLUMNS.index("enabled")
_SHADOWS_OF = "SELECT breakpoint_id, rule_id FROM assent_shadows"
_SHADOWS = """
    SELECT s.rule_id, s.breakpoint_id, s.rule_version, s.recommended, s.at, b.created_at, c.metadata, v.metadata
    FROM assent_shadows s
    LEFT JOIN assent_breakpoints b ON b.id = s.breakpoint_id
    LEFT JOIN assent_events c ON c.breakpoint_id = s.breakpoint_id AND c.seq = 1
    LEFT JOIN assent_rule_events v ON v.rule_id = s.rule_id AND v.seq = s.rule_version
    WHERE (s.rule_id, s.breakpoint_id) > (:after_rule, :after_breakpoint)"""
# Repeats the conditions of ix_assent_breakpoints_streak. An auto-approval may have missed a simultaneous rejection.
# Auto-approvals from before counts_as existed counted the approvals for all tokens.
_APPROVALS = """
    SELECT decision FROM assent_breakpoints
    WHERE project_id = :project_id AND gate = :gate AND agent_id = :agent_id
      AND (created_by_id = :created_by_id
        OR EXISTS (SELECT 1 FROM assent_breakpoints me WHERE me.id = :id AND me.counts_as IS NULL))
      AND decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'
      AND ended_by NOT LIKE 'person:%/%'
      AND ended_at <= :until AND (decision = 'approved' OR ended_at <= :since)
    ORDER BY ended_at DESC, decision DESC LIMIT :limit"""
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, msgspec.MsgspecError)

ORPHANS = (
    """SELECT rule_id, seq, 'a row of assent_rule_events belongs to a rule that does not exist'
    FROM assent_rule_events c WHERE NOT EXISTS (SELECT 1 FROM assent_rules r WHERE r.id = c.rule_id)""",
    """SELECT rule_id, NULL, 'a row of assent_shadows belongs to a rule that does not exist' FROM assent_shadows c
    WHERE NOT EXISTS (SELECT 1 FROM assent_rules r WHERE r.id = c.rule_id)""",
)


@dataclass(frozen=True, slots=True)
class RuleBatch:
    """A batch of complete rules; `last` is where the next batch starts, or None after the last batch."""

    stored: Sequence[StoredRule]
    unreadable: Sequence[Finding]
    events: int
    last: str | None


class RuleAudit(Store):
    def batch(self, *, after: str, limit: int, project: str | None = None) -> RuleBatch:
        test = _ONE_PROJECT if project is not None else ""
        params = {"after": after, "limit": limit, "project_id": project}
        rows = self._session.all(f"{_RULES}{test} ORDER BY id LIMIT :limit", params)
        events = self._events([row[0] for row in rows])
        stored: list[StoredRule] = []
        unreadable: list[Finding] = []
        for row in rows:
            try:
                stored.append(_stored(row, events.get(row[0], ())))
            except _UNREADABLE as error:
                unreadable.append(_unreadable(row[0], error))
        counted = sum(map(len, events.values()))
        return RuleBatch(stored, unreadable, counted, rows[-1][0] if len(rows) == limit else None)

    def histories(self, ids: list[str]) -> dict[str, Sequence[RuleEvent]]:
        """Return the events of these rules, omitting rules with unreadable events."""
        found: dict[str, Sequence[RuleEvent]] = {}
        for rule_id, rows in self._events(ids).items():
            try:
                found[rule_id] = [rule_event_of(row) for row in rows]
            except _UNREADABLE:
                continue
        return found

    def _events(self, ids: list[str]) -> dict[str, list[Row]]:
        test, params = among("rule_id", ids, self._session.dialect)
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self._session.all(f"{_EVENTS} WHERE {test} ORDER BY rule_id, seq", params):
            found[row[0]].append(row)
        return found

    def approvals(self, raised: Breakpoint, *, limit: int) -> int:
        """Count the consecutive approvals by people before this breakpoint was created, up to `limit`."""
        params = {
            "project_id": raised.project,
            "gate": raised.gate,
            "agent_id": raised.agent_id,
            "created_by_id": raised.created_by_id,
            "id": raised.id,
            "until": raised.created_at + APART,
            "since": raised.created_at - APART,
            "limit": limit,
        }
        rows = self._session.all(_APPROVALS, params)
        return sum(1 for _ in takewhile(lambda row: row[0] == "approved", rows))

    def shadowing(self, told: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
        """Return which of these rules have a stored shadow result, by breakpoint."""
        dialect = self._session.dialect
        breakpoints, params = among("breakpoint_id", list(told), dialect)
        rules, more = among("rule_id", sorted({name for names in told.values() for name in names}), dialect, name="of")
        found: dict[str, set[str]] = defaultdict(set)
        for breakpoint_id, rule_id in self._session.all(
            f"{_SHADOWS_OF} WHERE {rules} AND {breakpoints}", params | more
        ):
            found[breakpoint_id].add(rule_id)
        return found

    def shadows(
        self, *, after: tuple[str, str], limit: int, project: str | None = None, breakpoint_id: str | None = None
    ) -> list[Shadow]:
        tests = " AND b.project_id = :project_id" if project is not None else ""
        tests += " AND s.breakpoint_id = :id" if breakpoint_id is not None else ""
        params = {
            "after_rule": after[0],
            "after_breakpoint": after[1],
            "limit": limit,
            "project_id": project,
            "id": breakpoint_id,
        }
        rows = self._session.all(f"{_SHADOWS}{tests} ORDER BY s.rule_id, s.breakpoint_id LIMIT :limit", params)
        return [_shadow(row) for row in rows]

    def orphans(self) -> list[Finding]:
        return [
            Finding(Part.ROWS, None, seq, what, rule_id)
            for statement in ORPHANS
            for rule_id, seq, what in self._session.all(statement, {})
        ]


def _stored(row: Row, events: Sequence[Row]) -> StoredRule:
    if row[_ENABLED] not in (0, 1):
        msg = "enabled is neither 0 nor 1"
        raise ValueError(msg)
    return StoredRule(rule_of(row), [rule_event_of(each) for each in events])


def _unreadable(rule_id: str, error: Exception) -> Finding:
    return Finding(Part.ROWS, None, None, f"its rows cannot be read: {type(error).__name__}: {error}", rule_id)


def _shadow(row: Row) -> Shadow:
    rule_id, breakpoint_id, version, recommended, at, created_at, creation, change = row
    told: Any = _part(creation, "shadow") or ()
    return Shadow(rule_id, breakpoint_id, version, recommended, at, created_at, told, _part(change, "rule"))


def _part(metadata: str | None, name: str) -> Json:
    """Return part of an event's metadata, or None if it cannot be read; another check reports unreadable events."""
    try:
        return msgspec.json.decode(metadata or "{}").get(name)
    except _UNREADABLE:
        return None
