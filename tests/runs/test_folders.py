"""Process folders and run folders with odd names, broken links and changing files."""

import os
from collections.abc import Mapping
from pathlib import Path

from assent.core.canonical import sha256
from assent.runs.model import RunFile
from assent.runs.processes import FolderOfProcesses
from assent.runs.workspace import MOST_FILES, RunFolder

GOOD = "from assent import process\n@process\nasync def good(inputs, ctx): ...\n"


def test_an_unreadable_file_does_not_affect_other_processes(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / ".#good.py").symlink_to("somebody@somewhere.1234")
    (tmp_path / "gone.py").symlink_to("nowhere")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "nul.py").write_bytes(b"\x00")
    found = {each.file: each.problem for each in FolderOfProcesses(tmp_path).every()}
    assert found.pop("good.py") is None
    assert found.pop("nul.py") is not None
    assert found == {
        "gone.py": "cannot be read: No such file or directory",
        "folder.py": "cannot be read: Is a directory",
    }


def _folder(place: Path, kept: Mapping[str, bytes], *, most: int = MOST_FILES) -> RunFolder:
    async def fetch(path: str) -> bytes:
        return kept[path]

    return RunFolder(place, [RunFile(path, sha256(data), len(data)) for path, data in kept.items()], fetch, most=most)


async def test_a_file_replaced_by_a_folder_does_not_stop_the_run(tmp_path: Path) -> None:
    kept = {"out": b"first", "out/x": b"second", "other": b"third"}
    for place in (tmp_path / "same node", tmp_path / "another node"):
        if place.name == "same node":
            (place / "out").mkdir(parents=True)
        folder = _folder(place, kept)
        await folder.restore()
        assert (place / "other").read_bytes() == b"third"
        assert len(folder.take_problems()) == 1


async def test_only_regular_files_with_valid_names_are_stored(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {})
    await folder.restore()
    (tmp_path / "plain").write_bytes(b"1")
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "up").symlink_to("..")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"n\xff")).write_bytes(b"2")
    assert await folder.changes() == {"plain": b"1"}
    assert await folder.changes() == {}


async def test_a_stored_file_is_updated_even_at_the_file_limit(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {}, most=2)
    for name in "abc":
        (tmp_path / name).write_text("first")
    assert sorted(await folder.changes()) == ["a", "b"]
    (tmp_path / "a").write_text("second")
    assert await folder.changes() == {"a": b"second"}
    assert "'c'" in folder.take_problems()[0]
