"""The database prevents changes to the recorded history."""

from functools import partial
from typing import Any

import pytest

from assent.audit.store.chains import LOCKS
from assent.audit.usecases.checkpoints import CheckpointService
from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal, Role
from assent.db.tables import metadata
from assent.db.transaction import Transaction
from assent.people.usecases.people import PeopleService
from assent.policy.usecases.rules import RuleService
from tests.db.making import AGENT, RITA, adding, create, person, respond, rows
from tests.db.test_schema import REFUSALS
from tests.support.nodes import ManualClock, Node

DAY = 24 * 3600
ADMIN = Principal(kind=Kind.SYSTEM, id="system:test", name="test", project="default", roles=frozenset({Role.ADMIN}))
FIXED = [
    "ordinal", "id", "project_id", "agent_id", "run_id", "gate", "tags", "seats", "strategy", "risk", "priority",
    "attempt", "on_timeout", "ttl_seconds", "callback_url", "digest", "created_at", "created_by", "created_by_id",
    "due_at", "auto_approval", "warnings", "payload", "title", "question", "search", "purged_at",
    "counts_as", "agent_id_claimed",
]  # fmt: skip
MOVES = ["status", "decision", "updated_at", "ended_at", "ended_by", "result", "version", "head", "comments", "votes"]
KIND = {name: column.type.python_type for name, column in metadata.tables["assent_breakpoints"].columns.items()}


async def refused(node: Node, statement: str, **params: Any) -> None:
    with pytest.raises(REFUSALS):
        await node.assent.database.write(lambda tx: tx.session.write(statement, [params]))


async def ended(node: Node) -> str:
    """Return an approved breakpoint with an answer and comments."""
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, ttlSeconds=60)
    use_case = partial(
        node.assent[BreakpointService].comment, breakpoint_id=breakpoint_id, comment="Why?", by=AGENT, once=None
    )
    await node.assent.database.write(use_case)
    await respond(node, breakpoint_id, ann, comment="Yes.", option=None)
    return breakpoint_id


def test_every_column_of_a_breakpoint_is_either_fixed_or_mutable() -> None:
    assert set(FIXED) | set(MOVES) == set(KIND)


@pytest.mark.parametrize("column", FIXED)
async def test_a_breakpoints_content_never_changes(node: Node, column: str) -> None:
    breakpoint_id = await create(node)
    value = 5 if KIND[column] is int else "x"
    await refused(
        node, f"UPDATE assent_breakpoints SET {column} = :value WHERE id = :id", value=value, id=breakpoint_id
    )


@pytest.mark.parametrize("column", [*FIXED, *MOVES])
async def test_an_ended_breakpoint_never_changes(node: Node, column: str) -> None:
    breakpoint_id = await ended(node)
    value = 5 if KIND[column] is int else "rejected" if column == "decision" else "expired"
    before = await rows(node, "SELECT * FROM assent_breakpoints WHERE id = :id", id=breakpoint_id)
    await refused(
        node, f"UPDATE assent_breakpoints SET {column} = :value WHERE id = :id", value=value, id=breakpoint_id
    )
    assert await rows(node, "SELECT * FROM assent_breakpoints WHERE id = :id", id=breakpoint_id) == before


async def test_an_ended_breakpoint_cannot_be_reopened(node: Node) -> None:
    breakpoint_id = await ended(node)
    reopen = """
        UPDATE assent_breakpoints
        SET status = 'waiting', decision = NULL, ended_by = NULL, ended_at = NULL, result = NULL WHERE id = :id"""
    await refused(node, reopen, id=breakpoint_id)
    await refused(node, "UPDATE assent_breakpoints SET decision = 'rejected' WHERE status = 'released'")


EVENT_CHANGES = {
    "breakpoint_id": "'bp_other'", "seq": "9", "type": "'expired'", "actor": "'eve'", "at": "at + 1",
    "metadata": "'{}'", "previous": "'x'", "hash": "'x'",
}  # fmt: skip


@pytest.mark.parametrize("column", EVENT_CHANGES)
async def test_events_are_never_changed(node: Node, column: str) -> None:
    await ended(node)
    await refused(node, f"UPDATE assent_events SET {column} = {EVENT_CHANGES[column]}")


STUB = '{"purged":"' + "a" * 64 + '"}'


async def test_an_event_cannot_be_blanked_before_its_breakpoint_is_purged(node: Node) -> None:
    await ended(node)
    await refused(node, "UPDATE assent_events SET metadata = :stub WHERE type = 'commented'", stub=STUB)


@pytest.mark.parametrize("table", ["breakpoints", "events", "responses", "comments"])
async def test_rows_are_never_deleted(node: Node, table: str) -> None:
    await ended(node)
    before = await rows(node, f"SELECT count(*) FROM assent_{table}")
    await refused(node, f"DELETE FROM assent_{table}")
    if node.assent.database.dialect == "postgresql":
        await refused(node, f"TRUNCATE assent_{table} CASCADE")
    assert await rows(node, f"SELECT count(*) FROM assent_{table}") == before


async def test_events_are_never_replaced(node: Node) -> None:
    breakpoint_id = await ended(node)
    insert = """
        INSERT {or_replace} INTO assent_events (breakpoint_id, seq, type, actor, at, metadata, previous, hash)
        VALUES (:id, 2, 'warned', 'eve', 1, '{{}}', '', '') {on_conflict}"""
    upsert = "ON CONFLICT (breakpoint_id, seq) DO UPDATE SET actor = excluded.actor"
    await refused(node, insert.format(or_replace="", on_conflict=upsert), id=breakpoint_id)
    if node.assent.database.dialect == "sqlite":
        await refused(node, insert.format(or_replace="OR REPLACE", on_conflict=""), id=breakpoint_id)
        whole = "INSERT OR REPLACE INTO assent_breakpoints SELECT * FROM assent_breakpoints WHERE id = :id"
        await refused(node, whole, id=breakpoint_id)


@pytest.mark.parametrize(
    "change",
    ["approved = 0", "person = 'eve'", "at = at + 1", "first_at = 1", "via = 'x'", "comment = 'No.'", "comment = NULL",
     "option = 'x'", "answers = '{}'", "edits = '{}'", "seat = 'x'", "in_place_of = '[\"x\"]'", "override = 1",
     "digest = 'x'"],
)  # fmt: skip
async def test_an_answer_to_an_ended_breakpoint_never_changes(node: Node, change: str) -> None:
    await ended(node)
    await refused(node, f"UPDATE assent_responses SET {change}")


async def test_an_ended_breakpoint_cannot_be_answered(node: Node) -> None:
    breakpoint_id = await ended(node)
    bob = await person(node, "bob", "reviewer")
    answer = """
        INSERT INTO assent_responses
          (breakpoint_id, person_id, person, approved, at, first_at, via, in_place_of, override)
        VALUES (:id, :person, 'bob', 1, 1, 1, 'api', '[]', 0)"""
    await refused(node, answer, id=breakpoint_id, person=bob.id)
    waiting = await create(node)
    await node.assent.database.write(lambda tx: tx.session.write(answer, [{"id": waiting, "person": bob.id}]))
    moved = "UPDATE assent_responses SET breakpoint_id = :id WHERE breakpoint_id = :waiting"
    await refused(node, moved, id=breakpoint_id, waiting=waiting)


@pytest.mark.parametrize("change", ["comment = 'x'", "comment = ''", "author = 'eve'", "created_at = 1"])
async def test_comments_are_never_changed(node: Node, change: str) -> None:
    await ended(node)
    await refused(node, f"UPDATE assent_comments SET {change}")


async def test_an_answer_can_change_until_the_decision_is_made(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    await person(node, "bob", "reviewer")
    breakpoint_id = await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all"})
    await respond(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, ann, approved=False)
    assert await rows(node, "SELECT approved FROM assent_responses") == [(0,)]


async def test_a_purge_can_only_remove_content(node: Node) -> None:
    """A forged purge can neither change the outcome nor purge a waiting breakpoint."""
    breakpoint_id = await ended(node)
    waiting = await create(node)
    blank = "payload = '{}', title = NULL, question = NULL, search = '', purged_at = 5"
    for more in ("", ", decision = 'rejected'", ", version = version + 1, result = '{}'", ", version = version + 1"):
        await refused(node, f"UPDATE assent_breakpoints SET {blank}{more} WHERE id = :id", id=breakpoint_id)
    lie = f"UPDATE assent_breakpoints SET {blank}, version = version + 1, result = :result WHERE id = :id"
    result = '{"approved":false,"status":"released","decision":"approved","auto":false}'
    await refused(node, lie, id=breakpoint_id, result=result)
    await refused(node, f"UPDATE assent_breakpoints SET {blank} WHERE id = :id", id=waiting)
    some = lie.replace("title = NULL", "title = 'x'")
    await refused(node, some, id=breakpoint_id, result=result.replace("false", "true", 1))


async def test_a_purged_breakpoint_never_changes(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await ended(node)
    await node.assent.database.write(
        partial(node.assent[PeopleService].put_policy, policy={"retentionDays": 1}, by=ADMIN)
    )
    clock.advance(2 * DAY)
    assert await node.assent.database.write(RetentionService().purge_due) == 1
    for change in ("payload = '{}'", "purged_at = NULL", "purged_at = 5", "result = NULL", "title = 'x'"):
        await refused(node, f"UPDATE assent_breakpoints SET {change} WHERE id = :id", id=breakpoint_id)
    await refused(node, "UPDATE assent_events SET metadata = :stub WHERE type = 'commented'", stub=STUB)
    await refused(node, "UPDATE assent_events SET metadata = '{}' WHERE type = 'created'")
    await refused(node, "UPDATE assent_responses SET approved = 0")
    await refused(node, "UPDATE assent_comments SET comment = 'x'")


async def test_a_hold_can_be_lifted_but_not_changed(node: Node) -> None:
    hold = await node.assent.database.write(
        lambda tx: node.assent[RetentionService].place(tx, by=ADMIN, reason="Court.")
    )
    await refused(node, "DELETE FROM assent_holds")
    for change in ("reason = 'x'", "placed_at = 1", "placed_by = 'x'", "breakpoint_id = 'x'", "lifted_at = 1"):
        await refused(node, f"UPDATE assent_holds SET {change}")
    await node.assent.database.write(lambda tx: node.assent[RetentionService].lift(tx, hold.id, by=ADMIN))
    await refused(node, "UPDATE assent_holds SET lifted_at = NULL, lifted_by = NULL")


async def shadowed(node: Node) -> tuple[str, str]:
    """Return a shadow rule that matched a breakpoint, and a removed rule."""
    made = await node.assent.database.write(adding(node, "*", "auto-approve", mode="shadow"))
    gone = await node.assent.database.write(adding(node, "x", "never-auto-approve"))
    await node.assent.database.write(partial(node.assent[RuleService].remove, rule_id=gone.id, by=RITA))
    await create(node)
    return made.id, gone.id


RULE_COLUMNS = {name: column.type.python_type for name, column in metadata.tables["assent_rules"].columns.items()}
ORIGIN = ["id", "project_id", "source", "created_by", "created_at"]


@pytest.mark.parametrize("column", ORIGIN)
async def test_a_rules_origin_never_changes(node: Node, column: str) -> None:
    made, _ = await shadowed(node)
    value = 5 if RULE_COLUMNS[column] is int else "x"
    await refused(node, f"UPDATE assent_rules SET {column} = :value WHERE id = :id", value=value, id=made)


@pytest.mark.parametrize("column", RULE_COLUMNS)
async def test_a_removed_rule_never_changes(node: Node, column: str) -> None:
    made, gone = await shadowed(node)
    change = f"UPDATE assent_rules SET {column} = :value WHERE id = :id"
    value = 5 if RULE_COLUMNS[column] is int else "x"
    await refused(node, change, value=value, id=gone)
    if column not in ORIGIN:
        await node.assent.database.write(lambda tx: tx.session.write(change, [{"value": value, "id": made}]))


RULE_EVENT_CHANGES = {
    "rule_id": "'rule-x'", "seq": "9", "type": "'rule-removed'", "actor": "'eve'", "at": "at + 1",
    "metadata": "'{}'", "previous": "'x'", "hash": "'x'",
}  # fmt: skip
SHADOW_CHANGES = {
    "rule_id": "'rule-x'", "breakpoint_id": "'bp_x'", "rule_version": "9", "recommended": "1 - recommended",
    "at": "at + 1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        *(("rule_events", *each) for each in RULE_EVENT_CHANGES.items()),
        *(("shadows", *each) for each in SHADOW_CHANGES.items()),
    ],
)
async def test_rule_events_and_shadow_results_never_change(node: Node, table: str, column: str, value: str) -> None:
    await shadowed(node)
    await refused(node, f"UPDATE assent_{table} SET {column} = {value}")


def test_every_column_of_rule_events_and_shadow_results_is_tested() -> None:
    assert set(RULE_EVENT_CHANGES) == set(metadata.tables["assent_rule_events"].columns.keys())
    assert set(SHADOW_CHANGES) == set(metadata.tables["assent_shadows"].columns.keys())


@pytest.mark.parametrize("table", ["rules", "rule_events", "shadows"])
async def test_rules_and_their_records_are_never_deleted(node: Node, table: str) -> None:
    await shadowed(node)
    before = await rows(node, f"SELECT count(*) FROM assent_{table}")
    await refused(node, f"DELETE FROM assent_{table}")
    if node.assent.database.dialect == "postgresql":
        await refused(node, f"TRUNCATE assent_{table} CASCADE")
    else:
        await refused(node, f"INSERT OR REPLACE INTO assent_{table} SELECT * FROM assent_{table}")
    assert await rows(node, f"SELECT count(*) FROM assent_{table}") == before
    assert before[0][0] > 0


async def test_every_lock_trigger_that_the_audit_expects_exists(node: Node) -> None:
    def names(tx: Transaction) -> set[str]:
        statement = (
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            if tx.session.dialect == "sqlite"
            else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
        )
        return {row[0] for row in tx.session.all(statement, {}) if row[0].startswith("assent_")}

    assert await node.assent.database.read(names) == LOCKS[node.assent.database.dialect]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("leaves", "hash = 'x'"),
        ("leaves", "position = position + 1"),
        ("nodes", "hash = 'x'"),
        ("checkpoints", "note = 'x'"),
        ("checkpoint_keys", "public_key = 'x'"),
    ],
)
async def test_the_log_and_its_checkpoints_are_never_changed_or_deleted(node: Node, table: str, change: str) -> None:
    await create(node)
    await node.assent.database.write(node.assent[CheckpointService].make)
    node_row = "INSERT INTO assent_nodes (level, n, hash) VALUES (8, 0, 'x')"
    await node.assent.database.write(lambda tx: tx.session.write(node_row, [{}]))
    before = await rows(node, f"SELECT * FROM assent_{table}")
    assert before
    await refused(node, f"UPDATE assent_{table} SET {change}")
    await refused(node, f"DELETE FROM assent_{table}")
    if node.assent.database.dialect == "postgresql":
        await refused(node, f"TRUNCATE assent_{table} CASCADE")
    assert await rows(node, f"SELECT * FROM assent_{table}") == before
