"""The outermost middleware, with small test applications."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.core.errors import Forbidden, NotFound
from assent.http.middleware import MAX_BODY, MAX_UPLOAD, Edge
from assent.kernel.telemetry import Metrics

CANARY = "s3cr3t-canary"


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{scope['request_id']} {len(body)}")(scope, receive, send)


def failing(error: Exception) -> ASGIApp:
    async def app(*_: Any) -> None:
        raise error

    return app


async def failing_late(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError(CANARY)


def edge(app: ASGIApp) -> tuple[Edge, Metrics]:
    metrics = Metrics()
    return Edge(app, metrics=metrics, access_log=False), metrics


def client(app: ASGIApp) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(edge(app)[0]), base_url="http://edge.test")


@pytest.mark.parametrize("given", ["abc", "a b", "x" * 128, "~!@#$%^&*()", "550e8400-e29b-41d4-a716-446655440000"])
async def test_a_valid_request_id_is_kept(given: str) -> None:
    async with client(plain) as http:
        answer = await http.get("/", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == given
    assert answer.text == f"{given} 0"


@pytest.mark.parametrize("given", [b"", b"x" * 129, "ä".encode("latin-1"), b"a\x07b", b"a\r\nSet-Cookie: x=1", b"\x00"])
async def test_an_invalid_request_id_is_replaced_and_never_sent_back(given: bytes) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"x-request-id", given)]}
    await edge(plain)[0](scope, receive, send)
    headers = dict(sent[0]["headers"])
    assert headers[b"x-request-id"] != given
    assert headers[b"x-request-id"].isalnum()


async def test_generated_request_ids_differ() -> None:
    async with client(plain) as http:
        ids = [(await http.get("/")).headers["x-request-id"] for _ in range(100)]
    assert len(set(ids)) == 100


@pytest.mark.parametrize(
    ("path", "limit"), [("/api/breakpoints", MAX_BODY), ("/api/files", MAX_UPLOAD), ("/", MAX_BODY)]
)
async def test_a_body_can_be_exactly_as_large_as_its_limit(path: str, limit: int) -> None:
    async with client(plain) as http:
        assert (await http.post(path, content=b"x" * limit)).status_code == 200
        refused = await http.post(path, content=b"x" * (limit + 1))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("error", "status", "code"), [(NotFound("No."), 404, "not_found"), (Forbidden(), 403, "forbidden")]
)
async def test_an_uncaught_domain_error_becomes_a_problem_response(error: Exception, status: int, code: str) -> None:
    async with client(failing(error)) as http:
        answer = await http.get("/api/x")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_unexpected_error_returns_500_and_reveals_only_the_request_id() -> None:
    async with client(failing(RuntimeError(CANARY))) as http:
        answer = await http.get("/api/x", headers={"X-Request-Id": "look-here"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "look-here" in answer.json()["detail"]
    assert CANARY not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["x-request-id"] == "look-here"


async def test_an_error_in_the_middle_of_a_response_does_not_start_another_response() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await edge(failing_late)[0]({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def test_a_client_that_disconnects_while_sending_is_not_a_server_error() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    messages: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> Message:
        return next(messages)

    outer, metrics = edge(plain)
    await outer({"type": "http", "method": "POST", "path": "/api/x", "headers": []}, receive, send)
    assert sent == []
    counted = {
        sample.labels["status"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "assent_http_requests_total"
    }
    assert "500" not in counted


@pytest.mark.parametrize("path", ["/api/x", "/", "/healthz"])
async def test_every_response_disables_sniffing_and_referrers(path: str) -> None:
    for app in (plain, failing(NotFound())):
        async with client(app) as http:
            headers = (await http.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_pages_cannot_be_framed() -> None:
    async with client(plain) as http:
        assert (await http.get("/inbox")).headers["x-frame-options"] == "DENY"


async def test_other_protocols_are_passed_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, *_: Any) -> None:
        seen.append(scope["type"])

    nothing: Callable[..., Any] = lambda: None  # noqa: E731  # never called
    await edge(app)[0]({"type": "lifespan"}, nothing, nothing)
    assert seen == ["lifespan"]
