"""The page behind a link that a channel sent, on which a person confirms that the channel account is theirs."""

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import AssentError, NotFound
from assent.delivery.pages.channel_forms import form_of
from assent.delivery.usecases.links import LinkService
from assent.web.site import LINK_GONE, Site, Visit, message_page, page, redirect, route


def routes(site: Site) -> list[Route]:
    # The visitor's current project can differ from the channel's, so the service checks their roles.
    return [
        route("/link/{secret}", link_form, site, members_only=False),
        route("/link/{secret}", accept, site, method="POST", members_only=False),
    ]


async def link_form(visit: Visit) -> Response:
    """Show the account that would be linked, without using the link."""
    secret: str = visit.request.path_params["secret"]
    try:
        found = await visit.site.database.read(partial(visit.site[LinkService].look, plain=secret, by=visit.who))
    except NotFound as error:
        return _gone(visit, error)
    return page(
        "link_identity.html",
        visit=visit,
        now=visit.site.clock.now(),
        action=f"/link/{secret}",
        channel=found.channel,
        kind=form_of(found.channel.type).title,
        offer=found.offer,
    )


async def accept(visit: Visit) -> Response:
    secret: str = visit.request.path_params["secret"]
    try:
        await visit.site.database.write(partial(visit.site[LinkService].accept, plain=secret, by=visit.who))
    except NotFound as error:
        return _gone(visit, error)
    return redirect("/account?done=linked#links")


def _gone(visit: Visit, error: AssentError) -> Response:
    return message_page(LINK_GONE, error.message, status=404, visit=visit)
