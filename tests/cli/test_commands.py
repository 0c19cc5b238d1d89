"""What holds for every command there is."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group

from assent.cli.main import HOMES, LazyCommands, app
from tests.cli.commands import environment, here, run

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def commands() -> Iterator[tuple[str, Any]]:
    group = get_group(app)
    assert isinstance(group, LazyCommands)
    for name in HOMES:
        found = group.get_command(None, name)
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
    homes = {home: set(get_group(import_module(home).app).commands) for home in set(HOMES.values())}

    assert homes == {home: {name for name in HOMES if HOMES[name] == home} for home in homes}


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


def test_help_lists_every_command() -> None:
    shown = here("--help").stdout

    assert all(re.search(rf"\b{name}\b", shown) for name in HOMES)


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"assent \d+\.\d+\.\d+\S*\n", here("--version").stdout)


@pytest.mark.parametrize("arguments", [["frobnicate"], ["ask"], ["token", "create"], ["inbox", "--sort", "sideways"]])
def test_a_usage_error_is_exit_code_2(arguments: list[str]) -> None:
    assert here(*arguments).exit_code == 2


def test_no_color_is_honoured_even_where_colour_is_forced() -> None:
    done = run("inbox", env=environment(NO_COLOR="1", FORCE_COLOR="1"))

    assert "\x1b[31m" not in done.stderr
    assert "\x1b[1;31m" not in done.stderr
