"""The stream of live updates for pages: permissions, ending with the session, and the limit per person."""

import asyncio

import pytest

from assent.breakpoints.pages.live import MOST
from tests.support.nodes import Node
from tests.web.visitors import person, signed_in, visitor


class Listener:
    """Reads the stream directly from the application, because the test client waits for the end of a response."""

    def __init__(self, node: Node, cookie: str) -> None:
        self.heard: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._task = asyncio.create_task(self._read(node, cookie))

    async def _read(self, node: Node, cookie: str) -> None:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": "/live", "raw_path": b"/live", "query_string": b"", "root_path": "", "server": ("assent.test", 80),
            "client": ("127.0.0.1", 1), "headers": [(b"host", b"assent.test"), (b"cookie", cookie.encode())],
        }  # fmt: skip

        async def receive() -> dict[str, object]:
            await self._gone.wait()
            return {"type": "http.disconnect"}

        application = node.client._transport.app  # type: ignore[attr-defined]
        await application(scope, receive, self.heard.put)

    async def message(self) -> dict[str, object]:
        return await asyncio.wait_for(self.heard.get(), 30)

    async def leave(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, 30)


async def _listening(node: Node, name: str = "ann") -> tuple[Listener, str]:
    browser = await signed_in(node, name)
    cookie = "; ".join(f"{each}={value}" for each, value in browser.client.cookies.items())
    listener = Listener(node, cookie)
    start = await listener.message()
    assert start["status"] == 200
    assert (await listener.message())["body"] == b": listening\n\n"
    return listener, cookie


async def test_a_live_update_identifies_the_breakpoint_without_its_content(node: Node) -> None:
    listener, _ = await _listening(node)
    created = await node.create(title="Secret title")
    body = (await listener.message())["body"]
    assert isinstance(body, bytes)
    assert created["id"].encode() in body
    assert b"Secret" not in body
    await listener.leave()
    assert node.assent.hub.inboxes == 0


async def test_pages_receive_no_updates_from_other_projects(node: Node) -> None:
    listener, _ = await _listening(node)
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "other"})
    await node.create(await node.token("agent", project="other", name="theirs"))
    ours = await node.create()
    body = (await listener.message())["body"]
    assert isinstance(body, bytes)
    assert ours["id"].encode() in body
    await listener.leave()


async def test_a_stream_ends_with_its_session(node: Node) -> None:
    listener, _ = await _listening(node)

    def close(tx: object) -> None:
        tx.session.change("DELETE FROM assent_sessions", {})  # type: ignore[attr-defined]

    await node.assent.database.write(close)
    last = await listener.message()
    while last.get("more_body"):
        last = await listener.message()
    assert last == {"type": "http.response.body", "body": b""}


async def test_the_stream_requires_a_session_and_a_role(node: Node) -> None:
    assert (await visitor(node).get("/live")).status_code == 303
    await person(node, "nil", password="a long enough password")
    browser = visitor(node)
    await browser.sign_in("nil", "a long enough password")
    assert (await browser.get("/live")).status_code == 403


@pytest.mark.parametrize("many", [MOST])
async def test_the_number_of_streams_per_person_is_limited(node: Node, many: int) -> None:
    listener, cookie = await _listening(node)
    others = [Listener(node, cookie) for _ in range(many - 1)]
    for each in others:
        assert (await each.message())["status"] == 200
    refused = Listener(node, cookie)
    assert (await refused.message())["status"] == 429
    for each in (listener, *others):
        await each.leave()
