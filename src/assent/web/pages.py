"""The routes of all pages."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.domain import errors
from assent.domain.errors import AssentError, NotFound
from assent.web import account, always, bulk, deliveries, gates, links, listing, metrics, oidc, rules, rules_file, runs
from assent.web.admin import pages as admin
from assent.web.deciding import back, comment, confirm, decide, dismiss, draft, undo
from assent.web.detail import detail, file, frame
from assent.web.frame import Site, asset, open_route, page, route
from assent.web.live import live
from assent.web.sharing import claim, snooze
from assent.web.signing_in import link_form, sign_in, sign_in_by_link, sign_in_form, sign_out
from assent.web.triggers import pages as triggers

__all__ = ["Site", "routes"]

FORMS = ("/comment", "/confirm", "/decide", "/undo", "/claim", "/snooze")
"""URLs of a breakpoint that only accept forms; opening one redirects to the breakpoint's page."""


def routes(site: Site) -> list[Route]:
    one = "/breakpoints/{breakpoint_id}"
    return [
        open_route("/sign-in", sign_in_form, site),
        open_route("/sign-in", sign_in, site, method="POST"),
        *oidc.routes(site),  # before /sign-in/{link}, which would also match
        open_route("/sign-in/{link}", link_form, site),
        open_route("/sign-in/{link}", sign_in_by_link, site, method="POST"),
        open_route("/problems/{code}", problem, site),
        open_route("/static/{digest}/{name:path}", asset, site),
        route("/sign-out", sign_out, site, method="POST", members_only=False, needs_password=False),
        route("/live", live, site),
        *listing.routes(site),
        route("/unsent/dismiss", dismiss, site, method="POST"),
        route("/unsent/dismiss", listing.to_list, site),
        *bulk.routes(site),
        route(one, detail, site),
        route(one + "/files/{n}", file, site),
        route(one + "/files/{n}/frame", frame, site),
        route(one + "/comment", comment, site, method="POST", draft=draft),
        route(one + "/confirm", confirm, site, method="POST", draft=draft),
        route(one + "/decide", decide, site, method="POST", draft=draft),
        route(one + "/undo", undo, site, method="POST"),
        route(one + "/claim", claim, site, method="POST"),
        route(one + "/snooze", snooze, site, method="POST"),
        *runs.routes(site),
        *triggers.routes(site),
        *admin.routes(site),
        *account.routes(site),
        *rules_file.routes(site),
        *rules.routes(site),
        *always.routes(site),
        *gates.routes(site),
        *metrics.routes(site),
        *deliveries.routes(site),
        *links.routes(site),
        *(route(one + form, back, site) for form in FORMS),
    ]


def error_classes(root: type[AssentError] = AssentError) -> dict[str, type[AssentError]]:
    """Return every server error by its code, without the subclasses in the SDK."""
    children = [child for child in root.__subclasses__() if child.__module__ == AssentError.__module__]
    found = {each.code: each for child in children for each in error_classes(child).values()}
    return {root.code: root} | found


async def problem(_: Site, request: Request) -> Response:
    """Explain an error code; this is the page behind the `type` URL of a problem response."""
    code = request.path_params["code"]
    found = error_classes().get(code)
    if found is None:
        msg = "Unknown error code."
        raise NotFound(msg)
    return page("problem.html", code=code, title=found.title, text=explanation(found))


def explanation(error: type[AssentError]) -> str:
    """Return the description of an error in the docstring of the errors module."""
    for line in (errors.__doc__ or "").splitlines():
        name, _, text = line.strip("│├└─ ").partition(" ")
        if name == error.__name__:
            return text.strip()
    return ""
