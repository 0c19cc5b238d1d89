"""Registers the endpoints and pages for delivery."""

from collections.abc import Sequence

from starlette.routing import Route

from assent.core.access import Permission
from assent.db.transaction import Transaction
from assent.delivery.api.callbacks import callbacks
from assent.delivery.api.channels import channels
from assent.delivery.api.deliveries import deliveries
from assent.delivery.api.routes import routes
from assent.delivery.pages import channels as channel_pages
from assent.delivery.pages import deliveries as delivery_pages
from assent.delivery.pages import links as link_pages
from assent.delivery.pages import routes as route_pages
from assent.delivery.store.deliveries import Deliveries
from assent.delivery.usecases.replies import AnsweringService
from assent.platform.endpoints import Endpoints
from assent.web.site import MOST_COUNTED, PageValue, Site, Visit


def register(endpoints: Endpoints) -> None:
    node = endpoints.node
    endpoints.routers += [channels, deliveries, routes]
    endpoints.routes += callbacks(node[AnsweringService], node.clock.now)
    endpoints.pages.append(_pages)
    endpoints.show_on_pages(PageValue("dead_count", default=0, is_shown=_counts_failed, load=_failed))


def _counts_failed(visit: Visit) -> bool:
    """Admins see the number of failed deliveries in the navigation of full pages."""
    is_full_page = visit.request.method == "GET" and "hx-request" not in visit.request.headers
    return is_full_page and visit.who.may(Permission.MANAGE)


def _failed(tx: Transaction, visit: Visit) -> int:
    return tx[Deliveries].count_dead(visit.who.project, most=MOST_COUNTED)


def _pages(site: Site) -> Sequence[Route]:
    return [
        *channel_pages.routes(site),
        *route_pages.routes(site),
        *delivery_pages.routes(site),
        *link_pages.routes(site),
    ]
