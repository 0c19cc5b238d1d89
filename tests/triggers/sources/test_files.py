"""Watched files: related changes are one event, touching a file is not a change, and downtime loses no changes."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from assent.core.errors import InvalidRequest
from assent.triggers.event import Arrived, Trust
from assent.triggers.ports import Watcher
from assent.triggers.sources import snapshots
from assent.triggers.sources.registry import KINDS, Way
from assent.triggers.sources.snapshots import Wanted, rescan, scan
from tests.triggers.sources.desks import PlainDesk, tools, watched


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "specs"
    made.mkdir()
    (made / "one.md").write_text("one")
    return made


def source(folder: Path, **settings: Any) -> Watcher:
    made = KINDS["files"].make({"path": str(folder), "quiet": "1s"} | settings, tools(folder.parent))
    return cast("Watcher", made)


def through_json(desk: PlainDesk) -> PlainDesk:
    """Return a desk that has only the stored state, as after a restart."""
    return PlainDesk(kept=msgspec.json.decode(msgspec.json.encode(desk.kept)), keys=desk.keys)


async def told(desk: PlainDesk) -> tuple[Any, Any, Any]:
    """Wait for an event, and return its added, changed and removed files."""
    return _parts(await desk.next())


def _parts(arrived: Arrived) -> tuple[Any, Any, Any]:
    data: Any = arrived.data
    return data["added"], data["changed"], data["removed"]


async def test_a_burst_of_2000_files_in_new_folders_is_one_event(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder, quiet="2s"), desk):
        for n in range(2_000):
            place = folder / f"team{n % 20}" / f"part{n % 7}" / "deep"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{n}.md").write_text(str(n))
        for n in range(50):
            (folder / "draft").write_text(str(n))
            (folder / "draft").rename(folder / f"moved{n}.md")
        arrived = await desk.next()
        (folder / "one.md").write_text("after")
        assert await told(desk) == ([], ["one.md"], [])
    added, changed, removed = _parts(arrived)
    assert (len(added), changed, removed) == (2_050, [], [])
    data: Any = arrived.data
    assert data["count"] == 2_050
    assert arrived.view["paths"] == added[:1_000] == sorted(added)[:1_000]


async def test_an_event_lists_added_changed_and_removed_files(folder: Path) -> None:
    (folder / "two.md").write_text("two")
    desk = PlainDesk()
    async with watched(source(folder), desk):
        assert desk.told.empty(), "the first scan must not report anything"
        (folder / "sub").mkdir()
        (folder / "sub" / "new file.md").write_text("new")
        (folder / "one.md").write_text("changed")
        (folder / "two.md").unlink()
        arrived = await desk.next()
    assert _parts(arrived) == (["sub/new file.md"], ["one.md"], ["two.md"])
    assert arrived.view == {"paths": ["one.md", "sub/new file.md", "two.md"]}
    assert (arrived.type, arrived.subject, arrived.verified) == ("fs.changed", "specs", "local")
    assert arrived.trust is Trust.TRUSTED
    assert (arrived.mark, arrived.window) == (None, None)


async def test_touching_a_file_reports_nothing(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        os.utime(folder / "one.md", (1, 1))
        (folder / "other.md").write_text("new")
        assert await told(desk) == (["other.md"], [], [])


async def test_the_same_change_at_another_time_is_a_new_event(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        keys: set[str] = set()
        for _ in range(2):
            shutil.move(folder / "one.md", folder.parent / "away")
            arrived = await desk.next()
            assert _parts(arrived) == ([], [], ["one.md"])
            keys.add(arrived.key)
            shutil.move(folder.parent / "away", folder / "one.md")
            arrived = await desk.next()
            assert _parts(arrived) == (["one.md"], [], [])
            keys.add(arrived.key)
    assert len(keys) == 4


async def test_changes_during_downtime_are_reported_once(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        pass
    (folder / "while down.md").write_text("x")
    (folder / "one.md").write_text("changed")
    again = through_json(desk)
    async with watched(source(folder), again):
        assert await told(again) == (["while down.md"], ["one.md"], [])
    last = through_json(again)
    async with watched(source(folder), last):
        assert last.told.empty()


async def test_an_event_that_was_not_stored_is_reported_again(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk) as task:
        desk.failing = RuntimeError("the store is down")
        (folder / "new.md").write_text("x")
        with pytest.raises(RuntimeError, match="store is down"):
            await task
    async with watched(source(folder), desk):
        assert await told(desk) == (["new.md"], [], [])


async def test_catchup_none_ignores_changes_made_during_downtime(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        pass
    (folder / "while down.md").write_text("x")
    async with watched(source(folder, catchup="none"), desk):
        (folder / "now.md").write_text("x")
        assert await told(desk) == (["now.md"], [], [])


async def test_changing_the_filters_starts_with_a_new_silent_scan(folder: Path) -> None:
    (folder / "two.txt").write_text("x")
    desk = PlainDesk()
    async with watched(source(folder, include=["*.md"]), desk):
        pass
    async with watched(source(folder), desk):
        assert desk.told.empty()
        (folder / "three.txt").write_text("x")
        assert await told(desk) == (["three.txt"], [], [])


async def test_include_and_exclude_patterns_select_the_files(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder, include=["**/*.md"], exclude=["drafts/"]), desk):
        for path in ("drafts/a.md", "deep/b.md", "deep/c.txt", "node_modules/x/d.md", ".git/e.md", "e.md~"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(path)
        assert await told(desk) == (["deep/b.md"], [], [])


async def test_default_exclusions_can_be_overridden(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder, exclude=["!node_modules/"]), desk):
        (folder / "node_modules" / "x").mkdir(parents=True)
        (folder / "node_modules" / "x" / "a.js").write_text("x")
        assert await told(desk) == (["node_modules/x/a.js"], [], [])


async def test_moving_a_folder_reports_its_files_as_added_and_removed(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "deep.md").write_text("x")
    desk = PlainDesk()
    async with watched(source(folder), desk):
        (folder / "a").rename(folder / "z")
        assert await told(desk) == (["z/b/deep.md"], [], ["a/b/deep.md"])
        shutil.move(folder / "z", folder.parent / "outside")
        assert await told(desk) == ([], [], ["z/b/deep.md"])


async def test_polling_also_reports_files_in_new_folders(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder, poll=True), desk):
        (folder / "sub").mkdir()
        (folder / "sub" / "new.md").write_text("x")
        assert await told(desk) == (["sub/new.md"], [], [])


async def test_a_missing_folder_is_reported_as_not_found(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Folder not found"):
        await source(folder / "missing").watch(PlainDesk())


async def test_a_folder_that_disappears_is_an_error_and_its_files_are_not_reported(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk) as task:
        shutil.move(folder, folder.parent / "elsewhere")
        with pytest.raises(FileNotFoundError, match="Folder not found"):
            await task
    assert desk.told.empty()


async def test_a_folder_that_replaces_the_watched_one_is_watched_instead(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        newer = folder.parent / "newer"
        newer.mkdir()
        (newer / "one.md").write_text("one")
        (newer / "two.md").write_text("two")
        shutil.move(folder, folder.parent / "older")
        shutil.move(newer, folder)
        assert await told(desk) == (["two.md"], [], [])
        (folder / "three.md").write_text("three")
        assert await told(desk) == (["three.md"], [], [])


async def test_a_folder_that_is_missing_only_briefly_is_not_an_error(folder: Path) -> None:
    """The folder disappears as soon as it is watched, and a different one takes its place."""
    older, newer = folder.parent / "older", folder.parent / "newer"
    shutil.copytree(folder, newer)
    (newer / "two.md").write_text("two")

    class Movers(PlainDesk):
        async def watching(self) -> None:
            if not older.exists():
                shutil.move(folder, older)
            await super().watching()

    desk = Movers()
    async with watched(source(folder), desk):
        # These checks queue behind the source's own check in the thread pool, so the source finds the folder missing.
        for _ in range(10):
            assert not await asyncio.to_thread(folder.exists)
        shutil.move(newer, folder)
        assert await told(desk) == (["two.md"], [], [])


async def test_declared_writes_of_a_run_are_attributed_to_it(folder: Path) -> None:
    desk = PlainDesk(writers={str(folder / "a.md"): "run_1", str(folder / "b.md"): "run_1"})
    async with watched(source(folder), desk):
        (folder / "a.md").write_text("x")
        (folder / "b.md").write_text("x")
        assert (await desk.next()).mark == "run_1"
        (folder / "a.md").write_text("y")
        (folder / "one.md").write_text("somebody else")
        assert (await desk.next()).mark is None


async def test_changes_reported_by_another_node_are_not_reported_again(folder: Path) -> None:
    desk = PlainDesk()
    async with watched(source(folder), desk):
        other = PlainDesk()
        async with watched(source(folder), other):
            (folder / "new.md").write_text("x")
            await other.next()
        # The other node stored its state first, so its memory is the current one and its event already exists.
        await desk.next()
        desk.kept, desk.stolen = other.kept, 1
        (folder / "later.md").write_text("x")
        assert await told(desk) == (["later.md"], [], [])


async def test_symbolic_links_are_reported_but_not_followed(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("x")
    desk = PlainDesk()
    async with watched(source(folder), desk):
        (folder / "link").symlink_to(outside)
        assert await told(desk) == (["link"], [], [])
        (outside / "secret.md").write_text("changed")
        (folder / "new.md").write_text("x")
        assert await told(desk) == (["new.md"], [], [])


def test_undecodable_file_names_can_be_stored(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.md")).write_text("x")
    (folder / 'quo"te\nline.md').write_text("x")
    found = scan(folder, Wanted((), ()), {})
    assert set(found) == {"one.md", "b\\xff.md", 'quo"te\nline.md'}
    assert snapshots.read(msgspec.json.decode(msgspec.json.encode(found))) == found


def test_a_partial_scan_finds_the_same_files_as_a_full_scan(folder: Path) -> None:
    wanted = Wanted((), ("left/",))
    (folder / "a").mkdir()
    (folder / "a" / "x").write_text("x")
    known = scan(folder, wanted, {})
    shutil.rmtree(folder / "a")
    (folder / "a").write_text("now a file")
    (folder / "one.md").unlink()
    (folder / "one.md").mkdir()
    (folder / "one.md" / "inside").write_text("x")
    (folder / "left").mkdir()
    (folder / "left" / "y").write_text("x")
    paths = [str(folder / each) for each in ("a", "one.md", "left", "left/y", "never/was")]
    assert rescan(folder, wanted, known, paths) == scan(folder, wanted, {})


def test_large_files_are_compared_by_size_and_time(folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(snapshots.LARGE + 1)
    before = scan(folder, Wanted((), ()), {})
    assert before["large"][2] == ""
    os.utime(folder / "large", (1, 1))
    assert snapshots.difference(before, scan(folder, Wanted((), ()), before)).changed == ["large"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "/settings/path"),
        ({"path": 5}, "/settings/path"),
        ({"path": ".", "quiet": "0s"}, "/settings/quiet"),
        ({"path": ".", "quiet": "2h"}, "/settings/quiet"),
        ({"path": ".", "poll": "yes"}, "/settings/poll"),
        ({"path": ".", "catchup": "all"}, "changed, none"),
        ({"path": ".", "include": [3]}, "/settings/include/0"),
        ({"path": ".", "exclude": ["!"]}, "/settings/exclude"),
        ({"path": ".", "incude": ["*.md"]}, "is not one of"),
        ({"path": ".", "trust": "blind"}, "/settings/trust"),
        ({"path": ".", "host": ""}, "/settings/host"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        KINDS["files"].make(settings, tools())


def test_the_files_source_is_a_watcher() -> None:
    assert KINDS["files"].way is Way.WATCH


async def test_files_written_by_several_runs_are_attributed_to_all_of_them(folder: Path) -> None:
    """Otherwise, two runs of one trigger that write at the same time would keep triggering each other."""
    desk = PlainDesk(writers={str(folder / "a.md"): "run_1", str(folder / "b.md"): "run_2"})
    async with watched(source(folder), desk):
        (folder / "a.md").write_text("x")
        (folder / "b.md").write_text("x")
        assert (await desk.next()).marks == ("run_1", "run_2")
