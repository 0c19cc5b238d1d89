"""JSON representations of tokens and secrets, shared by the API and the commands."""

from collections.abc import Sequence
from typing import Any

from assent.contracts.tokens import CreateToken
from assent.core.access import Kind
from assent.core.timestamps import iso
from assent.people.store.tokens import Token
from assent.people.usecases.people import NewToken, refuse_unbound
from assent.people.usecases.secrets import CallbackSecret


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
    """Convert a validated request to a new token; reject limits that have no effect on this kind of token."""
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
