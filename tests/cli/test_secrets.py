"""Callback secrets and keys on the command line, with and without a running server."""

import shutil
from pathlib import Path

import httpx2
import pytest

from assent.cli.data import on_data, operator
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from tests.cli.commands import COMMAND, environment, here, here_json
from tests.cli.terminal import Seat
from tests.support.keys import key_reference, new_key
from tests.support.nodes import prepared, server


@pytest.fixture
def data(tmp_path: Path, sqlite_template: Path) -> str:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "assent.db")
    return str(folder)


def test_a_callback_secret_can_be_shown_and_rotated_on_both_databases(settings: Settings) -> None:
    env = {"ASSENT_DATA_DIR": str(settings.data_dir)}
    if settings.database_url:
        env |= {
            "ASSENT_DATABASE_URL": settings.database_url,
            "ASSENT_SECRET_KEYS": ",".join(settings.secret_keys or ()),
        }
    first = here_json("project", "callback-secret", **env)["items"]
    rotated = here_json("project", "callback-secret", "--rotate", **env)["items"]

    assert [each["version"] for each in rotated] == [2, 1]
    assert rotated[1]["secret"] == first[0]["secret"]
    assert here("project", "callback-secret", **env).stdout.split() == [each["secret"] for each in rotated]
    listed = here("secrets", "list", **env)
    assert listed.exit_code == 0
    assert "whsec_" not in listed.output
    assert here("project", "callback-secret", "--project", "nowhere", **env).exit_code == 1


def test_removing_a_project_requires_confirmation(data: str) -> None:
    at = ("--data", data)
    settings = Settings(data_dir=Path(data))
    on_data(
        settings,
        lambda node, tx: node[PeopleService].create_project(tx, "shop", "Shop", "owner", by=operator("default")),
    )

    unconfirmed = here("project", "remove", "shop", *at)
    assert (unconfirmed.exit_code, "--yes" in unconfirmed.stderr) == (2, True)
    with Seat([*COMMAND, "project", "remove", "shop", *at], env=environment()) as seat:
        seat.types("default", after="Type the project ID to confirm")
        assert seat.ended() == 1
        assert "Not removed" in seat.shown
    with Seat([*COMMAND, "project", "remove", "shop", *at], env=environment()) as seat:
        seat.types("shop", after="Type the project ID to confirm")
        assert seat.ended() == 0
    again = here("project", "remove", "shop", "--yes", *at)
    default = here("project", "remove", "default", "--yes", *at)
    nowhere = here("project", "remove", "nowhere", "--yes", *at)
    assert [each.exit_code for each in (again, default, nowhere)] == [1, 1, 1]
    assert "was removed" in again.stderr
    assert "default project cannot be removed" in default.stderr
    assert "Project nowhere not found" in nowhere.stderr


def test_a_running_server_switches_to_the_new_key(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", checkpoint_seconds=0)
    (admin,) = prepared(settings, "admin")
    here_json("audit", "checkpoint", "--data", str(settings.data_dir))
    log = tmp_path / "server.log"
    with server(settings, log=log, access_log="true", log_level="debug", checkpoint_seconds="0") as process:

        def shown() -> str:
            headers = {"Authorization": f"Bearer {admin}"}
            answer = httpx2.get(f"{process.url}/api/projects/default/callback-secret", headers=headers)
            return str(answer.json()["items"][0]["secret"])

        before = shown()
        turned = here_json("secrets", "rotate-key", "--new", "--data", str(settings.data_dir))
        after = shown()
        httpx2.post(
            f"{process.url}/api/projects/default/callback-secret/rotate", headers={"Authorization": f"Bearer {admin}"}
        )
        newest = shown()
    listed = here_json("secrets", "list", "--data", str(settings.data_dir))

    # The callback secret and the key that signed the checkpoint above.
    assert (turned["resealed"], turned["unreadable"]) == (2, 0)
    assert before == after != newest
    assert len(listed["keys"]) == 2
    assert {each["keyId"] for each in listed["items"]} == {turned["keyId"]}
    for secret in (before, newest, *settings.key_path.read_text().split()):
        assert secret not in log.read_text()


def test_the_old_key_can_be_removed_after_everything_is_reencrypted(data: str, tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    at = ("--data", data)
    secret = here_json("project", "callback-secret", *at, ASSENT_SECRET_KEYS=key_reference(tmp_path, old))["items"]
    both = key_reference(tmp_path, new, old)
    assert here_json("secrets", "rotate-key", *at, ASSENT_SECRET_KEYS=both)["resealed"] == 1
    assert here_json("secrets", "rotate-key", *at, ASSENT_SECRET_KEYS=both)["resealed"] == 0

    only_new = key_reference(tmp_path, new)
    assert here_json("project", "callback-secret", *at, ASSENT_SECRET_KEYS=only_new)["items"] == secret


def test_secrets_that_cannot_be_decrypted_are_reported_and_kept(data: str, tmp_path: Path) -> None:
    at = ("--data", data)
    here_json("project", "callback-secret", *at, ASSENT_SECRET_KEYS=key_reference(tmp_path))
    other = key_reference(tmp_path, new_key())
    refused = here("project", "callback-secret", *at, ASSENT_SECRET_KEYS=other)
    listed = here("secrets", "list", *at, ASSENT_SECRET_KEYS=other)
    turned = here("secrets", "rotate-key", *at, ASSENT_SECRET_KEYS=other)

    assert (refused.exit_code, turned.exit_code) == (1, 1)
    assert "key_" in refused.stderr
    assert "Some secrets cannot be decrypted. Missing keys: " in listed.stderr
    assert "1 secrets could not be decrypted" in turned.stderr


@pytest.mark.parametrize("command", [("project", "callback-secret"), ("secrets", "rotate-key")])
def test_postgresql_without_keys_reports_which_setting_is_missing(
    postgres_settings: Settings, command: tuple[str, ...]
) -> None:
    done = here(*command, ASSENT_DATABASE_URL=str(postgres_settings.database_url))

    assert (done.exit_code, done.stdout) == (1, "")
    assert "ASSENT_SECRET_KEYS" in done.stderr


def test_a_new_key_can_only_be_added_to_the_key_file(data: str, tmp_path: Path) -> None:
    done = here("secrets", "rotate-key", "--new", "--data", data, ASSENT_SECRET_KEYS=key_reference(tmp_path))

    assert done.exit_code == 1
    assert "--new applies only to the SQLite key file" in done.stderr
