"""One's own account: roles, sessions, password, and which project one looks at."""

from dataclasses import dataclass
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent import wire
from assent.domain.errors import AssentError, InvalidRequest
from assent.domain.secrets import secret_hash
from assent.http.problems import STATUS
from assent.store.people import EVERYWHERE, Person
from assent.store.projects import Project
from assent.store.sessions import BrowserSession
from assent.store.transaction import Transaction
from assent.web.admin.frame import checked, words
from assent.web.frame import Site, Visit, page, redirect, route
from assent.web.signing_in import MAX_PASSWORD

MOST_SESSIONS = 50
DONE = {
    "password": "The password is changed, and every other session has ended.",
    "project": "You look at another project now.",
}


def routes(site: Site) -> list[Route]:
    return [
        route("/account", account, site, members_only=False),
        route("/account/password", change_password, site, method="POST", members_only=False),
        route("/account/sign-out-everywhere", sign_out_everywhere, site, method="POST", members_only=False),
        route("/account/project", choose_project, site, method="POST", members_only=False),
    ]


@dataclass(frozen=True, slots=True)
class Mine:
    person: Person
    roles: list[tuple[str, list[str]]]
    sessions: list[BrowserSession]
    projects: list[Project]
    groups: list[str]


def _mine(tx: Transaction, *, visit: Visit) -> Mine:
    who = visit.who
    person = tx.people.find(who.id)
    assert person is not None, "they are signed in"
    grants = tx.people.grants(who.id)
    return Mine(
        person,
        [("all projects" if project == EVERYWHERE else project, sorted(held)) for project, held in grants.items()],
        tx.sessions.of(who.id, now=tx.now(), limit=MOST_SESSIONS),
        visit.site.people.projects_of(tx, by=who),
        sorted(tx.people.group_names(who.id, project=who.project)),
    )


async def account(visit: Visit) -> Response:
    return await _account_page(visit)


async def _account_page(visit: Visit, error: AssentError | None = None) -> Response:
    mine = await visit.site.database.read(partial(_mine, visit=visit))
    return page(
        "account.html",
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        now=visit.site.clock.now(),
        mine=mine,
        this=secret_hash(visit.signed_in.secret),
        problem=words(error) if error else None,
        done=DONE.get(visit.request.query_params.get("done", "")) if not error else None,
    )


async def change_password(visit: Visit) -> Response:
    form = visit.form
    try:
        new = form.get("new", "")
        if new != form.get("again", ""):
            raise InvalidRequest.at("/again", "is not the same as the new password")
        checked(wire.ChangePerson, password=new)
        old = form.get("old", "")[:MAX_PASSWORD]
        secret = await visit.site.sessions.change_password(visit.request, visit.who, old, new)
    except AssentError as error:
        return await _account_page(visit, error)
    response = redirect("/account?done=password")
    visit.site.sessions.give(response, secret)
    return response


async def sign_out_everywhere(visit: Visit) -> Response:
    response = redirect("/sign-in")
    await visit.site.sessions.sign_out_everywhere(visit.request, response, visit.who)
    return response


async def choose_project(visit: Visit) -> Response:
    await visit.site.sessions.look_at(visit.signed_in, visit.form.get("project", ""))
    return redirect("/account?done=project")
