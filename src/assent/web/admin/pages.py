"""The routes of the admin pages."""

from starlette.responses import Response
from starlette.routing import Route

from assent.domain.access import Permission
from assent.web.admin import audit, channels, groups, people, projects, retention, tokens
from assent.web.admin import routes as route_pages
from assent.web.frame import Site, Visit, redirect, route


def routes(site: Site) -> list[Route]:
    every = (people, groups, tokens, projects, channels, route_pages, retention, audit)
    return [route("/admin", admin, site), *(each for module in every for each in module.routes(site))]


async def admin(visit: Visit) -> Response:
    if visit.who.may(Permission.MANAGE):
        return redirect("/admin/people")
    if visit.who.may(Permission.RULES):
        return redirect("/admin/routes")
    visit.who.require(Permission.AUDIT)
    return redirect("/admin/audit")
