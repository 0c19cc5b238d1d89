"""`assent hooks` in real repositories: hooks are installed next to existing ones and removed without a trace."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assent.triggers.sources import git_hooks, git_spool
from tests.cli.commands import here
from tests.triggers.sources.repositories import Repository, repository

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


def test_uninstalling_hooks_restores_the_repository(work: Repository) -> None:
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


def test_a_bare_repository_gets_a_post_receive_hook(work: Repository) -> None:
    bare = Repository(work.folder.parent / "remote.git")
    assert states(hooks("install", bare)) == {"post-receive": "installed"}
    work.git("push", "-q", "origin", "main")
    assert hooks("status", bare)["waiting"] == 1


@pytest.mark.parametrize("content", OWN.values(), ids=OWN)
def test_an_existing_hook_still_runs_and_is_restored_byte_for_byte(work: Repository, content: bytes) -> None:
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
def test_an_existing_hook_still_receives_its_standard_input(work: Repository, shell: str) -> None:
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
def test_an_existing_hook_can_still_reject_a_change(work: Repository, code: int) -> None:
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
def test_a_hook_that_cannot_be_edited_safely_is_left_unchanged(
    work: Repository, content: bytes, mode: int, why: str
) -> None:
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


def test_a_manually_added_line_enables_the_hook(work: Repository) -> None:
    put(work, "post-merge", b"#!/usr/bin/env bash\n# lefthook\n")
    (left, _) = hooks("install", work, code=1)["hooks"]
    put(work, "post-merge", f"#!/usr/bin/env bash\n# lefthook\n{left['line']}\n".encode())
    assert hooks("status", work)["installed"]
    work.git("checkout", "-q", "-b", "topic")
    work.commit("A topic")
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "topic")
    assert hooks("status", work)["waiting"] == 1


def test_a_symlinked_hook_is_left_unchanged(work: Repository) -> None:
    script = work.folder / "script.sh"
    script.write_bytes(OWN["plain"])
    script.chmod(0o755)
    path = work.hook("post-merge")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(script)
    assert states(hooks("install", work, code=1))["post-merge"] == "foreign"
    assert script.read_bytes() == OWN["plain"]


def test_a_custom_hooks_path_is_used_but_never_changed(work: Repository) -> None:
    work.git("config", "core.hooksPath", ".githooks")
    (work.folder / ".githooks").mkdir()
    hooks("install", work)
    assert (work.folder / ".githooks" / "post-merge").is_file()
    work.git("push", "-q", "origin", "main")
    assert hooks("status", work)["waiting"] == 1
    hooks("uninstall", work)
    assert list((work.folder / ".githooks").iterdir()) == []
    assert work.git("config", "core.hooksPath").stdout == ".githooks\n"


def test_hooks_managed_by_husky_are_left_unchanged(work: Repository) -> None:
    work.git("config", "core.hooksPath", ".husky/_")
    (work.folder / ".husky" / "_").mkdir(parents=True)
    report = hooks("install", work, code=1)
    assert set(states(report).values()) == {"foreign"}
    assert list((work.folder / ".husky" / "_").iterdir()) == []
    for each in report["hooks"]:
        (work.folder / ".husky" / each["name"]).write_text(each["line"] + "\n")
    assert hooks("status", work)["installed"]


def test_a_shared_hooks_folder_records_only_repositories_that_installed_hooks(work: Repository, tmp_path: Path) -> None:
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


def test_unread_events_are_kept_when_hooks_are_uninstalled(work: Repository) -> None:
    hooks("install", work)
    work.git("push", "-q", "origin", "main")
    assert hooks("uninstall", work)["waiting"] == 1
    assert "1 unread event is kept in" in here("hooks", "uninstall", "--repo", str(work.folder)).output


def test_lines_that_others_added_to_our_hook_are_kept(work: Repository) -> None:
    hooks("install", work)
    path = work.hook("post-merge")
    path.write_bytes(path.read_bytes() + b"echo more\n")
    hooks("uninstall", work)
    assert path.read_bytes() == b"#!/bin/sh\necho more\n"


def test_a_folder_that_is_not_a_repository_is_reported(tmp_path: Path) -> None:
    done = here("hooks", "install", "--repo", str(tmp_path))
    assert done.exit_code == 1
    assert "Cannot read a Git repository" in done.output


@pytest.fixture
def newer_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Git that stores hooks in its configuration and can list them, as version 2.54 and later do."""
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
def test_in_newer_git_versions_hooks_are_installed_in_the_configuration(work: Repository) -> None:
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
