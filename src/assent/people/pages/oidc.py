"""Sign-in pages for an identity provider: the redirect to the provider, and its callback."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import AssentError, NotFound
from assent.http.problems import STATUS
from assent.http.sessions import local_path
from assent.people.usecases.oidc import NotLinked, OidcService
from assent.people.usecases.people import PeopleService
from assent.web.site import Site, message_page, open_route, redirect

COOKIE_SECONDS = 600


def routes(site: Site) -> list[Route]:
    return [
        open_route("/sign-in/oidc", depart, site),
        open_route("/sign-in/oidc/callback", arrive, site),
    ]


def _provider(site: Site) -> OidcService:
    found = site.parts.find(OidcService)
    if found is None:
        msg = "No identity provider is configured on this server."
        raise NotFound(msg)
    return found


def _back_to(site: Site, request: Request) -> str:
    return site.sessions.hosts.base_url(request) + "/sign-in/oidc/callback"


async def depart(site: Site, request: Request) -> Response:
    provider = _provider(site)
    # Rate-limited, because each visit may cause requests to the provider.
    site.sessions.count_sign_in(request, "departure")
    after = local_path(request.query_params.get("next"))
    try:
        address, sealed = await provider.depart(back_to=_back_to(site, request), after=after)
    except AssentError as error:
        return _refused(error, site)
    response = redirect(address)
    site.sessions.lend(response, sealed, seconds=COOKIE_SECONDS)
    return response


async def arrive(site: Site, request: Request) -> Response:
    provider = _provider(site)
    site.sessions.count_sign_in(request, "address")
    try:
        sealed = site.sessions.lent(request)
        arrival, after = await provider.arrive(request.query_params, sealed, back_to=_back_to(site, request))
        secret = await site.sessions.open(request, partial(provider.admit, arrival=arrival, people=site[PeopleService]))
    except AssentError as error:
        response = _refused(error, site)
        # The sign-in state is valid for only one attempt, even if the attempt failed.
        site.sessions.take_back(response)
        return response
    response = redirect(local_path(after))
    site.sessions.give(response, secret)
    site.sessions.take_back(response)
    return response


def _refused(error: AssentError, site: Site) -> Response:
    if isinstance(error, NotLinked):
        details = dict(error.details)
        subject = f"{details['subject']} at {details['issuer']}"
        return message_page("Your account is not linked", error.message, subject, status=403)
    return message_page(f"Could not sign in with {_provider(site).name}", error.message, status=STATUS[type(error)])
