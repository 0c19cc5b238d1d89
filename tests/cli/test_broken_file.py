"""A mistake in assent.yaml blocks only commands that use the affected settings."""

import contextlib
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assent.cli.main import loaded
from assent.cli.registry import HOMES
from tests.cli.commands import here

SOURCES = "sources:\n  repo: {type: git, path: 5}\n"
BROKEN = {
    "a mistake in a source": SOURCES,
    "a mistake in a channel": "channels:\n  - {name: x, type: pigeon}\n",
    "a mistake in a trigger": "triggers:\n  - {nothing: here}\n",
    "a part of the wrong shape": "routes: 7\n",
    "a setting of the server": "log_format: verse\n",
    "settings that belong together": "oidc_issuer: https://id.example\n",
    "not YAML": "sources: [\n",
}
NEEDS_THE_FILE = {"serve", "worker", "check", "trigger validate"}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "migrate": (),
    "token create": ("--kind", "agent", "--name", "a"),
    "token list": (),
    "token revoke": ("tok_unknown",),
    "user create": ("ada", "--role", "reviewer"),
    "user list": (),
    "user link": ("owner",),
    "user password": ("owner", "--password-stdin"),
    "user home": ("owner", "default"),
    "user confirm": ("owner",),
    "group set": ("team", "owner"),
    "group list": (),
    "group remove": ("team",),
    "project callback-secret": (),
    "project remove": ("unknown", "--yes"),
    "secrets list": (),
    "secrets rotate-key": (),
    "backup": ("saved.tar",),
    "restore": ("missing.tar",),
    "audit verify": (),
    "audit checkpoint": (),
    "audit proof": ("bp_unknown",),
    "audit export": (),
    "audit keys": (),
    "audit events": (),
    "audit rotate-key": (),
    "audit consistency": ("1", "1"),
    "fsck": (),
    "hold place": ("--reason", "because"),
    "hold list": (),
    "hold lift": ("hold_unknown",),
    "import": ("missing.db",),
}


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for child in children.values():
        yield from leaves(f"{name} {child.name}", child)


def on_the_data() -> set[str]:
    """Return every command that uses the data directly; the others contact a server."""
    return {
        path
        for name in HOMES
        for path, command in leaves(name, loaded(name))
        if any(each.name == "data" for each in command.params)
    }


def test_every_command_that_uses_the_data_directly_is_listed_in_the_table() -> None:
    assert on_the_data() == set(ARGUMENTS) | NEEDS_THE_FILE


def test_client_commands_read_no_server_settings() -> None:
    modules = {
        home.module for name, home in HOMES.items() if not any(each.split()[0] == name for each in on_the_data())
    }
    for module in modules:
        text = Path(str(import_module(module).__file__)).read_text()
        assert not re.search(r"settings_with|server_settings", text), module


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with contextlib.chdir(tmp_path):
        yield tmp_path


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_command_that_uses_the_data_directly_works_with_an_invalid_file(place: Path, command: str) -> None:
    called = (*command.split(), *ARGUMENTS[command])
    without = here(*called, "--data", "one", stdin="correct horse battery\n")
    (place / "saved.tar").unlink(missing_ok=True)
    (place / "assent.yaml").write_text("sources: [\n" + SOURCES)
    broken = here(*called, "--data", "two", stdin="correct horse battery\n")

    assert broken.exit_code == without.exit_code, broken.output
    assert "Invalid settings" not in broken.stderr


@pytest.mark.parametrize("mistake", BROKEN)
def test_unrelated_mistakes_in_the_file_do_not_prevent_creating_a_user(place: Path, mistake: str) -> None:
    (place / "assent.yaml").write_text(BROKEN[mistake])
    done = here("user", "create", "ada", "--role", "reviewer")

    assert done.exit_code == 0, done.output
    assert (place / "data" / "assent.db").exists()
    if mistake == "not YAML":
        assert "assent.yaml" in done.stderr


@pytest.mark.parametrize("mistake", BROKEN)
@pytest.mark.parametrize("command", ["serve", "check"])
def test_serve_and_check_reject_every_mistake_in_the_file(place: Path, command: str, mistake: str) -> None:
    (place / "assent.yaml").write_text(BROKEN[mistake])
    done = here(command, **({"ASSENT_PORT": "0"} if command == "serve" else {}))

    assert done.exit_code == 1
    assert "Please report" not in done.output


@pytest.mark.parametrize("setting", ["data_dir: elsewhere", "database_url: postgresql://db/assent", "secret_keys: [x]"])
def test_an_unparsable_file_that_may_set_the_data_location_is_not_ignored(place: Path, setting: str) -> None:
    (place / "assent.yaml").write_text(f"{setting}\nsources: [\n")
    done = here("user", "create", "ada", "--role", "reviewer")

    assert done.exit_code == 1
    assert f"ASSENT_{setting.partition(':')[0].upper()}" in done.stderr
    assert not (place / "data").exists()


def test_an_explicit_data_directory_overrides_an_unparsable_file(place: Path) -> None:
    (place / "assent.yaml").write_text("data_dir: elsewhere\nsources: [\n")

    assert here("user", "create", "ada", "--role", "reviewer", "--data", "here").exit_code == 0
    assert here("user", "create", "bob", "--role", "reviewer", ASSENT_DATA_DIR="here").exit_code == 0
    assert not (place / "elsewhere").exists()


def test_a_command_that_uses_the_data_directly_still_reads_its_own_settings_from_the_file(place: Path) -> None:
    (place / "assent.yaml").write_text("data_dir: elsewhere\npublic_url: https://assent.example\n" + SOURCES)
    done = here("user", "create", "ada", "--role", "reviewer", "--json")

    assert done.exit_code == 0, done.output
    assert "https://assent.example/sign-in/" in done.stdout
    assert (place / "elsewhere" / "assent.db").exists()


def test_an_error_about_a_required_setting_names_it(place: Path) -> None:
    (place / "assent.yaml").write_text("port: many\n")
    done = here("user", "create", "ada", "--role", "reviewer")

    assert done.exit_code == 1
    assert "ASSENT_PORT" in done.stderr
