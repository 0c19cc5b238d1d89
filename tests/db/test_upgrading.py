"""Data from every earlier version is upgraded without loss."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from assent.audit import chain_checks as audit
from assent.breakpoints.store.breakpoints import EVENT_COLUMNS, event_of, event_row
from assent.db import migrations
from assent.installation import migrate, schema
from assent.kernel.settings import Settings
from tests.cli.commands import here_json
from tests.db.test_schema import engine_of
from tests.faults.migrating import empty
from tests.support.keys import key_reference
from tests.support.nodes import Node, running_node
from tests.support.postgres import new_database

SCRIPTS = ScriptDirectory(str(Path(migrations.__file__).parent))
EARLIER = [each.revision for each in SCRIPTS.walk_revisions()][:0:-1]
FIRST_WITH_RULES = "0005"
FIRST_WITH_HOMES = "0015"
FIRST_WITH_COUNTS = "0016"
LAST_WITHOUT_WORDS = "0019"
PROJECTS = {"younger": 3, "older": 2}
"""Additional projects and their creation times."""
HOMES = {
    "nowhere": ("default", ()),
    "one": ("younger", ("younger",)),
    "two": ("older", ("younger", "older")),
    "all": ("*", ("older", "*")),
}
"""For each person from an earlier version: the expected home project, and the projects in which they have a role."""
Rows = dict[str, list[dict[str, Any]]]


async def lived(node: Node) -> None:
    """Create breakpoints with every outcome, with files, tags, experts and comments."""
    ann = await node.person("ann", "reviewer")
    bob = await node.person("bob", "reviewer")
    agent = await node.token("agent")
    files = {"files": [{"path": "plan.md", "format": "markdown", "content": "# Plan"}]}
    await node.create(tags=["prod"], payload={"question": "Still there?", "context": files})
    approved = await node.create(title="Größe ändern", tags=["prod", "web"], ttlSeconds=86_400)
    await node.feedback(approved["id"], bob, comment="Why?")
    await node.feedback(approved["id"], ann, approved=True, comment="Because.")
    rejected = await node.create(payload={"question": "Both?", "expert": ["ann", "bob"], "strategy": "collect-all"})
    await node.feedback(rejected["id"], ann, approved=True)
    await node.feedback(rejected["id"], bob, approved=False, comment="No.")
    half = await node.create(payload={"question": "All?", "expert": ["ann", "bob"], "strategy": "quorum"})
    await node.feedback(half["id"], ann, approved=True)
    cancelled, expired = await node.create(), await node.create()
    await node.call("POST", f"/api/breakpoints/{cancelled['id']}/cancel", agent, json={})
    await node.call("POST", f"/api/breakpoints/{expired['id']}/expire", await node.token("admin"), json={})


async def ruled(node: Node) -> None:
    admin = await node.token("admin")
    new = {"pattern": "confirm.*", "action": "auto-approve"}
    assert (await node.call("POST", "/api/rules", admin, json=new)).status_code == 201
    made = await node.create(payload={"question": "Sure?", "breakpointId": "confirm.it"})
    assert made["decision"] == "approved"


def rows_of(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name.startswith("assent_") and not name.startswith("assent_search") and name != "assent_version"
        ]
        return {name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Rows]:
    """Return the rows of a database with typical data, both without and with rules."""

    async def live(settings: Settings, *, rules: bool) -> None:
        async with running_node(settings) as node:
            await lived(node)
            if rules:
                await ruled(node)

    found: dict[bool, Rows] = {}
    for rules in (False, True):
        settings = Settings(data_dir=tmp_path_factory.mktemp("lived"), checkpoint_seconds=0)
        migrate(settings)
        asyncio.run(live(settings, rules=rules))
        found[rules] = rows_of(settings.sqlite_path)
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Yield settings for an empty database."""
    if request.param == "sqlite":
        with empty(None) as settings:
            yield settings
        return
    with new_database(request.getfixturevalue("postgres_url")) as url:
        yield Settings(data_dir=tmp_path, database_url=url, secret_keys=(key_reference(tmp_path),))


def without_counts(rows: Rows) -> Rows:
    """Return rows as written by a version whose events do not record which approvals count together."""
    assert not rows["assent_leaves"], "signed events cannot be changed"
    events: list[dict[str, Any]] = []
    heads: dict[str, str] = {}
    for row in sorted(rows["assent_events"], key=lambda row: (row["breakpoint_id"], row["seq"])):
        metadata = json.loads(row["metadata"])
        metadata.pop("countsAs", None)
        metadata.pop("agentIdClaimed", None)
        previous = str(heads.get(row["breakpoint_id"], row["previous"]))
        event = replace(event_of([row[name] for name in EVENT_COLUMNS]), metadata=metadata, previous=previous)
        heads[row["breakpoint_id"]] = audit._hash(event)
        events.append(row | event_row(replace(event, hash=heads[row["breakpoint_id"]])))
    breakpoints = [row | {"head": heads[row["id"]]} for row in rows["assent_breakpoints"]]
    return rows | {"assent_events": events, "assent_breakpoints": breakpoints}


def as_of(settings: Settings, version: str, rows: Rows) -> Rows:
    """Create the tables of a version, insert the rows that it supports, and return these rows."""
    settings.data_dir.mkdir(exist_ok=True)
    engine, old, put = engine_of(settings), sa.MetaData(), Rows()
    with engine.begin() as connection:
        migrations.upgrade_inside(connection, version)
        old.reflect(connection, only=lambda name, _: name.startswith("assent_") and "search" not in name)
        if settings.database_url:
            # Disable triggers, as a restore does, because the rows were valid when they were written.
            connection.execute(sa.text("SET session_replication_role = replica"))
        # Insert answers first, because a trigger rejects answers to an ended breakpoint.
        names = sorted(rows.keys() & old.tables.keys(), key=lambda name: (name != "assent_responses", name))
        for name in names:
            there = set(old.tables[name].columns.keys())
            put[name] = [{key: value for key, value in row.items() if key in there} for row in rows[name]]
            if "assent_admin_events" not in old.tables:
                put[name] = [row for row in put[name] if not str(row.get("subject_id")).startswith("adm_")]
            if name == "assent_unsigned_events":
                # On SQLite, a trigger has already added rows for the events inserted above.
                connection.execute(sa.delete(old.tables[name]))
            if put[name]:
                connection.execute(sa.insert(old.tables[name]), put[name])
        _number_on(connection, put)
    return put


def _number_on(connection: sa.Connection, put: Rows) -> None:
    """Update what the database derives from inserted rows: sequences and the full-text index."""
    if connection.dialect.name == "postgresql":
        sequence = "pg_get_serial_sequence('assent_breakpoints', 'ordinal')"
        connection.execute(sa.text(f"SELECT setval({sequence}, max(ordinal)) FROM assent_breakpoints"))
        return
    if "assent_breakpoint_words" in put:
        connection.execute(sa.text("INSERT INTO assent_search (assent_search) VALUES ('rebuild')"))
        return
    statement = sa.text("INSERT INTO assent_search (rowid, search) VALUES (:ordinal, :search)")
    for row in put["assent_breakpoints"]:
        connection.execute(statement, {"ordinal": row["ordinal"], "search": row["search"]})


def found_again(settings: Settings, put: Rows) -> None:
    tables = sa.MetaData()
    with engine_of(settings).connect() as connection:
        tables.reflect(connection, only=lambda name, _: name in put)
        for name, rows in put.items():
            stored = [dict(row._mapping) for row in connection.execute(sa.select(tables.tables[name]))]
            kept = [{key: row[key] for key in (rows[0] if rows else ())} for row in stored]
            assert sorted(map(_text, kept)) == sorted(map(_text, rows)), name


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=lambda value: bytes(value).hex())


@pytest.mark.parametrize("version", EARLIER)
def test_data_from_an_earlier_version_is_complete_after_the_upgrade(
    place: Settings, living: dict[bool, Rows], version: str
) -> None:
    rules = version >= FIRST_WITH_RULES
    put = as_of(place, version, living[rules] if version >= FIRST_WITH_COUNTS else without_counts(living[rules]))
    assert schema(place)[0] == version
    env = {"ASSENT_DATA_DIR": str(place.data_dir)} | (
        {"ASSENT_DATABASE_URL": place.database_url} if place.database_url else {}
    )
    done = here_json("migrate", **env)
    assert (done["before"], done["after"]) == (version, migrations.newest())
    found_again(place, put)
    assert here_json("audit", "verify", **env)["findings"] == []
    checks = here_json("fsck", **env)
    assert checks["ok"], checks
    asyncio.run(assert_usable(place, breakpoints=len(put["assent_breakpoints"])))


async def assert_usable(settings: Settings, *, breakpoints: int) -> None:
    """Check that pending breakpoints can be found and answered, and that new ones can be created."""
    async with running_node(settings) as node:
        admin, reviewer = await node.token("admin"), await node.token("reviewer")
        listed = (await node.call("GET", "/api/breakpoints?counts=true", admin)).json()
        assert sum(listed["counts"].values()) == breakpoints
        (waiting,) = (await node.call("GET", "/api/breakpoints?q=there&status=waiting", admin)).json()["items"]
        for q, found in (("größ änd", 1), ("web", 1), (waiting["id"], 1), (waiting["id"][:-1], 1), ("nosuch", 0)):
            items = (await node.call("GET", "/api/breakpoints", admin, params={"q": q})).json()["items"]
            assert len(items) == found, q
        answered = await node.feedback(waiting["id"], reviewer, approved=True)
        assert answered.json()["status"] == "released"
        await node.create()


class Interrupted(Exception):
    pass


def test_an_interrupted_migration_of_search_words_can_be_rerun(place: Settings, living: dict[bool, Rows]) -> None:
    put = as_of(place, LAST_WITHOUT_WORDS, living[True])

    def interrupt(*args: Any) -> None:
        if "INSERT INTO assent_breakpoint_words" in args[2]:
            raise Interrupted

    sa.event.listen(sa.Engine, "after_cursor_execute", interrupt)
    try:
        with pytest.raises(Interrupted):
            migrate(place)
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", interrupt)
    assert schema(place)[0] == LAST_WITHOUT_WORDS
    migrate(place)
    found_again(place, put)
    asyncio.run(assert_usable(place, breakpoints=len(put["assent_breakpoints"])))


def test_breakpoints_created_by_an_older_node_are_found_after_the_next_start(
    postgres_settings: Settings,
) -> None:
    async def created() -> None:
        async with running_node(postgres_settings) as node:
            await lived(node)

    asyncio.run(created())
    with engine_of(postgres_settings).begin() as connection:
        connection.execute(sa.text("DELETE FROM assent_breakpoint_words"))
    migrate(postgres_settings)
    asyncio.run(assert_usable(postgres_settings, breakpoints=6))


def test_data_from_a_newer_version_is_refused(settings: Settings) -> None:
    with engine_of(settings).begin() as connection:
        connection.execute(sa.text("UPDATE assent_version SET version_num = 'from_the_future'"))
    with pytest.raises(migrations.TooNew, match="from_the_future"):
        migrate(settings)


def test_the_upgrade_gives_every_person_a_home_project(place: Settings, living: dict[bool, Rows]) -> None:
    empty_project = {"policy": "{}", "owner_id": None, "rulebook": 0}
    projects = [{"id": name, "name": name, "created_at": at} | empty_project for name, at in PROJECTS.items()]
    rows = dict(living[False])
    rows["assent_projects"] = rows["assent_projects"] + projects
    made = {"password_hash": None, "email": None, "active": 1, "created_at": 1}
    rows["assent_people"] = rows["assent_people"] + [
        {"id": f"per_{name}", "name": name, "display_name": name, **made} for name in HOMES
    ]
    rows["assent_grants"] = rows["assent_grants"] + [
        {"person_id": f"per_{name}", "project_id": project, "role": "viewer"}
        for name, (_, granted) in HOMES.items()
        for project in granted
    ]
    before = SCRIPTS.get_revision(FIRST_WITH_HOMES).down_revision
    as_of(place, str(before), rows)
    migrate(place)
    with engine_of(place).connect() as connection:
        rows_found = connection.execute(sa.text("SELECT name, home_project FROM assent_people")).all()
    found = {str(name): str(home) for name, home in rows_found}
    assert {name: found[name] for name in HOMES} == {name: home for name, (home, _) in HOMES.items()}
    assert found["owner"] == "*"
