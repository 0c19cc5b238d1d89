"""The foundation of all pages: templates, headers, authentication of visitors, and error pages."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assent.core.access import Permission, Principal
from assent.core.errors import AssentError, Forbidden, RateLimited
from assent.core.plurals import plural
from assent.core.safe_text import visible
from assent.core.secrets import is_mark_of
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.limits import RateLimit
from assent.http.problems import STATUS, from_http_exception
from assent.http.sessions import Sessions, SignedIn, form_of, has_key, local_path
from assent.http.waiters import Hub
from assent.kernel.parts import Parts, PartT
from assent.kernel.ports import Clock, Database, Ids
from assent.web import filters as render
from assent.web import kept_text as kept
from assent.web.assets import Assets, takes_gzip
from assent.web.keys import grouped, key_for

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "frame-src 'self'; form-action 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Without "no-store", the browser could show a page from its cache after the person has signed out.
HEADERS = {"Content-Security-Policy": CSP, "Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
SEE_OTHER, NO_CONTENT, UNAUTHORIZED = 303, 204, 401
RESUBMIT = {"Assent-Resubmit": "true"}
"""Makes the script submit the form as a normal request, which can show the sign-in page and keep the input."""
NOTICE = "Assent-Notice"
"""Makes the script keep the form and show a notice; the value is the ID of its template in `base.html`."""
REFRESHED = frozenset({"rows", "live", "run-live", "events-live"})
"""Regions that scripts refresh automatically."""
WORTH_PACKING = 1_400
MOST_COUNTED = 100
"""The maximum count in a badge."""
HTML = "text/html; charset=utf-8"
PASSWORD_PAGE = "/account/new-password"  # noqa: S105  # a URL, not a password
LINK_GONE = "This link no longer works"


ASSETS = Assets()

_FILTERS: dict[str, Any] = {
    "visible": visible,
    "exact": render.exact,
    "iso": iso,
    "relative": render.relative,
    "person": render.person,
    "initials": render.initials,
    "tone": render.tone,
    "plural": plural,
}


def _environment() -> Environment:
    # StrictUndefined: a misspelled name must cause an error instead of rendering as nothing.
    environment = Environment(
        loader=PackageLoader("assent.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name, function in _FILTERS.items():
        environment.filters[name] = function
    for name, value in {"asset": ASSETS.url, "key_for": key_for, "keys": grouped()}.items():
        environment.globals[name] = value  # type: ignore[assignment,unused-ignore]  # pyright infers a narrower type
    return environment


_templates = _environment()


def add_default(name: str, value: object) -> None:
    """Set a template value for pages that do not load it."""
    _DEFAULTS[name] = value


def add_filters(filters: Mapping[str, Callable[..., Any]]) -> None:
    """Add a feature's filters to the templates."""
    _templates.filters.update(filters)


def page(template: str, *, status: int = 200, visit: "Visit | None" = None, **values: Any) -> Response:  # noqa: ANN401
    """Render a page; `visit` supplies the visitor's name and the CSRF token."""
    signed_in = visit.signed_in if visit else None
    zone = signed_in.time_zone if signed_in else None
    with render.times_in(zone):
        body = _templates.get_template(template).render(
            who=visit.who if visit else None,
            may=visit.may if visit else {},
            csrf=signed_in.csrf if signed_in else "",
            theme=signed_in.theme if signed_in else None,
            zone=zone,
            page_path=visit.request.url.path if visit else "",
            **_DEFAULTS | (dict(visit.values) if visit else {}) | values,
        )
    return Response(body, status, HEADERS, HTML)


async def large_page(template: str, **values: Any) -> Response:  # noqa: ANN401
    """Render a page in a thread, because an agent's content can be several megabytes long."""
    return await asyncio.to_thread(partial(page, template, **values))


def redirect(path: str) -> Response:
    return RedirectResponse(path, SEE_OTHER, HEADERS)


def message_page(
    title: str, *texts: str, status: int, visit: "Visit | None" = None, headers: Mapping[str, str] | None = None
) -> Response:
    # A script inserts the message into a page that is already open, so send only the body.
    template = "message_body.html" if visit is not None and visit.region else "message.html"
    typed = kept.texts(visit.form) if visit is not None else ()
    response = page(template, status=status, visit=visit, title=title, texts=texts, typed=typed)
    response.headers.update(headers or {})
    return response


def error_page(error: AssentError, visit: "Visit | None" = None) -> Response:
    texts = [] if error.message == error.title else [error.message]
    headers = {"Retry-After": str(max(1, round(error.retry_after)))} if isinstance(error, RateLimited) else None
    return message_page(error.title, *texts, status=STATUS[type(error)], visit=visit, headers=headers)


def wants_page(request: Request) -> bool:
    """Return whether the client is a browser that requested a page, so that errors are shown as pages too."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


_DEFAULTS: dict[str, Any] = {}
"""Template values for pages without a visitor; added when features register them."""


@dataclass(frozen=True, slots=True)
class Site:
    """The dependencies of all pages."""

    clock: Clock
    database: Database[Transaction]
    sessions: Sessions
    hub: Hub
    ids: Ids
    creates: RateLimit
    base_url: str
    provider: str | None
    """The name of the identity provider that people can sign in with."""
    page_values: "Sequence[PageValue]"
    parts: Parts

    def __getitem__(self, kind: type[PartT]) -> PartT:
        return self.parts[kind]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request from a person who is signed in; the CSRF token of `form` has already been checked."""

    site: Site
    request: Request
    signed_in: SignedIn
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values that features show on every page, such as the visitor's projects."""

    @property
    def who(self) -> Principal:
        return self.signed_in.principal

    @property
    def may(self) -> dict[str, bool]:
        """The permissions that determine what pages show; services enforce them separately."""
        return {permission.name.lower(): self.who.may(permission) for permission in Permission}

    @property
    def region(self) -> str | None:
        """The ID of the part of the page that a script requested, or None for the whole page."""
        if self.request.headers.get("hx-request") != "true":
            return None
        return self.request.headers.get("hx-target", "").rpartition("#")[2] or None


class PageValue(NamedTuple):
    """A value that a feature adds to pages: its name in the templates, and when and how it is loaded."""

    name: str
    default: Any
    """The value on pages that do not load it."""
    is_shown: Callable[[Visit], bool]
    load: Callable[[Transaction, Visit], Any]


Open: TypeAlias = Callable[[Site, Request], Awaitable[Response]]
Signed: TypeAlias = Callable[[Visit], Awaitable[Response]]
Draft: TypeAlias = Callable[[Visit, AssentError], Awaitable[Response]]
"""Shows a form again with the submitted values and the error, without side effects."""


def open_route(path: str, endpoint: Open, site: Site, *, method: str = "GET") -> Route:
    """Create a route that does not require signing in; forms are accepted only from our own pages."""

    async def serve(request: Request) -> Response:
        request.scope["route_name"] = path
        try:
            if method == "POST":
                site.sessions.require_own_page(request)
            return packed(request, await endpoint(site, request))
        except AssentError as error:
            return error_page(error)
        except HTTPException as error:
            return error_page(from_http_exception(error))

    return Route(path, serve, methods=[method], name=endpoint.__name__)


def route(  # noqa: PLR0913  # the options of a page
    path: str,
    endpoint: Signed,
    site: Site,
    *,
    method: str = "GET",
    members_only: bool = True,
    needs_password: bool = True,
    draft: Draft | None = None,
) -> Route:
    """Create a route for people who are signed in and, by default, have a role and a password.

    `draft` redisplays a form that was opened in an earlier session.
    """

    async def serve(request: Request) -> Response:
        request.scope["route_name"] = path
        signed_in = await site.sessions.find(request)
        if signed_in is None:
            return await _to_sign_in(site, request, draft)
        request.scope["principal"] = signed_in.principal  # for the access log
        if needs_password and signed_in.must_set_password:
            return _to_password(request)
        visit = await _with_values(Visit(site, request, signed_in))
        accepted = True
        try:
            if method == "POST":
                site.sessions.require_own_page(request)
                form = await form_of(request)
                accepted = has_key(signed_in, form)
                visit = replace(visit, form=form if accepted else _own_form(visit, form))
            if members_only and not visit.who.may(Permission.READ):
                return no_role_page(visit)
            return packed(request, await (endpoint(visit) if accepted else _from_before(visit, draft)))
        except AssentError as error:
            return error_page(error, visit)
        except HTTPException as error:
            return error_page(from_http_exception(error), visit)

    return Route(path, serve, methods=[method], name=endpoint.__name__)


async def _with_values(visit: Visit) -> Visit:
    """Load the values that features show on this page, in one transaction."""
    wanted = [each for each in visit.site.page_values if each.is_shown(visit)]
    if not wanted:
        return visit
    return replace(
        visit,
        values=await visit.site.database.read(lambda tx: {each.name: each.load(tx, visit) for each in wanted}),
    )


def _own_form(visit: Visit, form: Mapping[str, str]) -> Mapping[str, str]:
    """Return a form without this session's CSRF token if this person opened it on our page, or else an empty form."""
    is_own = is_mark_of(kept.owner_of(form), visit.who.id) and visit.site.sessions.is_own_page(visit.request)
    return form if is_own else {}


async def _from_before(visit: Visit, draft: Draft | None) -> Response:
    """Reject a form without this session's CSRF token, but show its values again if the same person opened it."""
    msg = "This form is from an earlier session, so nothing was sent. Check your input and submit the form again."
    if not visit.form and visit.region is not None:
        return Response(status_code=NO_CONTENT, headers=HEADERS | {NOTICE: "other-account"})
    if not visit.form:
        msg = "This form was opened under a different account, so nothing was sent and its text is not shown."
    elif draft is not None and visit.region is not None:
        return Response(status_code=NO_CONTENT, headers=HEADERS | RESUBMIT)
    elif draft is not None:
        return await draft(visit, Forbidden(msg))
    return error_page(Forbidden(msg), visit)


async def _to_sign_in(site: Site, request: Request, draft: Draft | None) -> Response:
    """Redirect to the sign-in page and keep a form's text; automatic refreshes by scripts get an empty response."""
    try:
        form = await _typed(site, request, whole=draft is not None)
    except kept.TooLongError:
        return _not_kept(request)
    if form is not None and "hx-request" in request.headers:
        return Response(status_code=NO_CONTENT, headers=HEADERS | RESUBMIT)
    if form is not None:
        problem = "Your session has ended, so nothing was sent. Your input has been kept."
        after = _asked_for(request)
        return page(
            "sign_in.html",
            status=UNAUTHORIZED,
            provider=site.provider,
            after=after,
            name="",
            problem=problem,
            kept=form,
        )
    if request.headers.get("hx-request") != "true":
        return redirect("/sign-in?next=" + quote(_asked_for(request), safe=""))
    if request.headers.get("hx-target", "").rpartition("#")[2] in REFRESHED:
        return Response(status_code=NO_CONTENT, headers=HEADERS)
    # htmx would follow a normal redirect and insert the page into the region. HX-Redirect makes the browser open it.
    shown = urlsplit(request.headers.get("hx-current-url", ""))
    here = local_path(shown.path + (f"?{shown.query}" if shown.query else ""))
    return Response(headers=HEADERS | {"HX-Redirect": "/sign-in?next=" + quote(here, safe="")})


def _not_kept(request: Request) -> Response:
    """Report that a form is too long for the sign-in page; the browser still has its text and can submit it again."""
    if "hx-request" in request.headers:
        return Response(status_code=NO_CONTENT, headers=HEADERS | {NOTICE: "session-ended"})
    return page("kept_not.html", status=UNAUTHORIZED)


async def _typed(site: Site, request: Request, *, whole: bool) -> kept.Kept | None:
    """Return a form from our own page that was submitted without a session, if it contains text."""
    if request.method != "POST" or not site.sessions.is_own_page(request):
        return None
    try:
        return await kept.from_request(request, whole=whole)
    except AssentError:
        return None


def _to_password(request: Request) -> Response:
    """Redirect an invited person to the page where they must first set a password."""
    if request.headers.get("hx-request") == "true":
        return Response(headers=HEADERS | {"HX-Redirect": PASSWORD_PAGE})
    return redirect(f"{PASSWORD_PAGE}?next=" + quote(_asked_for(request), safe=""))


def _asked_for(request: Request) -> str:
    """Return the path of the requested page or, for a submitted form, of the page that contained it."""
    # The URL that a form is submitted to usually cannot be opened as a page.
    if request.method == "POST":
        breakpoint_id = request.path_params.get("breakpoint_id")
        return local_path(f"/breakpoints/{breakpoint_id}" if breakpoint_id else "/")
    query = request.url.query
    return local_path(request.url.path + (f"?{query}" if query else ""))


def no_role_page(visit: Visit) -> Response:
    return message_page(
        "You don’t have access to this project",
        f"You are signed in as {visit.who.name}, but you do not have a role in project {visit.who.project}.",
        "Ask an admin for the viewer or reviewer role, then reload this page.",
        status=403,
        visit=visit,
    )


def packed(request: Request, response: Response) -> Response:
    """Compress a page if it is long enough."""
    body: bytes = getattr(response, "body", b"")  # streamed responses do not have one
    if len(body) < WORTH_PACKING or response.media_type != HTML or not takes_gzip(request):
        return response
    short = gzip.compress(body, compresslevel=1, mtime=0)
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    kept = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Response(short, response.status_code, kept | headers, HTML)


async def asset(_: Site, request: Request) -> Response:
    return ASSETS.serve(request)
