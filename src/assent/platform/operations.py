"""Endpoints for operators: liveness, readiness and metrics."""

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from assent.core.access import Permission
from assent.http.endpoint import PROBLEMS, With
from assent.people.authenticator import Authenticator

operations = APIRouter(tags=["operations"])
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_LOOPBACK = frozenset({"127.0.0.1", "::1"})


@operations.get("/healthz", response_class=PlainTextResponse, summary="Checks that the process is alive")
async def healthz() -> str:
    return "ok\n"


@operations.get(
    "/readyz",
    response_class=PlainTextResponse,
    responses={503: PROBLEMS[503]},
    summary="Checks that the node can serve requests",
)
async def readyz(services: With) -> str:
    await services.readiness.check()
    return "ready\n"


@operations.get(
    "/metrics",
    response_class=Response,
    responses={**_TEXT, 401: PROBLEMS[401], 403: PROBLEMS[403]},
    summary="Gets the node's metrics in Prometheus format",
)
async def metrics(request: Request, services: With) -> Response:
    """Requires a token with metrics access, or a caller on this machine."""
    if request.client is None or request.client.host not in _LOOPBACK or "authorization" in request.headers:
        principal = await services[Authenticator].principal(request.headers.get("authorization", ""))
        principal.require(Permission.METRICS)
    services.metrics.waiters.set(services.hub.waiters)
    services.metrics.streams.set(services.hub.inboxes)
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)
