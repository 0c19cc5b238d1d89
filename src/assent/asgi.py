"""The ASGI application of a node: its API, its pages and the middleware before them."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from assent.agents.hooks.api import claude_hooks
from assent.audit import endpoints as audit
from assent.breakpoints import endpoints as breakpoints
from assent.breakpoints.api.fast_routes import FastLane
from assent.core.errors import AssentError
from assent.delivery import endpoints as delivery
from assent.http.auth import Door
from assent.http.endpoint import Services
from assent.http.limits import RateLimit
from assent.http.middleware import Edge
from assent.http.openapi import document
from assent.http.problems import from_http_exception, from_validation, internal_error, problem
from assent.http.sessions import Sessions
from assent.http.unmatched import Unmatched
from assent.node import Node
from assent.people import endpoints as people
from assent.people.authenticator import Authenticator
from assent.people.usecases.oidc import OidcService
from assent.people.usecases.people import PeopleService
from assent.platform.endpoints import Endpoints
from assent.platform.operations import operations
from assent.policy import endpoints as policy
from assent.runs import endpoints as runs
from assent.triggers import endpoints as triggers
from assent.triggers.api.hooks import HookLane
from assent.web.open_pages import admin_page, open_pages
from assent.web.site import Site, error_page, wants_page

FEATURES = (people, policy, breakpoints, runs, delivery, audit, triggers)
SIGN_INS_PER_MINUTE = 10


def application(node: Node) -> ASGIApp:
    endpoints = registered(node)
    sign_ins = RateLimit(SIGN_INS_PER_MINUTE, node.clock.now)
    services = Services(
        settings=node.settings,
        clock=node.clock,
        ids=node.ids,
        database=node.database,
        hub=node.hub,
        readiness=node.readiness,
        metrics=node.metrics,
        creates=RateLimit(node.settings.creates_per_minute, node.clock.now),
        sign_ins=sign_ins,
        parts=node,
    )
    provider = node.find(OidcService)
    site = Site(
        clock=node.clock,
        database=node.database,
        sessions=Sessions(
            node.database, node[PeopleService], clock=node.clock, settings=node.settings, sign_ins=sign_ins
        ),
        hub=node.hub,
        ids=node.ids,
        creates=services.creates,
        base_url=node.settings.base_url,
        provider=provider.name if provider is not None else None,
        page_values=endpoints.page_values,
        parts=node,
    )
    app = FastAPI(
        title="Assent",
        version=version("assent"),
        description="Approval gates for AI agents: agents ask, people decide.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=partial(_lifespan, node),
        redirect_slashes=False,
    )
    for router in endpoints.routers:
        # Not include_router: it builds every route again for each application (0.07 s).
        app.router.routes.extend(router.routes)
    app.router.routes[:0] = endpoints.routes
    app.router.routes.extend(endpoints.webhook_routes)
    app.router.routes.extend([*open_pages(site), *admin_page(site)])
    for pages in endpoints.pages:
        app.router.routes.extend(pages(site))
    app.add_exception_handler(AssentError, _domain_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)
    app.openapi = partial(document, app)  # type: ignore[method-assign]
    # From the outside in: Edge logs and measures every request, Door authenticates API calls, the lanes call frequent
    # endpoints without FastAPI (ADR 0007), and Unmatched returns 404 and 405 without trying every route.
    lane = HookLane(FastLane(Unmatched(app, app.routes, _refusal), services), endpoints.webhook_routes)
    edge = Edge(
        Door(lane, node[Authenticator].principal),
        metrics=node.metrics,
        access_log=node.settings.access_log,
        secure=(node.settings.public_url or "").startswith("https://"),
    )
    return node.traces.around(edge)


def registered(node: Node) -> Endpoints:
    """Return the endpoints and pages of all features."""
    found = Endpoints(node)
    for feature in FEATURES:
        feature.register(found)
    found.routers += [operations, claude_hooks]
    return found


@contextlib.asynccontextmanager
async def _lifespan(node: Node, _: FastAPI) -> AsyncGenerator[None, None]:
    try:
        await node.start()
    except BaseException as error:
        # Uvicorn only logs this error and exits normally; `serve` raises it.
        node.start_error = error
        raise
    yield
    await node.stop()


async def _domain_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, AssentError), "registered only for AssentError"
    return problem(error)


async def _validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered only for RequestValidationError"
    return problem(from_validation(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered only for HTTPException"
    return _refusal(request, from_http_exception(error), None)


def _refusal(request: Request, error: AssentError, headers: Mapping[str, str] | None) -> Response:
    return error_page(error) if wants_page(request) else problem(error, headers)


async def _internal_error(request: Request, _: Exception) -> Response:
    """Return a problem response instead of Starlette's plain text. Starlette then re-raises the error for the log."""
    request_id: str = request.scope["request_id"]
    return problem(internal_error(request_id))
