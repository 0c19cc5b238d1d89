"""Four actors race for one breakpoint, thousands of times, through two server processes on one PostgreSQL."""

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg

from assent.kernel.settings import Settings
from tests.support.nodes import Process, running_node, server

AT_ONCE = 16
MORTAL = 20
"""One in this many breakpoints also races with its own deadline."""
TERMINAL = {"released", "expired", "cancelled"}
PEOPLE = ("ann", "bob", "cid")


@dataclass
class Arena:
    """Two nodes, the people and the agent; every call goes to a random node."""

    clients: Sequence[httpx2.AsyncClient]
    tokens: dict[str, str]
    chance: random.Random

    async def call(self, who: str, path: str, body: dict[str, Any] | None = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        return await self.chance.choice(self.clients).post(f"/api/breakpoints{path}", headers=headers, json=body or {})

    async def create(self, payload: dict[str, Any] | None = None, **top: Any) -> str:
        body = {"agentId": "racer", "payload": {"question": "Go?"} | (payload or {})} | top
        answer = await self.call("agent", "", body)
        assert answer.status_code == 201, answer.text
        created: str = answer.json()["id"]
        return created


@dataclass
class Tally:
    """The observed outcomes, and all violations."""

    races: int = 0
    calls: Counter[int] = field(default_factory=Counter)
    winners: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    deadlocks: int = 0

    def told(self) -> str:
        won = ", ".join(f"{who} {count}" for who, count in sorted(self.winners.items()))
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.calls.items()))
        bound = f"{3 / max(self.races, 1):.1e}"
        return (
            f"{self.races} breakpoints, {len(self.wrong)} wrong (0 bounds the rate at {bound}, 95 %); won by {won};"
            f" answers {codes}; {self.deadlocks} deadlocks resolved"
        )


@contextlib.asynccontextmanager
async def arena(settings: Settings, *, seed: int) -> AsyncIterator[Arena]:
    """Create people and start two nodes on one database."""
    tokens: dict[str, str] = {}
    async with running_node(settings) as node:
        tokens["agent"] = await node.token("agent")
        for name in PEOPLE:
            tokens[name] = await node.person(name, "reviewer")
        tokens["admin"] = await node.person("adm", "admin")
    with server(settings) as one, server(settings) as other:
        async with _client(one) as first, _client(other) as second:
            yield Arena([first, second], tokens, random.Random(seed))


def _client(process: Process) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    return httpx2.AsyncClient(base_url=process.url, timeout=60, limits=limits)


async def decided_once(arena: Arena, settings: Settings, count: int) -> Tally:
    """Let two deciders, an expirer and a canceller race for every breakpoint; exactly one of them must succeed."""
    tally = Tally()
    outcomes: dict[str, list[tuple[str, int]]] = {}
    gate = asyncio.Semaphore(AT_ONCE)

    async def race() -> None:
        async with gate:
            breakpoint_id = await arena.create()
            outcomes[breakpoint_id] = await _four(arena, breakpoint_id)

    async def race_with_the_deadline() -> None:
        started = time.monotonic()
        breakpoint_id = await arena.create(ttlSeconds=1, onTimeout=arena.chance.choice(["expire", "reject"]))
        # The deadline is one second after creation: let the actors race around it, and sometimes well after it.
        earliest, latest = started + 0.93, time.monotonic() + 1.6
        await asyncio.sleep(max(0.0, arena.chance.uniform(earliest, latest) - time.monotonic()))
        outcomes[breakpoint_id] = await _four(arena, breakpoint_id)

    await asyncio.gather(*(race() for _ in range(count - count // MORTAL)))
    for _ in range(0, count // MORTAL, AT_ONCE):
        await asyncio.gather(*(race_with_the_deadline() for _ in range(AT_ONCE)))
    tally.races, tally.deadlocks = len(outcomes), _deadlocks(settings)
    histories = _histories(settings)
    for breakpoint_id, answers in outcomes.items():
        _judge(tally, breakpoint_id, answers, histories[breakpoint_id])
    return tally


async def _four(arena: Arena, breakpoint_id: str) -> list[tuple[str, int]]:
    actors: list[tuple[str, str, dict[str, Any] | None]] = [
        ("ann", f"/{breakpoint_id}/feedback", {"approved": True}),
        ("bob", f"/{breakpoint_id}/feedback", {"approved": False}),
        ("admin", f"/{breakpoint_id}/expire", None),
        ("agent", f"/{breakpoint_id}/cancel", None),
    ]
    arena.chance.shuffle(actors)
    answers = await asyncio.gather(*(arena.call(*actor) for actor in actors))
    return [(actor[0], answer.status_code) for actor, answer in zip(actors, answers, strict=True)]


@dataclass(frozen=True)
class History:
    status: str
    decision: str | None
    ended_by: str | None
    events: list[tuple[int, str, str]]


def _histories(settings: Settings) -> dict[str, History]:
    """Read everything from the database directly, without Assent's code."""
    assert settings.database_url is not None, "races require PostgreSQL"
    events: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    with psycopg.connect(settings.database_url) as connection:
        for breakpoint_id, seq, kind, actor in connection.execute(
            "SELECT breakpoint_id, seq, type, actor FROM assent_events ORDER BY breakpoint_id, seq"
        ):
            events[breakpoint_id].append((seq, kind, actor))
        rows = connection.execute("SELECT id, status, decision, ended_by FROM assent_breakpoints").fetchall()
    return {row[0]: History(row[1], row[2], row[3], events[row[0]]) for row in rows}


def _deadlocks(settings: Settings) -> int:
    assert settings.database_url is not None, "races require PostgreSQL"
    with psycopg.connect(settings.database_url) as connection:
        row = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return int(row[0]) if row else 0


def _judge(tally: Tally, breakpoint_id: str, answers: list[tuple[str, int]], history: History) -> None:
    winners = [who for who, code in answers if code == 200]
    tally.calls.update(code for _, code in answers)
    by_timeout = history.ended_by == "system:timeout"
    tally.winners.update(winners or [history.ended_by or "nobody"])
    problems = [*_unsound(history)]
    if {code for _, code in answers} - {200, 409}:
        problems.append("an answer that is neither 200 nor 409")
    if len(winners) != (0 if by_timeout else 1):
        problems.append(f"{len(winners)} winners")
    expected = {"ann": "released", "bob": "released", "admin": "expired", "agent": "cancelled"}
    if winners and history.status != expected[winners[0]]:
        problems.append("the winner's wish is not what stands")
    if problems:
        tally.wrong.append(f"{breakpoint_id}: {', '.join(problems)}; {answers}; {history}")


def _unsound(history: History) -> list[str]:
    """Derive the status from the events, and compare it with the stored one."""
    terminal = [(kind, actor) for _, kind, actor in history.events if kind in TERMINAL]
    found: list[str] = []
    if [seq for seq, _, _ in history.events] != list(range(1, len(history.events) + 1)):
        found.append("a gap in the history")
    if len(terminal) != 1:
        found.append(f"{len(terminal)} terminal events")
    elif terminal[0] != (history.status, history.ended_by):
        found.append("status and history differ")
    if (history.status == "released") != (history.decision is not None):
        found.append("a decision that does not fit the status")
    return found


COUNTED = (
    {"expert": ["ann", "bob"], "strategy": "quorum"},
    {"expert": ["ann", "bob"], "strategy": "collect-all"},
    {"expert": ["ann", "bob", "cid"], "strategy": "quorum"},
    {"expert": ["ann", "bob", "cid"], "strategy": "collect-all"},
)


async def counted_once(arena: Arena, settings: Settings, count: int) -> Tally:
    """Let all experts vote at once; every breakpoint must settle once, according to its votes."""
    tally = Tally()
    gate = asyncio.Semaphore(AT_ONCE)
    outcomes: dict[str, tuple[dict[str, Any], dict[str, tuple[bool, int]]]] = {}

    async def vote(breakpoint_id: str, person: str) -> tuple[str, tuple[bool, int]]:
        approved = arena.chance.random() < 0.6
        answer = await arena.call(person, f"/{breakpoint_id}/feedback", {"approved": approved})
        return person, (approved, answer.status_code)

    async def race(payload: dict[str, Any]) -> None:
        async with gate:
            breakpoint_id = await arena.create(payload)
            votes = await asyncio.gather(*(vote(breakpoint_id, person) for person in payload["expert"]))
            outcomes[breakpoint_id] = (payload, dict(votes))

    await asyncio.gather(*(race(COUNTED[n % len(COUNTED)]) for n in range(count)))
    tally.races, tally.deadlocks = len(outcomes), _deadlocks(settings)
    histories = _histories(settings)
    for breakpoint_id, (payload, votes) in outcomes.items():
        history = histories[breakpoint_id]
        tally.calls.update(code for _, code in votes.values())
        tally.winners[f"{payload['strategy']} of {len(votes)} {history.decision}"] += 1
        problems = [*_unsound(history), *_miscounted(payload, votes, history)]
        if problems:
            tally.wrong.append(f"{breakpoint_id}: {', '.join(problems)}; {payload}; {votes}; {history}")
    return tally


def _miscounted(payload: dict[str, Any], votes: dict[str, tuple[bool, int]], history: History) -> list[str]:
    taken = [approved for approved, code in votes.values() if code == 200]
    refused = [code for _, code in votes.values() if code != 200]
    found: list[str] = []
    if any(code != 409 for code in refused):
        found.append("an answer that is neither 200 nor 409")
    if payload["strategy"] == "collect-all" and refused:
        found.append("a vote that was not taken")
    enough = len(taken) > len(votes) / 2 if payload["strategy"] == "quorum" else len(taken) == len(votes)
    approved = sum(taken) > len(votes) / 2 if payload["strategy"] == "quorum" else all(taken)
    if not enough and not (payload["strategy"] == "quorum" and len(votes) == 2 and False in taken):
        found.append("settled too early")
    if (history.decision == "approved") != approved:
        found.append("the decision is not what the votes say")
    return found
