"""Waiting: long polls and streams wake up, resume and end, and leave no waiters behind."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from assent.kernel.settings import Settings
from tests.api.streams import PATIENCE, Stream, parked
from tests.support.nodes import ManualClock, Node, Process, prepared, running_node, server


def waiting(node: Node, breakpoint_id: str, token: str, seconds: float = 30) -> "asyncio.Task[httpx2.Response]":
    return asyncio.create_task(node.call("GET", f"/api/breakpoints/{breakpoint_id}/status?wait={seconds}", token))


async def answer_of(task: "asyncio.Task[httpx2.Response]") -> httpx2.Response:
    async with asyncio.timeout(PATIENCE):
        return await task


async def test_a_comment_wakes_the_waiting_agent(node: Node) -> None:
    created = await node.create()
    task = waiting(node, created["id"], await node.token("agent"))
    await parked(node)
    await node.feedback(created["id"], await node.token("reviewer"), comment="Which region?")
    seen = (await answer_of(task)).json()
    assert (seen["status"], [each["comment"] for each in seen["feedback"]]) == ("waiting", ["Which region?"])
    await parked(node, waiters=0)


@pytest.mark.parametrize(
    ("action", "kind", "status"), [("cancel", "agent", "cancelled"), ("expire", "admin", "expired")]
)
async def test_every_final_status_wakes_the_waiting_agent(node: Node, action: str, kind: str, status: str) -> None:
    created = await node.create()
    task = waiting(node, created["id"], await node.token("agent"))
    await parked(node)
    await node.call("POST", f"/api/breakpoints/{created['id']}/{action}", await node.token(kind))
    assert (await answer_of(task)).json()["result"] == {"approved": False, "status": status, "auto": False}


async def test_an_answer_given_before_the_wait_is_returned(node: Node) -> None:
    created = await node.create()
    await node.feedback(created["id"], await node.token("reviewer"), release=True)
    seen = await answer_of(waiting(node, created["id"], await node.token("agent")))
    assert seen.json()["decision"] == "approved"


async def test_a_wait_ends_at_the_deadline(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=1)
    task = waiting(node, created["id"], await node.token("agent"))
    await parked(node)
    clock.advance(1)
    assert (await answer_of(task)).json()["status"] == "expired"


async def test_a_wait_without_changes_returns_the_waiting_status(node: Node) -> None:
    created = await node.create()
    for seconds in (0, 0.01, 1e-9):
        seen = await answer_of(waiting(node, created["id"], await node.token("agent"), seconds))
        assert seen.json() == {"status": "waiting", "updatedAt": created["updatedAt"]}
    assert node.assent.hub.waiters == 0


async def test_a_hundred_waiters_all_wake(node: Node) -> None:
    created = await node.create()
    agent = await node.token("agent")
    tasks = [waiting(node, created["id"], agent) for _ in range(100)]
    await parked(node, waiters=100)
    await node.feedback(created["id"], await node.token("reviewer"), approved=False)
    answers = [await answer_of(task) for task in tasks]
    assert {each.json()["decision"] for each in answers} == {"rejected"}
    assert node.assent.hub.waiters == 0


async def test_waiting_for_an_unknown_breakpoint_leaves_no_waiter_behind(node: Node) -> None:
    answer = await answer_of(waiting(node, "bp_" + "0" * 26, await node.token("agent")))
    assert (answer.status_code, node.assent.hub.waiters) == (404, 0)


async def test_a_revoked_token_ends_its_wait_immediately(node: Node) -> None:
    created = await node.create()
    admin = await node.token("admin")
    made = (await node.call("POST", "/api/tokens", admin, json={"kind": "viewer", "name": "x"})).json()
    task = waiting(node, created["id"], made["token"])
    await parked(node)
    await node.call("DELETE", f"/api/tokens/{made['id']}", admin)
    answer = await answer_of(task)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_a_revoked_token_ends_its_streams_immediately(node: Node) -> None:
    created = await node.create()
    admin = await node.token("admin")
    made = (await node.call("POST", "/api/tokens", admin, json={"kind": "viewer", "name": "x"})).json()
    async with (
        Stream(node, f"/api/breakpoints/{created['id']}/stream", made["token"]) as one,
        Stream(node, "/api/stream", made["token"]) as every,
    ):
        assert (await one.event()) is not None
        assert await every.block() == b": listening"
        await node.call("DELETE", f"/api/tokens/{made['id']}", admin)
        assert await one.rest() == []
        assert await every.rest() == []
        await node.feedback(created["id"], await node.token("reviewer"), comment="Not for you.")
    assert (node.assent.hub.waiters, node.assent.hub.inboxes) == (0, 0)


@pytest.mark.parametrize("change", [{"active": False}, {"roles": []}])
async def test_deactivating_a_person_ends_their_waits_and_streams(node: Node, change: dict[str, Any]) -> None:
    token = await node.person("leaver", "viewer")
    created = await node.create()
    async with (
        Stream(node, f"/api/breakpoints/{created['id']}/stream", token) as one,
        Stream(node, "/api/stream", token) as every,
    ):
        assert (await one.event()) is not None
        assert await every.block() == b": listening"
        await node.call("PATCH", "/api/people/leaver", await node.token("admin"), json=change)
        assert await one.rest() == []
        assert await every.rest() == []


@pytest.fixture
async def frugal(settings: Settings) -> AsyncIterator[Node]:
    """A node that limits each token to two simultaneous waits."""
    async with running_node(settings.model_copy(update={"waits_per_token": 2}), clock=ManualClock()) as running:
        yield running


async def test_exceeding_the_wait_limit_returns_429_without_affecting_other_tokens(frugal: Node) -> None:
    created = await frugal.create()
    viewer, agent = await frugal.token("viewer"), await frugal.token("agent")
    path = f"/api/breakpoints/{created['id']}"
    task = waiting(frugal, created["id"], viewer)
    await parked(frugal)
    async with Stream(frugal, "/api/stream", viewer) as inbox:
        assert await inbox.block() == b": listening"
        for address in (f"{path}/status?wait=30", f"{path}/stream", "/api/stream"):
            answer = await frugal.call("GET", address, viewer)
            assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await frugal.call("GET", f"{path}/status", viewer)).status_code == 200
        other = waiting(frugal, created["id"], agent)
        await parked(frugal, waiters=2)
    await frugal.feedback(created["id"], await frugal.token("reviewer"), release=True)
    assert (await answer_of(task)).status_code == (await answer_of(other)).status_code == 200
    freed = await answer_of(waiting(frugal, created["id"], viewer))
    assert freed.status_code == 200


async def test_a_stream_sends_every_event_in_order_and_ends_with_the_last(node: Node) -> None:
    created = await node.create(payload={"question": "?", "expert": "ghost"})
    reviewer = await node.token("reviewer")
    async with Stream(node, f"/api/breakpoints/{created['id']}/stream", await node.token("agent")) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert "content-length" not in stream.headers
        assert [(await stream.event()).event for _ in range(2)] == ["created", "warned"]  # type: ignore[union-attr]
        await node.feedback(created["id"], reviewer, comment="Which region?")
        comment = await stream.event()
        assert comment is not None
        assert (comment.id, comment.event, comment.data["metadata"]) == ("3", "commented", {"comment": "Which region?"})
        await node.feedback(created["id"], reviewer, release=True, comment="Go.")
        rest = await stream.rest()
    assert [(each.id, each.event) for each in rest] == [("4", "responded"), ("5", "released")]
    told = await node.call("GET", f"/api/breakpoints/{created['id']}/events", reviewer)
    assert [each.data for each in rest] == told.json()["items"][3:]
    assert node.assent.hub.waiters == 0


@pytest.mark.parametrize("last", [0, 1, 2, 3])
async def test_a_stream_resumes_after_the_last_seen_event(node: Node, last: int) -> None:
    created = await node.create()
    await node.feedback(created["id"], await node.token("reviewer"), release=True)
    path = f"/api/breakpoints/{created['id']}/stream"
    headers = {"Last-Event-ID": str(last)}
    async with Stream(node, path, await node.token("agent"), headers=headers) as stream:
        told = await stream.rest()
    assert [each.event for each in told] == ["created", "responded", "released"][last:]


@pytest.mark.parametrize("on_timeout", ["expire", "reject"])
async def test_a_stream_resumed_after_the_end_ends_immediately(node: Node, clock: ManualClock, on_timeout: str) -> None:
    """Browsers reconnect with the id of the last event whenever the server closes a stream."""
    created = await node.create(ttlSeconds=60, onTimeout=on_timeout)
    clock.advance(61)
    path = f"/api/breakpoints/{created['id']}/stream"
    async with Stream(node, path, await node.token("agent"), headers={"Last-Event-ID": "2"}) as stream:
        assert await stream.block() is None


async def test_a_stream_cannot_be_resumed_from_a_nonexistent_event(node: Node) -> None:
    created = await node.create()
    path = f"/api/breakpoints/{created['id']}/stream"
    async with Stream(node, path, await node.token("agent"), headers={"Last-Event-ID": "2"}) as stream:
        assert stream.status == 422
        assert json.loads(await stream.body())["code"] == "invalid_request"


async def test_a_stream_ends_at_the_deadline(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=1)
    async with Stream(node, f"/api/breakpoints/{created['id']}/stream", await node.token("agent")) as stream:
        assert (await stream.event()) is not None
        await parked(node)
        clock.advance(1)
        assert [each.event for each in await stream.rest()] == ["expired"]


async def test_a_disconnected_client_leaves_no_waiter_behind(node: Node) -> None:
    created = await node.create()
    async with (
        Stream(node, f"/api/breakpoints/{created['id']}/stream", await node.token("agent")) as one,
        Stream(node, "/api/stream", await node.token("viewer")) as every,
    ):
        assert (await one.event()) is not None
        assert await every.block() == b": listening"
        await parked(node)
        assert node.assent.hub.inboxes == 1
    assert (node.assent.hub.waiters, node.assent.hub.inboxes) == (0, 0)


async def test_an_inbox_stream_sends_only_changes_in_its_project(node: Node) -> None:
    admin = await node.token("admin")
    await node.call("POST", "/api/projects", admin, json={"id": "elsewhere"})
    foreign = await node.token("agent", project="elsewhere", name="foreign")
    async with Stream(node, "/api/stream", await node.token("viewer")) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert await stream.block() == b": listening"
        await node.create(foreign)
        created = await node.create()
        hint = await stream.event()
        assert hint is not None
        assert (hint.event, hint.data) == (
            "changed",
            {"breakpointId": created["id"], "status": "waiting", "version": 1},
        )
        await node.feedback(created["id"], await node.token("reviewer"), release=True)
        # A hint can arrive twice: after this node's commit, and in the notification from PostgreSQL.
        while hint is not None and hint.data["status"] == "waiting":
            assert hint.data["breakpointId"] == created["id"]
            hint = await stream.event()
        assert hint is not None
        assert hint.data == {"breakpointId": created["id"], "status": "released", "version": 3}


async def test_a_draining_node_responds_to_all_waiters_immediately(node: Node) -> None:
    created = await node.create()
    agent, viewer = await node.token("agent"), await node.token("viewer")
    task = waiting(node, created["id"], agent)
    await parked(node)
    path = f"/api/breakpoints/{created['id']}"
    async with Stream(node, f"{path}/stream", agent) as one, Stream(node, "/api/stream", viewer) as every:
        assert (await one.event()) is not None
        assert await every.block() == b": listening"
        await parked(node, waiters=2)
        node.assent.hub.drain()
        answer = await answer_of(task)
        assert await one.rest() == []
        assert await every.rest() == []
    assert (answer.status_code, answer.json()["status"]) == (200, "waiting")
    assert (answer.headers["retry-after"], answer.headers["connection"]) == ("0", "close")
    late = await answer_of(waiting(node, created["id"], agent))
    assert (late.status_code, late.headers["retry-after"]) == (200, "0")
    unready = await node.call("GET", "/readyz")
    assert (unready.status_code, unready.json()["code"]) == (503, "unavailable")
    assert (await node.call("GET", "/healthz")).status_code == 200
    assert (await node.feedback(created["id"], await node.token("reviewer"), release=True)).status_code == 200


class Raw:
    """A client on a plain socket, which can drop the connection at any time."""

    def __init__(self, process: Process, path: str, token: str) -> None:
        address = urlsplit(process.url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
        head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        self.socket.sendall(head.encode())

    def everything(self) -> bytes:
        """Return everything that the server sends until it closes the connection."""
        parts: list[bytes] = []
        with self.socket:
            while part := self.socket.recv(65_536):
                parts.append(part)
        return b"".join(parts)


def until_metric(process: Process, line: str) -> None:
    """Poll until the metrics contain this line."""
    for _ in range(5000):
        if line in httpx2.get(f"{process.url}/metrics", timeout=PATIENCE).text.splitlines():
            return
    pytest.fail(f"the metrics never said {line}")


def raised(process: Process, token: str) -> str:
    answer = httpx2.post(
        f"{process.url}/api/breakpoints",
        headers={"authorization": f"Bearer {token}"},
        json={"agentId": "a", "payload": {"question": "?"}},
        timeout=PATIENCE,
    )
    breakpoint_id: str = answer.json()["id"]
    return breakpoint_id


def test_dropped_connections_leave_no_waiter_behind(settings: Settings) -> None:
    (agent,) = prepared(settings, "agent")
    with server(settings) as process:
        breakpoint_id = raised(process, agent)
        paths = (f"/api/breakpoints/{breakpoint_id}/status?wait=30", f"/api/breakpoints/{breakpoint_id}/stream")
        clients = [Raw(process, path, agent) for path in paths * 10]
        until_metric(process, "assent_waiters 20.0")
        for client in clients:
            client.socket.close()
        until_metric(process, "assent_waiters 0.0")


def test_a_stopping_server_responds_to_its_waiters_before_it_exits(settings: Settings) -> None:
    agent, viewer = prepared(settings, "agent", "viewer")
    with server(settings) as process:
        breakpoint_id = raised(process, agent)
        poll = Raw(process, f"/api/breakpoints/{breakpoint_id}/status?wait=30", agent)
        stream = Raw(process, f"/api/breakpoints/{breakpoint_id}/stream", agent)
        inbox = Raw(process, "/api/stream", viewer)
        until_metric(process, "assent_waiters 2.0")
        until_metric(process, "assent_streams 1.0")
        assert process.stop() in {0, -signal.SIGTERM}
    answer = poll.everything()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"status":"waiting"' in answer
    assert b"retry-after: 0" in answer.lower()
    for client in (stream, inbox):
        told = client.everything()
        assert told.startswith(b"HTTP/1.1 200 OK")
        assert told.endswith(b"0\r\n\r\n"), "the stream must end properly"
