"""Rules with their change events, the results of shadow rules, and the approval counts that rules use."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec

from assent.core.access import Actor, removed_project
from assent.core.canonical import Json
from assent.core.errors import AssentError, NotFound, PreconditionFailed
from assent.core.rule_changes import REMOVED, RuleEvent, content
from assent.core.rulebook import Rule
from assent.core.rules import ShadowMatch
from assent.db.sql import insert, to_json
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

COLUMNS = (
    "id", "project_id", "pattern", "action", "mode", "enabled", "expires_at", "note", "place", "source", "created_by",
    "created_at", "updated_at", "removed_at", "version", "head",
)  # fmt: skip
INSERT = insert("assent_rules", COLUMNS)
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_rules WHERE project_id = :project_id"
SELECT_STANDING = f"{SELECT} AND removed_at IS NULL ORDER BY place, created_at, id"
SELECT_ROOM = """
    SELECT count(*) - count(removed_at), max(place) FROM assent_rules WHERE project_id = :project_id"""
UPDATE = """
    UPDATE assent_rules
    SET pattern = :pattern, action = :action, mode = :mode, enabled = :enabled, expires_at = :expires_at, note = :note,
        place = :place, updated_at = :updated_at, removed_at = :removed_at, version = :version, head = :head
    WHERE id = :id AND project_id = :project_id AND version = :expected AND removed_at IS NULL"""
EVENT_COLUMNS = ("rule_id", "seq", "type", "actor", "at", "metadata", "previous", "hash")
INSERT_EVENT = insert("assent_rule_events", EVENT_COLUMNS)
SELECT_EVENTS = f"SELECT {', '.join(EVENT_COLUMNS)} FROM assent_rule_events WHERE rule_id = :rule_id ORDER BY seq"
# Updating this row serializes changes to rules and policy; creating a breakpoint only reads it.
TURN_PAGE = "UPDATE assent_projects SET rulebook = rulebook + :step WHERE id = :project_id AND removed_at IS NULL"
SELECT_POLICY = "SELECT rulebook, policy FROM assent_projects WHERE id = :project_id"
INSERT_SHADOW = insert("assent_shadows", ("rule_id", "breakpoint_id", "rule_version", "recommended", "at"))
# Repeats the conditions of ix_assent_breakpoints_streak literally; otherwise, SQLite would not use the index. If an
# approval and a rejection have the same time, the rejection counts as the later decision. Only names of imported
# authors contain a slash; their answers do not count, because their identities were not verified.
SELECT_IN_A_ROW = """
    SELECT decision FROM assent_breakpoints
    WHERE project_id = :project_id AND gate = :gate AND agent_id = :agent_id
      AND decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'
      AND ended_by NOT LIKE 'person:%/%'
    ORDER BY ended_at DESC, decision DESC LIMIT :limit"""
SELECT_REMOVED = "SELECT 1 FROM assent_projects WHERE id = :project_id AND removed_at IS NOT NULL"
SELECT_VERSION = "SELECT rulebook FROM assent_projects WHERE id = :project_id"
# Repeats the conditions of ix_assent_breakpoints_counted and ix_assent_breakpoints_rejected literally.
_ASKED = "project_id = :project_id AND gate = :gate AND agent_id = :agent_id{whose}"
_COUNTED = f"""
    FROM assent_breakpoints
    WHERE {_ASKED} AND counts_as = :counts_as
      AND decision = 'approved' AND ended_by NOT LIKE 'rule:%' AND ended_by NOT LIKE 'person:%/%'
      AND ended_at > coalesce((
        SELECT max(ended_at) FROM assent_breakpoints
        WHERE {_ASKED} AND decision = 'rejected' AND ended_by NOT LIKE 'rule:%'
      ), -1)"""
_WHOSE = " AND created_by_id = :created_by_id"
SELECT_GROUND = f"""
    SELECT p.rulebook, (SELECT count(*) FROM (SELECT 1 AS one {_COUNTED} LIMIT :limit) AS approvals)
    FROM assent_projects p WHERE p.id = :project_id AND p.removed_at IS NULL"""
SELECT_COUNTED = f"SELECT id, payload, result {_COUNTED} ORDER BY ended_at DESC, id DESC LIMIT :limit"


@dataclass(frozen=True, slots=True)
class Pages:
    """A rulebook's contents and version."""

    version: int
    policy: Mapping[str, Any]
    rules: list[Rule]


@dataclass(frozen=True, slots=True)
class Ground:
    """The rulebook's version, and the number of consecutive approvals by people."""

    version: int
    consecutive: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Which approvals are counted, and the maximum count."""

    gate: str
    agent_id: str
    created_by_id: str | None
    counts_as: str
    limit: int


class Approval(msgspec.Struct, array_like=True):
    """An approval that counts toward autoApproveAfterN."""

    id: str
    payload: Mapping[str, Any]
    edited: bool


class Rules(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def pages(self, project: str) -> Pages:
        # Read the version first: if the rules change before they are read, the outdated version causes another read.
        rows = self._session.all(SELECT_POLICY, {"project_id": project})
        if not rows:
            raise _no_project(project)
        return Pages(rows[0][0], msgspec.json.decode(rows[0][1]), self.standing(project))

    def turn_page(self, project: str) -> None:
        """Change the rulebook's version, and lock rules and policy until this transaction ends."""
        # The step is random, so that a version from a rolled-back transaction is never reused.
        if self._session.change(TURN_PAGE, {"project_id": project, "step": 1 + secrets.randbelow(2**32)}) != 1:
            raise self._closed(project)

    def standing(self, project: str) -> list[Rule]:
        return [rule_of(row) for row in self._session.all(SELECT_STANDING, {"project_id": project})]

    def get(self, rule_id: str, *, project: str) -> Rule:
        """Return a rule, even if it has been removed."""
        rows = self._session.all(f"{SELECT} AND id = :id", {"project_id": project, "id": rule_id})
        if not rows:
            msg = f"Rule {rule_id} not found in this project."
            raise NotFound(msg)
        return rule_of(rows[0])

    def room(self, project: str) -> tuple[int, int]:
        """Return the number of current rules, and the position after the highest position ever used."""
        count, last = self._session.all(SELECT_ROOM, {"project_id": project})[0]
        return count, (last or 0) + 1

    def add(self, rule: Rule, event: RuleEvent) -> None:
        self._session.write(INSERT, [_row(rule)])
        self._session.write(INSERT_EVENT, [_event_row(event)])
        self._record(rule, event, before=None)

    def save(self, rule: Rule, event: RuleEvent) -> None:
        """Save a changed rule if the stored rule still has the version that was read."""
        row = _row(rule) | {"expected": rule.version - 1}
        for fixed in ("source", "created_by", "created_at"):
            del row[fixed]
        before = content(self.get(rule.id, project=rule.project))
        if self._session.change(UPDATE, row) != 1:
            raise PreconditionFailed(version=self.get(rule.id, project=rule.project).version)
        self._session.write(INSERT_EVENT, [_event_row(event)])
        self._record(rule, event, before=before)

    def _record(self, rule: Rule, event: RuleEvent, *, before: dict[str, Json] | None) -> None:
        """Record an admin event that refers to the event in the rule's own history."""
        after = content(rule) if event.type != REMOVED else None
        more = {"ruleEvent": {"seq": event.seq, "hash": event.hash}}
        self._log.record(event.type, f"rule:{rule.id}", project=rule.project, before=before, after=after, more=more)

    def events(self, rule_id: str) -> list[RuleEvent]:
        return [rule_event_of(row) for row in self._session.all(SELECT_EVENTS, {"rule_id": rule_id})]

    def version(self, project: str) -> int:
        """Return the rulebook's version."""
        rows = self._session.all(SELECT_VERSION, {"project_id": project})
        if not rows:
            raise _no_project(project)
        return int(rows[0][0])

    def ground(self, project: str, streak: Streak) -> Ground:
        """Read the version and the approval count in one statement, so that they are consistent."""
        rows = self._session.all(*_statement(SELECT_GROUND, project, streak))
        if not rows:
            raise self._closed(project)
        return Ground(*rows[0])

    def _closed(self, project: str) -> AssentError:
        """Return the error for a project that was removed or does not exist."""
        if self._session.all(SELECT_REMOVED, {"project_id": project}):
            return removed_project(project)
        return _no_project(project)

    def counted(self, project: str, streak: Streak) -> list[Approval]:
        """Return the approvals that `ground` counts, newest first."""
        rows = self._session.all(*_statement(SELECT_COUNTED, project, streak))
        return [Approval(row[0], msgspec.json.decode(row[1]), _edited(row[2])) for row in rows]

    def in_a_row(self, project: str, gate: str, agent_id: str, *, limit: int) -> int:
        """Count human approvals for a gate and agent since the last rejection, regardless of their content."""
        params = {"project_id": project, "gate": gate, "agent_id": agent_id, "limit": limit}
        rows = self._session.all(SELECT_IN_A_ROW, params)
        return sum(1 for _ in takewhile(lambda row: row[0] == "approved", rows))

    def add_shadows(self, breakpoint_id: str, matches: Sequence[ShadowMatch], *, at: int) -> None:
        rows = [
            {
                "rule_id": each.rule.id,
                "breakpoint_id": breakpoint_id,
                "rule_version": each.rule.version,
                "recommended": int(each.recommended),
                "at": at,
            }
            for each in matches
        ]
        if rows:
            self._session.write(INSERT_SHADOW, rows)


def _statement(statement: str, project: str, streak: Streak) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {
        "project_id": project,
        "gate": streak.gate,
        "agent_id": streak.agent_id,
        "counts_as": streak.counts_as,
        "limit": streak.limit,
    }
    if streak.created_by_id is None:
        return statement.format(whose=""), params
    return statement.format(whose=_WHOSE), params | {"created_by_id": streak.created_by_id}


def _edited(result: str | None) -> bool:
    return result is not None and bool(msgspec.json.decode(result).get("edits"))


def _no_project(project: str) -> NotFound:
    return NotFound(f"Project {project} not found.")


def _row(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "project_id": rule.project,
        "pattern": rule.pattern,
        "action": rule.action,
        "mode": rule.mode,
        "enabled": int(rule.enabled),
        "expires_at": rule.expires_at,
        "note": rule.note,
        "place": rule.order,
        "source": rule.source,
        "created_by": rule.created_by,
        "created_at": rule.created_at,
        "updated_at": rule.updated_at,
        "removed_at": rule.removed_at,
        "version": rule.version,
        "head": rule.head,
    }


def rule_of(row: Sequence[Any]) -> Rule:
    found = dict(zip(COLUMNS, row, strict=True))
    project, place, enabled = found.pop("project_id"), found.pop("place"), found.pop("enabled")
    return Rule(**found, project=project, order=place, enabled=bool(enabled))


def _event_row(event: RuleEvent) -> dict[str, Any]:
    return {
        "rule_id": event.rule_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "at": event.at,
        "metadata": to_json(event.metadata),
        "previous": event.previous,
        "hash": event.hash,
    }


def rule_event_of(row: Sequence[Any]) -> RuleEvent:
    rule_id, seq, kind, actor, at, metadata, previous, hashed = row
    return RuleEvent(rule_id, seq, kind, Actor.parse(actor), at, msgspec.json.decode(metadata), previous, hashed)
