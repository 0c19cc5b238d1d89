"""OpenTelemetry spans if an endpoint is set; otherwise the library is not even imported."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

from assent.kernel.telemetry.exchanges import breakpoint_of, route_of
from assent.kernel.telemetry.logs import about

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PATIENCE_SECONDS = 3.0
_SERVER_ERROR = 500
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
_TRACE_HEADERS = frozenset({b"traceparent", b"tracestate"})


class Untraced:
    """Creates no spans; log lines still contain the facts of their job."""

    def around(self, app: App) -> App:
        """Return the application wrapped in one span per request."""
        return app

    @contextlib.contextmanager
    def job(self, name: str, *, traceparent: str | None = None, **facts: str | None) -> Generator[None, None, None]:
        """Add a job's facts, such as job_id, to its log lines and span; the span continues the job's trace."""
        del traceparent
        with about(job=name, **facts):
            yield

    def traceparent(self) -> str | None:
        """Return the context of the current span, to be stored with jobs that are queued in it."""
        return None

    async def stop(self) -> None:
        """Send all spans that have not been sent yet."""


class Traced(Untraced):
    """Sends spans over OTLP/HTTP in batches, from a thread of the library."""

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint

    @cached_property
    def _provider(self) -> "TracerProvider":
        # The provider is not set globally, because DBOS would export its own spans through it.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        described = {"service.version": version("assent")}
        if "OTEL_SERVICE_NAME" not in os.environ:
            described["service.name"] = "assent"
        provider = TracerProvider(resource=Resource.create(described), shutdown_on_exit=False)
        # Limits how long a stopping node waits for a collector that is unreachable.
        patience = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ else PATIENCE_SECONDS
        exporter = OTLPSpanExporter(endpoint=_traces_address(self._endpoint), timeout=patience)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return provider

    @cached_property
    def _tracer(self) -> "Tracer":
        return self._provider.get_tracer("assent", version("assent"))

    def around(self, app: App) -> App:
        return _TracedApp(app, self._tracer)

    @contextlib.contextmanager
    def job(self, name: str, *, traceparent: str | None = None, **facts: str | None) -> Generator[None, None, None]:
        from opentelemetry.trace import SpanKind, format_trace_id  # noqa: PLC0415

        attributes = {f"assent.{key}": value for key, value in facts.items() if value is not None}
        with (
            _span(self._tracer, f"job {name}", SpanKind.CONSUMER, {"traceparent": traceparent or ""}) as span,
            about(job=name, trace_id=format_trace_id(span.get_span_context().trace_id), **facts),
        ):
            span.set_attributes({"assent.job": name, **attributes})
            yield

    def traceparent(self) -> str | None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get("traceparent")

    async def stop(self) -> None:
        # Do not create the provider only to stop it.
        if "_provider" in self.__dict__:
            await asyncio.to_thread(self._provider.shutdown)


def tracing(endpoint: str | None) -> Untraced:
    """Return a tracer, or one without spans if no endpoint is configured."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Untraced()
    wanted = endpoint or any(os.environ.get(name) for name in STANDARD)
    return Traced(endpoint) if wanted else Untraced()


def _traces_address(endpoint: str | None) -> str | None:
    """Return the URL for spans; None lets the library read the standard variables."""
    if endpoint is None or endpoint.endswith("/v1/traces"):
        return endpoint
    return f"{endpoint.rstrip('/')}/v1/traces"


class _TracedApp:
    """The outermost layer: when it finishes, the inner layers have added their findings to the scope."""

    def __init__(self, app: App, tracer: "Tracer") -> None:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        self._app = app
        self._tracer = tracer
        self._kind = SpanKind.SERVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        # Callers choose the method, so an unknown method must not become the name of a span.
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with _span(self._tracer, method, self._kind, _carried(scope)) as span:
            scope["trace_id"] = f"{span.get_span_context().trace_id:032x}"
            try:
                await self._app(scope, receive, noted)
            finally:
                _describe(span, scope, method, status)


def _carried(scope: Scope) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE_HEADERS
    }


def _describe(span: "Span", scope: Scope, method: str, status: int) -> None:
    """Name the span after its route, since the URL may contain a sign-in link."""
    route = route_of(scope)
    span.update_name(f"{method} {route}")
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "http.route": route,
        "assent.request_id": scope.get("request_id", ""),
    }
    if status:
        attributes["http.response.status_code"] = status
    breakpoint_id = breakpoint_of(scope)
    if breakpoint_id is not None:
        attributes["assent.breakpoint_id"] = breakpoint_id
    span.set_attributes(attributes)
    if status >= _SERVER_ERROR:
        _failed(span, str(status))


@contextlib.contextmanager
def _span(tracer: "Tracer", name: str, kind: Any, carried: Mapping[str, str]) -> "Generator[Span, None, None]":  # noqa: ANN401  # SpanKind, which is not imported here
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    parent = TraceContextTextMapPropagator().extract(carried)
    # Exception messages may contain secrets: the span gets only the type, and the log has the rest.
    with tracer.start_as_current_span(
        name, parent, kind=kind, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            _failed(span, type(error).__name__)
            raise


def _failed(span: "Span", kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
