"""Complete backups are restored in full; incomplete or damaged backups are rejected."""

import asyncio
import contextlib
import itertools
import random
import shutil
import sqlite3
import stat
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assent.audit.usecases.verify import AuditService
from assent.core.canonical import GENESIS, link
from assent.db.backup import verified_heads
from assent.db.backup.archive import Damaged, Manifest, Refused, Writer, opened
from assent.kernel.settings import Settings
from tests.db.making import adding
from tests.db.places import asked, empty_place, every_row, lived, lived_by_rules, quietly, restore, save
from tests.support.nodes import Node, running_node

SEED = 7373
RULES = {"assent_rules", "assent_rule_events", "assent_shadows"}
CONSISTENT = {
    "every breakpoint has its events": """
        SELECT b.id FROM assent_breakpoints b
        WHERE b.version <> (SELECT count(*) FROM assent_events e WHERE e.breakpoint_id = b.id)""",
    "every decision has its event": """
        SELECT b.id FROM assent_breakpoints b WHERE (b.status <> 'waiting') <> EXISTS (
          SELECT 1 FROM assent_events e
          WHERE e.breakpoint_id = b.id AND e.type IN ('released','expired','cancelled'))""",
    "every vote has its answer": """
        SELECT b.id FROM assent_breakpoints b
        WHERE b.votes <> (SELECT count(*) FROM assent_responses r WHERE r.breakpoint_id = b.id)""",
    "every label has the status of its breakpoint": """
        SELECT b.id FROM assent_breakpoints b JOIN assent_labels l ON l.id = b.id WHERE l.status <> b.status""",
}


@pytest.fixture(params=["empty", "migrated"])
def fresh(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path, postgres_url: str) -> Iterator[Settings]:
    """Settings for an empty database of the same kind as `settings`, either without tables or with empty tables."""
    migrated = request.param == "migrated"
    template = request.getfixturevalue("postgres_template") if migrated else None
    with empty_place(settings, tmp_path, postgres_url, template=template) as place:
        if migrated and not place.database_url:
            place.data_dir.mkdir()
            shutil.copy(request.getfixturevalue("sqlite_template"), place.sqlite_path)
        yield place


@pytest.fixture
def archive(settings: Settings, tmp_path: Path) -> Path:
    async def live() -> None:
        async with running_node(settings) as node:
            await lived(node)
            await lived_by_rules(node)

    asyncio.run(live())
    save(settings, tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


@contextlib.asynccontextmanager
async def under_load(node: Node) -> AsyncIterator[asyncio.Event]:
    """Create, comment on and decide breakpoints continuously; the event is set once some data exists."""
    going, begun = True, asyncio.Event()
    agent, reviewer = await node.token("agent"), await node.token("reviewer")

    async def work(worker: int) -> None:
        for n in itertools.count():
            if not going:
                return
            payload = {"question": "?", "tags": ["x"], "expert": "owner"}
            made = await node.create(agent, title=f"{worker} {n}", payload=payload)
            await node.feedback(made["id"], agent, comment="Well?")
            if n % 2:
                await node.feedback(made["id"], reviewer, release=True)
            if n > 3:
                begun.set()

    workers = [asyncio.create_task(work(n)) for n in range(4)]
    await begun.wait()
    try:
        yield begun
    finally:
        going = False
        await asyncio.gather(*workers)


def assert_no_gaps(titles: list[str]) -> None:
    """Check that each worker's breakpoints are numbered without gaps, because a worker creates them sequentially."""
    for worker in range(4):
        numbers = sorted(int(title.split()[1]) for title in titles if title.startswith(f"{worker} "))
        assert numbers == list(range(len(numbers)))
        assert numbers


async def test_everything_is_restored_row_for_row(settings: Settings, archive: Path, fresh: Settings) -> None:
    restore(fresh, archive)

    assert every_row(fresh) == every_row(settings)
    async with running_node(fresh) as node:
        await node.create(await node.token("agent"))


async def test_restored_rules_continue_to_apply(archive: Path, fresh: Settings) -> None:
    """A node must use the restored rules instead of those it has cached."""
    restore(fresh, archive)

    there = {name: found for name, found in every_row(fresh).items() if name.rpartition(".")[2] in RULES}
    assert {len(found) for found in there.values()} == {1, 2, 3}
    async with running_node(fresh) as node:
        assert (await node.assent[AuditService].verify()).findings == []
        payload = {"question": "Again?", "breakpointId": "routine.check"}
        assert (await node.create(payload=payload))["status"] == "waiting", "the rule was removed before the backup"
        await node.assent.database.write(adding(node, "routine.*"))
        assert (await node.create(payload=payload))["status"] == "released"


async def test_a_backup_under_load_is_a_consistent_snapshot(
    settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    async with running_node(settings) as node, under_load(node):
        for n in range(2):
            await asyncio.to_thread(save, settings, tmp_path / f"{n}.tar")
            await node.create(title="between")
    last = every_row(settings)
    for n in range(2):
        with empty_place(settings, tmp_path / str(n), postgres_url) as place:
            restore(place, tmp_path / f"{n}.tar")
            found = every_row(place)
            for name in last:
                # Append-only tables can only have grown since the backup; other tables may have changed in any way.
                if name.rpartition(".")[2] in {"assent_events", "assent_comments", "assent_people", "assent_grants"}:
                    assert set(found[name]) <= set(last[name]), name
            async with running_node(place) as node:
                for what, statement in CONSISTENT.items():
                    assert await asked(node, statement) == [], what
                titles = [title for (title,) in await asked(node, "SELECT title FROM assent_breakpoints")]
            assert titles.count("between") == n
            assert_no_gaps(titles)


async def test_after_a_restore_tokens_work_and_waits_continue(
    settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    async with running_node(settings) as node:
        agent, reviewer = await node.token("agent"), await node.token("reviewer")
        admin = await node.token("admin")
        open_ = await node.create(agent)
        secret = (await node.call("GET", "/api/projects/default/callback-secret", admin)).json()
        save(settings, tmp_path / "b.tar")
        await node.create(agent, title="After the backup")
    with empty_place(settings, tmp_path, postgres_url) as place:
        restore(place, tmp_path / "b.tar")
        if not place.database_url:
            shutil.copy(settings.key_path, place.key_path)
        async with running_node(place) as node:
            waiting = asyncio.create_task(node.call("GET", f"/api/breakpoints/{open_['id']}/status?wait=30", agent))
            await node.feedback(open_["id"], reviewer, release=True)
            assert (await waiting).json()["status"] == "released"
            assert (await node.call("GET", "/api/breakpoints", agent)).json()["items"][0]["id"] == open_["id"]
            assert (await node.call("GET", "/api/projects/default/callback-secret", admin)).json() == secret
            found = await node.call("GET", "/api/breakpoints?q=Deploy", agent)
            assert [each["id"] for each in found.json()["items"]] == [open_["id"]], "full-text search must work"


async def test_a_database_with_data_is_not_overwritten(
    settings: Settings, archive: Path, tmp_path: Path, postgres_url: str
) -> None:
    with empty_place(settings, tmp_path, postgres_url) as place:
        restore(place, archive)
        before = every_row(place)
        listed = sorted(place.data_dir.iterdir())
        with pytest.raises(Refused, match=r"already contains data|not empty"):
            restore(place, archive)
        assert every_row(place) == before
        assert sorted(place.data_dir.iterdir()) == listed


async def test_the_force_option_moves_existing_data_aside(sqlite_settings: Settings, tmp_path: Path) -> None:
    async with running_node(sqlite_settings) as node:
        await lived(node)
        save(sqlite_settings, tmp_path / "b.tar")
        with pytest.raises(Refused, match="Stop it"):
            restore(sqlite_settings, tmp_path / "b.tar", force=True)
        await lived(node)
    before = every_row(sqlite_settings)

    aside = restore(sqlite_settings, tmp_path / "b.tar", force=True)

    assert aside is not None
    assert len(every_row(sqlite_settings)["assent_breakpoints"]) == 2
    aside.rename(sqlite_settings.sqlite_path)
    assert every_row(sqlite_settings) == before


async def test_the_force_option_is_rejected_on_postgresql(postgres_settings: Settings, tmp_path: Path) -> None:
    save(postgres_settings, tmp_path / "b.tar")
    with pytest.raises(Refused, match="--force works only with SQLite"):
        restore(postgres_settings, tmp_path / "b.tar", force=True)


async def test_a_write_ahead_log_from_another_database_is_not_applied(
    sqlite_settings: Settings, tmp_path: Path
) -> None:
    save(sqlite_settings, tmp_path / "b.tar")
    place = sqlite_settings.model_copy(update={"data_dir": tmp_path / "left"})
    place.data_dir.mkdir()
    (place.data_dir / "assent.db-wal").write_bytes(b"frames")
    with pytest.raises(Refused, match="belongs to a different database"):
        restore(place, tmp_path / "b.tar")
    assert [each.name for each in place.data_dir.iterdir()] == ["assent.db-wal"]


def refused(place: Settings, damaged: Path) -> None:
    with pytest.raises(Damaged, match="incomplete or damaged"):
        restore(place, damaged)
    if not place.database_url:
        assert not place.data_dir.exists()


def test_a_flipped_bit_anywhere_is_detected_and_changes_nothing(
    settings: Settings, archive: Path, tmp_path: Path, postgres_url: str
) -> None:
    whole = archive.read_bytes()
    chosen = random.Random(SEED)
    with tarfile.open(archive) as tar:
        edges = [member.offset + at for member in tar for at in (0, 100, 124, 148, 257, 511)]
        edges += [member.offset_data + member.size for member in tar]
    offsets = {*edges, 0, len(whole) - 1, len(whole) - 1024, *(chosen.randrange(len(whole)) for _ in range(150))}
    damaged = tmp_path / "damaged.tar"
    with empty_place(settings, tmp_path, postgres_url) as place:
        before = every_row(place) if place.database_url else None
        for offset in sorted(offset for offset in offsets if offset < len(whole)):
            changed = bytearray(whole)
            changed[offset] ^= 1 << chosen.randrange(8)
            damaged.write_bytes(changed)
            refused(place, damaged)
        assert (every_row(place) if place.database_url else None) == before


def test_a_truncated_or_extended_archive_is_refused(
    settings: Settings, archive: Path, tmp_path: Path, postgres_url: str
) -> None:
    whole = archive.read_bytes()
    damaged = tmp_path / "damaged.tar"
    chosen = random.Random(SEED)
    lengths = [0, 1, 511, 512, 2047, 2048, 2560, len(whole) - 1, len(whole) - 512, len(whole) - 2048]
    with empty_place(settings, tmp_path, postgres_url) as place:
        for length in [*lengths, *(chosen.randrange(len(whole)) for _ in range(20))]:
            damaged.write_bytes(whole[:length])
            refused(place, damaged)
        for more in (b"\0", b"x" * 512, bytes(10_240)):
            damaged.write_bytes(whole + more)
            refused(place, damaged)


@pytest.mark.parametrize("content", [b"", b"not a tar", bytes(100_000), b"SQLite format 3\0" * 1000])
def test_a_file_that_is_not_a_backup_is_refused(sqlite_settings: Settings, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "strange").write_bytes(content)
    refused(sqlite_settings.model_copy(update={"data_dir": tmp_path / "new"}), tmp_path / "strange")


def forged(path: Path, manifest: Manifest, members: dict[str, bytes]) -> Path:
    """Write an archive with these contents and a correct checksum."""
    path.unlink(missing_ok=True)
    writer = Writer(path)
    for name, content in members.items():
        with writer.member(name) as write:
            write(content)
    writer.finish(manifest)
    writer.close()
    return path


def contents(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    with opened(path) as archive:
        return archive.manifest, {name: b"".join(archive.chunks(name)) for name in archive.manifest.members}


def test_an_archive_that_contradicts_its_manifest_is_refused_and_changes_nothing(
    settings: Settings, archive: Path, tmp_path: Path, postgres_url: str
) -> None:
    path = tmp_path / "forged.tar"
    with empty_place(settings, tmp_path, postgres_url) as place:
        before = every_row(place) if place.database_url else None
        for change in ("counts", "heads", "key_ids", "schema", "kind", "format"):
            manifest, members = contents(archive)
            wrong = {
                "counts": {**manifest.counts, next(iter(manifest.counts)): 10**6},
                "heads": "0" * 64,
                "key_ids": ["key_other"],
                "schema": "9999",
                "kind": "sqlite" if manifest.kind == "postgresql" else "postgresql",
                "format": 99,
            }
            setattr(manifest, change, wrong[change])
            with pytest.raises(Refused):
                restore(place, forged(path, manifest, members))
        assert (every_row(place) if place.database_url else None) == before
        if not place.database_url:
            assert not place.sqlite_path.exists()
        restore(place, forged(path, *contents(archive)))


async def test_an_inconsistent_history_is_neither_backed_up_nor_restored(
    sqlite_settings: Settings, tmp_path: Path
) -> None:
    async with running_node(sqlite_settings) as node:
        await lived(node)
    save(sqlite_settings, tmp_path / "good.tar")
    manifest, members = contents(tmp_path / "good.tar")
    with contextlib.closing(sqlite3.connect(sqlite_settings.sqlite_path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE assent_events SET actor = 'person:mallory' WHERE type = 'released'")
    with pytest.raises(Refused, match="is inconsistent"):
        save(sqlite_settings, tmp_path / "bad.tar")
    assert not (tmp_path / "bad.tar").exists()
    changed = {**members, "assent.db": sqlite_settings.sqlite_path.read_bytes()}
    with pytest.raises(Refused):
        restore(
            sqlite_settings.model_copy(update={"data_dir": tmp_path / "new"}),
            forged(tmp_path / "forged.tar", manifest, changed),
        )
    assert not (tmp_path / "new" / "assent.db").exists()


def events(*kinds: str) -> list[tuple[Any, ...]]:
    """Return a breakpoint's chain as rows read from a database."""
    previous, rows = GENESIS, []
    for seq, kind in enumerate(kinds, start=1):
        body = {"breakpointId": "bp_1", "seq": seq, "type": kind, "actor": "person:ann", "at": seq}
        stored = link(previous, body | {"metadata": {}})
        rows.append((seq, kind, "person:ann", seq, "{}", previous, stored))
        previous = stored
    return [("bp_1", previous, len(rows), *row) for row in rows]


def test_a_chain_must_be_complete_and_end_at_its_head() -> None:
    whole = events("created", "commented", "released")
    assert verified_heads(whole) == verified_heads(events("created", "commented", "released"))
    for broken in (whole[1:], whole[:-1], [whole[0], whole[2]], [whole[0], whole[2], whole[1]], [*whole, whole[-1]]):
        with pytest.raises(Refused, match="is inconsistent"):
            verified_heads(broken)
    for at, value in ((1, GENESIS), (2, 9), (5, "person:mallory"), (6, 99), (7, '{"x":1}'), (8, GENESIS[1:] + "1")):
        changed = [*whole[:1], (*whole[1][:at], value, *whole[1][at + 1 :]), *whole[2:]]
        if at in (1, 2):  # every row repeats the chain's head and length
            changed = [(*row[:at], value, *row[at + 1 :]) for row in whole]
        with pytest.raises(Refused, match="is inconsistent"):
            verified_heads(changed)
    with pytest.raises(Refused, match="is inconsistent"):
        verified_heads([("bp_1", GENESIS, 0, *[None] * 7)])


def test_a_purged_event_keeps_its_link_in_the_chain() -> None:
    whole = events("created", "commented", "released")
    stub = (*whole[1][:7], f'{{"purged":"{"0" * 64}"}}', *whole[1][8:])
    assert verified_heads([whole[0], stub, whole[2]]) == verified_heads(whole)
    with pytest.raises(Refused, match="is inconsistent"):
        verified_heads([whole[0], (*stub[:9], GENESIS), whole[2]])


def test_a_backup_gets_its_final_name_only_after_verification(settings: Settings, tmp_path: Path) -> None:
    names: list[list[str]] = []

    def watch(what: str, done: int, total: int) -> None:
        quietly(what, done, total)
        names.append([each.name for each in (tmp_path / "out").iterdir() if not each.name.startswith(".")])

    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "b.tar"
    save(settings, target, progress=watch)

    assert all(found == [] for found in names)
    assert list((tmp_path / "out").iterdir()) == [target]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("target", ["there.tar", "no/such/folder/b.tar"])
def test_a_backup_overwrites_nothing_and_leaves_no_partial_files(
    sqlite_settings: Settings, tmp_path: Path, target: str
) -> None:
    (tmp_path / "there.tar").write_text("precious")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Refused):
        save(sqlite_settings, tmp_path / target)
    assert (tmp_path / "there.tar").read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == before


def test_a_backup_of_missing_data_is_refused(tmp_path: Path, postgres_url: str, settings: Settings) -> None:
    with (
        empty_place(settings, tmp_path, postgres_url) as place,
        pytest.raises(Refused, match=r"does not contain (any data|Assent data)"),
    ):
        save(place, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


async def test_a_backup_does_not_block_writers(sqlite_settings: Settings, tmp_path: Path) -> None:
    """The lock is not held while pages are copied, so concurrent writes succeed."""
    written = threading.Event()
    loop = asyncio.get_running_loop()
    async with running_node(sqlite_settings) as node:
        await lived(node)
        agent = await node.token("agent")

        def watch(what: str, done: int, total: int) -> None:
            del done, total
            if what == "copying" and not written.is_set():
                asyncio.run_coroutine_threadsafe(node.create(agent), loop).result(30)
                written.set()

        await asyncio.to_thread(save, sqlite_settings, tmp_path / "b.tar", progress=watch)
    assert written.is_set()
    with opened(tmp_path / "b.tar") as archive:
        assert archive.manifest.counts["assent_breakpoints"] == 2


async def test_breakpoint_numbering_continues_after_a_restore(
    postgres_settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    async with running_node(postgres_settings) as node:
        await lived(node, rounds=3)
    save(postgres_settings, tmp_path / "b.tar")
    with empty_place(postgres_settings, tmp_path, postgres_url) as place:
        restore(place, tmp_path / "b.tar")
        async with running_node(place) as node:
            await node.create()
        assert place.database_url is not None
        with psycopg.connect(place.database_url) as connection:
            found = connection.execute("SELECT count(*), count(DISTINCT ordinal) FROM assent_breakpoints").fetchone()
            triggers = connection.execute("SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'").fetchone()
    assert found == (7, 7)
    assert triggers == (0,), "the lock triggers must be enabled again"


async def test_secrets_are_never_stored_in_plain_text_in_the_data_or_a_backup(
    settings: Settings, tmp_path: Path
) -> None:
    async with running_node(settings) as node:
        admin = await node.token("admin")
        page = (await node.call("POST", "/api/projects/default/callback-secret/rotate", admin)).json()
        page = (await node.call("POST", "/api/projects/default/callback-secret/rotate", admin)).json()
    save(settings, tmp_path / "b.tar")
    secrets = [each["secret"] for each in page["items"]]
    assert len(secrets) == 2
    places = [tmp_path / "b.tar", *settings.data_dir.glob("assent.db*")]
    for place in places:
        content = place.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content
            assert secret.removeprefix("whsec_").encode() not in content
            assert secret.encode().hex().encode() not in content
    keys = settings.key_path.read_text().split() if settings.key_path.exists() else []
    assert [key for key in keys if key.encode() in (tmp_path / "b.tar").read_bytes()] == []
