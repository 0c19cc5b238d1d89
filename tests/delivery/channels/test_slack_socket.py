"""Socket Mode: each envelope is processed once and acknowledged in time, and lost connections are reopened."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from websockets.asyncio.server import ServerConnection, serve

from assent.delivery.channels.slack.api import SlackApi
from assent.delivery.channels.slack.channel import SlackChannel
from assent.delivery.channels.slack.modal import modal
from assent.delivery.channels.slack.socket import Pace, Socket
from assent.delivery.ports import Heard
from assent.kernel.outbound import Outbound
from assent.kernel.ports import Incoming
from tests.delivery.channels.slack_kit import LOOPBACK, PERSONS, QUICK, note, raised, speaking
from tests.kernel.outbound.receivers import Directory, certificate, receiving, says
from tests.support.slack import PATIENCE, FakeSlack, View

Take = Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]


class Taker:
    """Parses messages as the answering service does, and records them."""

    def __init__(self, channel: SlackChannel, answer: Mapping[str, Any] | None = None) -> None:
        self.heard: list[Heard] = []
        self.failures = 0
        self.hold: asyncio.Event | None = None
        self.began, self.done = asyncio.Event(), asyncio.Event()
        self._channel = channel
        self._answer = answer

    async def __call__(self, incoming: Incoming) -> Mapping[str, Any] | None:
        heard = self._channel.hear(incoming)
        self.began.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the database is away")
        self.heard += heard
        self.done.set()
        return self._answer


@contextlib.asynccontextmanager
async def listening(channel: SlackChannel, take: Take) -> AsyncIterator[None]:
    task = asyncio.create_task(channel.listen(take))
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(
    *, pace: Pace = QUICK, answer: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[FakeSlack, SlackChannel, Taker]]:
    async with speaking(pace=pace) as (slack, channel):
        taker = Taker(channel, answer)
        async with listening(channel, taker):
            await slack.until(lambda: bool(slack.connections))
            yield slack, channel, taker


async def clicked(slack: FakeSlack, channel: SlackChannel) -> dict[str, Any]:
    await channel.send(note())
    return slack.clicked("U1", slack.messages[-1], "Approve")


async def test_a_click_is_acknowledged_with_its_response() -> None:
    async with connected(answer={"response_action": "clear"}) as (slack, channel, taker):
        ack = await slack.push(await clicked(slack, channel))

    assert [heard.delivery_id for heard in taker.heard] == ["dl_1"]
    assert ack["payload"] == {"response_action": "clear"}


async def test_an_empty_response_is_acknowledged_without_a_payload() -> None:
    async with connected() as (slack, channel, _):
        assert "payload" not in await slack.push(await clicked(slack, channel))


async def test_a_duplicate_envelope_is_processed_once_and_acknowledged_twice() -> None:
    async with connected() as (slack, channel, taker):
        await slack.push(await clicked(slack, channel), times=2)

    assert len(taker.heard) == 1


async def test_an_envelope_redelivered_on_the_next_connection_is_processed_once() -> None:
    async with connected() as (slack, channel, taker):
        taker.hold = asyncio.Event()
        payload = await clicked(slack, channel)
        first = slack.connections[-1]
        sent = {"type": "interactive", "envelope_id": "e1", "accepts_response_payload": True, "payload": payload}
        await slack.envelope(sent)
        await taker.began.wait()
        slack.drop()
        await slack.until(lambda: bool(slack.connections) and slack.connections[-1] is not first)
        await slack.envelope(sent)
        taker.hold.set()
        await slack.until(lambda: any(ack["envelope_id"] == "e1" for ack in slack.acks))

    assert len(taker.heard) == 1


async def test_an_unsupported_event_is_acknowledged_and_ignored() -> None:
    async with connected() as (slack, _, taker):
        await slack.envelope({"type": "events_api", "envelope_id": "e1", "payload": {}})
        await slack.until(lambda: bool(slack.acks))

    assert taker.heard == []


async def test_a_slow_answer_is_acknowledged_in_time_and_still_processed() -> None:
    async with connected(pace=replace(QUICK, ack=0.05), answer={"response_action": "clear"}) as (slack, channel, taker):
        taker.hold = asyncio.Event()
        ack = await slack.push(await clicked(slack, channel))
        assert taker.heard == []
        taker.hold.set()
        await taker.done.wait()

    assert "payload" not in ack
    assert len(taker.heard) == 1


async def test_a_slow_form_submission_shows_that_it_is_still_being_processed() -> None:
    async with connected(pace=replace(QUICK, ack=0.05)) as (slack, _, taker):
        view = View("V1", modal(raised()[0], "dl_1", approve=False), "U1")
        taker.hold = asyncio.Event()
        ack = await slack.submit("U1", view, {"comment": "No"})
        taker.hold.set()

    assert ack["payload"]["response_action"] == "update"
    assert "longer than usual" in str(ack["payload"]["view"])


async def test_an_envelope_interrupted_by_shutdown_is_processed_on_redelivery() -> None:
    async with speaking() as (slack, channel):
        taker = Taker(channel)
        taker.hold = asyncio.Event()
        sent = {"type": "interactive", "envelope_id": "e1", "payload": await clicked(slack, channel)}
        async with listening(channel, taker):
            await slack.until(lambda: bool(slack.connections))
            await slack.envelope(sent)
            await taker.began.wait()
        taker.hold.set()
        await slack.until(lambda: not slack.connections)
        async with listening(channel, taker):
            await slack.until(lambda: bool(slack.connections))
            await slack.envelope(sent)
            await slack.until(lambda: any(ack["envelope_id"] == "e1" for ack in slack.acks))

    assert len(taker.heard) == 1


async def test_a_failed_envelope_is_not_acknowledged_and_is_processed_on_redelivery() -> None:
    async with connected() as (slack, channel, taker):
        taker.failures = 1
        sent = {"type": "interactive", "envelope_id": "e1", "payload": await clicked(slack, channel)}
        with capture_logs() as logs:
            await slack.envelope(sent)
            await taker.began.wait()
            await slack.push(await clicked(slack, channel))
        assert [ack["envelope_id"] for ack in slack.acks if ack["envelope_id"] == "e1"] == []
        await slack.envelope(sent)
        await slack.until(lambda: any(ack["envelope_id"] == "e1" for ack in slack.acks))

    assert len(taker.heard) == 2
    assert "slack_envelope_failed" in [line["event"] for line in logs]


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"type": "unheard of"}', '{"envelope_id": 7}'])
async def test_invalid_messages_do_not_end_the_connection(text: str) -> None:
    async with connected() as (slack, channel, taker):
        await slack.connections[-1].send(text)
        await slack.push(await clicked(slack, channel))

    assert slack.connected == 1
    assert len(taker.heard) == 1


async def test_a_dropped_connection_is_reopened() -> None:
    async with connected() as (slack, channel, taker):
        for n in range(3):
            slack.drop()
            await slack.until(lambda n=n: slack.connected > n + 1 and bool(slack.connections))  # type: ignore[misc]
        await slack.push(await clicked(slack, channel))

    assert len(taker.heard) == 1


@pytest.mark.parametrize("fault", ["invalid_auth", 500, (429, 1)])
async def test_connecting_is_retried_if_slack_refuses_the_connection(fault: str | int | tuple[int, int]) -> None:
    async with speaking() as (slack, channel):
        slack.fail("apps.connections.open", fault, fault)
        async with listening(channel, Taker(channel)):
            await slack.until(lambda: bool(slack.connections))


async def test_a_connection_without_a_hello_message_is_replaced() -> None:
    async with speaking(pace=replace(QUICK, deaf=0.05)) as (slack, channel):
        slack.silent = True
        async with listening(channel, Taker(channel)):
            await slack.until(lambda: slack.connected >= 2)
            assert channel.heard_at() is None
            slack.silent = False
            await slack.until(lambda: bool(slack.connections))


async def test_a_connection_that_does_not_respond_to_pings_is_replaced() -> None:
    async with connected(pace=replace(QUICK, deaf=0.2)) as (slack, _, __):
        first = slack.connections[-1]
        slack.deafen()
        await slack.until(lambda: bool(slack.connections) and slack.connections[-1] is not first)


async def test_a_connection_is_replaced_before_slack_closes_it() -> None:
    async with connected(pace=replace(QUICK, overlap=60)) as (slack, channel, taker):
        await slack.refresh()
        await slack.until(lambda: len(slack.connections) == 2)
        old, new = slack.connections
        payload = await clicked(slack, channel)
        for n, connection in enumerate((old, new)):
            sent = {"type": "interactive", "envelope_id": f"e{n}", "payload": payload}
            await slack.envelope(sent, connection)
            await slack.until(lambda n=n: any(ack["envelope_id"] == f"e{n}" for ack in slack.acks))  # type: ignore[misc]

    assert len(taker.heard) == 2


async def test_the_old_connection_is_closed_after_the_overlap() -> None:
    async with connected() as (slack, _, __):
        old = slack.connections[-1]
        await slack.refresh()
        await slack.until(lambda: old not in slack.connections and bool(slack.connections))


async def test_an_idle_connection_is_replaced() -> None:
    async with connected(pace=replace(QUICK, stale=0)) as (slack, _, __):
        await slack.until(lambda: slack.connected >= 3)


async def test_the_time_of_the_last_message_is_recorded() -> None:
    before = time.monotonic_ns() // 1000
    async with connected() as (slack, channel, _):
        await slack.push(await clicked(slack, channel))
        heard = channel.heard_at()

    assert heard is not None
    assert before <= heard <= time.monotonic_ns() // 1000


async def test_a_revoked_token_is_logged_while_the_connection_stays_open() -> None:
    with capture_logs() as logs:
        async with connected() as (slack, _, __):
            slack.fail("auth.test", "token_revoked", "token_revoked")
            await slack.until(lambda: [method for method, _ in slack.calls].count("auth.test") >= 3)

    assert "slack_token_check_failed" in [line["event"] for line in logs]


async def test_a_channel_without_an_app_token_does_not_listen() -> None:
    settings = {name: value for name, value in PERSONS.items() if name != "appToken"}
    async with speaking(settings) as (slack, channel):
        await channel.listen(Taker(channel))

    assert slack.calls == []


@pytest.mark.parametrize("url", ["ws://169.254.169.254", "gopher://127.0.0.1", "ws://"])
async def test_the_outbound_guard_checks_the_socket_url(url: str) -> None:
    async with speaking() as (slack, channel):
        right, slack._socket_url = slack._socket_url, url
        with capture_logs() as logs:
            async with listening(channel, Taker(channel)):
                await slack.until(lambda: [method for method, _ in slack.calls].count("apps.connections.open") >= 3)
                slack._socket_url = right
                await slack.until(lambda: bool(slack.connections))

    assert "slack_not_connected" in [line["event"] for line in logs]


@contextlib.asynccontextmanager
async def secured(folder: Path, *, names: tuple[str, ...], scheme: str = "wss") -> AsyncIterator[asyncio.Event]:
    """Connect a socket client to servers with a certificate for these names; yield an event set by the greeting."""
    shown, greeted = certificate(folder, *names), asyncio.Event()

    async def greet(connection: ServerConnection) -> None:
        await connection.send('{"type": "hello"}')
        greeted.set()
        await connection.wait_closed()

    tls = shown.server if scheme == "wss" else None
    directory = Directory({"slack.test": ["127.0.0.1"], "socket.test": ["127.0.0.1"]})
    outbound = Outbound(allow=LOOPBACK, resolver=directory, tls=shown.client)
    async with serve(greet, "127.0.0.1", 0, ssl=tls, close_timeout=1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        body = json.dumps({"ok": True, "url": f"{scheme}://socket.test:{port}/link"}).encode()
        async with receiving(says(200, body), tls=shown.server) as receiver:
            api = SlackApi(outbound, f"https://slack.test:{receiver.port}/api/", lambda _: "xapp-1")
            socket = Socket(api, os.urandom, pace=QUICK, tls=shown.client)

            async def never(_: bytes) -> None:
                raise AssertionError

            task = asyncio.create_task(socket.listen(never))
            try:
                yield greeted
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await outbound.close()


async def test_the_connection_is_encrypted_and_the_hostname_is_verified(tmp_path: Path) -> None:
    async with secured(tmp_path, names=("slack.test", "socket.test")) as greeted:
        async with asyncio.timeout(PATIENCE):
            await greeted.wait()


@pytest.mark.parametrize(
    ("names", "scheme", "words"),
    [
        (("slack.test",), "wss", "certificate"),
        (("slack.test", "socket.test"), "ws", "unencrypted URL"),
    ],
)
async def test_a_connection_to_the_wrong_host_or_without_encryption_is_refused(
    tmp_path: Path, names: tuple[str, ...], scheme: str, words: str
) -> None:
    told = asyncio.Event()

    def keep(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if line["event"] == "slack_not_connected" and words in line["error"]:
            told.set()
        raise structlog.DropEvent

    before = structlog.get_config()["processors"]
    structlog.configure(processors=[keep])
    try:
        async with secured(tmp_path, names=names, scheme=scheme) as greeted, asyncio.timeout(PATIENCE):
            await told.wait()
    finally:
        structlog.configure(processors=before)

    assert not greeted.is_set()
