"""Signing in and out. Opening a sign-in link does not use it up, because mail scanners also open links."""

from functools import partial
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import RateLimited, Unauthenticated
from assent.core.plurals import plural
from assent.core.secrets import well_formed
from assent.http.sessions import form_of, local_path
from assent.people.usecases.people import PeopleService
from assent.web import kept_text as kept
from assent.web.site import (
    LINK_GONE,
    UNAUTHORIZED,
    Site,
    Visit,
    message_page,
    open_route,
    page,
    redirect,
    route,
)

MAX_PASSWORD = 1000
MAX_NAME = 64
TOO_MANY = 429


async def sign_in_form(site: Site, request: Request) -> Response:
    after = local_path(request.query_params.get("next"))
    if await site.sessions.find(request) is not None:
        return redirect(after)
    return page("sign_in.html", provider=site.provider, after=after, name="", problem=None, kept=None)


async def sign_in(site: Site, request: Request) -> Response:
    form = await form_of(request)
    after, name = local_path(form.get("next")), form.get("name", "").strip()
    unsent = kept.from_sign_in(form)
    again = partial(page, "sign_in.html", provider=site.provider, after=after, name=name[:MAX_NAME], kept=unsent)
    try:
        secret = await site.sessions.sign_in(request, name, form.get("password", "")[:MAX_PASSWORD])
    except Unauthenticated as error:
        return again(status=UNAUTHORIZED, problem=error.message)
    except RateLimited as error:
        seconds = max(1, round(error.retry_after))
        text = f"Too many attempts. Wait {plural(seconds, 'second')}, then try again."
        response = again(status=TOO_MANY, problem=text)
        response.headers["Retry-After"] = str(seconds)
        return response
    if unsent is None:
        return _signed_in(site, secret, after)
    # Never show text that another person wrote in this browser before their session ended.
    is_own = unsent.is_of(site.sessions.person_of(secret))
    response = page("kept.html", kept=unsent if is_own else None, after=after)
    site.sessions.give(response, secret)
    return response


async def link_form(site: Site, request: Request) -> Response:
    link = request.path_params["link"]
    person = None
    if well_formed(link):
        person = await site.database.read(partial(site[PeopleService].link_holder, plain=link))
    if person is None:
        return _used_link()
    after = local_path(request.query_params.get("next"))
    return page("link.html", person=person.display_name, action=f"/sign-in/{quote(link, safe='')}", after=after)


async def sign_in_by_link(site: Site, request: Request) -> Response:
    form = await form_of(request)
    try:
        secret = await site.sessions.sign_in_by_link(request, request.path_params["link"])
    except Unauthenticated:
        return _used_link()
    return _signed_in(site, secret, local_path(form.get("next")))


async def sign_out(visit: Visit) -> Response:
    response = redirect("/sign-in")
    await visit.site.sessions.sign_out(visit.request, response)
    return response


def _signed_in(site: Site, secret: str, after: str) -> Response:
    response = redirect(after)
    site.sessions.give(response, secret)
    return response


def _used_link() -> Response:
    return message_page(
        LINK_GONE,
        (
            "A sign-in link can be used once and expires after 24 hours. This link has been used, has expired or is "
            "incomplete."
        ),
        "Ask an admin for a new link, or create one on the server with: assent user link NAME",
        status=UNAUTHORIZED,
    )


def routes(site: Site) -> list[Route]:
    return [
        open_route("/sign-in", sign_in_form, site),
        open_route("/sign-in", sign_in, site, method="POST"),
        open_route("/sign-in/{link}", link_form, site),
        open_route("/sign-in/{link}", sign_in_by_link, site, method="POST"),
        route("/sign-out", sign_out, site, method="POST", members_only=False, needs_password=False),
    ]
