"""A Slack channel connected to the fake Slack, and breakpoints to send through it."""

import contextlib
import os
import time
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

from assent.core.access import Actor, Kind
from assent.core.breakpoint import NEVER, Breakpoint, Event, record
from assent.delivery.channels.slack.channel import SlackChannel
from assent.delivery.channels.slack.socket import Pace
from assent.delivery.channels.tools import Tools
from assent.delivery.message import Addressee, Note, Purpose
from assent.kernel.outbound import Limits, Outbound
from tests.support.slack import FakeSlack, faking_slack

LOOPBACK = [ip_network("127.0.0.0/8")]
BOT = Actor(Kind.AGENT, "bot")
ANN = Actor(Kind.PERSON, "ann")
DIGEST = "d" * 64
BASE = "https://assent.example"
ROOM = {"token": "env:SLACK_TOKEN", "signingSecret": "env:SLACK_SIGNING", "appToken": "env:SLACK_APP", "room": "C0ROOM"}
PERSONS = {name: value for name, value in ROOM.items() if name != "room"}
QUICK = Pace(ping=0.05, deaf=60, check=0.05, ack=60, overlap=0.05, first=0.01, most=0.05, steady=0)


def now() -> int:
    return time.time_ns() // 1000


def tools(slack: FakeSlack, outbound: Outbound) -> Tools:
    return Tools(outbound, slack.resolve, now, os.urandom, BASE)


@contextlib.asynccontextmanager
async def speaking(
    settings: dict[str, Any] | None = None, *, pace: Pace = QUICK, limits: Limits | None = None
) -> AsyncIterator[tuple[FakeSlack, SlackChannel]]:
    outbound = Outbound(allow=LOOPBACK, limits=limits)
    async with faking_slack() as slack:
        channel = SlackChannel((settings or ROOM) | {"apiUrl": slack.url}, tools(slack, outbound), pace=pace)
        try:
            yield slack, channel
        finally:
            await outbound.close()


def raised(**changes: Any) -> tuple[Breakpoint, Event]:
    at = now()
    fields: dict[str, Any] = {
        "id": "bp_1",
        "project": "default",
        "agent_id": "agent-1",
        "run_id": None,
        "title": "Deploy to production",
        "gate": "deploy.prod",
        "payload": {"question": "Deploy 1.4.2?"},
        "tags": ("prod",),
        "seats": (),
        "strategy": "single",
        "risk": None,
        "priority": "normal",
        "on_timeout": "expire",
        "ttl_seconds": None,
        "callback_url": None,
        "digest": DIGEST,
        "created_at": at,
        "due_at": NEVER,
        "created_by": BOT,
        "created_by_id": "tok_1",
        "auto_approval": {},
        "warnings": (),
    }
    return record(Breakpoint(**(fields | changes)), "created", actor=BOT, at=at)


def note(asked: Breakpoint | None = None, **changes: Any) -> Note:
    made, event = raised()
    fields: dict[str, Any] = {
        "id": "dl_1",
        "purpose": Purpose.ASK,
        "to": Addressee(),
        "breakpoint": asked or made,
        "event": event,
        "review_url": f"{BASE}/breakpoints/bp_1",
        "answer_url": f"{BASE}/callbacks/ch_1",
    }
    return Note(**(fields | changes))
