"""What holds for every command there is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group

from assent.cli.commands import HOMES
from assent.cli.main import loaded
from tests.cli.commands import environment, here, run

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def commands() -> Iterator[tuple[str, Any]]:
    for name in HOMES:
        found = loaded(name)
        if isinstance(found, TyperGroup):
            yield from ((f"{name} {sub}", command) for sub, command in found.commands.items())
        else:
            yield name, found


COMMANDS = dict(commands())


def section(name: str) -> str:
    found = re.search(rf"^##+ `assent {name}\b[^\n]*\n(.*?)(?=^##|\Z)", REFERENCE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/reference/cli.md has no section for: assent {name}"
    return found.group(0)


def options(command: Any) -> list[str]:
    return [max(param.opts, key=len) for param in command.params if param.param_type_name == "option"]


def test_every_command_a_module_has_is_reachable() -> None:
    modules = {home.module for home in HOMES.values()}
    homes = {each: set(get_group(import_module(each).app).commands) for each in modules}

    assert homes == {each: {name for name, home in HOMES.items() if home.module == each} for each in modules}


@pytest.mark.parametrize("name", HOMES)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    assert HOMES[name].told == loaded(name).help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_all_its_options(name: str) -> None:
    text = section(name)

    assert [option for option in options(COMMANDS[name]) if f"`{option}" not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_output_and_help(name: str) -> None:
    assert "--json" in options(COMMANDS[name])
    assert COMMANDS[name].help


def test_the_reference_names_no_command_that_does_not_exist() -> None:
    named = re.findall(r"^##+ `assent ([a-z]+(?::[a-z-]+| [a-z-]+)?)(?![\w-])", REFERENCE.read_text(), re.MULTILINE)

    assert set(named) == set(COMMANDS)


def test_help_lists_every_command_under_its_heading() -> None:
    shown = here("--help").stdout

    assert all(re.search(rf"\b{name}\b", shown) for name in HOMES)
    assert all(home.heading in shown for home in HOMES.values())


def test_help_loads_nothing_of_the_server() -> None:
    code = "import sys; from assent.cli.main import app; app(['--help'], standalone_mode=False); print([*sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "assent.cli.main" in told
    assert not re.search(r"'(assent\.app|fastapi|sqlalchemy|httpx2)'", told)


@pytest.mark.parametrize("name", ["token", "audit", "secrets", "worker", "migrate", "backup", "import"])
def test_a_command_on_the_data_loads_neither_api_nor_pages(name: str) -> None:
    code = f"import sys; from assent.cli.main import loaded; loaded({name!r}); print([*sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "'assent.app'" in told
    assert not re.search(r"'(fastapi|uvicorn|assent\.front|assent\.(api|web)\.\w+)'", told)


def test_who_mistypes_a_command_is_told_what_there_is() -> None:
    assert "Did you mean 'approve'" in here("aprove").output


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"assent \d+\.\d+\.\d+\S*\n", here("--version").stdout)


@pytest.mark.parametrize("arguments", [["frobnicate"], ["ask"], ["token", "create"], ["inbox", "--sort", "sideways"]])
def test_a_usage_error_is_exit_code_2(arguments: list[str]) -> None:
    assert here(*arguments).exit_code == 2


def test_no_color_is_honoured_even_where_colour_is_forced() -> None:
    done = run("inbox", env=environment(NO_COLOR="1", FORCE_COLOR="1"))

    assert "\x1b[31m" not in done.stderr
    assert "\x1b[1;31m" not in done.stderr
