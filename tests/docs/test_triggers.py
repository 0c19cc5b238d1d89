"""The examples on the page about triggers work unchanged, and its tables are complete."""

import os
import re
import shlex
from pathlib import Path

import pytest

from assent.cli.main import loaded
from assent.installation import setup_of
from assent.kernel.settings import Settings
from assent.kernel.yaml_file import read as read_yaml
from assent.platform.config_file import PARTS, Given
from assent.triggers.file_format import _KEYS
from assent.triggers.sources.registry import KINDS
from tests.docs.pages import DOCS, blocks, code_words, fences, read, rows, sections
from tests.support.nodes import running_node
from tests.support.until import until

PAGE = read("how-to/triggers.md")
FILE = sections(PAGE, 2)["The file"]


def table(first: str) -> dict[str, str]:
    """Return a table, identified by the heading of its first column."""
    lines = FILE.partition(f"| {first} |")[2].splitlines()[1:]
    text = "\n".join(lines[: lines.index("")])
    return {row[0].strip("`"): row[1] for row in rows(f"|x|\n{text}\n")}


def test_every_key_of_a_trigger_is_listed() -> None:
    assert set(table("trigger key")) == _KEYS | {"project"}


def test_every_kind_of_source_is_listed() -> None:
    assert code_words(FILE) >= {"kind", "enabled", *KINDS}


def test_every_reloadable_section_is_listed() -> None:
    listed = [row for row in rows(read("reference/assent-yaml.md")) if row[2] == "yes"]
    assert [row[0].strip("`") for row in listed] == list(PARTS)


def test_every_example_file_is_valid(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for text in fences(PAGE, "yaml"):
        for name in re.findall(r"env:([A-Z_]+)", text):
            monkeypatch.setenv(name, "a secret that nobody guesses")
        parts = read_yaml(text.encode()).value
        found = setup_of(sqlite_settings, Given(parts), base=tmp_path)
        assert found.problems.told() == []
        assert len(found.triggered.sources) + len(found.triggered.triggers) == sum(map(len, parts.values()))


def test_every_command_and_its_options_exist() -> None:
    for text in fences(PAGE, "sh"):
        for line in filter(re.compile("assent trigger ").match, text.splitlines()):
            name, command, *given = shlex.split(line.removeprefix("assent "))
            found = loaded(name).commands[command]  # type: ignore[union-attr]
            known = {option for param in found.params for option in param.opts}
            assert {each for each in given if each.startswith("--")} <= known, line


async def test_the_first_trigger_starts_a_run(
    sqlite_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _save(tmp_path)
    monkeypatch.setenv("CI_HOOK_TOKEN", "0123456789abcdef0123456789abcdef")
    async with running_node(sqlite_settings):
        pass
    read_again = Settings(data_dir=sqlite_settings.data_dir)
    async with running_node(read_again, worker=True) as node:
        (call,) = [text for text in fences(PAGE, "sh") if text.startswith("curl")]
        body = re.search(r"-d '(.*)'", call)
        assert body is not None
        headers = {"content-type": "application/json"}
        answer = await node.call("POST", "/hooks/ci", os.environ["CI_HOOK_TOKEN"], content=body[1], headers=headers)
        assert answer.status_code == 202, answer.text
        token = await node.token("admin")

        async def runs() -> list[dict[str, object]]:
            found: list[dict[str, object]] = (await node.call("GET", "/api/runs", token)).json()["items"]
            return found

        (run,) = await until(runs, lambda found: [each["state"] for each in found] == ["done"])
        whole = (await node.call("GET", f"/api/runs/{run['id']}", token)).json()
    assert whole["output"] == {"deployed": "1.4.2", "because": answer.json()["eventId"]}


def _save(folder: Path) -> None:
    for each in blocks(DOCS / "how-to" / "triggers.md"):
        if each.kind == "file":
            assert each.name is not None
            path = folder / each.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each.code)
