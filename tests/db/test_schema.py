"""The migrations produce exactly the defined tables, and the database also enforces the domain rules."""

import sqlite3
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from assent.db import migrations
from assent.db.tables import metadata
from assent.db.transaction import Transaction
from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.db.making import AGENT, create, person, rows
from tests.support.nodes import Node

FULL_TEXT = {"assent_search", "ix_assent_breakpoint_words_search"}
REFUSALS = (sqlite3.IntegrityError, psycopg.IntegrityError)


def engine_of(settings: Settings) -> sa.Engine:
    if settings.database_url:
        return sa.create_engine(
            settings.database_url.replace("postgresql://", "postgresql+psycopg://", 1), poolclass=sa.NullPool
        )
    return sa.create_engine(f"sqlite:///{settings.sqlite_path}", poolclass=sa.NullPool)


def belongs_to_full_text(name: str | None) -> bool:
    return name is not None and (name in FULL_TEXT or name.startswith("assent_search"))


def test_the_migrations_produce_exactly_the_defined_tables(settings: Settings) -> None:
    def ours(_: Any, name: str | None, kind: str, *__: Any) -> bool:
        if kind == "table" and not (name or "").startswith("assent_"):
            return False  # DBOS's tables, which are in the same file on SQLite
        return not (kind in {"table", "index"} and (belongs_to_full_text(name) or name == "assent_version"))

    with engine_of(settings).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_object": ours, "version_table": "assent_version"}
        )
        assert compare_metadata(context, metadata) == []


def checks(connection: sa.Connection) -> dict[str, set[str | None]]:
    inspector = sa.inspect(connection)
    return {
        table.name: {each["name"] for each in inspector.get_check_constraints(table.name)}
        for table in metadata.tables.values()
    }


def test_the_migrations_create_every_check_and_foreign_key(settings: Settings) -> None:
    with engine_of(settings).connect() as connection:
        found, inspector = checks(connection), sa.inspect(connection)
        for table in metadata.tables.values():
            named = {str(each.name) for each in table.constraints if isinstance(each, sa.CheckConstraint)}
            assert found[table.name] == named, table.name
            keys = {
                (fk["referred_table"], tuple(fk["constrained_columns"]))
                for fk in inspector.get_foreign_keys(table.name)
            }
            assert keys == {
                (each.referred_table.name, tuple(column.name for column in each.columns))
                for each in table.foreign_key_constraints
            }, table.name


def test_full_text_search_has_an_index(settings: Settings) -> None:
    with engine_of(settings).connect() as connection:
        if settings.database_url:
            statement = "SELECT 1 FROM pg_indexes WHERE indexname = 'ix_assent_breakpoint_words_search'"
        else:
            statement = "SELECT 1 FROM sqlite_master WHERE name = 'assent_search' AND sql LIKE '%fts5%'"
        assert connection.execute(sa.text(statement)).fetchall() == [(1,)]


def test_migrating_again_has_no_effect(settings: Settings) -> None:
    engine = engine_of(settings)
    assert migrations.current(engine) == migrations.newest()
    migrate(settings)
    assert migrations.current(engine) == migrations.newest()


async def refuse(node: Node, statement: str, **params: Any) -> None:
    def use_case(tx: Transaction) -> None:
        tx.session.write(statement, [params])

    with pytest.raises(REFUSALS):
        await node.assent.database.write(use_case)


END = """
    UPDATE assent_breakpoints
    SET status = :status, decision = :decision, ended_by = :by, ended_at = 1 WHERE id = :id"""


@pytest.mark.parametrize(
    ("status", "decision", "by"),
    [
        ("released", "approved", "agent:maker"),
        ("released", "approved", "agent:somebody-else"),
        ("released", "rejected", "agent:somebody-else"),
        ("released", "approved", "system:timeout"),
        ("released", "approved", "service:worker"),
        ("released", "approved", "ann"),
        ("released", "approved", None),
        ("released", None, "person:ann"),
        ("expired", "approved", "person:ann"),
        ("cancelled", "rejected", "person:ann"),
        ("waiting", "approved", "person:ann"),
        ("waiting", None, "person:ann"),
        ("approved", None, "person:ann"),
    ],
)
async def test_the_database_refuses_an_invalid_decision(
    node: Node, status: str, decision: str | None, by: str | None
) -> None:
    breakpoint_id = await create(node)
    await refuse(node, END, id=breakpoint_id, status=status, decision=decision, by=by)
    found = await rows(node, "SELECT status, decision FROM assent_breakpoints WHERE id = :id", id=breakpoint_id)
    assert found == [("waiting", None)]


@pytest.mark.parametrize("decision", ["approved", "rejected"])
async def test_the_database_refuses_a_decision_by_the_creator(node: Node, decision: str) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, by=ann)
    await refuse(node, END, id=breakpoint_id, status="released", decision=decision, by="person:ann")


async def test_the_database_refuses_an_unknown_decision(node: Node) -> None:
    breakpoint_id = await create(node)
    await refuse(node, END, id=breakpoint_id, status="released", decision="maybe", by="person:ann")


EVENT = """
    INSERT INTO assent_events (breakpoint_id, seq, type, actor, at, metadata, previous, hash)
    VALUES (:id, :seq, :type, :actor, 1, '{}', '', '')"""


@pytest.mark.parametrize("second", ["released", "expired", "cancelled"])
async def test_the_database_refuses_a_second_final_event(node: Node, second: str) -> None:
    breakpoint_id = await create(node)
    first: dict[str, Any] = {"id": breakpoint_id, "seq": 2, "type": "cancelled", "actor": "person:ann"}
    await node.assent.database.write(lambda tx: tx.session.write(EVENT, [first]))
    await refuse(node, EVENT, id=breakpoint_id, seq=3, type=second, actor="person:ann")


async def test_the_database_refuses_two_events_with_the_same_number(node: Node) -> None:
    breakpoint_id = await create(node)
    await refuse(node, EVENT, id=breakpoint_id, seq=1, type="commented", actor="person:ann")


RESPONSE = """
    INSERT INTO assent_responses (breakpoint_id, person_id, person, approved, at, first_at, via, in_place_of, override)
    VALUES (:id, :person, 'x', 1, 1, 1, 'api', '[]', 0)"""


@pytest.mark.parametrize("whose", [AGENT.id, "nobody", "", None])
async def test_the_database_refuses_a_response_without_a_person(node: Node, whose: str | None) -> None:
    breakpoint_id = await create(node)
    await refuse(node, RESPONSE, id=breakpoint_id, person=whose)


async def test_the_database_refuses_a_response_to_a_missing_breakpoint(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    await refuse(node, RESPONSE, id="bp_none", person=ann.id)


TOKEN = """
    INSERT INTO assent_tokens
      (id, project_id, kind, name, person_id, roles, gates, agent_ids, secret_hash, created_at, created_by)
    VALUES ('tok_x', 'default', :kind, 'x', :person, :roles, '["*"]', '["*"]', 'h', 1, 'me')"""


@pytest.mark.parametrize(
    ("kind", "with_person", "roles"),
    [
        ("agent", False, '["reviewer"]'),
        ("agent", True, "[]"),
        ("agent", True, '["reviewer"]'),
        ("service", False, '["admin"]'),
        ("person", False, '["reviewer"]'),
        ("robot", False, "[]"),
    ],
)
async def test_the_database_refuses_a_token_with_too_many_roles(
    node: Node,
    kind: str,
    with_person: bool,  # noqa: FBT001
    roles: str,
) -> None:
    ann = await person(node, "ann", "reviewer")
    await refuse(node, TOKEN, kind=kind, person=ann.id if with_person else None, roles=roles)


async def test_the_database_refuses_an_unknown_role(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    statement = "INSERT INTO assent_grants (person_id, project_id, role) VALUES (:id, 'default', 'god')"
    await refuse(node, statement, id=ann.id)
