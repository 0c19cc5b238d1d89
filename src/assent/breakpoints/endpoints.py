"""The breakpoint endpoints and pages."""

from collections.abc import Sequence
from typing import Any

from starlette.routing import Route

from assent.breakpoints.api.breakpoints import breakpoints
from assent.breakpoints.api.fast_routes import HOT_ROUTES
from assent.breakpoints.api.files import files
from assent.breakpoints.api.history import history
from assent.breakpoints.api.views import RenderedBreakpoints
from assent.breakpoints.pages import bulk, decide, detail, listing, live, metrics, presentation, triage
from assent.breakpoints.pages.unsent import unsent_notices
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.db.transaction import Transaction
from assent.platform.endpoints import Endpoints
from assent.web.site import PageValue, Site, Visit, add_filters


def register(endpoints: Endpoints) -> None:
    endpoints.node.add(RenderedBreakpoints())
    endpoints.routes += HOT_ROUTES
    endpoints.routers += [breakpoints, files, history]
    endpoints.pages.append(_pages)
    endpoints.show_on_pages(PageValue("unsent", default=(), is_shown=_shows_notices, load=_unsent))
    add_filters(presentation.FILTERS)


def _shows_notices(visit: Visit) -> bool:
    """Return whether the response can show notices about answers that did not take effect."""
    return visit.request.method != "GET" or visit.region in {None, "rows", "detail"}


def _unsent(tx: Transaction, visit: Visit) -> Sequence[Any]:
    return unsent_notices(tx, holding=visit.site[HoldingService], by=visit.who)


def _pages(site: Site) -> Sequence[Route]:
    return [
        *live.routes(site),
        *listing.routes(site),
        *bulk.routes(site),
        *detail.routes(site),
        *decide.routes(site),
        *triage.routes(site),
        *metrics.routes(site),
    ]
