"""Backing up while a server is running, and starting a server from a restored backup."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from tests.cli.commands import Desk, environment, here, here_json, run
from tests.support.nodes import prepared, server
from tests.support.postgres import new_database


@pytest.fixture
def data(tmp_path: Path, sqlite_template: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "assent.db")
    return folder


def test_a_backup_of_a_running_server_can_start_another_server(desk: Desk, tmp_path: Path) -> None:
    asked = desk.asked("Does it come back?")
    made = here_json("backup", str(tmp_path), "--data", str(desk.data))
    desk.asked("Too late?")

    restored = here_json("restore", made["file"], "--data", str(tmp_path / "new"))

    assert stat.S_IMODE(Path(made["file"]).stat().st_mode) == 0o600
    assert restored["counts"] == made["counts"]
    with server(Settings(data_dir=tmp_path / "new")) as process:
        other = Desk(process.url, tmp_path / "new", desk.agent_token, desk.reviewer_token)
        assert other.found(asked.id).question == "Does it come back?"
        with other.reviewer() as reviewer:
            assert reviewer.approve(asked.id).status == "released"
        assert desk.found(asked.id).status == "waiting"


def test_a_postgresql_backup_can_be_restored_into_a_new_database(
    postgres_settings: Settings, postgres_url: str, tmp_path: Path
) -> None:
    agent, reviewer = prepared(postgres_settings, "agent", "reviewer")
    keys = {"ASSENT_SECRET_KEYS": ",".join(postgres_settings.secret_keys or ())}
    old = keys | {"ASSENT_DATABASE_URL": str(postgres_settings.database_url)}
    secret = here_json("project", "callback-secret", **old)
    with server(postgres_settings) as process:
        asked = Desk(process.url, tmp_path, agent, reviewer).asked()
        here_json("backup", str(tmp_path / "b.tar"), **old)
    with new_database(postgres_url) as url:
        new = keys | {"ASSENT_DATABASE_URL": url}
        assert here_json("restore", str(tmp_path / "b.tar"), **new)["missingKeys"] == []
        assert here_json("project", "callback-secret", **new) == secret
        again = here("restore", str(tmp_path / "b.tar"), **new)
        with server(postgres_settings.model_copy(update={"database_url": url})) as process:
            assert Desk(process.url, tmp_path, agent, reviewer).found(asked.id).status == "waiting"
    assert again.exit_code == 1
    assert "not empty" in again.stderr


def test_keys_are_backed_up_only_on_request(data: Path, tmp_path: Path) -> None:
    secret = here_json("project", "callback-secret", "--data", str(data))["items"]
    without = here("backup", str(tmp_path / "without.tar"), "--data", str(data))
    here_json("backup", str(tmp_path / "with.tar"), "--with-keys", "--data", str(data))
    (key,) = (data / "assent.keys").read_text().split()

    assert "Also back up the key file" in without.stderr
    assert key.encode() not in (tmp_path / "without.tar").read_bytes()
    told = here_json("restore", str(tmp_path / "without.tar"), "--data", str(tmp_path / "a"))
    assert len(told["missingKeys"]) == 1
    assert here("project", "callback-secret", "--data", str(tmp_path / "a")).exit_code == 1
    told = here_json("restore", str(tmp_path / "with.tar"), "--data", str(tmp_path / "b"))
    assert told["missingKeys"] == []
    assert here_json("project", "callback-secret", "--data", str(tmp_path / "b"))["items"] == secret
    assert stat.S_IMODE((tmp_path / "b" / "assent.keys").stat().st_mode) == 0o600


def test_force_moves_existing_data_aside_and_reports_the_path(data: Path, tmp_path: Path) -> None:
    here_json("backup", str(tmp_path / "b.tar"), "--data", str(data))
    here("user", "create", "late", "--role", "viewer", "--data", str(data))
    refused = here("restore", str(tmp_path / "b.tar"), "--data", str(data))
    done = here_json("restore", str(tmp_path / "b.tar"), "--force", "--data", str(data))

    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert Path(done["putAside"]).exists()
    assert [each["name"] for each in here_json("user", "list", "--data", str(data))["items"]] == ["owner"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("restore", "{tmp}/none.tar"), "cannot be read"),
        (("restore", "{tmp}/bad.tar"), "incomplete or damaged"),
        (("restore", "{tmp}"), "cannot be read"),
        (("backup", "{tmp}/bad.tar"), "already exists"),
        (("backup", "{tmp}/no/where.tar"), "does not exist"),
        (("backup", "{tmp}/new.tar", "--data", "{tmp}/empty"), "does not contain any data"),
    ],
)
def test_a_rejected_backup_or_restore_prints_one_line_and_changes_nothing(
    data: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "bad.tar").write_bytes(b"x" * 9999)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    at = () if "--data" in arguments else ("--data", str(data))
    done = here(*(each.format(tmp=tmp_path) for each in arguments), *at)

    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_backup_of_a_different_database_type_is_rejected(
    data: Path, postgres_settings: Settings, tmp_path: Path
) -> None:
    here_json("backup", str(tmp_path / "b.tar"), "--data", str(data))
    done = here("restore", str(tmp_path / "b.tar"), ASSENT_DATABASE_URL=str(postgres_settings.database_url))

    assert done.exit_code == 1
    assert "is from SQLite, but the server is configured to use PostgreSQL" in done.stderr


def test_a_backup_does_not_migrate_its_source(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "assent.db").touch()
    done = here("backup", str(tmp_path / "b.tar"), "--data", str(tmp_path / "data"))

    assert done.exit_code == 1
    assert "not a valid Assent data file" in done.stderr


def test_only_the_result_is_printed_without_a_terminal(desk: Desk, tmp_path: Path) -> None:
    done = run("backup", str(tmp_path / "b.tar"), "--json", "--data", str(desk.data), env=environment())

    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["kind"] == "sqlite"
