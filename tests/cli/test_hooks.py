"""`assent hooks`: put into real repositories beside what is there, and taken out without a trace."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assent.sources import git_hooks, git_spool
from tests.cli.commands import here
from tests.sources.repositories import Repository, repository

OWN = {
    "plain": b"#!/bin/sh\necho mine >>ran\n",
    "no line break at the end": b"#!/bin/sh\necho mine >>ran",
    "only a first line": b"#!/bin/bash",
    "strict": b"#!/usr/bin/env -S sh\n".replace(b"-S ", b"") + b"set -eu\n\n\necho mine >>ran\n",
    "flags": b"#!/bin/sh -eu\necho mine >>ran\n\n",
}


@pytest.fixture
def work(tmp_path: Path) -> Repository:
    remote = repository(tmp_path / "remote.git", bare=True)
    made = repository(tmp_path / "work")
    made.commit("first")
    made.git("remote", "add", "origin", str(remote.folder))
    return made


def hooks(command: str, repo: Repository, *, code: int = 0) -> Any:
    done = here("hooks", command, "--repo", str(repo.folder), "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def put(repo: Repository, name: str, content: bytes, mode: int = 0o755) -> Path:
    path = repo.hook(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def files(repo: Repository) -> dict[str, tuple[bytes, int]]:
    folder = repo.hook("x").parent
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {each.name: (each.read_bytes(), stat.S_IMODE(each.stat().st_mode)) for each in found}


def states(report: Any) -> dict[str, str]:
    return {each["name"]: each["state"] for each in report["hooks"]}


def test_hooks_go_in_and_out_again(work: Repository) -> None:
    before = files(work)
    assert states(hooks("status", work, code=1)) == {"post-merge": "missing", "reference-transaction": "missing"}
    report = hooks("install", work)
    assert report["installed"]
    assert states(report) == {"post-merge": "installed", "reference-transaction": "installed"}
    installed = files(work)
    assert {mode for name, (_, mode) in installed.items() if name not in before} == {0o755}
    hooks("install", work)
    assert files(work) == installed
    hooks("status", work)
    hooks("uninstall", work)
    assert files(work) == before
    assert not work.spool.exists()
    assert not (work.folder / ".git" / "assent-hook").exists()


def test_a_bare_repository_gets_the_hook_that_runs_there(work: Repository) -> None:
    bare = Repository(work.folder.parent / "remote.git")
    assert states(hooks("install", bare)) == {"post-receive": "installed"}
    work.git("push", "-q", "origin", "main")
    assert hooks("status", bare)["waiting"] == 1


@pytest.mark.parametrize("content", OWN.values(), ids=OWN)
def test_somebody_elses_hook_runs_as_before_and_is_byte_for_byte_the_same_afterwards(
    work: Repository, content: bytes
) -> None:
    path = put(work, "post-merge", content, 0o750)
    hooks("install", work)
    hooks("install", work)
    assert path.read_bytes().count(git_hooks.BEGIN) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    work.git("checkout", "-q", "-b", "topic")
    work.commit("A topic")
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "topic")
    assert len(git_spool.waiting(work.spool)) == 1
    assert (work.folder / "ran").exists() == (b"mine" in content)
    hooks("uninstall", work)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash -eu"])
def test_a_hook_that_reads_what_it_is_told_still_reads_it(work: Repository, shell: str) -> None:
    bare = Repository(work.folder.parent / "remote.git")
    put(bare, "post-receive", f"#!{shell}\ncat >received\n".encode())
    put(work, "reference-transaction", f'#!{shell}\n[ "$1" = committed ] || exit 0\ncat >>"$PWD/moved"\n'.encode())
    hooks("install", bare)
    hooks("install", work)
    for n in range(40):
        work.git("branch", f"branch-{n}-{'x' * 150}")
    (work.folder / "moved").unlink()
    work.git("push", "-q", "--all", "origin")
    received = (bare.folder / "received").read_text()
    assert len(received.splitlines()) == 41
    assert len(received) > 8_000
    assert received.endswith("refs/heads/main\n")
    assert len((work.folder / "moved").read_text().splitlines()) == 41
    (record,) = git_spool.waiting(bare.spool)
    assert record.read_text() == f"post-receive\n{received}"


@pytest.mark.parametrize("code", [0, 1])
def test_a_hook_that_refuses_still_refuses(work: Repository, code: int) -> None:
    put(work, "reference-transaction", f'#!/bin/sh\n[ "$1" != prepared ] || exit {code}\n'.encode())
    hooks("install", work)
    assert (work.git("branch", "new", check=False).returncode == 0) == (code == 0)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"#!/usr/bin/env python3\nprint('mine')\n", 0o755, "not a shell script"),
        (b"\x7fELF\x00\x01binary", 0o755, "not a shell script"),
        (b"#!/bin/sh\r\necho mine\r\n", 0o755, "not a shell script"),
        (b"#!/bin/sh\necho mine\n", 0o644, "not executable"),
        (b'#!/bin/sh\ncall_lefthook run "post-merge" "$@"\n', 0o755, "lefthook manages it"),
        (
            b"#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n",
            0o755,
            "pre-commit manages it",
        ),
    ],
)
def test_a_hook_that_is_not_ours_to_change_is_left_alone(work: Repository, content: bytes, mode: int, why: str) -> None:
    path = put(work, "post-merge", content, mode)
    report = hooks("install", work, code=1)
    assert states(report) == {"post-merge": "foreign", "reference-transaction": "installed"}
    (left,) = [each for each in report["hooks"] if each["state"] == "foreign"]
    assert why in left["note"]
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (content, mode)
    done = here("hooks", "status", "--repo", str(work.folder))
    assert left["line"] in done.stdout
    hooks("uninstall", work)
    assert path.read_bytes() == content


def test_the_line_that_is_added_by_hand_works(work: Repository) -> None:
    put(work, "post-merge", b"#!/usr/bin/env bash\n# lefthook\n")
    (left, _) = hooks("install", work, code=1)["hooks"]
    put(work, "post-merge", f"#!/usr/bin/env bash\n# lefthook\n{left['line']}\n".encode())
    assert hooks("status", work)["installed"]
    work.git("checkout", "-q", "-b", "topic")
    work.commit("A topic")
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "topic")
    assert hooks("status", work)["waiting"] == 1


def test_a_link_to_somebody_elses_file_is_left_alone(work: Repository) -> None:
    script = work.folder / "script.sh"
    script.write_bytes(OWN["plain"])
    script.chmod(0o755)
    path = work.hook("post-merge")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(script)
    assert states(hooks("install", work, code=1))["post-merge"] == "foreign"
    assert script.read_bytes() == OWN["plain"]


def test_a_hooks_folder_of_ones_own_is_used_and_never_set(work: Repository) -> None:
    work.git("config", "core.hooksPath", ".githooks")
    (work.folder / ".githooks").mkdir()
    hooks("install", work)
    assert (work.folder / ".githooks" / "post-merge").is_file()
    work.git("push", "-q", "origin", "main")
    assert hooks("status", work)["waiting"] == 1
    hooks("uninstall", work)
    assert list((work.folder / ".githooks").iterdir()) == []
    assert work.git("config", "core.hooksPath").stdout == ".githooks\n"


def test_hooks_that_husky_looks_after_are_left_alone(work: Repository) -> None:
    work.git("config", "core.hooksPath", ".husky/_")
    (work.folder / ".husky" / "_").mkdir(parents=True)
    report = hooks("install", work, code=1)
    assert set(states(report).values()) == {"foreign"}
    assert list((work.folder / ".husky" / "_").iterdir()) == []
    for each in report["hooks"]:
        (work.folder / ".husky" / each["name"]).write_text(each["line"] + "\n")
    assert hooks("status", work)["installed"]


def test_one_hooks_folder_for_many_repositories_tells_only_of_those_that_asked(
    work: Repository, tmp_path: Path
) -> None:
    shared = tmp_path / "shared hooks"
    other = repository(tmp_path / "other")
    for each in (work, other):
        each.git("config", "core.hooksPath", str(shared))
    other.commit("first")
    hooks("install", work)
    other.git("push", "-q", str(tmp_path / "remote.git"), "HEAD:refs/heads/other")
    other.git("checkout", "-q", "-b", "topic")
    other.commit("A topic")
    other.git("checkout", "-q", "main")
    other.git("merge", "-q", "topic")
    assert not other.spool.exists()


def test_what_was_not_told_yet_stays_when_hooks_go(work: Repository) -> None:
    hooks("install", work)
    work.git("push", "-q", "origin", "main")
    assert hooks("uninstall", work)["waiting"] == 1
    assert "1 unread event is kept in" in here("hooks", "uninstall", "--repo", str(work.folder)).output


def test_what_others_added_to_our_hook_stays(work: Repository) -> None:
    hooks("install", work)
    path = work.hook("post-merge")
    path.write_bytes(path.read_bytes() + b"echo more\n")
    hooks("uninstall", work)
    assert path.read_bytes() == b"#!/bin/sh\necho more\n"


def test_a_folder_that_is_no_repository_is_said(tmp_path: Path) -> None:
    done = here("hooks", "install", "--repo", str(tmp_path))
    assert done.exit_code == 1
    assert "Cannot read a Git repository" in done.output


@pytest.fixture
def newer_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that keeps hooks in its configuration, as from 2.54 on: what it lists is what is configured."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / "git").write_text(
        f"""#!/bin/sh
case " $* " in
*" version "*) echo "git version 2.54.1" ;;
*" hook list "*) for last; do :; done
    {real} -C "$2" config --get-regexp 'hook\\..*\\.event' "^$last\\$" | sed 's/^hook\\.//; s/\\.event .*//' ;;
*) exec {real} "$@" ;;
esac
"""
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.usefixtures("newer_git")
def test_a_newer_git_has_the_hooks_in_its_configuration(work: Repository) -> None:
    path = put(work, "post-merge", OWN["plain"])
    before, config = files(work), (work.folder / ".git" / "config").read_text()
    assert hooks("install", work)["installed"]
    hooks("install", work)
    assert files(work) == before
    assert work.git("config", "--get-all", "hook.assent-post-merge.event").stdout == "post-merge\n"
    command = work.git("config", "hook.assent-post-merge.command").stdout.strip()
    work.commit("second")
    work.git("update-ref", "ORIG_HEAD", "HEAD~1")
    subprocess.run(["sh", "-c", f'{command} "$@"', "git", "0"], cwd=work.folder, check=True)
    (record,) = git_spool.waiting(work.spool)
    assert git_spool.read(record).moves[0].new == work.head()
    record.unlink()
    hooks("uninstall", work)
    assert (work.folder / ".git" / "config").read_text() == config
    assert path.read_bytes() == OWN["plain"]
