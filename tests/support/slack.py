"""A fake Slack with real HTTP, a real WebSocket and real signatures.

    async with faking_slack() as slack:
        settings = {"token": "env:SLACK_TOKEN", "appToken": "env:SLACK_APP", "apiUrl": slack.url}   # and `room`
        ...                                       # slack.resolve turns these references into its tokens
        message = await slack.posted()            # the next message that has not been returned yet
        await slack.click("U1", message, "Approve")                 # over the socket; returns the acknowledgement
        view = await slack.opened()                                 # the next form
        await slack.submit("U1", view, {"comment": "no"})           # the values by block
        headers, body = slack.signed(slack.clicked("U1", message, "Approve"))   # the same as a signed HTTP request

It records `messages` (after updates), `updates`, `views`, `ephemerals`, `acks` and `calls`. `people` maps email
addresses to users, and `now` is its clock. Like Slack, it refuses unknown tokens, rooms and triggers, and blocks that
exceed the limits.

Faults: `fail(method, *faults)` for the next calls, each an error name, an HTTP status or `(429, seconds)`;
`hold(method)` and `let_go(method)` for a slow call; `lose(method)` executes it and drops the connection before the
response; `silent` (True: accept connections without a greeting), `deafen()` (stop answering pings), `drop()`,
`refresh()` (ask to reconnect), and `push(payload, times=2)` for a duplicate envelope.
"""

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

PATIENCE = 60.0
"""Seconds after which a wait gives up; tests do not check how long it takes."""
TEAM = "T0TEAM"
SCOPES = "chat:write,im:write,users:read,users:read.email,channels:history,groups:history,im:history"

Fault = str | int | tuple[int, int]
Kept = TypeVar("Kept")


@dataclass
class Message:
    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    metadata: dict[str, Any]
    thread_ts: str | None = None
    broadcast: bool = False
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def delivery_id(self) -> str:
        return str(self.metadata.get("event_payload", {}).get("delivery_id", ""))

    @property
    def buttons(self) -> dict[str, dict[str, Any]]:
        """The buttons by label."""
        actions = [block["elements"] for block in self.blocks if block["type"] == "actions"]
        return {each["text"]["text"]: each for each in itertools.chain(*actions)}

    @property
    def shown(self) -> str:
        """All visible text."""
        return "\n".join(texts(self.blocks))


@dataclass
class View:
    id: str
    view: dict[str, Any]
    user: str

    @property
    def inputs(self) -> dict[str, dict[str, Any]]:
        return {block["block_id"]: block["element"] for block in self.view["blocks"] if block["type"] == "input"}


class FakeSlack:
    token, app_token, signing_secret = "xoxb-fake", "xapp-fake", "fake-signing-secret"

    def __init__(self) -> None:
        self.url = ""
        self.silent = False
        self.now: Callable[[], float] = time.time
        self.scopes: str | None = SCOPES
        self.rooms: set[str] = {"C0ROOM"}
        self.people: dict[str, str] = {}
        self.messages: list[Message] = []
        self.updates: list[dict[str, str]] = []
        self.views: list[View] = []
        self.ephemerals: list[dict[str, str]] = []
        self.acks: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.connections: list[ServerConnection] = []
        self.connected = 0
        self._socket_url = ""
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._held: dict[str, asyncio.Event] = {}
        self._lost: set[str] = set()
        self._triggers: dict[str, str] = {}
        self._count = itertools.count(1)
        self._changed = asyncio.Condition()
        self._seen = {"messages": 0, "views": 0, "ephemerals": 0}

    def resolve(self, reference: str) -> str:
        known = {
            "env:SLACK_TOKEN": self.token,
            "env:SLACK_APP": self.app_token,
            "env:SLACK_SIGNING": self.signing_secret,
        }
        if reference not in known:
            raise ValueError(f"{reference} is not set.")
        return known[reference]

    # Waiting for events

    async def until(self, true: Callable[[], bool]) -> None:
        """Return as soon as the condition holds; it is checked after every event of this server."""
        async with self._changed, asyncio.timeout(PATIENCE):
            await self._changed.wait_for(true)

    async def posted(self) -> Message:
        return await self._next("messages", self.messages)

    async def opened(self) -> View:
        return await self._next("views", self.views)

    async def whispered(self) -> dict[str, str]:
        """Return the next ephemeral message, which only one user sees."""
        return await self._next("ephemerals", self.ephemerals)

    async def _next(self, kind: str, kept: list[Kept]) -> Kept:
        await self.until(lambda: len(kept) > self._seen[kind])
        self._seen[kind] += 1
        return kept[self._seen[kind] - 1]

    # User actions

    def clicked(self, user: str, message: Message, label: str, *, team: str = TEAM) -> dict[str, Any]:
        """Return the payload that Slack sends when a user clicks a button."""
        n = next(self._count)
        trigger = f"trigger-{n}"
        self._triggers[trigger] = user
        button = message.buttons[label]
        action = {key: button[key] for key in ("action_id", "value", "type") if key in button}
        return {
            "type": "block_actions",
            "team": {"id": TEAM, "domain": "acme"},
            "user": {"id": user, "username": user.lower(), "team_id": team},
            "trigger_id": trigger,
            "container": {"type": "message", "message_ts": message.ts, "channel_id": message.channel},
            "message": {"ts": message.ts, "blocks": message.blocks},
            "actions": [action | {"action_ts": f"{self.now():.0f}.{n:06d}"}],
        }

    def submitted(self, user: str, view: View, values: Mapping[str, str | None], *, team: str = TEAM) -> dict[str, Any]:
        """Return the payload for a form that a user submits; values are texts, or the labels of choices."""
        state = {block_id: {"value": _state(each, values.get(block_id))} for block_id, each in view.inputs.items()}
        return {
            "type": "view_submission",
            "team": {"id": TEAM, "domain": "acme"},
            "user": {"id": user, "username": user.lower(), "team_id": team},
            "view": view.view | {"id": view.id, "hash": "h.1", "state": {"values": state}},
        }

    async def click(self, user: str, message: Message, label: str) -> dict[str, Any]:
        return await self.push(self.clicked(user, message, label))

    async def submit(self, user: str, view: View, values: Mapping[str, str | None]) -> dict[str, Any]:
        return await self.push(self.submitted(user, view, values))

    async def push(self, payload: Mapping[str, Any], *, times: int = 1) -> dict[str, Any]:
        """Send over the newest connection, optionally several times, and return the last acknowledgement."""
        await self.until(lambda: bool(self.connections))
        envelope = f"envelope-{next(self._count)}"
        sent = {
            "type": "interactive",
            "envelope_id": envelope,
            "accepts_response_payload": True,
            "payload": payload,
        }
        for _ in range(times):
            await self.envelope(sent)
        await self.until(lambda: sum(ack["envelope_id"] == envelope for ack in self.acks) >= times)
        return [ack for ack in self.acks if ack["envelope_id"] == envelope][-1]

    async def envelope(self, sent: Mapping[str, Any], connection: ServerConnection | None = None) -> None:
        """Send a complete envelope without waiting."""
        await (connection or self.connections[-1]).send(json.dumps(sent))

    def signed(self, payload: Mapping[str, Any], *, at: float | None = None) -> tuple[dict[str, str], bytes]:
        """Return the headers and body of the HTTP request that Slack would send."""
        body = urlencode({"payload": json.dumps(payload)}).encode()
        sent = str(int(self.now() if at is None else at))
        mac = hmac.new(self.signing_secret.encode(), f"v0:{sent}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": sent,
            "x-slack-signature": f"v0={mac}",
        }
        return headers, body

    # Faults

    def fail(self, method: str, *faults: Fault) -> None:
        self._faults[method] += faults

    def hold(self, method: str) -> None:
        self._held[method] = asyncio.Event()

    def let_go(self, method: str) -> None:
        self._held.pop(method).set()

    def lose(self, method: str) -> None:
        """Execute the next call of a method, but drop the connection instead of responding."""
        self._lost.add(method)

    def drop(self) -> None:
        for each in self.connections:
            each.transport.abort()

    def deafen(self) -> None:
        for each in self.connections:
            each.transport.pause_reading()

    async def refresh(self) -> None:
        await self.connections[-1].send(json.dumps({"type": "disconnect", "reason": "refresh_requested"}))

    # Web API

    async def _answer(self, method: str, authorization: str, arguments: dict[str, str]) -> tuple[int, dict[str, Any]]:
        async with self._changed:
            self.calls.append((method, arguments))
            self._changed.notify_all()
        held = self._held.get(method)
        if held is not None:
            await held.wait()
        if self._faults[method]:
            return _fault(self._faults[method].pop(0))
        wanted = self.app_token if method == "apps.connections.open" else self.token
        if authorization != f"Bearer {wanted}":
            return 200, {"ok": False, "error": "invalid_auth"}
        does = getattr(self, "_" + method.replace(".", "_"), None)
        answer: dict[str, Any] = does(arguments) if does else {"ok": False, "error": "unknown_method"}
        async with self._changed:
            self._changed.notify_all()
        return 200, {"ok": "error" not in answer} | answer

    def _auth_test(self, _: dict[str, str]) -> dict[str, Any]:
        return {"team": "Acme", "team_id": TEAM, "user": "assent", "user_id": "U0BOT"}

    def _apps_connections_open(self, _: dict[str, str]) -> dict[str, Any]:
        return {"url": f"{self._socket_url}/link?ticket={next(self._count)}"}

    def _users_lookupByEmail(self, given: dict[str, str]) -> dict[str, Any]:  # noqa: N802  # Slack's name
        user = self.people.get(given["email"])
        return {"user": {"id": user, "team_id": TEAM}} if user else {"error": "users_not_found"}

    def _conversations_open(self, given: dict[str, str]) -> dict[str, Any]:
        self.rooms.add(f"D0{given['users']}")
        return {"channel": {"id": f"D0{given['users']}"}}

    def _chat_postMessage(self, given: dict[str, str]) -> dict[str, Any]:  # noqa: N802  # Slack's name
        channel = "C0ROOM" if given["channel"] == "#room" else given["channel"]
        blocks = json.loads(given["blocks"])
        if channel not in self.rooms:
            return {"error": "channel_not_found"}
        if invalid(blocks) or not given.get("text"):
            return {"error": "invalid_blocks"}
        message = Message(
            channel,
            f"{self.now():.0f}.{next(self._count):06d}",
            given["text"],
            blocks,
            json.loads(given.get("metadata", "{}")),
            given.get("thread_ts"),
            given.get("reply_broadcast") == "true",
            given,
        )
        self.messages.append(message)
        return {"channel": channel, "ts": message.ts, "message": {"text": message.text, "team": TEAM}}

    def _chat_update(self, given: dict[str, str]) -> dict[str, Any]:
        found = [each for each in self.messages if (each.channel, each.ts) == (given["channel"], given["ts"])]
        blocks = json.loads(given["blocks"])
        if not found:
            return {"error": "message_not_found"}
        if invalid(blocks):
            return {"error": "invalid_blocks"}
        found[0].text, found[0].blocks = given["text"], blocks
        self.updates.append(given)
        return {"channel": given["channel"], "ts": given["ts"], "text": given["text"]}

    def _chat_postEphemeral(self, given: dict[str, str]) -> dict[str, Any]:  # noqa: N802  # Slack's name
        if invalid(json.loads(given["blocks"])):
            return {"error": "invalid_blocks"}
        self.ephemerals.append(given)
        return {"message_ts": "1.1"}

    def _views_open(self, given: dict[str, str]) -> dict[str, Any]:
        user = self._triggers.pop(given["trigger_id"], None)
        view = json.loads(given["view"])
        if user is None:
            return {"error": "exchanged_trigger_id"}
        if invalid(view["blocks"], most=100) or not 0 < len(view["title"]["text"]) <= 24:
            return {"error": "invalid_arguments"}
        self.views.append(View(f"V{next(self._count)}", view, user))
        return {"view": {"id": self.views[-1].id}}

    def _conversations_history(self, given: dict[str, str]) -> dict[str, Any]:
        if given["channel"] not in self.rooms:
            return {"error": "channel_not_found"}
        found = [each for each in self.messages if each.channel == given["channel"] and each.thread_ts is None]
        return self._page(list(reversed(found)), given)

    def _conversations_replies(self, given: dict[str, str]) -> dict[str, Any]:
        thread = given["ts"]
        return self._page([each for each in self.messages if thread in {each.ts, each.thread_ts}], given)

    @staticmethod
    def _page(found: list[Message], given: dict[str, str]) -> dict[str, Any]:
        since = [each for each in found if float(each.ts) >= float(given.get("oldest", "0"))]
        first, limit = int(given.get("cursor", "0")), int(given.get("limit", "100"))
        more = str(first + limit) if first + limit < len(since) else ""
        shown = [
            {"ts": each.ts, "text": each.text, "blocks": each.blocks, "team": TEAM}
            | ({"metadata": each.metadata} if given.get("include_all_metadata") == "true" else {})
            for each in since[first : first + limit]
        ]
        return {"messages": shown, "response_metadata": {"next_cursor": more}}

    # Servers

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *lines = head.split("\r\n")[:-2]
                headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method = line.split()[1].removeprefix("/api/")
                arguments = {name: values[0] for name, values in parse_qs(body.decode()).items()}
                status, answer = await self._answer(method, headers.get("authorization", ""), arguments)
                if method in self._lost:
                    self._lost.discard(method)
                    break
                writer.write(self._response(status, answer))
                await writer.drain()
        writer.transport.abort()

    def _response(self, status: int, answer: dict[str, Any]) -> bytes:
        body = json.dumps(answer).encode()
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        if "retry_after" in answer:
            lines.append(f"Retry-After: {answer['retry_after']}")
        if self.scopes is not None:
            lines.append(f"X-OAuth-Scopes: {self.scopes}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def serve_socket(self, connection: ServerConnection) -> None:
        async with self._changed:
            self.connected += 1
            self._changed.notify_all()
        if self.silent:
            await connection.wait_closed()
            return
        await connection.send(json.dumps({"type": "hello", "num_connections": 1}))
        async with self._changed:
            self.connections.append(connection)
            self._changed.notify_all()
        try:
            async for text in connection:
                async with self._changed:
                    self.acks.append(json.loads(text))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            async with self._changed:
                self.connections.remove(connection)
                self._changed.notify_all()


def texts(value: object) -> list[str]:
    """Return the texts of all text objects, at any depth."""
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    if not isinstance(value, dict):
        return []
    if value.get("type") in {"plain_text", "mrkdwn"}:
        return [value["text"]]
    return [text for each in value.values() for text in texts(each)]


def invalid(blocks: list[dict[str, Any]], *, most: int = 50) -> str | None:
    """Return which of Slack's limits these blocks exceed, if any."""
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    if not 0 < len(blocks) <= most or len(set(ids)) != len(ids) or any(not 0 < len(each) <= 255 for each in ids):
        return "blocks"
    return next((problem for block in blocks if (problem := _invalid_block(block))), None)


def _invalid_block(block: dict[str, Any]) -> str | None:
    longest = {"header": 150, "section": 3000, "context": 3000, "actions": 75, "input": 3000}
    kind = block["type"]
    if kind not in longest or any(not 0 < len(text) <= longest[kind] for text in texts(block.get("text") or block)):
        return f"text of {kind}"
    elements = [*block.get("elements", ()), *(block[key] for key in ("accessory", "element") if key in block)]
    if kind in {"actions", "context"} and not 0 < len(elements) <= (25 if kind == "actions" else 10):
        return f"elements of {kind}"
    if kind == "header" and block["text"]["type"] != "plain_text":
        return "header"
    actions = [each["action_id"] for each in elements if "action_id" in each]
    if len(set(actions)) != len(actions):
        return "action ids"
    return next((problem for each in elements if (problem := _invalid_element(each))), None)


def _invalid_element(element: dict[str, Any]) -> str | None:
    kind = element["type"]
    if kind == "button":
        short = len(element["text"]["text"]) <= 75 and len(element.get("value", "")) <= 2000
        return None if short and len(element.get("url", "")) <= 3000 else "button"
    if kind in {"radio_buttons", "static_select"}:
        options = element["options"]
        right = 0 < len(options) <= (10 if kind == "radio_buttons" else 100)
        right = right and len({each["value"] for each in options}) == len(options)
        return None if right and all(0 < len(each["text"]["text"]) <= 75 for each in options) else kind
    if kind == "plain_text_input":
        low, high = element.get("min_length", 0), element.get("max_length", 3000)
        return None if 0 <= low <= high <= 3000 and high >= 1 else kind
    if kind == "number_input":
        given = [element[key] for key in ("min_value", "max_value") if key in element]
        return None if all(isinstance(each, str) and float(each) is not None for each in given) else kind
    return None if kind in {"plain_text", "mrkdwn"} else f"element {kind}"


def _state(element: Mapping[str, Any], value: str | None) -> dict[str, Any]:
    if "options" not in element:
        return {"type": element["type"], "value": value}
    chosen = next((each for each in element["options"] if each["text"]["text"] == value), None)
    return {"type": element["type"], "selected_option": chosen}


def _fault(fault: Fault) -> tuple[int, dict[str, Any]]:
    if isinstance(fault, tuple):
        return fault[0], {"ok": False, "error": "ratelimited", "retry_after": fault[1]}
    if isinstance(fault, int):
        return fault, {"ok": False, "error": "internal_error"}
    return 200, {"ok": False, "error": fault}


@contextlib.asynccontextmanager
async def faking_slack() -> AsyncIterator[FakeSlack]:
    slack = FakeSlack()
    tasks = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await slack.serve_http(reader, writer)
        finally:
            tasks.discard(task)

    http = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with serve(slack.serve_socket, "127.0.0.1", 0, ping_interval=None, close_timeout=1) as socket:
        slack.url = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}/api/"
        slack._socket_url = f"ws://127.0.0.1:{next(iter(socket.sockets)).getsockname()[1]}"
        try:
            yield slack
        finally:
            http.close()
            slack.drop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
