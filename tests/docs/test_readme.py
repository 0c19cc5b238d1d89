"""What a reader copies from the README, the quickstart and the how-tos works, against a real server."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from assent.settings import Settings
from tests.docs.pages import DOCS, README, ROOT, fences, snippets
from tests.support.nodes import prepared, server

QUICKSTART = DOCS / "quickstart.md"
WAITING = DOCS / "how-to" / "wait-for-an-answer.md"
PEOPLE = DOCS / "how-to" / "people-groups-tokens.md"
RULES = DOCS / "how-to" / "write-rules.md"


@dataclass
class Terminal:
    """A shell that remembers what was exported, as a reader's terminal does."""

    page: Path
    placeholders: dict[str, str]
    environment: dict[str, str]
    memory: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def start(self, name: str) -> subprocess.Popen[str]:
        """Start a snippet and let it run."""
        (code,) = (snippet.code for snippet in snippets(self.page) if snippet.name == name)
        for placeholder, value in self.placeholders.items():
            code = code.replace(placeholder, value)
        script = f"set -eu -o pipefail\n. {self.memory}\n{code}\nexport -p > {self.memory}\n"
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(shell)
        return shell

    def run(self, name: str) -> str:
        return _output(self.start(name))


def _output(shell: subprocess.Popen[str]) -> str:
    output = shell.communicate(timeout=300)[0]
    assert shell.returncode == 0, output
    return output


@contextlib.contextmanager
def terminal(page: Path, settings: Settings, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal beside a running server, with the placeholders of the page filled in."""
    (agent,) = prepared(settings, "agent")
    with server(settings, log=tmp_path / "server.log") as process:
        memory = tmp_path / "exports"
        memory.touch()
        mine = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = mine | {"ASSENT_DATA_DIR": str(settings.data_dir), "PATH": path}
        placeholders = {"http://127.0.0.1:7373": process.url, "asta_…": agent}
        opened = Terminal(page, placeholders, environment, memory)
        try:
            yield opened
        finally:
            for shell in opened.running:
                if shell.returncode is None:
                    shell.kill()
                    shell.communicate()


def test_the_first_five_minutes_of_the_readme_end_in_an_approval(sqlite_settings: Settings, tmp_path: Path) -> None:
    with terminal(README, sqlite_settings, tmp_path) as reader:
        breakpoint_id = reader.run("raise").strip()
        waiting = reader.start("wait")
        reader.placeholders["bp_…"] = breakpoint_id
        reader.run("approve")
        answer = msgspec.json.decode(_output(waiting))

    assert breakpoint_id.startswith("bp_")
    assert (answer["status"], answer["decision"]) == ("released", "approved")
    assert answer["result"]["approved"] is True


def test_the_quickstart_runs_from_the_first_to_the_last_snippet(sqlite_settings: Settings, tmp_path: Path) -> None:
    with terminal(QUICKSTART, sqlite_settings, tmp_path) as reader:
        for name in ("tokens", "person", "raise"):
            reader.run(name)
        waiting = reader.run("comment")
        reader.run("reply")
        reader.run("answer")
        answer = msgspec.json.decode(reader.run("result"))
        history = msgspec.json.decode(reader.run("history"))

    assert msgspec.json.decode(waiting)["status"] == "waiting"
    assert answer["result"]["option"] == "10 % of users"
    assert answer["result"]["response"] == "Small steps."
    types = [event["type"] for event in history["items"]]
    assert types == ["created", "commented", "commented", "responded", "released"]


def test_both_ways_to_wait_bring_the_answer(sqlite_settings: Settings, tmp_path: Path) -> None:
    with terminal(README, sqlite_settings, tmp_path) as reader:
        reader.placeholders["bp_…"] = reader.run("raise").strip()
        reader.page = WAITING
        polling, streaming = reader.start("poll"), reader.start("stream")
        reader.page = README
        reader.run("approve")
        answer, events = msgspec.json.decode(_output(polling)), _output(streaming)

    assert answer["result"]["approved"] is True
    types = [line.removeprefix("event: ") for line in events.splitlines() if line.startswith("event: ")]
    assert types == ["created", "responded", "released"]


def test_people_groups_and_tokens_are_made_as_the_how_to_says(sqlite_settings: Settings, tmp_path: Path) -> None:
    with terminal(PEOPLE, sqlite_settings, tmp_path) as reader:
        reader.environment["ASSENT_URL"] = reader.placeholders["http://127.0.0.1:7373"]
        assert "/sign-in/astl_" in reader.run("commands")
        reader.run("admin")
        person, group = msgspec.json.decode(reader.run("person")), msgspec.json.decode(reader.run("group"))
        token, tokens = msgspec.json.decode(reader.run("agent")), msgspec.json.decode(reader.run("tokens"))

    assert (person["name"], person["roles"]) == ("ann", ["reviewer"])
    assert group == {"name": "security", "members": ["ann"]}
    assert token["token"].startswith("asta_")
    assert token["id"] in {each["id"] for each in tokens["items"]}


def test_rules_are_tried_watched_and_written_as_the_how_to_says(sqlite_settings: Settings, tmp_path: Path) -> None:
    with terminal(RULES, sqlite_settings, tmp_path) as reader:
        reader.environment["ASSENT_URL"] = reader.placeholders["http://127.0.0.1:7373"]
        reader.run("token")
        assert "0 would have been approved" in reader.run("backtest")
        (rule_id,) = set(re.findall(r"rule-[0-9a-z]{26}", reader.run("watch")))
        reader.placeholders["rule-…"] = rule_id
        assert "people disagreed  0" in reader.run("agreement")
        assert "A person would be asked. Matched never-auto-approve rule" in reader.run("never")
        assert "0 added, 0 changed, 2 unchanged, 0 removed; 2 in all." in reader.run("files")


@pytest.mark.parametrize("page", [README, QUICKSTART, WAITING, PEOPLE, RULES], ids=lambda page: page.stem)
def test_every_snippet_that_calls_the_server_is_run(page: Path) -> None:
    # `make serve` itself is the server.
    calls = [code for code in fences(page.read_text(), "sh") if not code.strip().endswith(("make serve", "make test"))]

    assert [snippet.code for snippet in snippets(page)] == calls
