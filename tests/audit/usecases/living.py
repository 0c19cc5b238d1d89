"""Breakpoints of every kind, created and ended through the services, for tests that inspect the stored result."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal
from assent.core.timestamps import SECOND
from assent.people.store.people import People
from assent.policy.usecases.rules import RuleService
from tests.db.making import AGENT, RITA, adding, create, person, respond
from tests.support.nodes import ManualClock, Node

FILES = {
    "files": [
        {"path": "plan.md", "format": "markdown", "content": "# Plan"},
        {"path": "later.txt", "format": "text"},
        {"path": "main.py", "format": "code", "language": "python", "content": "print()"},
    ]
}
RICH = {
    "question": "Ship – now? 🚀",
    "title": "Ship it",
    "context": FILES,
    "attempt": 2,
    "risk": "medium",
    "options": ["now", "later"],
    "form": {"properties": {"why": {"type": "string"}, "share": {"type": "number"}}},
    "editable": ["size"],
    "deep": {"list": [1, 2.5, None, {"é": "\ue000"}]},
}


@dataclass(frozen=True)
class Lives:
    """People and breakpoints by name; three breakpoints are still waiting."""

    people: dict[str, Principal]
    ids: dict[str, str]


async def live(node: Node, clock: ManualClock) -> Lives:
    """Create a breakpoint of every kind, and end each of them in a different way."""
    people = {name: await person(node, name, "reviewer") for name in ("ann", "bob", "cid")}
    people["eve"] = await person(node, "eve", "admin")
    ann, bob, cid, eve = people.values()
    await node.assent.database.write(lambda tx: tx[People].put_group("default", "ops", [ann.id, bob.id], at=0))
    ids: dict[str, str] = {}

    async def raised(name: str, payload: Mapping[str, Any] | None = None, **top: Any) -> str:
        ids[name] = await create(node, payload, **top)
        clock.advance(1)
        return ids[name]

    async def said(breakpoint_id: str) -> None:
        use_case = partial(node.assent[BreakpointService].comment, comment="Why?", by=AGENT, once=None)
        await node.assent.database.write(lambda tx: use_case(tx, breakpoint_id))
        clock.advance(1)

    rich = await raised("approved", RICH, tags=["prod", "db"], runId="run-1", ttlSeconds=3600)
    await said(rich)
    answers = {"why": "It is time.", "share": 0.25}
    await respond(node, rich, ann, comment="Go on.", option="now", answers=answers, edits={"size": 1.5})
    split = await raised("quorum", {"expert": ["ops", "bob", "cid"], "strategy": "quorum"})
    await respond(node, split, bob, comment="No.", approved=False)
    await respond(node, split, ann)
    await respond(node, split, cid, approved=False, comment="Not today.")
    moved = await raised("moved", {"expert": ["ops", "bob", "cid"], "strategy": "collect-all"})
    await respond(node, moved, bob)
    await respond(node, moved, ann)
    changed = await raised("changed", {"expert": ["ann", "bob", "ghost"], "strategy": "collect-all"})
    await respond(node, changed, ann)
    clock.advance(1)
    await respond(node, changed, ann, approved=False, comment="On second thoughts.")
    await respond(node, await raised("overridden", {"expert": "ann"}), eve, comment="I decide.")
    await respond(node, await raised("rejected"), cid, approved=False)
    await raised("waiting", {"question": "Still?"}, tags=["prod"], priority="high")
    for name, on_timeout in (("expired", "expire"), ("timed out", "reject")):
        due = await raised(name, ttlSeconds=5, onTimeout=on_timeout)
        clock.advance(5)
        await node.assent.database.write(
            partial(node.assent[BreakpointService].time_out, breakpoint_id=due, project="default")
        )
    cancelled = await raised("cancelled")
    await node.assent.database.write(partial(node.assent[BreakpointService].cancel, breakpoint_id=cancelled, by=AGENT))
    return Lives(people, ids)


ROUTINE = "confirm.*(tags contains 'routine')"


@dataclass(frozen=True)
class Ruled:
    """Rules of every kind, and the breakpoints that they affected."""

    rules: dict[str, str]
    ids: dict[str, str]


async def live_by_rules(node: Node, clock: ManualClock) -> Ruled:
    """Create rules, let them make decisions, and change them; the clock advances by minutes between the steps."""
    service, database = node.assent[RuleService], node.assent.database
    rules: dict[str, str] = {}
    ids: dict[str, str] = {}

    async def written(name: str, pattern: str, action: str = "auto-approve", **more: Any) -> None:
        rules[name] = (await database.write(adding(node, pattern, action, **more))).id
        clock.advance(180)

    async def changed(name: str, **changes: Any) -> None:
        await database.write(partial(service.change, rule_id=rules[name], changes=changes, by=RITA))
        clock.advance(180)

    async def raised(name: str, gate: str, **options: Any) -> None:
        payload = {"breakpointId": gate} | options.pop("payload", {})
        ids[name] = await create(node, payload, **options)
        clock.advance(180)

    ann = await person(node, "anna", "reviewer")
    await written("auto", "confirm.*", note="Routine", expires_at=clock.now() + 10_000 * SECOND)
    await written("gone", "old.*")
    await written("never", "gate.*", "never-auto-approve")
    await written("shadow", "*", mode="shadow")
    await written("shadow never", "gate.*", "never-auto-approve", mode="shadow", enabled=False)
    await raised("by the first version", "confirm.star")
    await raised("warned", "confirm.star", payload={"expert": "nobody-we-know"})
    await changed("auto", pattern=ROUTINE, note=None)
    await raised("by the second version", "confirm.star", tags=["routine", "x"])
    await raised("not matched any more", "confirm.star")
    await raised("by what is gone", "old.thing")
    await database.write(partial(service.remove, rule_id=rules["gone"], by=RITA, why="Too old."))
    clock.advance(180)
    await changed("shadow never", enabled=True)
    await raised("stopped", "gate.deploy")
    for name in ("answered", "answered again", "answered a third time"):
        await raised(name, "count.me")
        await respond(node, ids[name], ann)
    clock.advance(180)
    await raised("counted", "count.me", payload={"autoApproveAfterN": 1})
    await changed("auto", enabled=False)
    return Ruled(rules, ids)
