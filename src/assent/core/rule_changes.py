"""Rule changes as events with an actor and a reason, linked in a hash chain for each rule."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assent.core.access import Actor
from assent.core.canonical import GENESIS, Json, link
from assent.core.rulebook import Rule
from assent.core.timestamps import iso

CREATED, CHANGED, REMOVED = "rule-created", "rule-changed", "rule-removed"


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """A recorded change. `seq` starts at 1 for each rule and equals the version that the change produced."""

    rule_id: str
    seq: int
    type: str
    actor: Actor
    at: int
    metadata: Mapping[str, Json]
    previous: str
    hash: str


def content(rule: Rule) -> dict[str, Json]:
    """Return the content of a rule, without its history."""
    return {
        "pattern": rule.pattern,
        "action": rule.action,
        "mode": rule.mode,
        "enabled": rule.enabled,
        "expiresAt": iso(rule.expires_at) if rule.expires_at is not None else None,
        "note": rule.note,
        "order": rule.order,
    }


def created(
    rule: Rule, *, actor: Actor, at: int, why: str | None = None, imported: Mapping[str, Json] | None = None
) -> tuple[Rule, RuleEvent]:
    """Record a new rule, whose project and source cannot change later.

    `imported` is the unverified origin according to the imported file. The actor is the person who imports the file.
    """
    origin: dict[str, Json] = {"project": rule.project, "source": rule.source}
    if imported is not None:
        origin["imported"] = dict(imported)
    first = replace(rule, created_at=at, created_by=str(actor), version=0, head=GENESIS)
    return _recorded(first, CREATED, actor=actor, at=at, metadata=origin | _said(first, why))


def changed(rule: Rule, *, actor: Actor, at: int, why: str | None = None) -> tuple[Rule, RuleEvent]:
    return _recorded(rule, CHANGED, actor=actor, at=at, metadata=_said(rule, why))


def removed(rule: Rule, *, actor: Actor, at: int, why: str | None = None) -> tuple[Rule, RuleEvent]:
    return _recorded(replace(rule, removed_at=at), REMOVED, actor=actor, at=at, metadata=_said(rule, why))


def _said(rule: Rule, why: str | None) -> dict[str, Json]:
    said: dict[str, Json] = {"rule": content(rule)}
    return said if why is None else said | {"why": why}


def _recorded(rule: Rule, kind: str, *, actor: Actor, at: int, metadata: Mapping[str, Json]) -> tuple[Rule, RuleEvent]:
    seq = rule.version + 1
    event = RuleEvent(rule.id, seq, kind, actor, at, metadata, rule.head, "")
    event = replace(event, hash=link(rule.head, body(event)))
    return replace(rule, version=seq, head=event.hash, updated_at=at), event


def body(event: RuleEvent) -> dict[str, Json]:
    """Return the fields that the hash of an event covers."""
    return {
        "ruleId": event.rule_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "at": event.at,
        "metadata": event.metadata,
    }
