"""A second server on the same SQLite data says which one runs already, and touches nothing."""

from pathlib import Path

from assent.settings import Settings
from tests.cli.commands import Desk, here
from tests.support.nodes import server


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, times and content of what the first server does not write to by itself."""
    return {
        str(each.relative_to(folder)): (each.stat().st_mtime_ns, each.read_bytes())
        for each in folder.rglob("*")
        if each.is_file() and not each.name.startswith("assent.db")
    }


def test_a_second_server_is_refused_and_touches_nothing(desk: Desk) -> None:
    before = listing(desk.data)
    done = here("serve", "--port", "0", "--data", str(desk.data))

    assert (done.exit_code, done.stdout) == (1, "")
    assert desk.url in done.stderr
    assert "pid " in done.stderr
    assert listing(desk.data) == before


def test_the_directory_is_named_before_the_port(desk: Desk) -> None:
    done = here("serve", "--port", desk.url.rpartition(":")[2], "--data", str(desk.data))

    assert done.exit_code == 1
    assert "Another server is already using the data" in done.stderr


def test_a_symbolic_link_leads_to_the_same_refusal(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(desk.data)
    done = here("serve", "--port", "0", "--data", str(tmp_path / "link"))

    assert (done.exit_code, done.stdout) == (1, "")
    assert desk.url in done.stderr


def test_commands_on_the_data_work_beside_the_server(desk: Desk) -> None:
    assert here("token", "list", "--data", str(desk.data)).exit_code == 0


def test_a_server_that_was_stopped_or_killed_can_be_started_again(sqlite_settings: Settings) -> None:
    with server(sqlite_settings) as first:
        first.kill()
    with server(sqlite_settings) as second:
        second.stop()
    with server(sqlite_settings):
        pass


def test_a_backup_is_not_restored_under_a_server(desk: Desk, tmp_path: Path) -> None:
    saved = here("backup", str(tmp_path / "saved.tar"), "--data", str(desk.data))
    assert saved.exit_code == 0, saved.stderr
    done = here("restore", str(tmp_path / "saved.tar"), "--force", "--data", str(desk.data))

    assert done.exit_code == 1
    assert "Another server is already using the data" in done.stderr
