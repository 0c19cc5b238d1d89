"""Messages to send in channel tests, and the tools that send them."""

import contextlib
import os
import time
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

from assent.core.access import TIMEOUT, Actor, Kind
from assent.core.breakpoint import NEVER, Breakpoint, Event, Response, answered, record, release, time_out
from assent.core.strategies import Decision
from assent.delivery.channels.tools import Tools
from assent.delivery.message import Addressee, Digest, Note, Purpose
from assent.kernel.outbound import Limits, Outbound
from assent.kernel.settings import resolve

AT = 1_800_000_000_000_000
ANN, BOT = Actor(Kind.PERSON, "ann"), Actor(Kind.AGENT, "bot")
TO_ANN = Addressee(name="ann", display_name="Ann Archer", email="ann@example.com")
PLACE = Addressee()
REVIEW = "https://assent.example.com/breakpoints/bp_1?a=1&b=2"


def asked(**changes: Any) -> tuple[Breakpoint, Event]:
    fields: dict[str, Any] = {
        "id": "bp_1",
        "project": "default",
        "agent_id": "agent-1",
        "run_id": "run-1",
        "title": "Deploy to production",
        "gate": "deploy",
        "payload": {"question": "Shall I **deploy** build 7?\n\n- it passed\n- it is small"},
        "tags": ("prod",),
        "seats": (),
        "strategy": "single",
        "risk": None,
        "priority": "normal",
        "on_timeout": "expire",
        "ttl_seconds": None,
        "callback_url": None,
        "digest": "d" * 64,
        "created_at": AT,
        "created_by": BOT,
        "created_by_id": "tok_1",
        "due_at": NEVER,
        "auto_approval": {},
        "warnings": (),
    }
    return record(Breakpoint(**fields | changes), "created", actor=BOT, at=AT)


def note(to: Addressee = TO_ANN, purpose: Purpose = Purpose.ASK, **changes: Any) -> Note:
    current, event = asked(**changes.pop("asked", {}))
    fields: dict[str, Any] = {
        "id": "dlv_1",
        "purpose": purpose,
        "to": to,
        "breakpoint": current,
        "event": event,
        "review_url": REVIEW,
        "answer_url": "https://assent.example.com/callbacks/ch_1",
        "at": AT,
    }
    return Note(**fields | changes)


def closing(to: Addressee = TO_ANN, via: str = "web", **changes: Any) -> Note:
    """Return the closing message after Ann has approved."""
    current, _ = asked()
    given = Response(person="ann", approved=True, at=AT + 1, via=via)
    result = answered(Decision.APPROVED, [given], last=given)
    ended, event = release(current, Decision.APPROVED, actor=ANN, at=AT + 1, result=result)
    return note(to, Purpose.CLOSE, **{"id": "dlv_2", "breakpoint": ended, "event": event} | changes)


def expiring(to: Addressee = TO_ANN, **changes: Any) -> Note:
    current, _ = asked()
    ended, event = time_out(current, at=AT + 1, actor=TIMEOUT)
    return note(to, Purpose.CLOSE, **{"id": "dlv_3", "breakpoint": ended, "event": event} | changes)


def many(count: int, to: Addressee = TO_ANN, **changes: Any) -> Digest:
    """Return a digest of `count` breakpoints, which lists only the first 25."""
    waiting = tuple(asked(id=f"bp_{n}", title=f"Question {n}", **changes)[0] for n in range(min(count, 25)))
    urls = {each.id: f"https://assent.example.com/breakpoints/{each.id}" for each in waiting}
    return Digest(
        id="dig_1", to=to, waiting=waiting, total=count, ended=3, inbox_url="https://assent.example.com/", urls=urls
    )


def tools(*, patience: float = 20) -> Tools:
    """Return real tools that are allowed to connect to localhost."""
    local = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
    outbound = Outbound(allow=local, limits=Limits(connect=5, read=patience, total=patience))
    return Tools(outbound, resolve, lambda: time.time_ns() // 1000, os.urandom, "https://assent.example.com")


@contextlib.asynccontextmanager
async def lent_tools() -> AsyncIterator[Tools]:
    """Yield tools as returned by `tools`, and close their connections afterwards."""
    made = tools()
    try:
        yield made
    finally:
        await made.outbound.close()
