"""The command-line reference is generated from the commands."""

import re

import pytest

from tests.docs.pages import read
from tools.docs import PAGES
from tools.docs.cli import EVERYWHERE, every_command, options

PAGE = read("reference/cli.md")
COMMANDS = {path: command for _, path, command in every_command()}


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    path, made = PAGES[name]

    assert path.read_text() == made(), "run: make docs"


def test_each_command_has_one_section() -> None:
    headings = re.findall(r"^### `assent ((?:[a-z:-]+ ?)+)\b", PAGE, re.MULTILINE)

    assert [each.removesuffix(" -- ").strip() for each in headings] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_names_every_option(name: str) -> None:
    found = re.search(
        rf"^### `assent {re.escape(name)}(?: [^a-z\n][^\n]*)?`\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    named = [
        spelling for each in options(COMMANDS[name]) for spelling in (max(each.opts, key=len), *each.secondary_opts)
    ]

    missing = [each for each in named if each not in EVERYWHERE and not re.search(rf"{each}(?![\w-])", found[1])]
    assert missing == []
