"""The contents of an auditor's export: events with their details, and the current state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.canonical import Json
from assent.db.sql import Row
from assent.db.transaction import Store
from assent.platform.admin_events import CHAIN, USE_CHAIN

_SAID = "{e}.type, {e}.actor, {e}.at, {e}.metadata, {e}.previous, {e}.hash"
_BREAKPOINTS = f"""
    SELECT l.position, l.subject_id, l.seq, {_SAID.format(e="e")} FROM assent_leaves l
    JOIN assent_events e ON e.breakpoint_id = l.subject_id AND e.seq = l.seq"""
_RULES = f"""
    SELECT l.position, l.subject_id, l.seq, {_SAID.format(e="e")} FROM assent_leaves l
    JOIN assent_rule_events e ON e.rule_id = l.subject_id AND e.seq = l.seq"""
_ADMIN = f"""
    SELECT l.position, l.subject_id, l.seq, {_SAID.format(e="e")} FROM assent_leaves l
    JOIN assent_admin_events e ON e.chain_id = l.subject_id AND e.seq = l.seq"""
_RANGE = " WHERE l.position >= :first AND l.position < :upto"
_OF_PROJECT = " AND EXISTS (SELECT 1 FROM assent_{table} p WHERE p.id = {subject} AND p.project_id = :project_id)"
# Only complete chains can be verified: the project's chain, and the chains of its receipts.
_ADMIN_OF_PROJECT = (
    f" AND ({{subject}} = '{CHAIN}' || :project_id"
    f" OR (substr({{subject}}, 1, {len(USE_CHAIN)}) = '{USE_CHAIN}' AND e.project_id = :project_id))"
)
_CHAINS = "SELECT id, version, head FROM assent_admin_chains"
_UNSIGNED = f"""
    SELECT NULL, u.subject_id, u.seq, {_SAID.format(e="e")} FROM assent_unsigned_events u
    JOIN {{table}} e ON e.{{subject}} = u.subject_id AND e.seq = u.seq
    WHERE (u.subject_id, u.seq) > (:after_id, :after_seq)"""
_STANDING = """
    SELECT ordinal, id, project_id, status, decision, digest, version, head, purged_at, agent_id, run_id, title, gate,
           tags, payload
    FROM assent_breakpoints WHERE ordinal > :after"""
_USES = """
    SELECT u.breakpoint_id, u.nonce, u.key_id, u.used_at, u.used_by
    FROM assent_receipt_uses u JOIN assent_breakpoints b ON b.id = u.breakpoint_id WHERE u.breakpoint_id > :after"""
_RULE_COLUMNS = ("id", "project", "pattern", "action", "version", "head")
_RULE_ROWS = "SELECT id, project_id, pattern, action, version, head FROM assent_rules"


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A breakpoint event, rule event or admin event, with its position in the log (0 if it is not in the log yet)."""

    of: str
    position: int
    subject_id: str
    seq: int
    type: str
    actor: str
    at: int
    metadata: Mapping[str, Json]
    previous: str
    hash: str

    @property
    def place(self) -> tuple[str, int]:
        return self.subject_id, self.seq


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a receipt, identified by its breakpoint."""

    place: str
    state: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Standing:
    """A breakpoint's state and, unless it was purged, the content that its digest covers."""

    place: int
    id: str
    project: str
    status: str
    decision: str | None
    digest: str
    version: int
    head: str
    content: Mapping[str, Json] | None


class AuditExport(Store):
    def logged(self, first: int, end: int, *, project: str | None) -> list[LoggedEvent]:
        """Return the events in a range of the log, in order."""
        params = {"first": first, "upto": end, "project_id": project}
        selects = {"breakpoint": _BREAKPOINTS, "rule": _RULES, "admin": _ADMIN}
        statements = {of: select + _RANGE for of, select in selects.items()}
        found = self._each_kind(statements, params, project, "l.subject_id")
        return sorted(found, key=lambda each: each.position)

    def unsigned(self, after: tuple[str, int], *, limit: int, project: str | None) -> list[LoggedEvent]:
        """Return events that no checkpoint covers yet, ordered by subject."""
        params = {"after_id": after[0], "after_seq": after[1], "limit": limit, "project_id": project}
        end = " ORDER BY u.subject_id, u.seq LIMIT :limit"
        statements = {
            "breakpoint": _UNSIGNED.format(table="assent_events", subject="breakpoint_id"),
            "rule": _UNSIGNED.format(table="assent_rule_events", subject="rule_id"),
            "admin": _UNSIGNED.format(table="assent_admin_events", subject="chain_id"),
        }
        found = self._each_kind(statements, params, project, "u.subject_id", end)
        return sorted(found, key=lambda each: each.place)[:limit]

    def _each_kind(
        self, statements: Mapping[str, str], params: Mapping[str, Any], project: str | None, subject: str, end: str = ""
    ) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        for of, statement in statements.items():
            of_project = _ADMIN_OF_PROJECT if of == "admin" else _OF_PROJECT
            test = "" if project is None else of_project.format(table=f"{of}s", subject=subject)
            found += [_event(of, row) for row in self._session.all(statement + test + end, params)]
        return found

    def breakpoints(self, after: int, *, limit: int, project: str | None) -> list[Standing]:
        test = "" if project is None else " AND project_id = :project_id"
        params = {"after": after, "limit": limit, "project_id": project}
        rows = self._session.all(f"{_STANDING}{test} ORDER BY ordinal LIMIT :limit", params)
        return [_standing(row) for row in rows]

    def rules(self, *, project: str | None) -> list[dict[str, Any]]:
        test = "" if project is None else " WHERE project_id = :project_id"
        rows = self._session.all(f"{_RULE_ROWS}{test} ORDER BY id", {"project_id": project})
        return [dict(zip(_RULE_COLUMNS, row, strict=True)) for row in rows]

    def chains(self, *, project: str | None) -> list[dict[str, Any]]:
        """Return the heads of the admin event chains."""
        test = "" if project is None else " WHERE id = :id"
        rows = self._session.all(f"{_CHAINS}{test} ORDER BY id", {"id": f"{CHAIN}{project}"})
        return [dict(zip(("id", "version", "head"), row, strict=True)) for row in rows]

    def uses(self, after: str, *, limit: int, project: str | None) -> list[Use]:
        """Return a batch of used receipts."""
        test = "" if project is None else " AND b.project_id = :project_id"
        params = {"after": after, "limit": limit, "project_id": project}
        rows = self._session.all(f"{_USES}{test} ORDER BY u.breakpoint_id LIMIT :limit", params)
        names = ("nonce", "keyId", "usedAt", "usedBy")
        return [Use(row[0], dict(zip(names, row[1:], strict=True))) for row in rows]


def _event(of: str, row: Row) -> LoggedEvent:
    position, subject_id, seq, kind, actor, at, metadata, *chain = row
    return LoggedEvent(of, position or 0, subject_id, seq, kind, actor, at, msgspec.json.decode(metadata), *chain)


def _standing(row: Sequence[Any]) -> Standing:
    place, id_, project, status, decision, digest, version, head, *rest = row
    purged_at, agent_id, run_id, title, gate, tags, payload = rest
    content = {
        "project": project,
        "agentId": agent_id,
        "runId": run_id,
        "title": title,
        "gate": gate,
        "tags": msgspec.json.decode(tags),
        "payload": msgspec.json.decode(payload),
    }
    kept = content if purged_at is None else None
    return Standing(place, id_, project, status, decision, digest, version, head, kept)
