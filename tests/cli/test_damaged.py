"""Every command that encounters a damaged database reports the damage and how to repair it."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.cli.commands import here


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(data_dir=tmp_path / "data")
    migrate(found)
    return found


def overwrite(path: Path, *, start: int) -> None:
    content = bytearray(path.read_bytes())
    content[start:] = b"\xa5" * (len(content) - start)
    path.write_bytes(content)


COMMANDS = {
    "serve": ("serve", "--port", "0"),
    "check": ("check",),
    "fsck": ("fsck",),
    "audit verify": ("audit", "verify"),
    "token list": ("token", "list"),
    "migrate": ("migrate",),
    "backup": ("backup", "{folder}/saved.tar"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_a_database_is_reported_as_damaged(settings: Settings, command: str) -> None:
    overwrite(settings.sqlite_path, start=0)
    arguments = [each.format(folder=settings.data_dir.parent) for each in COMMANDS[command]]
    done = here(*arguments, "--data", str(settings.data_dir))
    said = done.output.replace("\n", " ")

    assert done.exit_code == 1
    assert "is damaged" in said
    assert "assent restore" in said
    assert ".recover" in said
    assert "Traceback" not in said
    assert "Please report" not in said


@pytest.mark.parametrize("command", ["check", "fsck", "backup"])
def test_commands_that_read_the_whole_file_detect_damage_inside_it(settings: Settings, command: str) -> None:
    overwrite(settings.sqlite_path, start=200 * 1024)
    arguments = [each.format(folder=settings.data_dir.parent) for each in COMMANDS[command]]
    done = here(*arguments, "--data", str(settings.data_dir))
    said = done.output.replace("\n", " ")

    assert done.exit_code == 1
    assert "is damaged" in said
    assert "assent restore" in said
    assert "Please report" not in said
    assert not (settings.data_dir.parent / "saved.tar").exists()


def without_table(settings: Settings, table: str) -> None:
    with contextlib.closing(sqlite3.connect(settings.sqlite_path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"DROP TABLE {table}")


@pytest.mark.parametrize("table", ["workflow_status", "queues", "assent_sessions"])
@pytest.mark.parametrize("command", ["serve", "check", "fsck", "token list"])
def test_an_error_about_a_missing_table_names_it(settings: Settings, command: str, table: str) -> None:
    without_table(settings, table)
    done = here(*COMMANDS[command], "--data", str(settings.data_dir))
    said = done.output.replace("\n", " ")

    assert done.exit_code == 1
    assert table in said
    assert "backup" in said
    assert "Traceback" not in said
    assert "Please report" not in said
