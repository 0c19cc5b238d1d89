"""Malicious repositories: Assent does not write through their links or execute programs they specify."""

import os
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from assent.triggers.ports import Watcher
from assent.triggers.sources import git_hooks, git_spool
from assent.triggers.sources.git_commands import git, place, plainly, version
from assent.triggers.sources.registry import KINDS
from tests.triggers.sources.desks import PlainDesk, tools, watched
from tests.triggers.sources.repositories import Repository, repository


@pytest.fixture
def work(tmp_path: Path) -> Repository:
    made = repository(tmp_path / "work")
    made.commit("first")
    git_hooks.install(made.folder)
    return made


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious.txt"
    path.write_text("do not touch")
    return path


def source(work: Repository) -> Watcher:
    made: Any = KINDS["git"].make({"path": str(work.folder)}, tools())
    return cast("Watcher", made)


async def refused(work: Repository) -> str:
    async with watched(source(work), PlainDesk()) as task:
        assert task.done()
        return str(task.exception())


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
async def test_locking_a_spool_does_not_overwrite_linked_files(work: Repository, precious: Path, link: Any) -> None:
    (work.spool / ".lock").unlink(missing_ok=True)
    link(work.spool / ".lock", precious)
    assert "was not created by Assent" in await refused(work)
    assert precious.read_text() == "do not touch"  # noqa: ASYNC240  # blocking the loop is harmless in a test


async def test_another_programs_lock_file_is_not_changed(work: Repository) -> None:
    (work.spool / ".lock").write_text("somebody's notes")
    assert "was not created by Assent" in await refused(work)
    assert (work.spool / ".lock").read_text() == "somebody's notes"


async def test_a_lock_file_that_is_a_pipe_does_not_block(work: Repository) -> None:
    (work.spool / ".lock").unlink(missing_ok=True)
    os.mkfifo(work.spool / ".lock")
    assert "was not created by Assent" in await refused(work)


async def test_the_lock_file_of_an_earlier_source_is_taken_over(work: Repository) -> None:
    (work.spool / ".lock").write_text("src_0123456789abcdef")
    desk = PlainDesk()
    async with watched(source(work), desk):
        assert desk.begun.is_set()
        assert (work.spool / ".lock").read_text() == desk.source_id


async def test_a_symlinked_spool_is_not_used(work: Repository, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("do not touch")
    git_hooks.uninstall(work.folder)
    spool = place(work.folder).spool
    spool.symlink_to(theirs)
    assert "not installed" in await refused(work)
    with pytest.raises(OSError, match="is a symbolic link"):
        git_hooks.install(work.folder)
    git_hooks.uninstall(work.folder)
    assert (theirs / "file").read_text() == "do not touch"


def signed_commit(work: Repository) -> str:
    """Write a signed commit, for which Git would run a program specified by the repository."""
    text = work.git("cat-file", "commit", "HEAD").stdout
    head, _, message = text.partition("\n\n")
    body = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n\n{message}"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=work.folder,
        input=body,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(work.folder.parent)},
    )
    return made.stdout.strip()


def test_programs_specified_by_a_repository_are_never_run(work: Repository, tmp_path: Path) -> None:
    ran, program = tmp_path / "ran", tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    signed = signed_commit(work)
    work.git("config", "log.showSignature", "true")
    for name in ("gpg.program", "core.fsmonitor", "core.pager", "pager.log", "diff.external", "core.sshCommand"):
        work.git("config", name, str(program))
    first = work.head()
    for run in (git, plainly):
        assert run(work.folder, "log", "-1", "--format=%cn%x00%s", signed, "--")
        assert run(work.folder, "rev-parse", "HEAD")
    git(work.folder, "diff-tree", "-r", "-z", "--name-only", "--no-ext-diff", "--no-textconv", first, signed, "--")
    assert place(work.folder).name == "work"
    assert version(work.folder) > (0, 0)
    assert not ran.exists()


def test_containers_with_identical_process_ids_write_separate_records(work: Repository, tmp_path: Path) -> None:
    """Each container numbers its own processes, so two processes can have the same ID in the same second."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "date").write_text("#!/bin/sh\necho 1800000000\n")
    (programs / "date").chmod(0o755)
    script = (work.folder / ".git" / "assent-hook").read_text().replace("$$", "7")
    moved = f"{'0' * 40} {work.head()} refs/remotes/origin/main\n"
    for _ in range(3):
        subprocess.run(
            ["sh", "-c", script, "assent-hook", "reference-transaction", "committed"],
            cwd=work.folder,
            input=moved,
            text=True,
            check=True,
            env={"PATH": f"{programs}:{os.environ['PATH']}"},
        )
    found = [git_spool.read(each) for each in git_spool.waiting(work.spool)]
    assert [each.at for each in found] == [1_800_000_000_000_000] * 3
    assert [each.name for each in work.spool.iterdir() if each.name.startswith(".1")] == []
