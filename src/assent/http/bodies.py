"""What an administrator is shown as JSON, by the API and by the commands alike."""

from collections.abc import Sequence
from typing import Any

from assent.domain.access import Kind
from assent.domain.checkpoints import verifier_key
from assent.domain.instants import iso
from assent.domain.receipts import spelt
from assent.services.checkpoints import Consistency, Inclusion
from assent.services.people import NewToken, refuse_unbound
from assent.services.secrets import CallbackSecret
from assent.store.checkpoints import CheckpointKey, StoredCheckpoint
from assent.store.retention import Hold
from assent.store.tokens import Token
from assent.wire.tokens import CreateToken


def token_body(token: Token, names: dict[str, str]) -> dict[str, Any]:
    body = {
        "id": token.id,
        "kind": token.kind.value,
        "name": token.name,
        "person": names.get(token.person_id or ""),
        "roles": [role.value for role in sorted(token.roles)],
        "gates": list(token.gates),
        "agentIds": list(token.agent_ids),
        "agentIdClaimed": token.claims,
        "processes": list(token.processes),
        "agent": (token.agent or token.id) if token.kind is Kind.AGENT else None,
        "createsPerMinute": token.creates_per_minute,
        "createdBy": token.created_by,
    }
    moments = {
        "createdAt": token.created_at,
        "expiresAt": token.expires_at,
        "lastUsedAt": token.last_used_at,
        "revokedAt": token.revoked_at,
    }
    return body | {name: iso(at) if at is not None else None for name, at in moments.items()}


def asked_token(body: CreateToken) -> NewToken:
    """Return the token that a checked request asks for; refuse limits that its kind does not have."""
    new = NewToken(
        kind=body.kind,
        name=body.name,
        person=body.person,
        gates=_patterns(body.gates),
        agent_ids=_patterns(body.agent_ids),
        processes=_patterns(body.processes),
        same_agent_as=body.same_agent_as,
        creates_per_minute=body.creates_per_minute,
        expires_in=body.expires_in_seconds,
    )
    refuse_unbound(new)
    return new


def _patterns(given: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def callback_body(secret: CallbackSecret) -> dict[str, Any]:
    return {
        "secret": secret.value,
        "version": secret.version,
        "createdAt": iso(secret.created_at),
        "createdBy": secret.created_by,
        "validUntil": iso(secret.valid_until) if secret.valid_until is not None else None,
    }


def hold_body(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "breakpointId": hold.breakpoint_id,
        "reason": hold.reason,
        "placedBy": hold.placed_by,
        "placedAt": iso(hold.placed_at),
        "liftedBy": hold.lifted_by,
        "liftedAt": iso(hold.lifted_at) if hold.lifted_at is not None else None,
    }


def checkpoint_body(each: StoredCheckpoint) -> dict[str, Any]:
    return {
        "number": each.number,
        "size": each.size,
        "root": each.root,
        "at": iso(each.at),
        "keyId": each.key_id,
        "note": each.note,
    }


def key_body(each: CheckpointKey) -> dict[str, Any]:
    return {
        "keyId": each.key_id,
        "origin": each.origin,
        "publicKey": spelt(each.public),
        "verifierKey": verifier_key(each.origin, each.public),
        "createdAt": iso(each.created_at),
        "createdBy": each.created_by,
        "retiredAt": iso(each.retired_at) if each.retired_at is not None else None,
    }


def inclusion_body(found: Inclusion) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint_body(found.checkpoint),
        "events": [
            {
                "seq": each.leaf.seq,
                "position": each.leaf.position,
                "hash": each.leaf.hash,
                "path": [spelt(part) for part in each.path],
            }
            for each in found.events
        ],
        "waiting": found.waiting,
    }


def consistency_body(found: Consistency) -> dict[str, Any]:
    return {
        "first": checkpoint_body(found.first),
        "second": checkpoint_body(found.second),
        "path": [spelt(part) for part in found.path],
    }
