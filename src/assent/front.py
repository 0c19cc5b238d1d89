"""What stands before a node: its API and its pages as one ASGI application."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from assent.api.audit_events import audit_events
from assent.api.backtest import backtests
from assent.api.breakpoints import breakpoints
from assent.api.callbacks import callbacks
from assent.api.channels import channels
from assent.api.checkpoints import checkpoints
from assent.api.claude_hooks import claude_hooks
from assent.api.deliveries import deliveries
from assent.api.fastlane import HOT_ROUTES, FastLane
from assent.api.files import files
from assent.api.firings import firings
from assent.api.history import history
from assent.api.hooks import HookLane, hooks
from assent.api.openapi import document
from assent.api.operations import operations
from assent.api.people import people
from assent.api.projects import projects
from assent.api.receipts import receipts
from assent.api.retention import retention
from assent.api.routes import routes
from assent.api.routing import Services
from assent.api.rules import rules
from assent.api.rules_file import rules_file
from assent.api.runs import runs
from assent.api.sources import sources
from assent.api.tokens import tokens
from assent.api.trigger_events import trigger_events
from assent.api.triggers import triggers
from assent.app import Assent
from assent.domain.errors import AssentError
from assent.http.auth import Door
from assent.http.edge import Edge
from assent.http.limits import RateLimit
from assent.http.problems import from_http_exception, from_validation, internal_error, problem
from assent.http.sessions import Sessions
from assent.http.unmatched import Unmatched
from assent.http.views import Rendered
from assent.services.event_log import EventLogService
from assent.services.metrics import MetricsService
from assent.services.route_check import RouteCheck
from assent.web.frame import error_page, wants_page
from assent.web.pages import Site
from assent.web.pages import routes as pages

SIGN_INS_PER_MINUTE = 10
ROUTERS = (
    audit_events, backtests, breakpoints, channels, checkpoints, deliveries, files, history, people, projects, receipts,
    retention, routes, rules, rules_file, runs, tokens, operations, sources, triggers, trigger_events, firings,
    claude_hooks,
)  # fmt: skip


def application(node: Assent) -> ASGIApp:
    services = _services(node)
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
    app.router.routes.extend(HOT_ROUTES)
    for each in ROUTERS:
        # Not include_router: it builds every route again for each application (0.07 s).
        app.router.routes.extend(each.routes)
    app.router.routes.extend(callbacks(node.answering, node.clock.now))
    called = hooks(node.ingress, node.clock.now)
    app.router.routes.extend(called)
    app.router.routes.extend(pages(_site(node, services)))
    app.add_exception_handler(AssentError, _domain_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)
    app.openapi = partial(document, app)  # type: ignore[method-assign]
    lane = HookLane(FastLane(Unmatched(app, app.routes, _refusal), services), called)
    edge = Edge(
        Door(lane, node.authenticator),
        metrics=node.metrics,
        access_log=node.settings.access_log,
        secure=(node.settings.public_url or "").startswith("https://"),
    )
    return node.traces.around(edge)


def _services(node: Assent) -> Services:
    return Services(
        settings=node.settings,
        clock=node.clock,
        ids=node.ids,
        database=node.database,
        breakpoints=node.breakpoints,
        rules=node.rules,
        backtests=node.backtests,
        inbox=node.inbox,
        history=node.history,
        people=node.people,
        projects=node.projects,
        retention=node.retention,
        secrets=node.secrets,
        receipts=node.receipts,
        checkpoints=node.checkpoints,
        runs=node.runs,
        processes=node.processes,
        deliveries=node.deliveries,
        channels=node.channels,
        prober=node.prober,
        routes=node.routes,
        route_check=RouteCheck(node.rules),
        preferences=node.preferences,
        links=node.links,
        sources=node.sources,
        ingress=node.ingress,
        triggers=node.triggers,
        triggering=node.triggering,
        reloading=node.reloading,
        authenticator=node.authenticator,
        hub=node.hub,
        readiness=node.readiness,
        metrics=node.metrics,
        creates=RateLimit(node.settings.creates_per_minute, node.clock.now),
        sign_ins=RateLimit(SIGN_INS_PER_MINUTE, node.clock.now),
        rendered=Rendered(entries=4_096, largest=16_384),
        summaries=Rendered(entries=16_384, largest=4_096),
    )


def _site(node: Assent, services: Services) -> Site:
    sessions = Sessions(
        node.database,
        node.people,
        clock=node.clock,
        settings=node.settings,
        sign_ins=services.sign_ins,
    )
    return Site(
        clock=node.clock,
        database=node.database,
        breakpoints=node.breakpoints,
        inbox=node.inbox,
        people=node.people,
        projects=node.projects,
        sessions=sessions,
        hub=node.hub,
        ids=node.ids,
        runs=node.runs,
        processes=node.processes,
        creates=services.creates,
        retention=node.retention,
        events=EventLogService(node.database),
        checking=node.checking,
        authenticator=node.authenticator,
        oidc=node.oidc,
        holding=node.holding,
        triage=node.triage,
        views=node.views,
        rules=node.rules,
        backtests=node.backtests,
        history=node.history,
        metrics=MetricsService(node.database),
        deliveries=node.deliveries,
        channels=node.channels,
        prober=node.prober,
        routes=node.routes,
        route_check=services.route_check,
        links=node.links,
        sources=node.sources,
        ingress=node.ingress,
        triggers=node.triggers,
        triggering=node.triggering,
        reloading=node.reloading,
        preferences=node.preferences,
        base_url=node.settings.base_url,
    )


@contextlib.asynccontextmanager
async def _lifespan(node: Assent, _: FastAPI) -> AsyncGenerator[None, None]:
    try:
        await node.start()
    except BaseException as error:
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
    """Answer before Starlette does in plain text; it raises the error again, and the edge logs it."""
    request_id: str = request.scope["request_id"]
    return problem(internal_error(request_id))
