"""An audit of rules detects every manipulation and every approval that no rule justifies."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from assent.audit.usecases.retention import RetentionService
from assent.audit.usecases.verify import Audited, AuditService, Check
from assent.core.access import Actor
from assent.core.breakpoint import answered_by_rule
from assent.core.chain import Part
from assent.db.tables import metadata
from assent.kernel.settings import Settings
from assent.policy.usecases.rules import RuleService
from tests.audit.usecases.living import Ruled, live_by_rules
from tests.db.making import RITA, adding, create
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.tampering import Event, Raw, forge, forge_rule, keys, other, put, resting, touched, unlocked, write

DAY = 24 * 3600
TABLES = ("assent_rules", "assent_rule_events", "assent_shadows")
# No column is omitted, because each of them is also recorded elsewhere.
FIELDS = [(table, column.name) for table in TABLES for column in metadata.tables[table].columns]


@pytest.fixture(scope="module")
def ruled(module_settings: Settings) -> Ruled:
    async def run() -> Ruled:
        clock = ManualClock()
        async with running_node(module_settings, clock=clock) as node:
            return await live_by_rules(node, clock)

    return asyncio.run(run())


def audit(where: Settings, **only: Any) -> Audited:
    async def run() -> Audited:
        async with resting(where) as node:
            return await node[AuditService].verify(**only)

    return asyncio.run(run())


def found(where: Settings) -> list[str]:
    return [each.what for each in audit(where).findings]


def test_an_unmodified_log_yields_no_findings(module_settings: Settings, ruled: Ruled) -> None:
    audited = audit(module_settings)
    assert audited.findings == []
    assert (audited.rules, audited.rule_events) == (len(ruled.rules), len(ruled.rules) + 4)
    assert audited.breakpoints == len(ruled.ids)
    assert audit(module_settings, project="default").rules == len(ruled.rules)
    assert audit(module_settings, project="elsewhere").rules == 0
    assert audit(module_settings, breakpoint_id=ruled.ids["by the first version"]).rules == 0


@pytest.mark.parametrize(("table", "column"), FIELDS, ids=lambda value: value.removeprefix("assent_"))
def test_a_change_to_any_field_of_any_row_is_detected(
    module_settings: Settings, ruled: Ruled, table: str, column: str
) -> None:
    del ruled
    numbers = isinstance(metadata.tables[table].columns[column].type.python_type(), int)
    missed: list[Any] = []
    tried = 0

    async def run() -> None:
        nonlocal tried
        async with resting(module_settings) as node:
            with unlocked(module_settings) as opened:
                for key in touched(module_settings, keys(opened, table)):
                    old = opened.one(table, **key)[column]
                    for new in [77] if old is None and numbers else list(other(old))[:4]:
                        value = new + 1000 if column == "seq" else new
                        write(opened, table, key, {column: value})
                        if not (await node[AuditService].verify()).findings:
                            missed.append((key, old, value))
                        write(opened, table, key | ({column: value} if column in key else {}), {column: old})
                        tried += 1
            assert (await node[AuditService].verify()).findings == []

    asyncio.run(run())
    assert missed == []
    assert tried


@given(data=st.data())
@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_changes_to_any_field_are_detected(module_settings: Settings, ruled: Ruled, data: st.DataObject) -> None:
    del ruled
    table, column = data.draw(st.sampled_from([each for each in FIELDS if each[1] != "seq"]))
    with unlocked(module_settings) as opened:
        key = data.draw(st.sampled_from(keys(opened, table)))
        old = opened.one(table, **key)[column]
        numbers = isinstance(metadata.tables[table].columns[column].type.python_type(), int)
        anything: st.SearchStrategy[Any] = (
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


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_row_is_detected_at_any_position(module_settings: Settings, ruled: Ruled, table: str) -> None:
    del ruled
    with unlocked(module_settings) as opened:
        for key in keys(opened, table):
            row = opened.one(table, **key)
            opened.run(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = :{name}' for name in key)}", **key)
            findings = found(module_settings)
            put(opened, table, row)
            assert findings, key
    assert found(module_settings) == []


def test_a_rule_whose_history_was_deleted_is_detected(module_settings: Settings, ruled: Ruled) -> None:
    mine = ruled.rules["never"]
    with unlocked(module_settings) as opened:
        rows = [opened.one("assent_rule_events", **key) for key in keys(opened, "assent_rule_events")]
        opened.run("DELETE FROM assent_rule_events WHERE rule_id = :id", id=mine)
        findings = audit(module_settings).findings
        for row in rows:
            if row["rule_id"] == mine:
                put(opened, "assent_rule_events", row)
    assert {each.rule_id for each in findings} == {mine}
    assert "its first event is not a creation event" in [each.what for each in findings]


def test_two_swapped_changes_are_detected(module_settings: Settings, ruled: Ruled) -> None:
    def swap(opened: Raw) -> None:
        for before, after in ((1, 1000), (2, 1), (1000, 2)):
            write(opened, "assent_rule_events", {"rule_id": ruled.rules["auto"], "seq": before}, {"seq": after})

    with unlocked(module_settings) as opened:
        swap(opened)
        assert found(module_settings)
        swap(opened)
    assert found(module_settings) == []


def test_a_rule_inserted_directly_into_the_table_is_detected(module_settings: Settings, ruled: Ruled) -> None:
    with unlocked(module_settings) as opened:
        row = opened.one("assent_rules", id=ruled.rules["never"])
        put(opened, "assent_rules", row | {"id": "rule-invented", "action": "auto-approve", "pattern": "*"})
        findings = audit(module_settings).findings
        opened.run("DELETE FROM assent_rules WHERE id = 'rule-invented'")
    assert {each.rule_id for each in findings} == {"rule-invented"}


def test_a_shadow_row_without_its_event_is_detected(module_settings: Settings, ruled: Ruled) -> None:
    with unlocked(module_settings) as opened:
        row = opened.one("assent_shadows", **keys(opened, "assent_shadows")[0])
        invented = row | {"rule_id": ruled.rules["never"]}
        put(opened, "assent_shadows", invented)
        findings = audit(module_settings).findings
        opened.run("DELETE FROM assent_shadows WHERE rule_id = :id", id=ruled.rules["never"])
    assert {each.breakpoint_id for each in findings} == {row["breakpoint_id"]}


def approve(opened: Raw, breakpoint_id: str, rule: str, version: int | None = 1, **said: Any) -> None:
    """Forge a rule's approval of a pending breakpoint, including the row, the history and all hashes."""
    row = opened.one("assent_breakpoints", id=breakpoint_id)
    actor, at = Actor.parse(f"rule:{rule}"), row["created_at"]
    auto = {"recommended": True, "reason": "Matched.", "matchedRule": rule, "consecutiveApprovals": 0} | said
    auto = {name: value for name, value in auto.items() if value is not None}

    def edit(events: list[Event]) -> None:
        del events[1:]
        events[0]["metadata"] |= {"autoApproval": auto}
        events[0]["metadata"].pop("ruleVersion", None)
        if version is not None:
            events[0]["metadata"]["ruleVersion"] = version
        decided = {"decision": "approved", "digest": row["digest"]}
        events.append(events[0] | {"type": "released", "actor": str(actor), "metadata": decided})

    changes = {
        "status": "released",
        "decision": "approved",
        "ended_at": at,
        "ended_by": str(actor),
        "result": msgspec.json.encode(answered_by_rule(actor)).decode(),
        "auto_approval": msgspec.json.encode(auto).decode(),
    }
    write(opened, "assent_breakpoints", {"id": breakpoint_id}, changes)
    forge(opened, breakpoint_id, edit)


COUNTED: dict[str, Any] = {"matchedRule": None, "consecutiveApprovals": 5}
WAITING = "not matched any more"


@pytest.mark.parametrize(
    ("rule", "version", "said", "what"),
    [
        ("rule-invented", 1, {}, "which does not exist"),
        ("auto", 9, {}, "which has no version 9"),
        ("auto", None, {}, "which has no version None"),
        ("auto", 1, {}, "whose version 1 was not the current one at that time"),
        ("auto", 2, {}, "whose pattern does not match it"),
        ("auto", 3, {}, "whose version 3 does not approve anything"),
        ("never", 1, {}, "whose version 1 does not approve anything"),
        ("shadow", 1, {}, "whose version 1 does not approve anything"),
        ("gone", 2, {}, "whose version 2 had expired or been removed"),
        ("auto", 1, {"matchedRule": "rule-other"}, "but its creation event records rule-other"),
        ("auto", 1, {"recommended": False}, "but its creation event does not recommend an approval"),
        ("autoApproveAfterN", None, COUNTED, "but it does not request auto-approval"),
    ],
)
def test_a_forged_approval_by_a_rule_is_detected(
    settings: Settings, rule: str, version: int | None, said: dict[str, Any], what: str
) -> None:
    mine = asyncio.run(_lived(settings))
    with unlocked(settings) as opened:
        approve(opened, mine.ids[WAITING], mine.rules.get(rule, rule), version, **said)
    findings = audit(settings).findings
    assert {each.breakpoint_id for each in findings} == {mine.ids[WAITING]}
    assert {each.part for each in findings} == {Part.PEOPLE}
    assert any(each.what.endswith(what) for each in findings), findings


async def _lived(settings: Settings) -> Ruled:
    clock = ManualClock()
    async with running_node(settings, clock=clock) as node:
        return await live_by_rules(node, clock)


def test_a_forged_count_of_approvals_is_detected(settings: Settings) -> None:
    async def run() -> str:
        clock = ManualClock()
        async with running_node(settings, clock=clock) as node:
            await live_by_rules(node, clock)
            return await create(node, {"breakpointId": "count.me", "autoApproveAfterN": 4})

    forged = asyncio.run(run())
    with unlocked(settings) as opened:
        approve(opened, forged, "autoApproveAfterN", None, **COUNTED)
    (what,) = found(settings)
    assert what.endswith("but the number of consecutive approvals was 3 instead of 4")


def test_a_rule_with_a_rewritten_history_contradicts_its_decisions(settings: Settings) -> None:
    mine = asyncio.run(_lived(settings))

    def narrower(events: list[Event]) -> None:
        for event in events:
            event["metadata"]["rule"]["pattern"] = "something.else"

    with unlocked(settings) as opened:
        forge_rule(opened, mine.rules["auto"], narrower)
    findings = audit(settings).findings
    approved = {mine.ids[name] for name in ("by the first version", "warned", "by the second version")}
    assert {each.breakpoint_id for each in findings} == approved


async def test_simultaneous_changes_and_approvals_yield_no_findings(node: Node, clock: ManualClock) -> None:
    """The clock may not advance between steps, and a change is timestamped before it becomes visible."""
    database, rules = node.assent.database, node.assent[RuleService]
    made = await database.write(adding(node, "go", "auto-approve"))
    await create(node, {"breakpointId": "go"})
    for enabled in (False, True):
        await database.write(partial(rules.change, rule_id=made.id, changes={"enabled": enabled}, by=RITA))
        await create(node, {"breakpointId": "go"})
    await database.write(partial(rules.remove, rule_id=made.id, by=RITA))
    clock.advance(1)
    await create(node, {"breakpointId": "go"})
    assert (await node.assent[AuditService].verify()).findings == []


def test_a_rewritten_rule_contradicts_its_purged_approvals(settings: Settings) -> None:
    async def run() -> Ruled:
        clock = ManualClock()
        async with running_node(settings, clock=clock) as node:
            ruled = await live_by_rules(node, clock)
            await node.call("PUT", "/api/policy", await node.token("admin"), json={"retentionDays": 1})
            clock.advance(2 * DAY)
            await node.assent.database.write(node.assent[RetentionService].purge_due)
            return ruled

    mine = asyncio.run(run())
    audited = audit(settings)
    assert (audited.findings, audited.purged) == ([], len(mine.ids) - 2)

    def narrower(events: list[Event]) -> None:
        for event in events:
            event["metadata"]["rule"]["pattern"] = "something.else"

    with unlocked(settings) as opened:
        forge_rule(opened, mine.rules["auto"], narrower)
    assert len(found(settings)) == 3


def unlink(place: Raw, mine: Ruled) -> None:
    place.run("UPDATE assent_rule_events SET hash = 'x' WHERE rule_id = :id", id=mine.rules["never"])
    write(place, "assent_rules", {"id": mine.rules["never"]}, {"head": "x"})


def switch_on(place: Raw, mine: Ruled) -> None:
    write(place, "assent_rules", {"id": mine.rules["auto"]}, {"enabled": 1})


def approve_by_an_invented_rule(place: Raw, mine: Ruled) -> None:
    approve(place, mine.ids[WAITING], "rule-invented")


def release_later_what_a_rule_approved(place: Raw, mine: Ruled) -> None:
    def edit(events: list[Event]) -> None:
        events.insert(1, events[0] | {"type": "warned", "metadata": {"warning": "x"}, "at": events[0]["at"]})
        events[2]["at"] += 1

    approved = mine.ids["by the first version"]
    row = place.one("assent_breakpoints", id=approved)
    write(place, "assent_breakpoints", {"id": approved}, {"warnings": '["x"]', "ended_at": row["ended_at"] + 1})
    forge(place, approved, edit)


def write_nonsense(place: Raw, mine: Ruled) -> None:
    write(place, "assent_rules", {"id": mine.rules["never"]}, {"enabled": 5})


BREAKAGES: list[tuple[str, Callable[[Raw, Ruled], None]]] = [
    ("I4", unlink),
    ("I3", switch_on),
    ("I6", approve_by_an_invented_rule),
    ("I2", release_later_what_a_rule_approved),
    ("rows", write_nonsense),
]


@pytest.mark.parametrize(("promise", "breakage"), BREAKAGES, ids=lambda value: getattr(value, "__name__", value))
def test_a_violated_rule_invariant_is_reported_by_its_check(
    settings: Settings, promise: str, breakage: Callable[[Raw, Ruled], None]
) -> None:
    async def check() -> list[Check]:
        async with resting(settings) as node:
            return await node[AuditService].check()

    mine = asyncio.run(_lived(settings))
    whole = asyncio.run(check())
    assert {each.name for each in whole if not each.holds} == set()
    with unlocked(settings) as opened:
        breakage(opened, mine)
    assert {each.name for each in asyncio.run(check()) if not each.holds} == {promise}


async def test_an_audit_during_rule_changes_reports_no_findings(node: Node) -> None:
    busy = True
    database, rules = node.assent.database, node.assent[RuleService]
    made = await database.write(adding(node, "go", "auto-approve"))

    async def flip() -> None:
        enabled = True
        while busy:
            enabled = not enabled
            await database.write(partial(rules.change, rule_id=made.id, changes={"enabled": enabled}, by=RITA))

    async def raise_() -> None:
        while busy:
            await create(node, {"breakpointId": "go"})

    working = [asyncio.create_task(each()) for each in (flip, raise_, raise_)]
    try:
        for _ in range(20):
            audited = await node.assent[AuditService].verify()
            assert audited.findings == []
    finally:
        busy = False
        await asyncio.gather(*working)
