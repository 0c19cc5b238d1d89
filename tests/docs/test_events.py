"""The event reference matches the events of real breakpoints."""

from functools import partial
from typing import Any

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.usecases.triage import TriageService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.breakpoint import EVENT_OF
from assent.core.rule_changes import CHANGED, CREATED, REMOVED
from assent.core.terms import Answer
from assent.kernel.settings import Settings
from assent.people.store.people import People
from tests.db.making import person
from tests.delivery.usecases.delegating import channel, route, settle, wishes
from tests.docs.pages import read, rows, sections
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until

SECTIONS = sections(read("reference/events.md"), 2)
METADATA = {kind: [row[0] for row in rows(body)] for kind, body in SECTIONS.items()}


def test_every_event_type_is_documented() -> None:
    assert set(SECTIONS) == {"created", "warned", "purged", *EVENT_OF.values(), CREATED, CHANGED, REMOVED}


async def test_every_event_has_exactly_the_documented_metadata(sqlite_settings: Settings, clock: ManualClock) -> None:
    async with running_node(sqlite_settings, clock=clock) as node:
        rules = await _live_every_event_of_rules(node)
        seen = await _live_every_event(node, clock) | rules

    assert set(seen) == set(SECTIONS)
    for kind, found in seen.items():
        documented = {name.strip("`?") for name in METADATA[kind]}
        always = {name.strip("`") for name in METADATA[kind] if not name.endswith("?")}
        assert always <= found <= documented, kind


async def _live_every_event_of_rules(node: Node) -> dict[str, set[str]]:
    """Create, change and remove rules; the remaining ones match breakpoints that are created later."""
    writer = await node.person("rita", "rule-admin")
    for more in ({"action": "auto-approve", "mode": "shadow"}, {"action": "never-auto-approve", "why": "Careful."}):
        made = await node.call("POST", "/api/rules", writer, json={"pattern": "*", **more})
        assert made.status_code == 201, made.text
    gone = await node.call("POST", "/api/rules", writer, json={"pattern": "x", "action": "auto-approve", "why": "y"})
    path = f"/api/rules/{gone.json()['id']}"
    await node.call("PATCH", path, writer, json={"pattern": "z", "why": "Because."})
    await node.call("DELETE", f"{path}?why=Enough", writer)
    history = await node.call("GET", f"{path}/events", writer)
    return {event["type"]: set(event["metadata"]) for event in history.json()["items"]}


async def _live_every_mark(node: Node, clock: ManualClock) -> dict[str, Any]:
    """Claim, unclaim, assign twice, and revoke a role so that a held answer is dropped."""
    triage, database = node.assent[TriageService], node.assent.database
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    marked = await node.create()
    breakpoint_id: str = marked["id"]
    for use_case in (triage.claim, triage.unclaim):
        await database.write(partial(use_case, breakpoint_id=breakpoint_id, by=ann))
    for name in ("ann", "bob"):
        await database.write(partial(triage.assign, breakpoint_id=breakpoint_id, person=name, by=bob))
    answer = Answer(approved=True)
    hold = partial(node.assent[HoldingService].hold, breakpoint_id=breakpoint_id, answer=answer, by=ann, via="web")
    await database.write(hold)
    await database.write(lambda tx: tx[People].grant(ann.id, "default", []))
    clock.advance(60)
    await until(
        partial(database.read, lambda tx: tx.session.all("SELECT 1 FROM assent_held_answers", {})),
        lambda found: not found,
    )
    return marked


async def _live_every_step(node: Node, clock: ManualClock) -> dict[str, Any]:
    """Delegate a breakpoint to a deputy, send reminders, and escalate it."""
    cal, dan = await person(node, "cal", "reviewer"), await person(node, "dan", "reviewer")
    await channel(node, "hook", "webhook")
    await route(node, "hook", pattern="told.*", remind=["1m"], escalate=[{"after": "2m", "to": [f"person:{dan.name}"]}])
    await wishes(node, cal.id, away={"deputy": "dan"})
    told = await node.create(payload={"breakpointId": "told.all", "expert": "cal"})
    for _ in range(3):
        await settle(node)
        clock.advance(60)
    return told


async def _live_every_event(node: Node, clock: ManualClock) -> dict[str, set[str]]:
    """Cause every type of breakpoint event; return each type with the names of its metadata fields."""
    agent, admin, owner = await node.token("agent"), await node.person("eve", "admin"), await node.token("reviewer")
    full = {
        "expert": "ghost",
        "options": ["now"],
        "form": {"properties": {"why": {"type": "string"}}},
        "editable": ["size"],
    }
    answered = await node.create(payload=full)
    await node.feedback(answered["id"], agent, comment="Anybody?")
    answer = {"option": "now", "answers": {"why": "x"}, "edits": {"size": 1}, "digest": answered["digest"]}
    await node.feedback(answered["id"], owner, release=True, comment="Yes.", **answer)
    overridden = await node.create(payload={"expert": "owner"})
    await node.feedback(overridden["id"], admin, approved=False)
    cancelled = await node.create()
    await node.call("POST", f"/api/breakpoints/{cancelled['id']}/cancel", agent)
    expired = await node.create(ttlSeconds=1)
    clock.advance(2)
    marked = await _live_every_mark(node, clock)
    told = await _live_every_step(node, clock)
    seen: dict[str, set[str]] = {}
    for each in (marked, told, answered, overridden, cancelled, expired):
        await node.call("GET", f"/api/breakpoints/{each['id']}", agent)
        history = await node.call("GET", f"/api/breakpoints/{each['id']}/events", agent)
        for event in history.json()["items"]:
            seen.setdefault(event["type"], set()).update(event["metadata"])
    await node.call("PUT", "/api/policy", await node.token("admin"), json={"retentionDays": 1})
    clock.advance(2 * 24 * 3600)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    history = await node.call("GET", f"/api/breakpoints/{cancelled['id']}/events", agent)
    seen["purged"] = set(history.json()["items"][-1]["metadata"])
    return seen
