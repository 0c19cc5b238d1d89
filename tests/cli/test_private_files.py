"""Files that Assent creates are private to their owner, regardless of the umask."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.cli.admin import start_warnings
from assent.kernel.settings import Settings
from tests.cli.commands import here


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.iterdir())}


def created(data: Path) -> None:
    done = here("token", "create", "--kind", "agent", "--name", "a", "--data", str(data))
    assert done.exit_code == 0, done.stderr


def test_a_new_directory_and_every_file_in_it_are_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created(data)
    assert here("secrets", "rotate-key", "--new", "--data", str(data)).exit_code == 0
    found = modes(data)

    assert found.pop("data") == 0o700
    assert {"assent.db", "assent.keys", "assent.lock"} <= found.keys()
    assert set(found.values()) == {0o600}


def test_the_database_is_private_in_an_existing_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    created(data)

    assert modes(data)["assent.db"] == 0o600


def test_backups_and_restored_files_are_private(tmp_path: Path) -> None:
    created(tmp_path / "data")
    backup = tmp_path / "saved.tar"
    assert here("backup", str(backup), "--data", str(tmp_path / "data")).exit_code == 0
    assert here("restore", str(backup), "--data", str(tmp_path / "restored")).exit_code == 0

    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert modes(tmp_path / "restored")["assent.db"] == 0o600


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o755])
def test_serve_and_check_warn_about_a_directory_that_other_users_can_read(tmp_path: Path, mode: int) -> None:
    data = tmp_path / "data"
    created(data)
    data.chmod(mode)
    (data / "assent.db").chmod(0o644)

    assert [each.rpartition("Run: ")[2] for each in start_warnings(Settings(data_dir=data))] == [
        f"chmod 700 {data}",
        f"chmod 600 {data / 'assent.db'}",
    ]
    checked = here("check", "--data", str(data))
    assert checked.exit_code == 0
    assert f"chmod 700 {data}" in checked.stdout.replace("\n", "")


def test_a_private_directory_causes_no_warning(tmp_path: Path) -> None:
    created(tmp_path / "data")
    (tmp_path / "data" / "assent.db").chmod(0o644)

    assert start_warnings(Settings(data_dir=tmp_path / "data")) == []


def test_the_doctor_warns_about_a_directory_that_other_users_can_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created(data)
    data.chmod(0o755)
    (data / "assent.db").chmod(0o644)
    done = here("doctor", "--offline", "--json", ASSENT_DATA_DIR=str(data), HOME=str(tmp_path))
    found = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "data"]

    assert [(each["severity"], each["do"]) for each in found] == [
        ("warning", f"Run: chmod 700 {data}"),
        ("warning", f"Run: chmod 600 {data / 'assent.db'}"),
    ]
