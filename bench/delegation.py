"""Notifications: how soon they arrive, how soon decisions close them, and how a flood of them is limited."""

import argparse
import asyncio
import os
import re
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.routes_file import checked
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.routes import Routes, StoredRoute
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from bench.load import http_load
from bench.report import Report
from tests.support.mail import MailServer, mail_server
from tests.support.nodes import Process, prepared, running_node, server
from tests.support.receiver import Receiver, receiving

ASKED = 200
GOAL_TOLD, GOAL_SHOWN = 1000, 2000
FLOOD, FLOOD_SECONDS = 10_000, 60.0
MOST = 11
"""The channel's limit per minute, plus one email that a busy worker sends late."""
MINUTE = 60.0
SECRET = "whsec_" + "c2VjcmV0" * 5


def delegation(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    del options
    agent, reviewer = prepared(settings, "agent", "reviewer")
    dialect = "postgresql" if settings.database_url else "sqlite"
    os.environ["BENCH_HOOK"] = SECRET
    with receiving() as receiver, mail_server() as mail:
        asyncio.run(_set_up(settings, receiver, mail))
        environment = {"outbound_allow": "127.0.0.0/8", "BENCH_HOOK": SECRET, "creates_per_minute": "0"}
        with server(settings, **environment) as process:
            _told(process, (agent, reviewer), receiver, report, dialect)
            _flooded(process, agent, mail, report, dialect)


async def _set_up(settings: Settings, receiver: Receiver, mail: MailServer) -> None:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> None:
            person = node.assent[PeopleService].create_person(
                tx, "ann", project="default", roles=frozenset({Role.REVIEWER})
            )
            tx[People].save(replace(person, email="ann@example.test"))
            hook = {"url": receiver.url("/hook"), "secrets": ["env:BENCH_HOOK"]}
            letters = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.test"}
            for name, kind, given in (("hook", "webhook", hook), ("mail", "email", letters)):
                now = tx.now()
                tx[Channels].add(
                    StoredChannel(
                        id=tx.new_id("chn"), project="default", name=name, type=kind, settings=given,
                        created_at=now, updated_at=now,
                    )
                )  # fmt: skip
            for n, (pattern, name) in enumerate((("quick.*", "hook"), ("flood.*", "mail"))):
                route = checked({"pattern": pattern, "channels": [name], "to": ["person:ann"]}, route_id=f"rte_{n}")
                tx[Routes].add(StoredRoute(id=f"rte_{n}", project="default", position=n, route=route))

        await node.assent.database.write(use_case)


def _told(process: Process, tokens: Sequence[str], receiver: Receiver, report: Report, dialect: str) -> None:
    """Create and decide one breakpoint at a time on an otherwise idle server; one receiver represents all channels."""
    agent, reviewer = ({"authorization": f"Bearer {token}"} for token in tokens)
    told: list[float] = []
    shown: list[float] = []
    arrivals = _Arrivals(receiver)
    with httpx2.Client(base_url=process.url, timeout=60) as client:
        for n in range(ASKED):
            body = {"agentId": "bench", "payload": {"question": "Go?", "breakpointId": f"quick.{n}"}}
            started = time.perf_counter()
            made = client.post("/api/breakpoints", json=body, headers=agent).json()["id"]
            told.append(arrivals.of(made, "breakpoint.created") - started)
            started = time.perf_counter()
            client.post(f"/api/breakpoints/{made}/feedback", json={"approved": True}, headers=reviewer)
            shown.append(arrivals.of(made, "breakpoint.released") - started)
    _report(report, dialect, f"delay from creation to arrival of the message, {ASKED} breakpoints", told, GOAL_TOLD)
    label = f"delay from a decision elsewhere to closing of the message, {ASKED} breakpoints"
    _report(report, dialect, label, shown, GOAL_SHOWN)


class _Arrivals:
    """Records when each message arrived."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._at: dict[tuple[str, str], float] = {}
        self._seen = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._receiver.wait(lambda calls: len(calls) > self._seen):
            for call in self._receiver.calls[self._seen :]:
                body = call.json
                self._at.setdefault((body["data"].get("breakpointId", ""), body["type"]), time.perf_counter())
                self._seen += 1

    def of(self, breakpoint_id: str, kind: str) -> float:
        def enough(calls: Sequence[Any]) -> bool:
            del calls
            return (breakpoint_id, kind) in self._at

        while not self._receiver.wait(enough, seconds=0.01):
            pass
        return self._at[breakpoint_id, kind]


def _report(report: Report, dialect: str, what: str, seconds: Sequence[float], goal: float) -> None:
    times = sorted(each * 1000 for each in seconds)
    p95 = times[int(len(times) * 0.95)]
    measured = f"p50 {statistics.median(times):.0f} ms, p95 {p95:.0f} ms, max {times[-1]:.0f} ms"
    report.fact("delegation", dialect, what, measured, f"p95 < {goal} ms", met=p95 < goal)


def _flooded(process: Process, agent: str, mail: MailServer, report: Report, dialect: str) -> None:
    """Create ten thousand questions for one person, who is notified by email."""
    bodies = [("POST", "/api/breakpoints", _question(n)) for n in range(FLOOD)]
    letters = _Letters(mail)
    started = time.perf_counter()
    found = http_load(process.url, agent, bodies, connections=8, once=True)
    asked_in = time.perf_counter() - started
    counted, arrivals = letters.all_of(FLOOD, seconds=4 * MINUTE)
    busiest = max((sum(start <= each < start + MINUTE for each in arrivals) for start in arrivals), default=0)
    report.fact("delegation", dialect, f"time to create {FLOOD:,} questions for one person", f"{asked_in:.0f} s")
    report.fact("delegation", dialect, "emails in the busiest minute", f"{busiest}", f"≤ {MOST}", met=busiest <= MOST)
    told = f"{counted:,} in {len(arrivals)} emails"
    report.fact("delegation", dialect, "questions delivered", told, f"{FLOOD:,}", met=counted == FLOOD)
    assert not found.failed, found


class _Letters:
    """Records when each email arrived, and counts the questions listed in them."""

    def __init__(self, mail: MailServer) -> None:
        self._mail = mail
        self._arrivals: list[float] = []
        self._counted = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._mail.wait(lambda letters: len(letters) > len(self._arrivals)):
            letter = self._mail.letters[len(self._arrivals)]
            self._counted += _named(str(letter.message["subject"]))
            self._arrivals.append(time.perf_counter())

    def all_of(self, wanted: int, *, seconds: float) -> tuple[int, list[float]]:
        deadline = time.perf_counter() + seconds
        while self._counted < wanted and time.perf_counter() < deadline:
            time.sleep(0.1)
        return self._counted, list(self._arrivals)


def _question(n: int) -> dict[str, Any]:
    return {"agentId": "bench", "payload": {"question": f"{n}?", "breakpointId": f"flood.{n}"}}


def _named(subject: str) -> int:
    """Return the number of questions in an email, according to its subject."""
    found = re.search(r"([0-9]+) approvals? pending", subject)
    return int(found[1]) if found else 1
