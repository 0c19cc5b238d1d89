"""A second server on the same SQLite data reports the running server and changes nothing."""

from pathlib import Path

from assent.kernel.settings import Settings
from tests.cli.commands import Desk, here
from tests.support.nodes import server


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the names, times and content of the files that an idle server does not write to."""
    return {
        str(each.relative_to(folder)): (each.stat().st_mtime_ns, each.read_bytes())
        for each in folder.rglob("*")
        if each.is_file() and not each.name.startswith("assent.db")
    }


def test_a_second_server_is_rejected_and_changes_nothing(desk: Desk) -> None:
    before = listing(desk.data)
    done = here("serve", "--port", "0", "--data", str(desk.data))

    assert (done.exit_code, done.stdout) == (1, "")
    assert desk.url in done.stderr
    assert "pid " in done.stderr
    assert listing(desk.data) == before


def test_data_in_use_is_reported_before_a_port_in_use(desk: Desk) -> None:
    done = here("serve", "--port", desk.url.rpartition(":")[2], "--data", str(desk.data))

    assert done.exit_code == 1
    assert "Another server is already using the data" in done.stderr


def test_a_second_server_is_also_detected_through_a_symlink(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(desk.data)
    done = here("serve", "--port", "0", "--data", str(tmp_path / "link"))

    assert (done.exit_code, done.stdout) == (1, "")
    assert desk.url in done.stderr


def test_commands_that_use_the_data_directly_work_while_a_server_is_running(desk: Desk) -> None:
    assert here("token", "list", "--data", str(desk.data)).exit_code == 0


def test_a_stopped_or_killed_server_can_be_restarted(sqlite_settings: Settings) -> None:
    with server(sqlite_settings) as first:
        first.kill()
    with server(sqlite_settings) as second:
        second.stop()
    with server(sqlite_settings):
        pass


def test_restoring_while_a_server_is_running_is_rejected(desk: Desk, tmp_path: Path) -> None:
    saved = here("backup", str(tmp_path / "saved.tar"), "--data", str(desk.data))
    assert saved.exit_code == 0, saved.stderr
    done = here("restore", str(tmp_path / "saved.tar"), "--force", "--data", str(desk.data))

    assert done.exit_code == 1
    assert "Another server is already using the data" in done.stderr
