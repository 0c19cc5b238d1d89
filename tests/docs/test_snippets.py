"""Pages that tests cannot run in full: their programs compile, their files are valid, and their commands exist."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from assent.cli.main import loaded
from assent.triggers.payload_secrets import Redactor
from tests.docs.pages import fences, read

PAGES = (
    "check-your-gates", "claude-code", "deploy", "from-the-javascript-guide", "import", "langgraph", "mcp",
    "openai-agents", "pydantic-ai", "receive-webhooks", "recipes", "run-behind-nginx",
)  # fmt: skip


def commands(page: str) -> Iterator[list[str]]:
    """Yield the words of every shell line that calls assent."""
    for code in fences(read(f"how-to/{page}.md"), "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "assent" in words[:1]:
                yield words[1:]


def called(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that these words call, and its arguments."""
    command: Any = loaded(words[0])
    words = words[1:]
    while words and hasattr(command, "get_command") and (found := command.get_command(None, words[0])) is not None:
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES)
def test_every_program_on_the_page_compiles(page: str) -> None:
    for code in fences(read(f"how-to/{page}.md"), "python"):
        compile(code, page, "exec")


@pytest.mark.parametrize("page", PAGES)
def test_every_yaml_file_on_the_page_is_valid(page: str) -> None:
    for code in fences(read(f"how-to/{page}.md"), "yaml"):
        assert isinstance(yaml.safe_load(code), dict | list)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_the_page_and_its_options_exist(page: str) -> None:
    for words in commands(page):
        command, rest = called(words)
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        assert command.name in words, f"assent {' '.join(words)}"
        assert [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known] == [], words


def test_the_example_redaction_patterns_match_their_examples() -> None:
    (code,) = fences(read("reference/sources.md"), "yaml")
    redactor = Redactor(yaml.safe_load(code)["redact_patterns"])
    assert redactor({"note": "ACME-12345678, pin: 1234"}) == {"note": "[redacted], pin: [redacted]"}
