"""Spans reach a real collector, continue the caller's trace, and have no cost without an endpoint."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from assent.asgi import application
from assent.core.secrets import secret
from assent.db.transaction import Transaction
from assent.http.middleware import Edge
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics, Untraced, tracing
from assent.kernel.telemetry.traces import Traced
from tests.cli.commands import environment, run
from tests.kernel.telemetry.collector import Collector, collector
from tests.support.nodes import running_node, server

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SERVER, CONSUMER = 2, 5


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with collector() as running:
        yield running


async def test_a_request_creates_a_span_in_the_callers_trace(collected: Collector, sqlite_settings: Settings) -> None:
    settings = sqlite_settings.model_copy(update={"otel_endpoint": collected.url})
    async with running_node(settings) as node:
        made = await node.create()
        headers = {"traceparent": TRACEPARENT, "x-request-id": "asked-1"}
        await node.call("GET", f"/api/breakpoints/{made['id']}", await node.token("agent"), headers=headers)
    span = collected.named("GET /api/breakpoints/{breakpoint_id}")
    assert (span.trace_id, span.parent, span.kind, span.failed) == (TRACE, PARENT, SERVER, False)
    assert span.attributes == {
        "http.request.method": "GET",
        "http.route": "/api/breakpoints/{breakpoint_id}",
        "http.response.status_code": 200,
        "assent.request_id": "asked-1",
        "assent.breakpoint_id": made["id"],
    }
    assert (span.resource["service.name"], bool(span.resource["service.version"])) == ("assent", True)
    assert set(collected.paths) == {"/v1/traces"}
    created = collected.named("POST /api/breakpoints")
    assert created.trace_id != TRACE
    assert created.parent == ""


async def test_a_span_contains_no_urls_and_no_secrets(collected: Collector, sqlite_settings: Settings) -> None:
    settings = sqlite_settings.model_copy(update={"otel_endpoint": collected.url})
    link = secret("link", b"x" * 32)
    async with running_node(settings) as node:
        token = await node.token("agent")
        await node.call("GET", f"/sign-in/{link}")
        await node.call("GET", f"/api/breakpoints/{token}", token)
        await node.call("GET", f"/{token}?token={token}")
    assert len(collected.spans) == 3
    assert token not in repr(collected.spans)
    assert link not in repr(collected.spans)


async def test_a_server_error_creates_a_failed_span_without_the_message(collected: Collector) -> None:
    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        msg = "told-to-nobody"
        raise RuntimeError(msg)

    traces = Traced(collected.url)
    app = traces.around(Edge(broken, metrics=Metrics(), access_log=False))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://edge.test") as client:
        assert (await client.get("/")).status_code == 500
    with pytest.raises(RuntimeError), traces.job("deliver"):
        raise RuntimeError("told-to-nobody")
    await traces.stop()
    asked, job = collected.spans
    assert (asked.failed, asked.attributes["error.type"]) == (True, "500")
    assert (job.failed, job.attributes["error.type"]) == (True, "RuntimeError")
    assert "told-to-nobody" not in repr(collected.spans)


async def test_a_job_continues_the_trace_it_was_queued_in(collected: Collector) -> None:
    traces = Traced(collected.url)
    with traces.job("queue", traceparent=TRACEPARENT):
        kept = traces.traceparent()
    with traces.job("deliver", traceparent=kept, job_id="deliver:1", breakpoint_id="bp_1", nothing=None):
        pass
    with traces.job("odd", traceparent="not a traceparent"):
        pass
    await traces.stop()
    first, second = collected.named("job queue"), collected.named("job deliver")
    assert (first.trace_id, first.parent) == (TRACE, PARENT)
    assert (second.trace_id, second.parent, second.kind) == (TRACE, first.span_id, CONSUMER)
    assert second.attributes == {
        "assent.job": "deliver",
        "assent.job_id": "deliver:1",
        "assent.breakpoint_id": "bp_1",
    }
    assert collected.named("job odd").parent == ""


async def test_a_use_case_can_read_its_requests_span(collected: Collector, settings: Settings) -> None:
    traced = settings.model_copy(update={"otel_endpoint": collected.url})
    async with running_node(traced) as node:

        def use_case(_: Transaction) -> str | None:
            return node.assent.traces.traceparent()

        with node.assent.traces.job("outer", traceparent=TRACEPARENT):
            seen = await node.assent.database.write(use_case)
        assert await node.assent.database.write(use_case) is None
    assert seen is not None
    assert seen.split("-")[1:3] == [TRACE, collected.named("job outer").span_id]


@pytest.mark.parametrize("standard", [False, True])
def test_a_server_exports_its_spans(
    collected: Collector, sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch, *, standard: bool
) -> None:
    options = {}
    if standard:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "approvals")
    else:
        options["otel_endpoint"] = collected.url
    with server(sqlite_settings, **options) as process:
        httpx2.get(f"{process.url}/healthz", headers={"traceparent": TRACEPARENT})
    span = collected.named("GET /healthz")
    assert span.trace_id == TRACE
    assert span.resource["service.name"] == ("approvals" if standard else "assent")


def test_no_spans_are_created_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(tracing(None)) is Untraced
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert type(tracing("http://127.0.0.1:4318")) is Untraced


async def test_no_tracing_middleware_is_added_without_an_endpoint(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        assert isinstance(application(node.assent), Edge)
        assert node.assent.traces.traceparent() is None


def test_no_opentelemetry_package_is_imported_without_an_endpoint(sqlite_settings: Settings) -> None:
    code = (
        "import sys; from pathlib import Path; from assent.node import Node; "
        "from assent.kernel.settings import Settings; from assent.asgi import application;"
        f"application(Node(Settings(data_dir=Path({str(sqlite_settings.data_dir)!r}))));"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=300, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("variable", ["ASSENT_OTEL_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_a_server_without_the_packages_says_what_to_install(tmp_path: Path, variable: str) -> None:
    blocked = "import sys\nsys.modules['opentelemetry.exporter.otlp.proto.http'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    env = environment(**{variable: "http://127.0.0.1:4318", "PYTHONPATH": str(tmp_path)})
    found = run("serve", "--port", "0", "--data", str(tmp_path / "data"), env=env)
    assert found.returncode not in {0, None}
    assert "pip install 'assent[otel]'" in found.stderr
    assert "ASSENT_OTEL_ENDPOINT" in found.stderr
    assert not (tmp_path / "data").exists()


def test_an_invalid_endpoint_is_rejected_at_startup(tmp_path: Path) -> None:
    found = run("check", "--data", str(tmp_path), env=environment(ASSENT_OTEL_ENDPOINT="collector:4318"))
    assert "must start with http://" in found.stderr + found.stdout


async def test_an_unreachable_collector_does_not_affect_the_server(sqlite_settings: Settings) -> None:
    with collector() as gone:
        pass
    settings = sqlite_settings.model_copy(update={"otel_endpoint": gone.url})
    async with running_node(settings) as node:
        assert (await node.call("GET", "/readyz")).status_code == 200
