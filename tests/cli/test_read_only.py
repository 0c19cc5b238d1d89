"""Inspecting a read-only copy of the data without changing it."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent.audit.usecases.checkpoints import CheckpointService
from assent.kernel.settings import Settings
from tests.audit.usecases.living import live
from tests.cli.commands import COMMAND, environment, here
from tests.support.nodes import ManualClock, Node, running_node, server
from tests.support.tampering import unlocked

LOOKING = {
    "audit verify": ("audit", "verify"),
    "audit events": ("audit", "events", "--kind", "all"),
    "audit keys": ("audit", "keys"),
    "audit proof": ("audit", "proof", "{subject}"),
    "audit consistency": ("audit", "consistency", "1"),
    "audit export": ("audit", "export", "{folder}/exported.jsonl"),
    "fsck": ("fsck",),
}
BOUND_BY_MODES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Without these capabilities, file modes also apply to root, which can still start our interpreter."""
ALONE = ("unshare", "--mount", "--propagation=private")
MOUNTED_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


async def lived(node: Node, clock: ManualClock) -> dict[str, str]:
    lives = await live(node, clock)
    await node.assent.database.write(node.assent[CheckpointService].make)
    return lives.ids


@pytest.fixture
def copy(sqlite_settings: Settings) -> Iterator[Settings]:
    """The data of a stopped server with its key file, in one database file without a write-ahead log."""

    async def run() -> None:
        clock = ManualClock()
        async with running_node(sqlite_settings, clock=clock) as node:
            await lived(node, clock)

    asyncio.run(run())
    assert not log_of(sqlite_settings).exists()
    assert sqlite_settings.key_path.exists()
    with writable_again(sqlite_settings):
        yield sqlite_settings


@pytest.fixture
def copy_with_log(sqlite_settings: Settings, tmp_path: Path) -> Iterator[tuple[Settings, int]]:
    """A copy of a running server's data with every change still in the write-ahead log, and its breakpoint count."""
    taken = Settings(data_dir=tmp_path / "copy")
    taken.data_dir.mkdir()

    async def run() -> int:
        clock = ManualClock()
        async with running_node(sqlite_settings, clock=clock) as node:
            raised = len(await lived(node, clock))
            for end in ("", "-wal"):
                shutil.copy(f"{sqlite_settings.sqlite_path}{end}", taken.data_dir)
        return raised

    raised = asyncio.run(run())
    assert rows_without_log(taken) == 0
    with writable_again(taken):
        yield taken, raised


@contextlib.contextmanager
def writable_again(settings: Settings) -> Iterator[None]:
    try:
        yield
    finally:
        settings.data_dir.chmod(0o700)


def log_of(settings: Settings) -> Path:
    return Path(f"{settings.sqlite_path}-wal")


def immutable(settings: Settings) -> sqlite3.Connection:
    return sqlite3.connect(f"{settings.sqlite_path.as_uri()}?immutable=1", uri=True)


def rows_without_log(settings: Settings) -> int:
    with contextlib.closing(immutable(settings)) as opened:
        return int(opened.execute("SELECT count(*) FROM assent_breakpoints").fetchone()[0])


def seal(settings: Settings) -> None:
    """Turn the data into an auditor's copy: read-only, and with an unreadable key file."""
    for each in settings.data_dir.iterdir():
        each.chmod(0o444)
    if settings.key_path.exists():
        settings.key_path.chmod(0o000)
    settings.data_dir.chmod(0o555)


def state(settings: Settings) -> dict[str, tuple[int, int, int]]:
    """Return the state that would differ if a command had written to a file or created another one."""
    found = {each.name: each.stat() for each in (settings.data_dir, *settings.data_dir.iterdir())}
    return {name: (each.st_mode, each.st_size, each.st_mtime_ns) for name, each in found.items()}


def looked(settings: Settings, command: str, *before: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user to whom file modes apply."""
    subject = ""
    if "{subject}" in LOOKING[command]:
        with contextlib.closing(immutable(settings)) as opened:
            subject = opened.execute("SELECT id FROM assent_breakpoints").fetchone()[0]
    arguments = [each.format(subject=subject, folder=settings.data_dir.parent) for each in LOOKING[command]]
    return subprocess.run(
        [*before, *BOUND_BY_MODES, *COMMAND, *arguments, "--json", "--data", str(settings.data_dir)],
        env=environment(**env),
        cwd=settings.data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", LOOKING)
def test_inspection_commands_work_on_a_read_only_copy_without_changing_it(copy: Settings, command: str) -> None:
    expected = said(looked(copy, command))
    for written in copy.data_dir.parent.glob("exported.jsonl"):
        written.unlink()
    seal(copy)
    before = state(copy)

    done = looked(copy, command)

    assert said(done) == expected
    assert done.stderr == ""
    assert state(copy) == before


@pytest.mark.parametrize("command", ["audit verify", "fsck"])
def test_a_copy_on_a_read_only_mount_can_be_inspected(copy: Settings, command: str) -> None:
    mounted = (*ALONE, "sh", "-c", MOUNTED_READ_ONLY, str(copy.data_dir))
    if subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this account may not mount anything")
    before = state(copy)

    assert said(looked(copy, command, *mounted))["ok"] is True
    assert state(copy) == before


@pytest.mark.parametrize("command", ["audit verify", "fsck"])
def test_tampering_with_a_read_only_copy_is_detected(copy: Settings, command: str) -> None:
    with unlocked(copy) as opened:
        opened.run("UPDATE assent_events SET actor = 'person:eve'")
    seal(copy)

    done = looked(copy, command)

    assert done.returncode == 1
    assert "its hash does not match its content" in done.stdout


def test_an_unmerged_write_ahead_log_is_read_from_a_temporary_copy(
    copy_with_log: tuple[Settings, int], tmp_path: Path
) -> None:
    copy, raised = copy_with_log
    seal(copy)
    room = tmp_path / "room"
    room.mkdir()
    before = state(copy)

    verified = looked(copy, "audit verify", TMPDIR=str(room))
    checked = looked(copy, "fsck", TMPDIR=str(room))

    assert (said(verified)["breakpoints"], said(verified)["ok"], said(checked)["ok"]) == (raised, True, True)
    for done in (verified, checked):
        assert f"{copy.data_dir} is read-only and contains changes" in done.stderr
        assert f"a temporary copy in {room}" in done.stderr
    assert list(room.iterdir()) == []
    assert state(copy) == before


def test_tampering_in_the_write_ahead_log_is_detected(copy: Settings, tmp_path: Path) -> None:
    taken = Settings(data_dir=tmp_path / "copy")
    taken.data_dir.mkdir()
    with unlocked(copy) as opened:
        opened.run("UPDATE assent_events SET actor = 'person:eve'")
        for end in ("", "-wal"):
            shutil.copy(f"{copy.sqlite_path}{end}", taken.data_dir)
    with writable_again(taken):
        seal(taken)
        done = looked(taken, "audit verify")

    assert done.returncode == 1
    assert "its hash does not match its content" in done.stdout


def test_a_copy_that_does_not_fit_on_the_disk_is_reported(copy_with_log: tuple[Settings, int]) -> None:
    copy, _ = copy_with_log
    seal(copy)
    limited = ("prlimit", "--fsize=100000")

    done = looked(copy, "audit verify", *limited)

    assert (done.returncode, done.stdout) == (1, "")
    told = " ".join(done.stderr.split())
    assert f"Error: {copy.sqlite_path} is read-only, so it must be copied before it can be read." in told
    assert "The copy failed: File too large. Set TMPDIR" in told


def test_root_also_respects_read_only_file_modes(copy: Settings) -> None:
    """Runs with all capabilities, if available, because read-only data is evidence that even root must not change."""
    seal(copy)
    before = state(copy)

    assert here("audit", "verify", "--data", str(copy.data_dir)).exit_code == 0
    assert state(copy) == before


def test_an_older_read_only_copy_must_be_copied_before_migrating(copy: Settings) -> None:
    with unlocked(copy) as opened:
        opened.run("UPDATE assent_version SET version_num = '0001'")
    seal(copy)
    before = state(copy)

    done = looked(copy, "audit verify")

    assert (done.returncode, done.stdout) == (1, "")
    assert "The schema is at version 0001" in done.stderr
    assert f"It must be migrated, but {copy.data_dir} is read-only. Copy the directory" in done.stderr
    assert "assent migrate --data COPY" in done.stderr
    assert state(copy) == before


def test_data_in_use_by_a_server_cannot_be_inspected_with_read_access_only(copy: Settings) -> None:
    with server(copy):
        copy.sqlite_path.chmod(0o444)
        done = looked(copy, "audit verify")
        copy.sqlite_path.chmod(0o600)

    assert (done.returncode, done.stdout) == (1, "")
    assert "A server (pid " in done.stderr
    assert f"is using the data in {copy.data_dir}" in done.stderr


@pytest.mark.parametrize("arguments", [("audit", "checkpoint"), ("audit", "rotate-key"), ("hold", "list")])
def test_commands_that_write_are_rejected_on_a_read_only_copy(copy: Settings, arguments: tuple[str, ...]) -> None:
    seal(copy)
    before = state(copy)

    done = subprocess.run(
        [*BOUND_BY_MODES, *COMMAND, *arguments, "--data", str(copy.data_dir)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert f"The data in {copy.data_dir} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert state(copy) == before
