"""The endpoints and pages of triggers."""

from assent.platform.endpoints import Endpoints
from assent.triggers import pages
from assent.triggers.api.events import trigger_events
from assent.triggers.api.firings import firings
from assent.triggers.api.hooks import hooks
from assent.triggers.api.sources import sources
from assent.triggers.api.triggers import triggers
from assent.triggers.usecases.webhooks import Ingress


def register(endpoints: Endpoints) -> None:
    node = endpoints.node
    endpoints.routers += [sources, triggers, trigger_events, firings]
    endpoints.webhook_routes += hooks(node[Ingress], node.clock.now)
    endpoints.pages.append(pages.routes)
