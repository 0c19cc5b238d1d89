"""Agents and reviewers that work while servers are killed, and a ledger of the acknowledged requests."""

import asyncio
import contextlib
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg

from assent.kernel.settings import Settings
from tests.support.receiver import Call, Receiver

PATH = "/callback"
TERMINAL = {"released", "expired", "cancelled"}
TOLD = {"created", "responded", *TERMINAL}
"""The events that a callbackUrl receives."""
PEOPLE = ("ann", "bob")
WISHES = {"approve": 8, "reject": 4, "quorum": 3, "cancel": 2, "expire": 1, "nothing": 2}
GIVES_UP = 0.25
"""The probability that a client stops retrying after a request without a response."""
PAUSE = 0.02


@dataclass
class Ask:
    """A request from an agent, and its acknowledged result."""

    key: str
    wish: str
    callback: bool
    id: str | None = None
    ended: tuple[str, str | None] | None = None
    votes: list[str] = field(default_factory=list[str])


@dataclass
class Ledger:
    """Everything that was acknowledged to clients; other requests may or may not have taken effect."""

    asks: list[Ask] = field(default_factory=list[Ask])
    seen: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    @property
    def acknowledged(self) -> list[Ask]:
        return [ask for ask in self.asks if ask.id is not None]

    def expected(self) -> list[dict[str, str]]:
        """Return the lines that `assent fsck --expect` compares with the data."""
        lines: list[dict[str, str]] = []
        for ask in self.acknowledged:
            line = {"id": ask.id or ""}
            if ask.ended is not None:
                status, decision = ask.ended
                line |= {"status": status} | ({"decision": decision} if decision else {})
            lines.append(line)
        return lines


class Load:
    """Clients that behave like an SDK: after a lost connection or a 503, they retry with the same key on any node."""

    def __init__(self, urls: Sequence[str], tokens: dict[str, str], callback: str, *, seed: int) -> None:
        self.urls = list(urls)
        self.ledger = Ledger()
        self._tokens = tokens
        self._callback = callback
        self._chance = random.Random(seed)
        self._stopped = asyncio.Event()
        self._unanswered: set[str] = set()
        """Paths of requests that got no response at least once."""
        self._tasks: list[asyncio.Task[None]] = []
        limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(timeout=30, limits=limits)

    def start(self, agents: int) -> None:
        self._tasks = [asyncio.create_task(self._agent()) for _ in range(agents)]

    async def stop(self) -> None:
        """Let clients finish their current requests without starting new ones."""
        self._stopped.set()
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def _agent(self) -> None:
        while not self._stopped.is_set():
            wish = self._chance.choices(list(WISHES), list(WISHES.values()))[0]
            await self.ask(wish, callback=self._chance.random() < 0.5)
            await asyncio.sleep(self._chance.uniform(0, 2 * PAUSE))

    async def ask(self, wish: str, *, callback: bool) -> Ask:
        """Create a breakpoint and bring about the desired outcome, unless the client gives up on the way."""
        ask = Ask(str(len(self.ledger.asks)), wish, callback=callback)
        self.ledger.asks.append(ask)
        answer = await self._insist("agent", "", self._body(ask), key=f"ask-{ask.key}")
        if answer is None:
            return ask
        if answer.status_code != 201:
            self.ledger.wrong.append(f"{ask.key}: create answered {answer.status_code} {answer.text[:200]}")
            return ask
        ask.id = answer.json()["id"]
        await self._grant(ask)
        return ask

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {"agentId": "loaded", "title": ask.key, "payload": {"question": "Go?"}}
        if ask.callback:
            body["callbackUrl"] = self._callback
        if ask.wish == "quorum":
            body["payload"] |= {"expert": list(PEOPLE), "strategy": "quorum"}
        if ask.wish == "expire":
            body["ttlSeconds"] = 1
        return body

    async def _grant(self, ask: Ask) -> None:
        if ask.wish == "cancel":
            await self._cancel(ask)
        elif ask.wish in {"approve", "reject"}:
            await self._vote(ask, self._chance.choice(PEOPLE), approved=ask.wish == "approve")
        elif ask.wish == "quorum":
            for person in PEOPLE:
                await self._vote(ask, person, approved=True)

    async def _vote(self, ask: Ask, person: str, *, approved: bool) -> None:
        body, key = {"approved": approved}, f"vote-{ask.key}-{person}"
        answer = await self._insist(person, f"/{ask.id}/feedback", body, key=key)
        if answer is None:
            return
        if answer.status_code != 200:
            self.ledger.wrong.append(f"{ask.key}: a vote was answered {answer.status_code} {answer.text[:200]}")
            return
        ask.votes.append(person)
        self._note(ask, answer.json())

    async def _cancel(self, ask: Ask) -> None:
        """Cancel without a key: if the first response was lost, a retry reports that the breakpoint has ended."""
        path = f"/{ask.id}/cancel"
        answer = await self._insist("agent", path, None)
        if answer is None or (answer.status_code == 409 and path in self._unanswered):
            return
        if answer.status_code != 200:
            self.ledger.wrong.append(f"{ask.key}: cancel answered {answer.status_code} {answer.text[:200]}")
            return
        self._note(ask, answer.json())

    def _note(self, ask: Ask, told: dict[str, Any]) -> None:
        if told["status"] in TERMINAL:
            ask.ended = (told["status"], told.get("decision"))

    async def _insist(
        self, who: str, path: str, body: dict[str, Any] | None, *, key: str | None = None
    ) -> httpx2.Response | None:
        """Retry until a response arrives or the client gives up."""
        headers = {"authorization": f"Bearer {self._tokens[who]}"} | ({"idempotency-key": key} if key else {})
        while True:
            url = self._chance.choice(self.urls)
            enough = self._chance.random() < GIVES_UP
            try:
                answer = await self._client.post(f"{url}/api/breakpoints{path}", json=body, headers=headers)
            except httpx2.TransportError as error:
                self.ledger.seen[type(error).__name__] += 1
                # The connection was refused, so the server never received the request.
                enough = enough and not isinstance(error, httpx2.ConnectError)
            else:
                self.ledger.seen[str(answer.status_code)] += 1
                if answer.status_code != 503:
                    return answer
            self._unanswered.add(path)
            if self._stopped.is_set() or enough:
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 0.1)


@dataclass(frozen=True)
class Stored:
    """A breakpoint as stored in the database."""

    id: str
    title: str
    status: str
    decision: str | None
    callback: bool
    events: list[tuple[int, str, str]]


@contextlib.contextmanager
def _rows(settings: Settings) -> Iterator[Any]:
    """Read the database directly, without Assent's code."""
    if settings.database_url:
        with psycopg.connect(settings.database_url) as connection:
            yield lambda statement: connection.execute(statement).fetchall()
        return
    with contextlib.closing(sqlite3.connect(f"file:{settings.sqlite_path}?mode=ro", uri=True)) as file:
        yield lambda statement: file.execute(statement).fetchall()


def rows(settings: Settings, statement: str) -> list[tuple[Any, ...]]:
    with _rows(settings) as ask:
        found: list[tuple[Any, ...]] = ask(statement)
        return found


def stored(settings: Settings) -> dict[str, Stored]:
    events: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for breakpoint_id, seq, kind, actor in rows(
        settings, "SELECT breakpoint_id, seq, type, actor FROM assent_events ORDER BY breakpoint_id, seq"
    ):
        events[breakpoint_id].append((seq, kind, actor))
    listed = rows(settings, "SELECT id, title, status, decision, callback_url FROM assent_breakpoints")
    return {row[0]: Stored(row[0], row[1], row[2], row[3], row[4] is not None, events[row[0]]) for row in listed}


def due(found: dict[str, Stored]) -> set[tuple[str, int]]:
    """Return the breakpoint and event of every queued effect."""
    return {(each.id, seq) for each in found.values() if each.callback for seq, kind, _ in each.events if kind in TOLD}


def judge(ledger: Ledger, found: dict[str, Stored]) -> list[str]:
    """Check that acknowledged requests are stored exactly once and as acknowledged, and all others at most once."""
    unsound = [f"{each.title}: {what}" for each in found.values() for what in _unsound(each)]
    return [*ledger.wrong, *unsound, *kept(ledger.asks, found)]


def kept(asks: Sequence[Ask], found: dict[str, Stored]) -> list[str]:
    """Check only acknowledged requests, which is possible while other clients continue."""
    titles: dict[str, list[Stored]] = defaultdict(list)
    for each in found.values():
        titles[each.title].append(each)
    return [f"{ask.key}: {what}" for ask in asks for what in _differs(ask, titles[ask.key])]


def _unsound(each: Stored) -> Iterator[str]:
    if [seq for seq, _, _ in each.events] != list(range(1, len(each.events) + 1)):
        yield "a gap in the history"
    terminal = [kind for _, kind, _ in each.events if kind in TERMINAL]
    if terminal != ([each.status] if each.status in TERMINAL else []):
        yield f"is {each.status}, and its history says {terminal}"
    votes = Counter(actor for _, kind, actor in each.events if kind == "responded")
    if any(count > 1 for count in votes.values()):
        yield f"somebody voted twice: {votes}"


def _differs(ask: Ask, there: list[Stored]) -> Iterator[str]:
    if len(there) > 1:
        yield f"is there {len(there)} times"
    if ask.id is None:
        return
    if [each.id for each in there] != [ask.id]:
        yield f"acknowledged as {ask.id}, stored as {[each.id for each in there]}"
        return
    one = there[0]
    if ask.ended is not None and (one.status, one.decision) != ask.ended:
        yield f"acknowledged as {ask.ended}, stored as {(one.status, one.decision)}"
    voted = [actor for _, kind, actor in one.events if kind == "responded"]
    if any(f"person:{person}" not in voted for person in ask.votes):
        yield f"{ask.votes} voted, stored are {voted}"


def all_of(wanted: set[tuple[str, int]]) -> Callable[[list[Call]], bool]:
    """Return a condition that holds once all of these effects have arrived."""
    missing, looked_at = set(wanted), 0

    def enough(calls: list[Call]) -> bool:
        nonlocal looked_at
        missing.difference_update(_place(call.json) for call in calls[looked_at:])
        looked_at = len(calls)
        return not missing

    return enough


def _place(body: dict[str, Any]) -> tuple[str, int]:
    return body["data"]["breakpointId"], body["data"]["seq"]


def misdelivered(receiver: Receiver, found: dict[str, Stored]) -> list[str]:
    """Check that callbacks match the stored events, that each has a single ID, and that first arrivals are in order."""
    wanted = due(found)
    ids: dict[tuple[str, int], set[str]] = defaultdict(set)
    first: dict[str, list[int]] = defaultdict(list)
    for call in list(receiver.calls):
        place = _place(call.json)
        if place not in ids:
            first[place[0]].append(place[1])
        ids[place].add(call.id)
    wrong = [f"{place}: never arrived" for place in sorted(wanted - set(ids))]
    wrong += [f"{place}: arrived, and is not stored" for place in sorted(set(ids) - wanted)]
    wrong += [f"{place}: arrived as {names}" for place, names in ids.items() if len(names) > 1]
    wrong += [f"{each}: first arrivals in the order {seqs}" for each, seqs in first.items() if seqs != sorted(seqs)]
    return wrong
