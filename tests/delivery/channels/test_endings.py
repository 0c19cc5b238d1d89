"""Every kind of ending on every channel: each breakpoint is announced once and closed once, on both databases.

Run with `-s` to see the table.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from assent.breakpoints.usecases.inbox import InboxService
from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.usecases.outbox import DeliveryService
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import PeopleService
from tests.delivery.channels.conftest import HOOK_SECRET, SECRETS
from tests.delivery.usecases.delegating import channel, deliveries, route
from tests.support.jira import TOKEN, USER, Jira, jira_server
from tests.support.mail import MailServer, mail_server
from tests.support.nodes import Node, running_node
from tests.support.receiver import Answer, Receiver, receiving
from tests.support.slack import FakeSlack, faking_slack
from tests.support.until import until

# Apprise loads all of its services, some of which use deprecated Python modules.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")

PROJECT = "shop"
HOUR = 3600
EXPIRED = "Expired: no one responded in time"
DONE = {"sent", "answered", "superseded"}
SIX = ("webhook", "slack-socket", "slack-http", "email", "jira", "apprise")


@dataclass
class MovableClock:
    """A clock that shows the real time until a test advances or stops it."""

    ahead: int = 0
    stopped_at: int | None = None

    def stop(self) -> None:
        self.stopped_at = time.time_ns() // 1000

    def now(self) -> int:
        return (self.stopped_at or time.time_ns() // 1000) + self.ahead * 1_000_000


@dataclass
class World:
    """A node with a worker, a project with all six channels, and the servers behind them."""

    node: Node
    clock: MovableClock
    receiver: Receiver
    socket: FakeSlack
    http: FakeSlack
    mail: MailServer
    jira: Jira
    channels: dict[str, str] = field(default_factory=dict[str, str])
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def create(self, **body: Any) -> str:
        body |= {"callbackUrl": self.receiver.url("/callback")}
        return str((await self.node.create(self.tokens["agent"], **body))["id"])

    async def post(self, path: str, who: str, body: dict[str, Any] | None = None) -> None:
        answer = await self.node.call("POST", f"/api{path}", self.tokens[who], json=body or {})
        assert answer.status_code < 300, answer.text

    def lose_replies(self) -> None:
        """Make every server accept its next message and drop the connection instead of responding."""
        for path in ("/hook", "/apprise"):
            self.receiver.answer(path, Answer(drops=True), Answer())
        self.socket.lose("chat.postMessage")
        self.http.lose("chat.postMessage")
        self.mail.drop()
        self.jira.drop()

    def calls(self, path: str) -> list[str]:
        """Return the distinct events that were posted to a path, except `responded`."""
        once = {call.id: call for call in self.receiver.to(path)}
        types = [call.json["type"].removeprefix("breakpoint.") for call in once.values()]
        return [each for each in types if each != "responded"]


@dataclass(frozen=True)
class Ending:
    name: str
    finish: Callable[[World, str], Awaitable[object]]
    event: str
    by: str
    said: str
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    timeout: dict[str, str] | None = None


async def approve(world: World, breakpoint_id: str) -> None:
    await world.post(f"/breakpoints/{breakpoint_id}/feedback", "reviewer", {"approved": True})


async def reject(world: World, breakpoint_id: str) -> None:
    await world.post(f"/breakpoints/{breakpoint_id}/feedback", "reviewer", {"approved": False, "comment": "No."})


async def cancel(world: World, breakpoint_id: str) -> None:
    await world.post(f"/breakpoints/{breakpoint_id}/cancel", "agent")


async def expire(world: World, breakpoint_id: str) -> None:
    await world.post(f"/breakpoints/{breakpoint_id}/expire", "admin")


async def let_pass(world: World, breakpoint_id: str) -> None:
    shown = (await world.node.call("GET", f"/api/breakpoints/{breakpoint_id}", world.tokens["agent"])).json()
    assert datetime.fromisoformat(shown["dueAt"]) > datetime.fromisoformat(shown["createdAt"])
    world.clock.ahead += HOUR


async def answer_in_another_channel(world: World, breakpoint_id: str) -> None:
    shown = (await world.node.call("GET", f"/api/breakpoints/{breakpoint_id}", world.tokens["agent"])).json()
    answer = {"breakpointId": breakpoint_id, "approved": True, "comment": "Go.", "digest": shown["digest"]}
    encoded = json.dumps(answer)
    at = datetime.fromtimestamp(int(time.time()), UTC)
    headers = {
        "webhook-id": "msg-1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(HOOK_SECRET).sign("msg-1", at, encoded),
        "content-type": "application/json",
    }
    path = f"/callbacks/{world.channels['other']}"
    reply = await world.node.client.post(path, headers=headers, content=encoded.encode())
    assert reply.status_code == 200, reply.text


async def remove_project(world: World, breakpoint_id: str) -> None:
    answer = await world.node.call("DELETE", f"/api/projects/{PROJECT}", world.tokens["admin"])
    assert answer.status_code == 204, (breakpoint_id, answer.text)


ENDINGS = [
    Ending("approved", approve, "released", "person:ann", "Approved by ann"),
    Ending("rejected", reject, "released", "person:ann", "Rejected by ann"),
    Ending("expired by the agent's ttl", let_pass, "expired", "system:timeout", EXPIRED, {"ttlSeconds": HOUR}),
    Ending(
        *("expired by the route's timeout", let_pass, "expired", "system:timeout", EXPIRED),
        timeout={"after": "1h", "then": "expire"},
    ),
    Ending(
        *(
            "rejected by the route's timeout",
            let_pass,
            "released",
            "system:timeout",
            "Rejected automatically: no one responded in time",
        ),
        timeout={"after": "1h", "then": "reject"},
    ),
    Ending("expired by an admin", expire, "expired", "person:root", "Expired by root"),
    Ending("cancelled", cancel, "cancelled", "agent:agent", "Cancelled by agent agent"),
    Ending(
        "decided in another channel", answer_in_another_channel, "released", "person:ann", "Approved by ann (webhook)"
    ),
    Ending(
        *("project removed", remove_project, "cancelled", "system:project-removed"),
        said="Cancelled: the project was removed",
    ),
]


@pytest.fixture
async def world(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    for name, value in (SECRETS | {"JIRA_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    clock = MovableClock()
    async with contextlib.AsyncExitStack() as stack:
        receiver, mail = stack.enter_context(receiving()), stack.enter_context(mail_server())
        jira = stack.enter_context(jira_server())
        socket, http = [await stack.enter_async_context(faking_slack()) for _ in range(2)]
        monkeypatch.setenv("APPRISE_URL", receiver.url("/apprise").replace("http://", "json://"))
        node = await stack.enter_async_context(running_node(allowing, worker=True, clock=clock))
        yield await furnished(World(node, clock, receiver, socket, http, mail, jira))


async def furnished(world: World) -> World:
    node, receiver = world.node, world.receiver

    def people(tx: Transaction) -> None:
        owner = tx[People].get_by_name("owner")
        tx[Projects].add(Project(PROJECT, "Shop", owner.id, {}, tx.now()))
        for name, role in (("ann", Role.REVIEWER), ("root", Role.ADMIN)):
            node.assent[PeopleService].create_person(
                tx, name, project=PROJECT, roles=frozenset({role}), email=f"{name}@example.com"
            )

    await node.assent.database.write(people)
    world.tokens = {
        "agent": await node.token("agent", name="agent", project=PROJECT),
        "reviewer": await node.token("reviewer", project=PROJECT, person="ann"),
        "admin": await node.token("admin", project=PROJECT, person="root"),
    }
    hook = {"secrets": ["env:HOOK_SECRET"]}
    slack = {"token": "env:SLACK_TOKEN", "room": "C0ROOM"}
    settings: dict[str, tuple[str, dict[str, Any]]] = {
        "webhook": ("webhook", hook | {"url": receiver.url("/hook")}),
        "slack-socket": ("slack", slack | {"apiUrl": world.socket.url, "appToken": "env:SLACK_APP"}),
        "slack-http": ("slack", slack | {"apiUrl": world.http.url, "signingSecret": "env:SLACK_SIGNING"}),
        "email": ("email", {"host": "127.0.0.1", "port": world.mail.port, "tls": "none", "from": "a@example.com"}),
        "jira": (
            "jira",
            {"url": world.jira.url, "project": "OPS", "user": USER, "token": "env:JIRA_TOKEN", "pollSeconds": 0}
            | {"closeTransition": "Done"},
        ),
        "apprise": ("apprise", {"urls": ["env:APPRISE_URL"]}),
        "other": ("webhook", hook | {"url": receiver.url("/other"), "answersAs": "ann"}),
    }
    for name, (kind, given) in settings.items():
        world.channels[name] = await channel(node, name, kind, in_project=PROJECT, **given)
    await world.socket.until(lambda: world.socket.connected > 0)
    return world


async def finished(world: World, breakpoint_id: str, purposes: set[str]) -> None:
    """Wait until each channel has deliveries for all of these purposes and none are pending."""

    def enough(found: list[Any]) -> bool:
        queued = {name: {each.purpose for each in found if each.channel == world.channels[name]} for name in SIX}
        return all(purposes <= each for each in queued.values()) and all(each.state in DONE for each in found)

    await until(lambda: deliveries(world.node, breakpoint_id, project=PROJECT), enough)


def seen(world: World, ending: Ending) -> dict[str, tuple[int, int]]:
    """For each channel, count the messages that announced the breakpoint and those that closed it."""
    letters = [letter.message["In-Reply-To"] is not None for letter in world.mail.letters]
    issues = list(world.jira.issues.values())
    hook, callback = world.calls("/hook"), world.calls("/callback")
    return {
        "webhook": (hook.count("created"), hook.count(ending.event) if len(hook) < 3 else len(hook)),
        "slack-socket": (len(world.socket.messages), len(world.socket.updates)),
        "slack-http": (len(world.http.messages), len(world.http.updates)),
        "email": (letters.count(False), letters.count(True)),
        "jira": (len(issues), sum(len(issue.comments) for issue in issues)),
        "apprise": (len(world.receiver.to("/apprise")), 0),
        "callbackUrl": (callback.count("created"), callback.count(ending.event)),
    }


def check_words(world: World, ending: Ending) -> None:
    """Check that no message looks open and that every channel shows how the breakpoint ended."""
    for slack in (world.socket, world.http):
        assert slack.messages[0].buttons == {}
        assert ending.said in slack.messages[0].shown
    assert ending.said in world.mail.letters[-1].text
    assert world.mail.letters[-1].message["In-Reply-To"] == world.mail.letters[0].message["Message-ID"]
    [issue] = world.jira.issues.values()
    assert issue.status == "Done"
    assert ending.said in world.jira.texts(issue.key)[0]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda each: each.name)
async def test_every_channel_announces_and_closes_exactly_once(world: World, ending: Ending) -> None:
    more: dict[str, Any] = {"timeout": ending.timeout} if ending.timeout else {}
    await route(world.node, *SIX, "other", project=PROJECT, to=["person:ann"], **more)
    breakpoint_id = await world.create(**ending.body)
    await finished(world, breakpoint_id, {"ask"})
    path = f"/api/breakpoints/{breakpoint_id}/status?wait=30"
    waiter = asyncio.create_task(world.node.call("GET", path, world.tokens["agent"]))
    await ending.finish(world, breakpoint_id)
    status = (await waiter).json()["status"]
    await finished(world, breakpoint_id, {"ask", "close"})
    found = seen(world, ending)
    cells = " ".join(f"{name} {told}+{closed}" for name, (told, closed) in found.items())
    print(f"{world.node.assent.database.dialect:<11}{ending.name:<33}{cells} waiter {status}")  # noqa: T201  # prints the result table
    assert status == ending.event
    once = {name: (1, 0 if name == "apprise" else 1) for name in found}
    assert found == once
    check_words(world, ending)
    events = await world.node.assent[InboxService].history(breakpoint_id)
    assert (events[-1].type, str(events[-1].actor)) == (ending.event, ending.by)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda each: each.name)
async def test_a_message_whose_response_was_lost_is_closed_exactly_once(world: World, ending: Ending) -> None:
    more: dict[str, Any] = {"timeout": ending.timeout} if ending.timeout else {}
    await route(world.node, *SIX, "other", project=PROJECT, to=["person:ann"], **more)
    world.lose_replies()
    # Stop the clock so that no retry is due before the breakpoint ends.
    world.clock.stop()
    breakpoint_id = await world.create(**ending.body)
    six = {world.channels[name] for name in SIX}
    await until(
        lambda: deliveries(world.node, breakpoint_id, project=PROJECT),
        lambda found: {each.channel for each in found if each.last_error and each.state == "pending"} == six,
    )
    await ending.finish(world, breakpoint_id)
    path = f"/api/breakpoints/{breakpoint_id}/status?wait=30"
    status = (await world.node.call("GET", path, world.tokens["agent"])).json()["status"]
    world.clock.ahead += HOUR
    await deliveries(world.node, breakpoint_id, project=PROJECT)
    await world.node.assent.database.write(world.node.assent[DeliveryService].heal)
    await finished(world, breakpoint_id, {"ask", "close"})
    found = seen(world, ending)
    cells = " ".join(f"{name} {told}+{closed}" for name, (told, closed) in found.items())
    print(f"{world.node.assent.database.dialect:<11}{ending.name:<33}{cells} reply lost")  # noqa: T201  # prints the result table
    assert status == ending.event
    assert found == {name: (1, 0 if name == "apprise" else 1) for name in found}
    check_words(world, ending)
