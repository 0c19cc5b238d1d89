"""API endpoints for tokens."""

from functools import partial
from typing import Annotated

from fastapi import Path, Response

from assent.contracts import tokens as wire
from assent.db.transaction import Transaction
from assent.http.endpoint import Sent, Who, With, router
from assent.people.authenticator import Authenticator
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from assent.people.views import asked_token, token_body

tokens = router("tokens")
TokenId = Annotated[str, Path(pattern=r"^tok_[0-9a-z]{26}$")]


@tokens.get(
    "/tokens",
    summary="Lists tokens without their secrets; admins see all tokens in the project, others only their own",
)
async def list_tokens(who: Who, services: With) -> wire.TokenPage:
    def use_case(tx: Transaction) -> list[wire.Token]:
        names = {person.id: person.name for person in tx[People].every()}
        found = services[PeopleService].tokens_of(tx, by=who)
        return [wire.Token.of(token_body(token, names)) for token in found]

    return wire.TokenPage(items=await services.database.read(use_case))


@tokens.post("/tokens", status_code=201, summary="Creates a token; its secret is shown only in this response")
async def create_token(body: Sent[wire.CreateToken], who: Who, services: With) -> wire.CreatedToken:
    new = asked_token(body)

    def use_case(tx: Transaction) -> wire.CreatedToken:
        token, secret = services[PeopleService].issue_token(tx, new, project=body.project or who.project, by=who)
        names = {person.id: person.name for person in tx[People].every()}
        return wire.CreatedToken.of(token_body(token, names) | {"token": secret})

    return await services.database.write(use_case)


@tokens.delete("/tokens/{token_id}", status_code=204, summary="Revokes a token and closes its open connections")
async def revoke_token(token_id: TokenId, who: Who, services: With) -> Response:
    await services.database.write(partial(services[PeopleService].revoke_token, token_id=token_id, by=who))
    # Otherwise, the cached token would work for up to a second, and its open streams would continue.
    services[Authenticator].forget()
    services.hub.cut(token_id)
    return Response(status_code=204)
