"""Token pages: list, create and revoke the project's tokens."""

import re
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import tokens as wire
from assent.core.access import Principal
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.db.transaction import Transaction
from assent.people.authenticator import Authenticator
from assent.people.store.people import People
from assent.people.store.tokens import Token, Tokens
from assent.people.usecases.people import PeopleService
from assent.people.views import asked_token
from assent.web.admin import Question, admin_page, checked, listed, number, question_page, secret_page, text
from assent.web.guards import managing
from assent.web.site import Site, Visit, redirect, route

KINDS = {
    "agent": "can create breakpoints and wait for answers, but cannot decide",
    "metrics": "can only read /metrics",
}
DAY = 24 * 3600
_ID = re.compile(r"tok_[0-9a-z]{26}")


def routes(site: Site) -> list[Route]:
    return [
        route("/admin/tokens", managing(tokens), site),
        route("/admin/tokens", managing(create), site, method="POST"),
        route("/admin/tokens/{token_id}/revoke", managing(revoke_form), site),
        route("/admin/tokens/{token_id}/revoke", managing(revoke), site, method="POST"),
    ]


async def tokens(visit: Visit) -> Response:
    return await _tokens_page(visit)


async def _tokens_page(visit: Visit, error: AssentError | None = None) -> Response:
    found, names = await visit.site.database.read(partial(_every, by=visit.who))
    now = visit.site.clock.now()
    live = [each for each in found if each.works(now)]
    return await admin_page(
        "admin_tokens.html",
        "tokens",
        visit=visit,
        error=error,
        live=sorted(live, key=lambda token: token.id, reverse=True),
        dead=sorted((each for each in found if each not in live), key=lambda token: token.id, reverse=True),
        names=names,
        kinds=KINDS,
    )


def _every(tx: Transaction, *, by: Principal) -> tuple[list[Token], dict[str, str]]:
    return tx[Tokens].every(by.project), {person.id: person.name for person in tx[People].every()}


async def create(visit: Visit) -> Response:
    form = visit.form
    try:
        days = number(form, "expiresInDays")
        asked = checked(
            wire.CreateToken,
            kind=form.get("kind", ""),
            name=text(form, "name") or "",
            gates=listed(form, "gates"),
            agentIds=listed(form, "agentIds"),
            processes=listed(form, "processes"),
            sameAgentAs=text(form, "sameAgentAs"),
            createsPerMinute=number(form, "createsPerMinute"),
            expiresInSeconds=days * DAY if days is not None else None,
        )
        if asked.kind not in KINDS:
            raise InvalidRequest.at(
                "/kind", "must be agent or metrics; people can create their own tokens on the Account page"
            )
        issue = partial(
            visit.site[PeopleService].issue_token, new=asked_token(asked), project=visit.who.project, by=visit.who
        )
        _, secret = await visit.site.database.write(issue)
    except AssentError as error:
        return await _tokens_page(visit, error)
    hints = (
        "Copy the token now. It is not stored and cannot be shown again.",
        "Send it as Authorization: Bearer …, or set ASSENT_TOKEN.",
    )
    return secret_page(visit, title=f"Token {asked.name}", secret=secret, hints=hints, back="/admin/tokens")


def _known(visit: Visit) -> str:
    token_id: str = visit.request.path_params["token_id"]
    if not _ID.fullmatch(token_id):
        msg = "This token does not exist."
        raise NotFound(msg)
    return token_id


async def revoke_form(visit: Visit) -> Response:
    token_id = _known(visit)
    found, _ = await visit.site.database.read(partial(_every, by=visit.who))
    token = next((each for each in found if each.id == token_id and each.revoked_at is None), None)
    if token is None:
        msg = f"Token {token_id} does not exist or has already been revoked."
        raise NotFound(msg)
    question = Question(
        title=f"Revoke token {token.name}?",
        consequences=(
            "Clients that use this token lose access within seconds, and their open connections are closed.",
            "Breakpoints created with this token are kept. Pending breakpoints stay pending.",
            "This cannot be undone. To restore access, create a new token.",
        ),
        action=f"/admin/tokens/{token_id}/revoke",
        button="Revoke token",
        back="/admin/tokens",
        carried={},
    )
    return question_page(visit, question)


async def revoke(visit: Visit) -> Response:
    token_id = _known(visit)
    await visit.site.database.write(partial(visit.site[PeopleService].revoke_token, token_id=token_id, by=visit.who))
    visit.site[Authenticator].forget()
    visit.site.hub.cut(token_id)
    return redirect("/admin/tokens?done=revoked")
