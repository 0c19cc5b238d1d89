"""Each test violates one invariant, and exactly that one must be reported."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from assent.audit.usecases.verify import PROMISES, AuditService, Check
from assent.breakpoints.store.breakpoints import COLUMNS, breakpoint_of
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.breakpoint import terms_of
from assent.core.timestamps import SECOND
from assent.kernel.settings import Settings
from tests.audit.usecases.living import Lives, live
from tests.db.making import AGENT, create
from tests.support.nodes import ManualClock, running_node
from tests.support.tampering import Event, Raw, forge, raw, resting, unlocked


class Place:
    """Stored breakpoints with direct access to the rows."""

    def __init__(self, opened: Raw, lives: Lives, clock: ManualClock) -> None:
        self.raw = opened
        self.ids = lives.ids
        self.clock = clock

    def set(self, life: str, **values: Any) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in values)
        self.raw.run(f"UPDATE assent_breakpoints SET {changes} WHERE id = :id", id=self.ids[life], **values)

    def forge(self, life: str, edit: Callable[[list[Event]], None]) -> None:
        forge(self.raw, self.ids[life], edit)


def checked(settings: Settings, clock: ManualClock, acknowledged: Any = ()) -> dict[str, Check]:
    async def run() -> list[Check]:
        async with resting(settings, clock=clock) as node:
            return await node[AuditService].check(acknowledged)

    return {each.name: each for each in asyncio.run(run())}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lived(settings: Settings, clock: ManualClock) -> Lives:
    async def run() -> Lives:
        async with running_node(settings, clock=clock) as node:
            lives = await live(node, clock)
            lives.ids["called back"] = await create(node, callbackUrl="https://agent.test/", ttlSeconds=600)
            lives.ids["keyed"] = await create(node, once=Once("key-1", "a" * 64))
            return lives

    return asyncio.run(run())


def drop_an_answer(place: Place) -> None:
    place.raw.run("DELETE FROM assent_responses WHERE breakpoint_id = :id", id=place.ids["changed"])


def end_twice(place: Place) -> None:
    place.raw.run("DROP INDEX uq_assent_events_terminal")
    place.forge("rejected", lambda events: events.append(events[-1] | {"type": "cancelled", "metadata": {}}))


def end_without_an_end(place: Place) -> None:
    def without(events: list[Event]) -> None:
        events[:] = [each for each in events if each["type"] != "cancelled"]

    place.forge("cancelled", without)


def end_what_waits(place: Place) -> None:
    place.forge("waiting", lambda events: events.append(events[-1] | {"type": "expired", "metadata": {}}))


def decide_otherwise(place: Place) -> None:
    place.set("rejected", votes=9)


def change_the_result(place: Place) -> None:
    row = place.raw.one("assent_breakpoints", id=place.ids["approved"])
    place.set("approved", result=row["result"].replace("Go on.", "Stop."))


def break_a_hash(place: Place) -> None:
    place.raw.run("UPDATE assent_events SET hash = 'x' WHERE breakpoint_id = :id", id=place.ids["waiting"])


def change_the_content(place: Place) -> None:
    place.set("waiting", payload='{"question":"Anything else?"}')


def change_the_bytes(place: Place) -> None:
    place.raw.run("UPDATE assent_files SET content = :content", content=b"other")


def decide_about_something_else(place: Place) -> None:
    def other(events: list[Event]) -> None:
        events[-1]["metadata"]["digest"] = "0" * 64

    place.forge("rejected", other)


def answer_before_having_an_account(place: Place) -> None:
    at = place.clock.now() + SECOND
    place.raw.run("UPDATE assent_people SET created_at = :at WHERE name = 'eve'", at=at)


def answer_as_nobody(place: Place) -> None:
    place.raw.run("UPDATE assent_people SET name = 'mallory' WHERE name = 'eve'")


def approve_too_late(place: Place) -> None:
    place.set("approved", due_at=place.raw.one("assent_breakpoints", id=place.ids["approved"])["ended_at"])
    row = place.raw.one("assent_breakpoints", id=place.ids["approved"])
    terms = terms_of(breakpoint_of([row[name] for name in COLUMNS]))

    def agreed(events: list[Event]) -> None:
        events[0]["metadata"]["terms"] = terms

    place.forge("approved", agreed)


def forget_a_delivery(place: Place) -> None:
    place.raw.run("DELETE FROM assent_deliveries WHERE breakpoint_id = :id", id=place.ids["called back"])


def deliver_what_did_not_happen(place: Place) -> None:
    place.raw.run(
        "UPDATE assent_deliveries SET type = 'released' WHERE breakpoint_id = :id", id=place.ids["called back"]
    )


def lose_what_a_key_stands_for(place: Place) -> None:
    place.raw.run("UPDATE assent_idempotency SET breakpoint_id = 'bp_none'")


def let_it_wait_for_ever(place: Place) -> None:
    place.clock.advance(661)
    register_worker(place)


def register_worker(place: Place) -> None:
    now = place.clock.now()
    place.raw.run("INSERT INTO assent_workers VALUES ('worker-1', 'here', 1, :now, :now)", now=now)


def file_it_elsewhere(place: Place) -> None:
    place.raw.run("UPDATE assent_labels SET project_id = 'other' WHERE id = :id", id=place.ids["waiting"])


def lose_the_bytes(place: Place) -> None:
    place.raw.run("DELETE FROM assent_files")


def deliver_for_another_project(place: Place) -> None:
    place.raw.run("UPDATE assent_deliveries SET project_id = 'other'")


def write_nonsense(place: Place) -> None:
    place.set("waiting", seats="nonsense")


BREAKAGES: list[tuple[str, Callable[[Place], None]]] = [
    ("I1", drop_an_answer),
    ("I2", end_twice),
    ("I2", end_without_an_end),
    ("I2", end_what_waits),
    ("I3", decide_otherwise),
    ("I3", change_the_result),
    ("I4", break_a_hash),
    ("I5", change_the_content),
    ("I5", change_the_bytes),
    ("I5", decide_about_something_else),
    ("I6", answer_before_having_an_account),
    ("I6", answer_as_nobody),
    ("I7", approve_too_late),
    ("I8", forget_a_delivery),
    ("I8", deliver_what_did_not_happen),
    ("I9", lose_what_a_key_stands_for),
    ("I10", let_it_wait_for_ever),
    ("I12", file_it_elsewhere),
    ("I12", lose_the_bytes),
    ("I12", deliver_for_another_project),
    ("rows", write_nonsense),
]
EDITS_OF_PEOPLE: dict[Callable[[Place], None], list[str]] = {
    answer_before_having_an_account: ["person:eve"],
    answer_as_nobody: ["person:eve", "person:mallory", "roles:eve", "roles:mallory"],
}
"""Other subjects that these edits change without an admin event."""


@pytest.mark.parametrize(("promise", "breakage"), BREAKAGES, ids=lambda value: getattr(value, "__name__", value))
def test_only_the_violated_invariant_is_reported(
    settings: Settings, clock: ManualClock, lived: Lives, promise: str, breakage: Callable[[Place], None]
) -> None:
    with unlocked(settings) as opened:
        breakage(Place(opened, lived, clock))
    checks = checked(settings, clock)
    unlogged = EDITS_OF_PEOPLE.get(breakage, [])
    # SQLite's foreign key check also finds some of these edits.
    broken = {name for name, each in checks.items() if not each.holds} - {"file"}
    assert broken == ({promise, "I13"} if unlogged else {promise})
    assert sorted(each.what.partition(" ")[0] for each in checks["I13"].findings) == unlogged
    assert all(each.what for each in checks[promise].findings)


def test_unmodified_data_satisfies_every_invariant(settings: Settings, clock: ManualClock, lived: Lives) -> None:
    with unlocked(settings) as opened:
        register_worker(Place(opened, lived, clock))
    checks = checked(settings, clock)
    assert list(checks) == list(PROMISES)
    assert {name for name, each in checks.items() if not each.holds} == set()
    nothing = {name for name, each in checks.items() if each.nothing}
    assert nothing == ({"I11", "file"} if settings.database_url else {"I11"})
    assert all(each.looked_at > 0 for name, each in checks.items() if name not in nothing)


def test_overdue_work_is_not_reported_if_no_worker_is_running(
    settings: Settings, clock: ManualClock, lived: Lives
) -> None:
    del lived
    clock.advance(10_000)
    checks = checked(settings, clock)
    assert checks["I10"].holds
    assert checks["I10"].nothing == "no worker is running"


def test_a_stuck_delivery_is_reported(settings: Settings, clock: ManualClock, lived: Lives) -> None:
    async def cancel() -> None:
        async with resting(settings, clock=clock) as node:
            await node.database.write(lambda tx: node[BreakpointService].cancel(tx, lived.ids["called back"], by=AGENT))

    asyncio.run(cancel())
    clock.advance(601)
    with unlocked(settings) as opened:
        register_worker(Place(opened, lived, clock))
    assert [each.seq for each in checked(settings, clock)["I10"].findings] == [1]


def test_a_missing_lock_trigger_is_reported(settings: Settings, clock: ManualClock, lived: Lives) -> None:
    del lived
    off = "ALTER TABLE assent_events DISABLE TRIGGER assent_events_kept"
    with raw(settings) as opened:
        opened.run(off if settings.database_url else "DROP TRIGGER assent_events_kept")
    checks = checked(settings, clock)
    assert {name for name, each in checks.items() if not each.holds} == {"locks"}
    assert "assent_events_kept" in checks["locks"].findings[0].what


def test_a_dangling_reference_is_reported(sqlite_settings: Settings, clock: ManualClock) -> None:
    with unlocked(sqlite_settings) as opened:
        opened.run("INSERT INTO assent_grants VALUES ('nobody', 'default', 'viewer')")
    checks = checked(sqlite_settings, clock)
    assert {name for name, each in checks.items() if not each.holds} == {"file"}
    assert "assent_grants" in checks["file"].findings[0].what


def test_all_acknowledged_results_must_be_stored(settings: Settings, clock: ManualClock, lived: Lives) -> None:
    ids = lived.ids
    kept = [
        {"id": ids["approved"], "status": "released", "decision": "approved"},
        {"id": ids["rejected"], "decision": "rejected"},
        {"id": ids["expired"], "status": "expired", "decision": None},
        {"id": ids["cancelled"], "status": "waiting"},
        {"id": ids["waiting"]},
    ]
    assert checked(settings, clock, kept)["I1"].holds
    lost = [
        {"id": "bp_lost", "status": "waiting"},
        {"id": ids["approved"], "decision": "rejected"},
        {"id": ids["waiting"], "status": "released"},
        {"id": ids["expired"], "status": "cancelled"},
    ]
    findings = checked(settings, clock, [*kept, *lost])["I1"].findings
    assert [each.breakpoint_id for each in findings] == [each["id"] for each in lost]
    assert findings[0].what == "it was acknowledged as waiting, but it does not exist"
    assert findings[1].what == "it was acknowledged as rejected, but it is approved"
