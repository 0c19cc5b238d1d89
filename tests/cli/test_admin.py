"""Commands that use the data directly, with and without a running server."""

import json
import shutil
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from assent.cli.admin import print_welcome, strangers, without_password
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import Desk, environment, here, here_json, run, start
from tests.support.nodes import ready


@pytest.fixture
def data(tmp_path: Path, sqlite_template: Path) -> str:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "assent.db")
    return str(folder)


def test_a_token_can_be_created_on_new_data_without_a_server(tmp_path: Path) -> None:
    done = run("token", "create", "--kind", "reviewer", "--name", "me", "--json", env=environment(), cwd=tmp_path)

    made = json.loads(done.stdout)
    assert made["token"].startswith("astp_")
    assert made["id"].startswith("tok_")
    assert (made["kind"], made["person"], made["roles"]) == ("reviewer", "owner", ["reviewer"])


@pytest.mark.parametrize("kind", ["agent", "viewer", "rule-admin", "auditor", "admin", "metrics"])
def test_tokens_of_every_kind_can_be_created(data: str, kind: str) -> None:
    assert here_json("token", "create", "--kind", kind, "--name", "x", "--data", data)["kind"] == kind


def test_a_running_server_accepts_new_tokens_and_rejects_revoked_ones(desk: Desk) -> None:
    at = ("--data", str(desk.data))
    made = here_json("token", "create", "--kind", "agent", "--name", "new", "--gate", "deploy.*", "--days", "3", *at)
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert httpx2.get(f"{desk.url}/api/breakpoints", headers=headers).status_code == 200

    assert here("token", "revoke", made["id"], *at).exit_code == 0

    while httpx2.get(f"{desk.url}/api/breakpoints", headers=headers).status_code == 200:
        pass
    listed = {each["id"]: each for each in here_json("token", "list", *at)["items"]}
    assert listed[made["id"]]["revokedAt"] is not None
    assert listed[made["id"]]["gates"] == ["deploy.*"]
    assert here("token", "revoke", made["id"], *at).exit_code == 1


def test_the_same_commands_work_on_both_databases(settings: Settings) -> None:
    place = {"ASSENT_DATA_DIR": str(settings.data_dir), "ASSENT_DATABASE_URL": settings.database_url}
    env = {name: value for name, value in place.items() if value is not None}
    env |= {"ASSENT_SECRET_KEYS": ",".join(settings.secret_keys)} if settings.secret_keys else {}

    made = here_json("token", "create", "--kind", "agent", "--name", "x", **env)

    assert [each["id"] for each in here_json("token", "list", **env)["items"]] == [made["id"]]
    assert here_json("check", **env)["ok"]


def test_check_rejects_postgresql_without_secret_keys(postgres_settings: Settings) -> None:
    done = here("check", ASSENT_DATABASE_URL=str(postgres_settings.database_url))

    assert done.exit_code == 1
    assert "ASSENT_SECRET_KEYS is not set" in done.stdout


def test_a_new_person_gets_a_sign_in_link_and_a_personal_token(data: str) -> None:
    made = here_json("user", "create", "ann", "--role", "reviewer", "--email", "ann@example.org", "--data", data)
    token = here_json("token", "create", "--kind", "reviewer", "--name", "ann", "--person", "ann", "--data", data)

    assert "/sign-in/astl_" in made["signInLink"]
    assert made["roles"] == {"default": ["reviewer"]}
    assert token["person"] == "ann"
    refused = here("token", "create", "--kind", "admin", "--name", "x", "--person", "nobody", "--data", data)
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_sign_in_links_and_passwords_can_be_replaced(data: str) -> None:
    here("user", "create", "bob", "--role", "viewer", "--password-stdin", "--data", data, stdin="a long password\n")

    links = {here_json("user", "link", "bob", "--data", data)["signInLink"] for _ in range(2)}
    changed = here("user", "password", "bob", "--password-stdin", "--data", data, stdin="another password\n")

    assert len(links) == 2
    assert changed.exit_code == 0
    assert [each["name"] for each in here_json("user", "list", "--data", data)["items"]] == ["bob", "owner"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "create", "Not A Handle", "--role", "viewer"),
        ("user", "create", "owner", "--role", "viewer"),
        ("user", "create", "x", "--role", "viewer", "--email", "nonsense"),
        ("user", "create", "x", "--role", "viewer", "--project", "nowhere"),
        ("user", "link", "nobody"),
        ("group", "set", "ops", "nobody"),
        ("group", "remove", "ops"),
        ("token", "create", "--kind", "agent", "--name", "bad\nname"),
        ("token", "list", "--project", "nowhere"),
    ],
)
def test_arguments_that_the_api_rejects_yield_a_one_line_error(data: str, arguments: tuple[str, ...]) -> None:
    done = here(*arguments, "--data", data)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_short_password_is_rejected_and_not_echoed(data: str) -> None:
    arguments = ("user", "create", "x", "--role", "viewer", "--password-stdin", "--data", data)
    done = here(*arguments, stdin="hunter2\n")

    assert done.exit_code == 1
    assert "hunter2" not in done.output


def test_a_group_can_be_created_changed_and_removed(data: str) -> None:
    for name in ("ann", "bob"):
        here("user", "create", name, "--role", "reviewer", "--data", data)

    assert here_json("group", "set", "ops", "ann", "bob", "--data", data)["members"] == ["ann", "bob"]
    assert here_json("group", "set", "ops", "bob", "--data", data)["members"] == ["bob"]
    assert here_json("group", "list", "--data", data)["items"] == [{"name": "ops", "members": ["bob"]}]
    assert here("group", "remove", "ops", "--data", data).exit_code == 0
    assert here_json("group", "list", "--data", data)["items"] == []


def test_check_lists_each_setting_with_its_source(data: str) -> None:
    checked = here_json("check", "--data", data, ASSENT_PORT="8080", ASSENT_PROT="1")

    found = {each["name"]: each for each in checked["settings"]}
    assert set(found) == set(Settings.model_fields)
    assert (found["port"]["value"], found["port"]["source"]) == ("8080", "ASSENT_PORT")
    assert (found["data_dir"]["source"], found["host"]["source"]) == ("command line", "default")
    assert checked["ok"]
    assert any("Did you mean ASSENT_PORT" in each["detail"] for each in checked["checks"])


def test_check_changes_nothing(tmp_path: Path) -> None:
    assert here_json("check", "--data", str(tmp_path / "new"))["ok"]
    assert list(tmp_path.iterdir()) == []


def test_check_reports_a_missing_migration_and_migrate_applies_it(tmp_path: Path) -> None:
    (tmp_path / "assent.db").touch()

    before = here("check", "--data", str(tmp_path))
    migrated = here_json("migrate", "--data", str(tmp_path))
    after = here("check", "--data", str(tmp_path))

    assert before.exit_code == 1
    assert "assent migrate" in before.stdout
    assert migrated["before"] is None
    assert after.exit_code == 0


@pytest.mark.parametrize("command", ["check", "serve", "migrate"])
@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("ASSENT_PORT", "many", "ASSENT_PORT"),
        ("ASSENT_DATABASE_URL", "mysql://x", "postgresql://"),
        ("ASSENT_DATABASE_URL", "postgresql://ann:hunter2@127.0.0.1:1/x", "PostgreSQL cannot be used"),
        ("ASSENT_DATA_DIR", "/dev/null/data", "--data"),
    ],
)
def test_an_invalid_setting_is_reported_with_exit_code_1(command: str, setting: str, value: str, said: str) -> None:
    port = {"ASSENT_PORT": "0"} if command == "serve" and setting != "ASSENT_PORT" else {}
    done = here(command, **{setting: value, **port})

    assert done.exit_code == 1
    assert said in done.output
    assert "hunter2" not in done.output
    assert "Traceback" not in done.output


def test_a_port_in_use_is_reported_with_a_remedy(data: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = here("serve", "--port", str(taken.getsockname()[1]), "--data", data)

    assert done.exit_code == 1
    assert "--port" in done.stderr
    assert here_json("token", "list", "--data", data)["items"] == []


def started(data: str) -> dict[str, str | None]:
    """Start a server, read its first line of output, and interrupt it."""
    process = start("serve", "--port", "0", "--data", data, "--json", env=environment())
    assert process.stdout is not None
    welcome: dict[str, str | None] = json.loads(process.stdout.readline())
    # Before the server is ready, Python may not handle an interrupt yet.
    assert ready(str(welcome["url"]), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    return welcome


def test_only_the_first_start_creates_an_agent_token(data: str) -> None:
    first, second = started(data), started(data)

    assert str(first["agentToken"]).startswith("asta_")
    assert second["agentToken"] is None
    for welcome in (first, second):
        assert str(welcome["signInLink"]).startswith(f"{welcome['url']}/sign-in/astl_")
    assert first["signInLink"] != second["signInLink"]


def test_links_and_commands_in_the_welcome_message_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    link, token = "http://127.0.0.1:7373/sign-in/astl_" + "x" * 49, "asta_" + "y" * 49

    print_welcome({"url": "http://127.0.0.1:7373", "signInLink": link, "agentToken": token})

    shown = capsys.readouterr().out.splitlines()
    assert any(line.endswith(link) for line in shown)
    assert any(line.endswith(token) for line in shown)
    command = next(n for n, line in enumerate(shown) if line.strip().startswith("curl "))
    assert shown[command].endswith("\\")
    assert "Authorization: Bearer " + token in shown[command]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:p%40ss@db:5432/x", "postgresql://ann:***@db:5432/x"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("postgresql://db/x?user=ann&password=p&a=b", "postgresql://db/x?user=ann&password=***&a=b"),
        ("plain", "plain"),
    ],
)
def test_passwords_in_urls_are_not_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_unknown_assent_variables_are_reported() -> None:
    assert strangers(["ASSENT_PORT", "ASSENT_TOKEN", "PATH"]) == []
    assert strangers(["ASSENT_DATADIR"]) == [
        ("ASSENT_DATADIR", "ASSENT_DATADIR is not a setting. Did you mean ASSENT_DATA_DIR?")
    ]


def test_a_signed_in_person_can_create_tokens_only_for_themselves(desk: Desk) -> None:
    done = run(
        "token", "create", "--kind", "reviewer", "--name", "laptop", "--signed-in", "--json", env=desk.as_reviewer()
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["person"], made["createdBy"], made["roles"]) == ("owner", "person:owner", ["reviewer"])
    with Assent(desk.url, made["token"]) as own:
        assert own.list().items is not None
    for more in (["--person", "ann"], ["--gate", "x"], ["--data", "elsewhere"]):
        refused = run(
            "token", "create", "--kind", "viewer", "--name", "x", "--signed-in", *more, env=desk.as_reviewer()
        )
        assert refused.returncode == 2
    assert run("token", "create", "--kind", "viewer", "--name", "x", "--signed-in", env=desk.as_agent()).returncode != 0


def test_the_operator_can_change_a_home_project_but_not_confirm_a_nonexistent_reset(tmp_path: Path) -> None:
    at = ("--data", str(tmp_path))
    here_json("user", "create", "bob", "--role", "reviewer", *at)
    assert here_json("user", "home", "bob", "*", *at) == {"name": "bob", "home": "*"}
    (bob,) = [each for each in here_json("user", "list", *at)["items"] if each["name"] == "bob"]
    assert (bob["home"], bob["resetBy"]) == ("*", None)
    assert here("user", "home", "bob", "nowhere", *at).exit_code != 0
    assert here("user", "confirm", "bob", *at).exit_code != 0, "there is nothing to confirm"
