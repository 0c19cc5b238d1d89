"""Rules that apply to every command."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group

from assent.cli.help import value_of
from assent.cli.main import loaded
from assent.cli.registry import HOMES
from tests.cli.commands import environment, here, run
from tools.docs.cli import every_command
from tools.docs.cli import options as visible_options

COMMANDS = {path: command for _, path, command in every_command()}
VALUE = re.compile(r"[A-Z]+(_[A-Z]+)*|[A-Z]+=[A-Z]+(,…)?|PATH\[:FORMAT\]|HOST\[:PORT\]|\[-?[a-z]+([|-][a-z-]+)*\]")
"""The allowed placeholders: a word in capitals, a pair of such words, or the choices."""
RAW_TYPE = re.compile(r"<[A-Za-z|\[\], -]+>|\{[A-Z]+\}|\b(str|bool|float|FileBinaryRead|FileText)\b")


def options(command: Any) -> list[str]:
    return [max(option.opts, key=len) for option in visible_options(command)]


def every_group() -> Iterator[str]:
    yield ""
    yield from (name for name in HOMES if isinstance(loaded(name), TyperGroup))


def test_every_command_in_a_module_is_registered() -> None:
    modules = {home.module for home in HOMES.values()}
    homes = {each: set(get_group(import_module(each).app).commands) for each in modules}

    assert homes == {each: {name for name, home in HOMES.items() if home.module == each} for each in modules}


@pytest.mark.parametrize("name", HOMES)
def test_the_command_list_shows_the_same_summary_as_the_help(name: str) -> None:
    assert HOMES[name].told == loaded(name).help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_output_and_help(name: str) -> None:
    assert "--json" in options(COMMANDS[name])
    assert COMMANDS[name].help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_python_types(name: str) -> None:
    done = here(*name.split(), "--help", COLUMNS="250")

    assert done.exit_code == 0
    assert f" {name} " in done.stdout
    assert RAW_TYPE.findall(done.stdout) == []


@pytest.mark.parametrize("name", list(every_group()))
def test_group_help_shows_no_python_types(name: str) -> None:
    done = here(*name.split(), "--help", COLUMNS="250")

    assert done.exit_code == 0
    assert RAW_TYPE.findall(done.stdout) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_flag_shows_no_value_and_every_other_option_a_placeholder(name: str) -> None:
    shown = {max(each.opts, key=len): (each.is_flag, value_of(each)) for each in visible_options(COMMANDS[name])}

    assert [option for option, (is_flag, value) in shown.items() if is_flag and value] == []
    assert [value for is_flag, value in shown.values() if not is_flag and not VALUE.fullmatch(value or "")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help_without_a_full_stop(name: str) -> None:
    helps = {max(each.opts, key=len): each.help or "" for each in visible_options(COMMANDS[name])}

    assert [option for option, text in helps.items() if not text or text.endswith(".")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_the_same_name_in_every_command(name: str) -> None:
    assert set(options(COMMANDS[name])) & {"--agent", "--tags", "--ttl-seconds", "--agent-ids"} == set()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("inbox", "--agent", "--agent-id"),
        ("rule check", "--agent", "--agent-id"),
        ("route check", "--agent", "--agent-id"),
        ("breakpoint:history", "--agent", "--agent-id"),
        ("breakpoint:should-auto-approve", "--agent", "--agent-id"),
        ("breakpoint:should-auto-approve", "--tags", "--tag"),
    ],
)
def test_a_deprecated_option_is_hidden_and_names_its_replacement(name: str, old: str, new: str) -> None:
    arguments = [] if name in {"inbox", "breakpoint:history"} else ["gate.x"]
    done = here(*name.split(), *arguments, old, "x", ASSENT_URL="http://127.0.0.1:9", ASSENT_TOKEN="none")

    assert done.stderr.splitlines()[0] == f"{old} is deprecated. Use {new}."
    assert done.exit_code == 13, "it went on, and found no server"
    assert not re.search(rf"{old}\b(?!-)", here(*name.split(), "--help", COLUMNS="250").stdout)


def test_help_lists_every_command_under_its_heading() -> None:
    shown = here("--help").stdout

    assert all(re.search(rf"\b{name}\b", shown) for name in HOMES)
    assert all(home.heading in shown for home in HOMES.values())


def test_help_loads_no_server_modules() -> None:
    code = "import sys; from assent.cli.main import app; app(['--help'], standalone_mode=False); print([*sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "assent.cli.main" in told
    assert not re.search(r"'(assent\.app|fastapi|sqlalchemy|httpx2)'", told)


@pytest.mark.parametrize("name", ["token", "audit", "secrets", "worker", "migrate", "backup", "import"])
def test_a_command_that_uses_the_data_directly_loads_no_api_or_web_modules(name: str) -> None:
    code = f"import sys; from assent.cli.main import loaded; loaded({name!r}); print([*sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "'assent.node'" in told
    assert not re.search(r"'(fastapi|uvicorn|assent\.front|assent\.(api|web)\.\w+)'", told)


def test_a_mistyped_command_gets_a_suggestion() -> None:
    assert "Did you mean 'approve'" in here("aprove").output


def test_version_prints_the_package_version() -> None:
    assert re.fullmatch(r"assent \d+\.\d+\.\d+\S*\n", here("--version").stdout)


@pytest.mark.parametrize("arguments", [["frobnicate"], ["ask"], ["token", "create"], ["inbox", "--sort", "sideways"]])
def test_a_usage_error_exits_with_code_2(arguments: list[str]) -> None:
    assert here(*arguments).exit_code == 2


def test_no_color_takes_precedence_over_force_color() -> None:
    done = run("inbox", env=environment(NO_COLOR="1", FORCE_COLOR="1"))

    assert "\x1b[31m" not in done.stderr
    assert "\x1b[1;31m" not in done.stderr
