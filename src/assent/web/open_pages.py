"""Pages that do not belong to a feature: error code explanations, static files, and the entry to the admin pages."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.core import errors
from assent.core.access import Permission
from assent.core.errors import AssentError, NotFound
from assent.web.site import Site, Visit, asset, open_route, page, redirect, route


def open_pages(site: Site) -> list[Route]:
    return [
        open_route("/problems/{code}", problem, site),
        open_route("/static/{digest}/{name:path}", asset, site),
    ]


def admin_page(site: Site) -> list[Route]:
    return [route("/admin", admin, site)]


def error_classes(root: type[AssentError] = AssentError) -> dict[str, type[AssentError]]:
    """Return all server errors by code, excluding the subclasses in the SDK."""
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
    """Return an error's description from the docstring of the errors module."""
    for line in (errors.__doc__ or "").splitlines():
        name, _, text = line.strip("│├└─ ").partition(" ")
        if name == error.__name__:
            return text.strip()
    return ""


async def admin(visit: Visit) -> Response:
    if visit.who.may(Permission.MANAGE):
        return redirect("/admin/people")
    if visit.who.may(Permission.RULES):
        return redirect("/admin/routes")
    visit.who.require(Permission.AUDIT)
    return redirect("/admin/audit")
