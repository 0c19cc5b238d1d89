"""Rules with the events of their changes, what shadow rules said, and the counts that rules go by."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec

from assent.domain.access import Actor
from assent.domain.errors import NotFound, PreconditionFailed
from assent.domain.rule_changes import RuleEvent
from assent.domain.rulebook import Rule
from assent.domain.rules import ShadowMatch
from assent.ports import Session
from assent.store.breakpoints import to_json
from assent.store.sql import insert

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
# Whoever changes rules or policy meets here, one after the other; whoever raises breakpoints only looks.
TURN_PAGE = "UPDATE assent_projects SET rulebook = rulebook + :step WHERE id = :project_id"
SELECT_POLICY = "SELECT rulebook, policy FROM assent_projects WHERE id = :project_id"
INSERT_SHADOW = insert("assent_shadows", ("rule_id", "breakpoint_id", "rule_version", "recommended", "at"))
# The tests of ix_assent_breakpoints_streak, word by word: else SQLite does not use it. Of an approval and a rejection
# at the same moment, the rejection counts as the later one. Only names of imported authors have a slash: what they said
# does not count, because nobody here knows who they are.
SELECT_GROUND = """
    SELECT p.rulebook, d.decision
    FROM assent_projects p LEFT JOIN (
        SELECT decision, ended_at FROM assent_breakpoints
        WHERE project_id = :project_id AND gate = :gate AND agent_id = :agent_id
          AND decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'
          AND ended_by NOT LIKE 'person:%/%'
        ORDER BY ended_at DESC, decision DESC LIMIT :limit
    ) d ON 1 = 1
    WHERE p.id = :project_id ORDER BY d.ended_at DESC, d.decision DESC"""


@dataclass(frozen=True, slots=True)
class Pages:
    """Everything a rulebook is made of, and the count it stands at."""

    version: int
    policy: Mapping[str, Any]
    rules: list[Rule]


@dataclass(frozen=True, slots=True)
class Ground:
    """The count the rulebook stands at, and how often people approved in a row."""

    version: int
    consecutive: int


class Rules:
    def __init__(self, session: Session) -> None:
        self._session = session

    def pages(self, project: str) -> Pages:
        # The count first: rules that are changed in between are read again by whoever asks next.
        rows = self._session.all(SELECT_POLICY, {"project_id": project})
        if not rows:
            msg = f"There is no project {project}."
            raise NotFound(msg)
        return Pages(rows[0][0], msgspec.json.decode(rows[0][1]), self.standing(project))

    def turn_page(self, project: str) -> None:
        """Say that rules or policy change; until this transaction ends, nobody else changes them."""
        # By chance: what was read in a transaction that was taken back must not pass for what comes in its place.
        self._session.change(TURN_PAGE, {"project_id": project, "step": 1 + secrets.randbelow(2**32)})

    def standing(self, project: str) -> list[Rule]:
        return [rule_of(row) for row in self._session.all(SELECT_STANDING, {"project_id": project})]

    def get(self, rule_id: str, *, project: str) -> Rule:
        """Return a rule, also one that was removed."""
        rows = self._session.all(f"{SELECT} AND id = :id", {"project_id": project, "id": rule_id})
        if not rows:
            msg = f"There is no rule {rule_id} in this project."
            raise NotFound(msg)
        return rule_of(rows[0])

    def room(self, project: str) -> tuple[int, int]:
        """Return how many rules stand, and the place after the last there ever was."""
        count, last = self._session.all(SELECT_ROOM, {"project_id": project})[0]
        return count, (last or 0) + 1

    def add(self, rule: Rule, event: RuleEvent) -> None:
        self._session.write(INSERT, [_row(rule)])
        self._session.write(INSERT_EVENT, [_event_row(event)])

    def save(self, rule: Rule, event: RuleEvent) -> None:
        """Write a changed rule if it is still the one that was read."""
        row = _row(rule) | {"expected": rule.version - 1}
        for fixed in ("source", "created_by", "created_at"):
            del row[fixed]
        if self._session.change(UPDATE, row) != 1:
            raise PreconditionFailed(version=self.get(rule.id, project=rule.project).version)
        self._session.write(INSERT_EVENT, [_event_row(event)])

    def events(self, rule_id: str) -> list[RuleEvent]:
        return [rule_event_of(row) for row in self._session.all(SELECT_EVENTS, {"rule_id": rule_id})]

    def ground(self, project: str, gate: str, agent_id: str, *, limit: int) -> Ground:
        """Read what a recommendation stands on, in one statement; approvals are counted at most this far back."""
        params = {"project_id": project, "gate": gate, "agent_id": agent_id, "limit": limit}
        rows = self._session.all(SELECT_GROUND, params)
        if not rows:
            msg = f"There is no project {project}."
            raise NotFound(msg)
        in_a_row = takewhile(lambda row: row[1] == "approved", rows)
        return Ground(rows[0][0], sum(1 for _ in in_a_row))

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
