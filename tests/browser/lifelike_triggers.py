"""The realistic project's triggers: sources, triggers, events and the runs they started."""

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from assent.core.access import Kind, Principal, Role
from assent.db.transaction import Transaction
from assent.triggers.event import Arrived, Trust
from assent.triggers.model import FiringState
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firings
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import Triggers
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.ingest import receive
from assent.triggers.usecases.scheduler import first_tick
from assent.triggers.usecases.triggers import TriggerService
from tests.support.nodes import ManualClock, Node

MINUTE = 60_000_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
SHA = "acb5820ced9479c074f688cc328bf03f341a511d"
SOURCES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("github", "github", {"secrets": ["env:GITHUB_HOOK"], "expect_every": "1d"}),
    ("ci-nightly", "webhook", {"secrets": ["env:CI_HOOK"], "expect_every": "6h"}),
    ("nightly", "schedule", {"cron": "30 2 * * *", "timezone": "Europe/Stockholm", "jitter": "2m"}),
    ("weekly", "schedule", {"cron": "0 7 * * 1", "timezone": "America/New_York", "missed": "skip"}),
)
TRIGGERS: tuple[dict[str, Any], ...] = (
    {"id": "fix-red-main", "run": "nightly-tidy", "note": "Red main is everybody’s problem.",
     "on": "github.workflow-run.completed(branch = 'main' AND conclusion in ('failure', 'timed_out')"
           " AND NOT actortype = 'bot')",
     "inputs": {"repo": "{{ event.repo }}", "sha": "{{ event.sha }}"}, "once": "{{ event.repo }}@{{ event.sha }}",
     "concurrency": {"limit": 1, "key": "{{ event.repo }}"}},
    {"id": "release-on-tag", "on": "github.push(ref startswith 'refs/tags/v')", "run": "release",
     "inputs": {"version": "{{ event.ref }}"}, "hold": {"question": "Release {{ event.ref }}?", "expert": ["mia"]}},
    {"id": "tidy-at-night", "on": "schedule.tick(source = 'nightly')", "run": "nightly-tidy",
     "inputs": {"days": 30}},
    {"id": "triage-issues", "on": "github.issues.opened", "run": "nightly-tidy", "enabled": "suspended",
     "inputs": {"title": "{{ event.title }}"}},
)  # fmt: skip


class Story(Protocol):
    event: str
    trigger: str
    github: str


async def triggered(node: Node, clock: ManualClock, story: Story, now: int) -> None:
    sources = await node.assent.database.write(lambda tx: _sources(tx, now))
    mia = Principal(kind=Kind.PERSON, id="person_mia", name="mia", project="default", roles=frozenset(Role))

    def write(tx: Transaction) -> None:
        for body in TRIGGERS:
            node.assent[TriggerService].create(tx, body, by=mia)

    clock.at = now - 8 * DAY
    await node.assent.database.write(write)
    story.github = sources["github"].id
    for minutes, name, arrived in _events(now):
        clock.at = now - round(minutes * MINUTE)
        kept = await node.assent.database.write(partial(receive, source=sources[name], arrived=[arrived]))
        while await node.assent.database.write(node.assent[TriggeringService].advance_due):
            pass
        if arrived.key == "red-1":
            story.event = kept[0].id
    clock.at = now
    await node.assent.database.write(lambda tx: _after(tx, story, sources, now))


def _sources(tx: Transaction, now: int) -> dict[str, StoredSource]:
    made: dict[str, StoredSource] = {}
    for name, kind, settings in SOURCES:
        source_id = tx.new_id("src")
        first = first_tick(settings, now, source_id) if kind == "schedule" else None
        made[name] = StoredSource(
            id=source_id, project="default", name=name, kind=kind, settings=settings, created_by="person:mia",
            created_at=now - 9 * DAY, updated_at=now - 9 * DAY, next_at=first,
        )  # fmt: skip
        tx[Sources].add(made[name])
    return made


def _build(n: int, sha: str = SHA, **more: Any) -> Arrived:
    view = {"repo": "acme/shop", "branch": "main", "sha": sha, "actor": "jonas", "actortype": "user",
            "action": "completed", "conclusion": "failure", "title": "CI: Charge once", "attempt": 1,
            "url": f"https://github.com/acme/shop/actions/runs/30433{n}", "tags": ["ci.completed"]}  # fmt: skip
    data = {
        "action": "completed",
        "workflow_run": {"id": 30433000 + n, "name": "CI", "head_branch": "main", "conclusion": "failure"},
        "repository": {"full_name": "acme/shop"},
        "sender": {"login": "jonas", "type": "User"},
    }
    return Arrived(
        type="github.workflow-run.completed", key=f"red-{n}", data=data, view=view | more, subject="acme/shop",
        verified="hmac-sha256", delivery_id=f"72d3162e-cc78-11e3-81ab-4c9367dc09{n:02}",
        headers={"x-github-event": "workflow_run", "user-agent": "GitHub-Hookshot/044aadd"},
    )  # fmt: skip


def _events(now: int) -> list[tuple[float, str, Arrived]]:
    tick: dict[str, Any] = {"type": "schedule.tick", "subject": "nightly", "verified": "local", "trust": Trust.TRUSTED}
    night = now - now % DAY + 90 * MINUTE
    nights = [
        ((now - night + n * DAY) / MINUTE - late, "nightly",
         Arrived(key=f"tick-{n}", data={"late": late * 60}, occurred_at=night - n * DAY, **tick))
        for n, late in ((6, 0), (3, 95), (2, 0), (1, 0))
    ]  # fmt: skip
    issue = Arrived(type="github.issues.opened", key="issue-7", data={"issue": {"number": 7}}, subject="acme/shop#7",
                    verified="hmac-sha256", view={"repo": "acme/shop", "title": "The cart forgets its items",
                                                  "actor": "a-stranger"})  # fmt: skip
    push = Arrived(type="github.push", key="push-1", data={"ref": "refs/heads/main"}, subject="acme/shop",
                   verified="hmac-sha256", view={"repo": "acme/shop", "branch": "main", "ref": "refs/heads/main",
                                                 "actor": "mia", "paths": ["shop/orders.py"]})  # fmt: skip
    tag = replace(push, key="tag-1", view={"repo": "acme/shop", "ref": "refs/tags/v4.12", "actor": "mia"})
    build = Arrived(type="webhook.ci-nightly", key="ci-1", data={"suite": "nightly", "red": 0},
                    verified="standard-webhooks", trust=Trust.TRUSTED)  # fmt: skip
    return [
        *nights, (9 * 60, "ci-nightly", build), (70, "github", push), (64, "github", _build(2, conclusion="success")),
        (41, "github", issue), (33, "github", _build(1)), (32, "github", _build(1)), (31, "github", _build(1)),
        (12, "github", tag), (6, "github", _build(3, sha="77" * 20, branch="feature/cart")),
        (4, "github", _build(4)),
    ]  # fmt: skip


def _after(tx: Transaction, story: Story, sources: dict[str, StoredSource], now: int) -> None:
    """Record what background jobs would have recorded: a rejected event, a silent source and dead firings."""
    story.trigger = tx[Triggers].get("fix-red-main", project="default").id
    tx[Sources].note_refused(sources["github"].id, "The signature is wrong.", now - 3 * HOUR)
    tx[Sources].alarmed(sources["ci-nightly"].id, alarm_id=None, silent_at=now - HOUR)
    for event in tx[TriggerEvents].page("default", {"type": "github.issues.opened"}, before=None, limit=5):
        for firing in tx[Firings].of_event(event.id):
            why = "This server knows no process called triage; it was tried 6 times."
            tx[Firings].save(replace(firing, state=FiringState.DEAD, because=None, error=why, attempts=6, next_at=None))
