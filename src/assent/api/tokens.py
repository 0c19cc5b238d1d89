"""Tokens: made once, shown once, revoked within seconds."""

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Response

from assent import wire
from assent.api.routing import Manager, With, router
from assent.domain.access import Principal
from assent.domain.errors import Forbidden, InvalidRequest, NotFound
from assent.domain.instants import iso
from assent.services.people import NewToken
from assent.store.people import EVERYWHERE
from assent.store.tokens import Token
from assent.store.transaction import Transaction

tokens = router("tokens")
TokenId = Annotated[str, Path(pattern=r"^tok_[0-9a-z]{26}$")]


@tokens.get("/tokens", summary="The tokens of this project, without their secrets")
async def list_tokens(who: Manager, services: With) -> wire.TokenPage:
    def use_case(tx: Transaction) -> list[wire.TokenView]:
        names = {person.id: person.name for person in tx.people.every()}
        return [wire.TokenView.model_validate(token_body(token, names)) for token in tx.tokens.every(who.project)]

    return wire.TokenPage(items=await services.database.read(use_case))


@tokens.post("/tokens", status_code=201, summary="Make a token; its secret is shown this once")
async def create_token(body: wire.CreateToken, who: Manager, services: With) -> wire.NewTokenView:
    _refuse_unbound(body)
    project = _project(body.project, who)
    new = NewToken(
        kind=body.kind,
        name=body.name,
        person=body.person,
        gates=tuple(body.gates or ("*",)),
        agent_ids=tuple(body.agent_ids or ("*",)),
        creates_per_minute=body.creates_per_minute,
        expires_in=body.expires_in_seconds,
    )

    def use_case(tx: Transaction) -> wire.NewTokenView:
        token, secret = services.people.create_token(tx, new, project=project, by=str(who.actor))
        _refuse_climbing(tx, token, who)
        names = {person.id: person.name for person in tx.people.every()}
        return wire.NewTokenView.model_validate(token_body(token, names) | {"token": secret})

    return await services.database.write(use_case)


def _project(asked: str | None, by: Principal) -> str:
    """A token is for the caller's own project; an admin of all projects may name another."""
    if asked is None or asked == by.project:
        return by.project
    if not by.everywhere:
        msg = f"There is no project {asked}."
        raise NotFound(msg)
    return asked


def _refuse_unbound(body: wire.CreateToken) -> None:
    """A limit that this kind of token does not have must not look as if it held."""
    if body.kind != "agent":
        for name, given in (("gates", body.gates), ("agentIds", body.agent_ids)):
            if given is not None:
                raise InvalidRequest.at(
                    f"/{name}", f"limits agent tokens; a token of kind {body.kind} has no such limit"
                )
    if body.kind in {"agent", "metrics"} and body.person is not None:
        raise InvalidRequest.at("/person", f"a token of kind {body.kind} belongs to nobody")


def _refuse_climbing(tx: Transaction, token: Token, by: Principal) -> None:
    """A token made by an admin of one project never reaches beyond it."""
    if not by.everywhere and token.person_id is not None and EVERYWHERE in tx.people.grants(token.person_id):
        msg = "This person has roles in all projects; only an admin of all projects may make them a token."
        raise Forbidden(msg)


@tokens.delete("/tokens/{token_id}", status_code=204, summary="Revoke a token, and cut what it holds open")
async def revoke_token(token_id: TokenId, who: Manager, services: With) -> Response:
    await services.database.write(partial(_revoke, token_id=token_id, project=who.project))
    services.authenticator.forget()
    services.hub.cut(token_id)
    return Response(status_code=204)


def _revoke(tx: Transaction, *, token_id: str, project: str) -> None:
    tx.tokens.revoke(token_id, project=project, now=tx.now())


def token_body(token: Token, names: dict[str, str]) -> dict[str, Any]:
    body = {
        "id": token.id,
        "kind": token.kind.value,
        "name": token.name,
        "person": names.get(token.person_id or ""),
        "roles": [role.value for role in sorted(token.roles)],
        "gates": list(token.gates),
        "agentIds": list(token.agent_ids),
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
