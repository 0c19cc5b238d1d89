"""An audit detects every manipulation and reports nothing else."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from assent.audit.usecases.retention import RetentionService
from assent.audit.usecases.verify import BATCH, Audited, AuditService
from assent.core.chain import Finding
from assent.core.errors import NotFound
from assent.db.tables import metadata
from assent.kernel.settings import Settings
from tests.audit.usecases.living import Lives, live
from tests.db.making import create
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.tampering import Raw, keys, other, put, resting, touched, unlocked, write

DAY = 24 * 3600
TABLES = {
    "assent_breakpoints": "id",
    "assent_events": "breakpoint_id",
    "assent_responses": "breakpoint_id",
    "assent_comments": "breakpoint_id",
    "assent_breakpoint_files": "breakpoint_id",
}
# Columns that are not part of the history: the row number, a comment's id, and the displayed file size.
MEANINGLESS = {("assent_breakpoints", "ordinal"), ("assent_comments", "id"), ("assent_breakpoint_files", "size")}
FIELDS = [
    (table, column.name)
    for table in TABLES
    for column in metadata.tables[table].columns
    if (table, column.name) not in MEANINGLESS
]


def audit(where: Settings, *, project: str | None = None, breakpoint_id: str | None = None) -> Audited:
    async def run() -> Audited:
        async with resting(where) as node:
            return await node[AuditService].verify(project=project, breakpoint_id=breakpoint_id)

    return asyncio.run(run())


def found(where: Settings) -> list[Finding]:
    return audit(where).findings


def test_an_unmodified_log_yields_no_findings(module_settings: Settings, lives: Lives) -> None:
    audited = audit(module_settings)
    assert audited.findings == []
    assert audited.breakpoints == len(lives.ids)
    assert audited.files == 2
    assert audited.events > 2 * audited.breakpoints


@pytest.mark.parametrize(("table", "column"), FIELDS, ids=lambda value: value.removeprefix("assent_"))
def test_a_change_to_any_field_of_any_row_is_detected(
    module_settings: Settings, lives: Lives, table: str, column: str
) -> None:
    del lives
    numbers = isinstance(metadata.tables[table].columns[column].type.python_type(), int)
    missed = []

    async def run() -> None:
        async with resting(module_settings) as node:
            with unlocked(module_settings) as opened:
                for key in touched(module_settings, keys(opened, table)):
                    old = opened.one(table, **key)[column]
                    new = 77 if old is None and numbers else next(other(old))
                    if column in {"seq", "n"}:
                        new += 1000
                    write(opened, table, key, {column: new})
                    if not (await node[AuditService].verify()).findings:
                        missed.append((key, old, new))
                    write(opened, table, key | ({column: new} if column in key else {}), {column: old})
            assert (await node[AuditService].verify()).findings == []

    asyncio.run(run())
    assert missed == []


@given(data=st.data())
@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_changes_to_any_field_are_detected(module_settings: Settings, lives: Lives, data: st.DataObject) -> None:
    del lives
    table, column = data.draw(st.sampled_from([each for each in FIELDS if each[1] not in {"seq", "n"}]))
    with unlocked(module_settings) as opened:
        key = data.draw(st.sampled_from(keys(opened, table)))
        old = opened.one(table, **key)[column]
        numbers = isinstance(metadata.tables[table].columns[column].type.python_type(), int)
        anything = (
            st.integers(-(2**62), 2**62)
            if numbers
            else st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
        )
        meant = anything if old is None or numbers else st.sampled_from(list(other(old))) | anything
        new = data.draw(meant.filter(lambda value: value != old))
        write(opened, table, key, {column: new})
        findings = found(module_settings)
        write(opened, table, key | ({column: new} if column in key else {}), {column: old})
    assert findings, (table, column, key, old, new)


@pytest.mark.parametrize("life", ["approved", "quorum", "changed", "expired", "waiting"])
def test_a_missing_event_is_detected_at_any_position(module_settings: Settings, lives: Lives, life: str) -> None:
    with unlocked(module_settings) as opened:
        mine = [key for key in keys(opened, "assent_events") if key["breakpoint_id"] == lives.ids[life]]
        for key in mine:
            event = opened.one("assent_events", **key)
            opened.run("DELETE FROM assent_events WHERE breakpoint_id = :breakpoint_id AND seq = :seq", **key)
            findings = found(module_settings)
            put(opened, "assent_events", event)
            assert {each.breakpoint_id for each in findings} == {lives.ids[life]}
    assert found(module_settings) == []


def test_two_swapped_events_are_detected(module_settings: Settings, lives: Lives) -> None:
    def swap(opened: Raw, one: int, two: int) -> None:
        for before, after in ((one, 1000), (two, one), (1000, two)):
            key = {"breakpoint_id": lives.ids["approved"], "seq": before}
            write(opened, "assent_events", key, {"seq": after})

    with unlocked(module_settings) as opened:
        last = opened.one("assent_breakpoints", id=lives.ids["approved"])["version"]
        for one, two in itertools.combinations(range(1, last + 1), 2):
            swap(opened, one, two)
            assert found(module_settings)
            swap(opened, one, two)
    assert found(module_settings) == []


def test_an_inserted_event_is_detected(module_settings: Settings, lives: Lives) -> None:
    with unlocked(module_settings) as opened:
        version = opened.one("assent_breakpoints", id=lives.ids["waiting"])["version"]
        for seq in (0, version + 1, version + 5):
            event = opened.one("assent_events", breakpoint_id=lives.ids["waiting"], seq=version)
            put(opened, "assent_events", event | {"seq": seq, "type": "warned", "previous": event["hash"]})
            assert found(module_settings)
            opened.run(
                "DELETE FROM assent_events WHERE breakpoint_id = :id AND seq = :seq", id=lives.ids["waiting"], seq=seq
            )
    assert found(module_settings) == []


@pytest.mark.parametrize("table", [table for table in TABLES if table != "assent_breakpoints"])
def test_a_breakpoint_whose_child_rows_were_deleted_is_detected(
    module_settings: Settings, lives: Lives, table: str
) -> None:
    parent = lives.ids["approved"]
    with unlocked(module_settings) as opened:
        rows = [
            opened.one(table, **key)
            for key in keys(opened, table)
            if opened.one(table, **key)["breakpoint_id"] == parent
        ]
        opened.run(f"DELETE FROM {table} WHERE breakpoint_id = :id", id=parent)
        findings = found(module_settings)
        for row in rows:
            put(opened, table, row)
    assert rows
    assert {each.breakpoint_id for each in findings} == {parent}
    assert found(module_settings) == []


def test_orphaned_child_rows_are_detected(module_settings: Settings, lives: Lives) -> None:
    with unlocked(module_settings) as opened:
        row = opened.one("assent_breakpoints", id=lives.ids["cancelled"])
        opened.run("DELETE FROM assent_breakpoints WHERE id = :id", id=lives.ids["cancelled"])
        findings = found(module_settings)
        put(opened, "assent_breakpoints", row)
    assert {(each.breakpoint_id, each.seq) for each in findings} >= {
        (lives.ids["cancelled"], 1),
        (lives.ids["cancelled"], 2),
    }


def test_file_content_that_does_not_match_its_digest_is_detected(module_settings: Settings, lives: Lives) -> None:
    with unlocked(module_settings) as opened:
        key = keys(opened, "assent_files")[0]
        old = opened.one("assent_files", **key)["content"]
        write(opened, "assent_files", key, {"content": old + b"!"})
        everywhere, one = audit(module_settings), audit(module_settings, breakpoint_id=lives.ids["approved"])
        other_one = audit(module_settings, breakpoint_id=lives.ids["rejected"])
        write(opened, "assent_files", key, {"content": old})
    assert [key["sha256"] in each.what for each in everywhere.findings] == [True]
    assert len(one.findings) == 1
    assert other_one.findings == []


def test_an_audit_can_cover_one_breakpoint_or_one_project(module_settings: Settings, lives: Lives) -> None:
    with unlocked(module_settings) as opened:
        write(opened, "assent_breakpoints", {"id": lives.ids["rejected"]}, {"votes": 7})
        one, another = (audit(module_settings, breakpoint_id=lives.ids[name]) for name in ("rejected", "expired"))
        here, elsewhere = (audit(module_settings, project=name) for name in ("default", "elsewhere"))
        write(opened, "assent_breakpoints", {"id": lives.ids["rejected"]}, {"votes": 1})
    assert (one.breakpoints, len(one.findings)) == (1, 1)
    assert (another.breakpoints, another.findings) == (1, [])
    assert (here.breakpoints, len(here.findings)) == (len(lives.ids), 1)
    assert (elsewhere.breakpoints, elsewhere.findings) == (0, [])
    with pytest.raises(NotFound):
        audit(module_settings, breakpoint_id="bp_none")


def test_a_finding_says_what_is_wrong_and_where(module_settings: Settings, lives: Lives) -> None:
    key = {"breakpoint_id": lives.ids["approved"], "seq": 2}
    with unlocked(module_settings) as opened:
        old = opened.one("assent_events", **key)["at"]
        write(opened, "assent_events", key, {"at": old + 1})
        findings = found(module_settings)
        write(opened, "assent_events", key, {"at": old})
    first = findings[0]
    assert (first.breakpoint_id, first.seq) == (lives.ids["approved"], 2)
    assert first.what == "its hash does not match its content"


async def test_an_audit_covers_every_batch(node: Node) -> None:
    for _ in range(3):
        await create(node)
    seen: list[int] = []
    audited = await node.assent[AuditService].verify(progress=lambda so_far: seen.append(so_far.breakpoints))
    assert BATCH > 3
    assert (audited.breakpoints, audited.events, audited.findings) == (3, 3, [])
    assert seen[-1] == 3


async def test_an_audit_during_writes_reports_no_findings(node: Node, clock: ManualClock) -> None:
    """Concurrent changes must not cause findings, because rows and events are read from one snapshot."""
    owner = await node.token("reviewer")
    busy = True

    async def work() -> None:
        while busy:
            created = await node.create()
            await asyncio.gather(
                *(node.feedback(created["id"], owner, comment=str(n)) for n in range(3)),
            )
            await node.feedback(created["id"], owner, approved=True, comment="Yes.")
            clock.advance(0.001)

    working = [asyncio.create_task(work()) for _ in range(3)]
    try:
        for _ in range(25):
            assert (await node.assent[AuditService].verify()).findings == []
    finally:
        busy = False
        await asyncio.gather(*working)


# After a purge, a file's entry and a comment's time are compared only with their digest.
KEPT = [each for each in FIELDS if each[1] not in {"seq", "n"}]


def test_a_change_to_any_purged_row_is_detected(settings: Settings) -> None:
    missed = []

    async def run() -> None:
        lives = await live_and_purge(settings)
        async with resting(settings) as node:
            before = await node[AuditService].verify()
            assert (before.findings, before.purged) == ([], len(lives.ids) - 3)
            with unlocked(settings) as opened:
                for table, column in KEPT:
                    numbers = isinstance(metadata.tables[table].columns[column].type.python_type(), int)
                    for key in touched(settings, keys(opened, table)):
                        old = opened.one(table, **key)[column]
                        new = 77 if old is None and numbers else next(other(old))
                        write(opened, table, key, {column: new})
                        if not (await node[AuditService].verify()).findings:
                            missed.append((table, column, key))
                        write(opened, table, key | ({column: new} if column in key else {}), {column: old})

    asyncio.run(run())
    assert missed == []


async def live_and_purge(where: Settings) -> Lives:
    clock = ManualClock()
    async with running_node(where, clock=clock) as node:
        lives = await live(node, clock)
        await node.call("PUT", "/api/policy", await node.token("admin"), json={"retentionDays": 1})
        clock.advance(2 * DAY)
        await node.assent.database.write(node.assent[RetentionService].purge_due)
        return lives
