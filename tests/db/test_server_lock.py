"""One server per data directory: a process holds the lock until it ends."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.db import migrations
from assent.db.server_lock import DataInUse, ServerLock, holder_of
from assent.installation import migrate, serving_alone
from assent.kernel.settings import Settings
from tests.db.places import every_row

HOLDER = """
import os, sys
from pathlib import Path
from assent.db.server_lock import ServerLock
lock = ServerLock(Path(sys.argv[1]), Path(sys.argv[1]).with_name("assent.db"))
lock.describe("http://127.0.0.1:7373")
if sys.argv[2] == "forks" and os.fork() == 0:
    os.write(1, f"{os.getpid()}\\n".encode())
    sys.stdin.read()
    os._exit(0)
if sys.argv[2] == "stays":
    os.write(1, b"held\\n")
sys.stdin.read()
"""


@contextlib.contextmanager
def held_elsewhere(path: Path, how: str = "stays") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Hold the lock in another process; yield the process and its first line of output."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_the_error_for_a_second_server_contains_the_pid_and_address_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "assent.server.lock"
    with held_elsewhere(path) as (holder, _):
        before = path.read_bytes()
        with pytest.raises(DataInUse) as refused:
            ServerLock(path)
        assert f"pid {holder.pid}, http://127.0.0.1:7373" in refused.value.message
        assert "--data" in refused.value.message
        assert path.read_bytes() == before


def test_a_killed_server_releases_its_lock_and_its_details_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "assent.server.lock"
    with held_elsewhere(path) as (holder, _):
        holder.kill()
        holder.wait()
        assert holder_of(path) is None
        with ServerLock(path):
            found = holder_of(path)
            assert found is not None
            assert (found.pid, found.address) == (os.getpid(), None)
    assert holder_of(path) is None


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "assent.server.lock"
    with held_elsewhere(path, "forks") as (holder, child):
        os.kill(holder.pid, signal.SIGKILL)
        os.waitpid(holder.pid, os.WNOHANG)
        holder.wait()
        os.kill(int(child), 0)
        ServerLock(path).close()
        os.kill(int(child), signal.SIGKILL)


def test_a_lock_file_with_invalid_content_is_still_locked(tmp_path: Path) -> None:
    path = tmp_path / "assent.server.lock"
    with ServerLock(path):
        path.write_text("not JSON")
        with pytest.raises(DataInUse, match="unknown process"):
            ServerLock(path)


@pytest.mark.parametrize("linked", ["directory", "file"])
def test_every_path_to_the_same_data_uses_the_same_locks(sqlite_settings: Settings, linked: str) -> None:
    other = sqlite_settings.data_dir.parent / "other"
    if linked == "directory":
        other.symlink_to(sqlite_settings.data_dir)
    else:
        other.mkdir()
        (other / "assent.db").symlink_to(sqlite_settings.sqlite_path)
    again = Settings(data_dir=other)
    roundabout = Settings(data_dir=sqlite_settings.data_dir / ".." / "data")

    for each in (again, roundabout):
        assert each.server_lock_path == sqlite_settings.server_lock_path.resolve()
        assert each.write_lock_path == sqlite_settings.write_lock_path.resolve()


@pytest.mark.parametrize("lost", ["lock file deleted", "hard link in another directory"])
def test_the_database_file_is_locked_too(sqlite_settings: Settings, tmp_path: Path, lost: str) -> None:
    with serving_alone(sqlite_settings) as lock:
        assert lock is not None
        lock.describe("http://127.0.0.1:7373")
        other = sqlite_settings
        if lost == "lock file deleted":
            sqlite_settings.server_lock_path.unlink()
        else:
            other = Settings(data_dir=tmp_path / "other")
            other.data_dir.mkdir()
            other.sqlite_path.hardlink_to(sqlite_settings.sqlite_path)
        with pytest.raises(DataInUse, match="Another server is already using the data"):
            serving_alone(other)
    with serving_alone(other):
        pass


def test_data_in_use_by_a_server_of_another_version_is_not_migrated(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    migrate(settings)
    _at_version(settings, "0011")
    with (
        held_elsewhere(settings.server_lock_path) as (holder, _),
        pytest.raises(DataInUse, match=f"pid {holder.pid}"),
    ):
        migrate(settings)
    assert every_row(settings)["assent_version"] == ["('0011',)"]


def test_data_in_use_can_be_migrated_to_the_running_servers_version(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    migrate(settings)
    with held_elsewhere(settings.server_lock_path):
        migrate(settings)
    assert every_row(settings)["assent_version"] == [repr((migrations.newest(),))]


def _at_version(settings: Settings, version: str) -> None:
    with contextlib.closing(sqlite3.connect(settings.sqlite_path)) as connection, connection:
        connection.execute("UPDATE assent_version SET version_num = ?", (version,))
