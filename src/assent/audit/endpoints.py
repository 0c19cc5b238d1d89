"""The audit endpoints and pages."""

from collections.abc import Sequence

from starlette.routing import Route

from assent.audit.api.checkpoints import checkpoints
from assent.audit.api.events import audit_events
from assent.audit.api.retention import retention
from assent.audit.pages import audit as audit_pages
from assent.audit.pages import retention as retention_pages
from assent.platform.endpoints import Endpoints
from assent.web.site import Site


def register(endpoints: Endpoints) -> None:
    endpoints.routers += [audit_events, checkpoints, retention]
    endpoints.pages.append(_pages)


def _pages(site: Site) -> Sequence[Route]:
    return [*retention_pages.routes(site), *audit_pages.routes(site)]
