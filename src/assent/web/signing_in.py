"""Signing in and out. Opening a sign-in link does not use it, because mail scanners also open links."""

from functools import partial
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from assent.domain.errors import RateLimited, Unauthenticated
from assent.domain.plurals import plural
from assent.domain.secrets import well_formed
from assent.http.sessions import form_of, local_path
from assent.web import kept
from assent.web.frame import LINK_GONE, UNAUTHORIZED, Site, Visit, message_page, page, redirect

MAX_PASSWORD = 1000
MAX_NAME = 64
TOO_MANY = 429


async def sign_in_form(site: Site, request: Request) -> Response:
    after = local_path(request.query_params.get("next"))
    if await site.sessions.find(request) is not None:
        return redirect(after)
    return page("sign_in.html", oidc=site.oidc, after=after, name="", problem=None, kept=None)


async def sign_in(site: Site, request: Request) -> Response:
    form = await form_of(request)
    after, name = local_path(form.get("next")), form.get("name", "").strip()
    unsent = kept.from_sign_in(form)
    again = partial(page, "sign_in.html", oidc=site.oidc, after=after, name=name[:MAX_NAME], kept=unsent)
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
    is_own = unsent.is_of(site.sessions.person_of(secret))
    response = page("kept.html", kept=unsent if is_own else None, after=after)
    site.sessions.give(response, secret)
    return response


async def link_form(site: Site, request: Request) -> Response:
    link = request.path_params["link"]
    person = None
    if well_formed(link):
        person = await site.database.read(partial(site.people.link_holder, plain=link))
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
