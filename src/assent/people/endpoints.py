"""The endpoints and pages for people."""

from collections.abc import Sequence
from typing import Any

from starlette.routing import Route

from assent.db.transaction import Transaction
from assent.people.api.people import people
from assent.people.api.projects import projects
from assent.people.api.tokens import tokens
from assent.people.pages import account, groups, oidc, sign_in
from assent.people.pages import people as people_pages
from assent.people.pages import projects as project_pages
from assent.people.pages import tokens as token_pages
from assent.people.usecases.people import PeopleService
from assent.platform.endpoints import Endpoints
from assent.web.site import PageValue, Site, Visit


def register(endpoints: Endpoints) -> None:
    endpoints.routers += [people, projects, tokens]
    endpoints.pages.append(_pages)
    endpoints.show_on_pages(PageValue("my_projects", default=(), is_shown=_is_full_page, load=_projects))


def _is_full_page(visit: Visit) -> bool:
    return "hx-request" not in visit.request.headers


def _projects(tx: Transaction, visit: Visit) -> Sequence[Any]:
    return visit.site[PeopleService].projects_of(tx, by=visit.who)


def _pages(site: Site) -> Sequence[Route]:
    return [
        *oidc.routes(site),  # before /sign-in/{link}, which would also match
        *sign_in.routes(site),
        *people_pages.routes(site),
        *groups.routes(site),
        *token_pages.routes(site),
        *project_pages.routes(site),
        *account.routes(site),
    ]
