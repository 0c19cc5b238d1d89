"""A reader's actions on each page, from the first block to the last."""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from assent.contracts.breakpoints import Breakpoint
from assent.contracts.runs import Run
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.terminal import CTRL_C, Seat
from tests.docs.pages import ROOT
from tests.docs.reader import URL, Browser, Reader, said
from tests.support.nodes import free_port

KILL = "\x1c"
"""Ctrl-backslash, which sends SIGQUIT."""


@dataclass(frozen=True)
class Desk:
    """Fixtures for a story."""

    reader: Reader
    fixture: pytest.FixtureRequest

    @property
    def settings(self) -> Settings:
        found: Settings = self.fixture.getfixturevalue("sqlite_settings")
        return found

    @contextlib.contextmanager
    def server(self) -> Iterator[Assent]:
        """Start a server for the reader, and yield a reviewer."""
        with self.reader.beside_a_server(self.settings) as token, Assent(self.reader.words[URL], token) as reviewer:
            yield reviewer

    @contextlib.contextmanager
    def works(self) -> Iterator[tuple[Assent, Assent]]:
        """Start a server that runs the processes in the reader's folder; yield a reviewer and the reader's agent."""
        (self.reader.folder / "data").symlink_to(self.settings.data_dir)
        with self.server() as reviewer:
            url, token = self.reader.words[URL], self.reader.words["asta_…"]
            self.reader.env |= {"ASSENT_URL": url, "ASSENT_TOKEN": token}
            with Assent(url, token) as agent:
                yield reviewer, agent


Story = Callable[[Desk], None]


def readme(desk: Desk) -> None:
    reader = desk.reader
    _clone(reader.folder)
    port = _named_a_port(reader)
    with reader.sit("serve", ASSENT_PORT=port) as seat, Browser(reader.words[URL]) as browser:
        _signed_in(reader, browser, seat)
        with reader.sit("gate") as mine:
            mine.types("yes", after="Approve?")
            mine.types("", after="Comment (optional)")
            assert (mine.ended(), mine.shown.split()[-2:]) == (0, ["Deploying", "1.4"])
        gated = reader.start("ask")
        browser.approves("./deploy.sh 1.4")
        assert said(gated).endswith("Deploying 1.4\n")
        reader.save("deploy.py")
        program = reader.start("program")
        browser.approves("Deploy 1.4 to production?")
        assert said(program).endswith("Deploying 1.4\n")
        seat.presses(CTRL_C, after="")
        seat.ended()
        _until_free(port)
    _the_rest_of_the_readme(desk, port)


def _until_free(port: str) -> None:
    """Wait until the port is free, because make may exit slightly before the server that it started."""
    with contextlib.suppress(OSError):
        while True:
            socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()


def _the_rest_of_the_readme(desk: Desk, port: str) -> None:
    reader = desk.reader
    database: Settings = desk.fixture.getfixturevalue("postgres_settings")
    assert database.database_url is not None
    reader.words["postgresql://user:password@host/assent"] = database.database_url
    with reader.sit("postgresql", ASSENT_PORT=port) as seat:
        seat.until("Agent token")
    # This test is itself part of `make test`, so the command is only checked in the CI script and with `make -n`.
    reader.words["make test"] = "make -n -o .venv/dev.stamp test"
    assert "pytest" in reader.run("tests")
    assert "\nmake test ARGS=" in (ROOT / ".ci" / "run").read_text()


def quickstart(desk: Desk) -> None:
    reader = desk.reader
    _installed(reader)
    reader.save("clean.py")
    with reader.sit("terminal") as seat:
        seat.types("yes", after="Approve?")
        seat.types("2", after="Number")
        seat.types("", after="Comment (optional)")
        assert seat.ended() == 0
        reader.expect("terminal", seat.shown)
    with reader.sit("command") as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment (optional)")
        assert (seat.ended(), (reader.folder / "logs").exists()) == (0, False)
    port = _named_a_port(reader)
    with reader.sit("serve", ASSENT_PORT=port) as seat, Browser(reader.words[URL]) as browser:
        _signed_in(reader, browser, seat)
        reader.expect("serve", seat.shown)
        cleaning = reader.start("people")
        browser.approves("Clean up", option="0")
        assert said(cleaning).count("deleted logs/") == 3
        assert "release.py" in reader.run("process")
        run = reader.start("start")
        shown = _until(run, "asked")
        reader.expect("asked", shown)
        seat.presses(KILL, after="")
        assert seat.ended() != 0
        with reader.sit("serve", ASSENT_PORT=port) as again:
            again.until("One-time sign-in link")
            browser.approves("Release")
            reader.expect("ended", said(run))


def over_http(desk: Desk) -> None:
    reader = desk.reader
    with desk.server():
        for name in ("tokens", "person", "raise"):
            reader.run(name)
        waiting = msgspec.json.decode(reader.run("comment"))
        reader.run("reply")
        reader.run("answer")
        answer = msgspec.json.decode(reader.run("result"))
        history = msgspec.json.decode(reader.run("history"))
    assert waiting["status"] == "waiting"
    assert (answer["result"]["option"], answer["result"]["response"]) == ("10% of users", "Small steps.")
    types = [event["type"] for event in history["items"]]
    assert types == ["created", "commented", "commented", "responded", "released"]


def waiting(desk: Desk) -> None:
    reader = desk.reader
    with desk.server() as reviewer:
        url, token = reader.words[URL], reader.words["asta_…"]
        with Assent(url, token) as agent:
            asked = agent.create("Deploy 1.4?", agent_id="deployer")
        reader.env |= {"ASSENT_URL": url, "ASSENT_TOKEN": token, "ID": asked.id}
        polling, streaming = reader.start("poll"), reader.start("stream")
        reviewer.approve(asked.id)
        answer, events = msgspec.json.decode(said(polling)), said(streaming)
    assert answer["result"]["approved"] is True
    types = [line.removeprefix("event: ") for line in events.splitlines() if line.startswith("event: ")]
    assert types == ["created", "responded", "released"]


def people(desk: Desk) -> None:
    reader = desk.reader
    with desk.server():
        reader.env["ASSENT_URL"] = reader.words[URL]
        assert "/sign-in/astl_" in reader.run("commands")
        reader.run("admin")
        person, group = msgspec.json.decode(reader.run("person")), msgspec.json.decode(reader.run("group"))
        token, tokens = msgspec.json.decode(reader.run("agent")), msgspec.json.decode(reader.run("tokens"))
    assert (person["name"], person["roles"]) == ("ann", ["reviewer"])
    assert group == {"name": "security", "members": ["ann"]}
    assert token["token"].startswith("asta_")
    assert token["id"] in {each["id"] for each in tokens["items"]}


def rules(desk: Desk) -> None:
    reader = desk.reader
    with desk.server():
        reader.env["ASSENT_URL"] = reader.words[URL]
        reader.run("token")
        assert "0 would have been approved" in reader.run("backtest")
        (rule_id,) = set(re.findall(r"rule-[0-9a-z]{26}", reader.run("watch")))
        reader.words["rule-…"] = rule_id
        assert "people disagreed 0" in " ".join(reader.run("agreement").split())
        assert "Requires human approval. Matched never-auto-approve rule" in reader.run("never")
        assert "0 added, 0 changed, 2 unchanged, 0 removed; 2 in total." in reader.run("files")


def processes(desk: Desk) -> None:
    reader = desk.reader
    with desk.works() as (reviewer, agent):
        for name in ("publish", "rollout", "letter"):
            reader.save(f"data/processes/{name}.py")
        assert "Render a page" in reader.run("start")
        asked = next_asked(reviewer, "Publish")
        assert [file["path"] for file in asked.payload["context"]["files"]] == ["page.md"]
        reviewer.approve(asked.id)
        run = next(each for each in agent.runs(process="publish").items)
        assert ended(agent, run.id).output == {"online": "Welcome is online"}
        reader.expect("failing", reader.run("failing"))
        assert "task_done" in reader.run("retry")
        assert len(list((reader.folder / "data" / "processes" / "outbox").iterdir())) == 1
        _roll_out(reviewer, agent)
        assert "Welcome is online" in reader.run("watch")
        assert "Wrote" in reader.run("export")
        exported = reader.folder / "exported"
        assert (exported / "files" / "page.md").read_text() == "# Welcome\n\nHello.\n"
        assert (
            msgspec.json.decode((exported / "tasks" / "3-publish" / "task.json").read_bytes())["status"] == "released"
        )
        assert "cancelled" in reader.run("cancel")


def _roll_out(reviewer: Assent, agent: Assent) -> None:
    run = agent.start_run("rollout", {"regions": ["north", "south"]})
    north, south = next_asked(reviewer, "Roll out north"), next_asked(reviewer, "Roll out south")
    reviewer.comment(north.id, "how many servers?")
    while len(said := reviewer.get(north.id).feedback) == 1:
        pass
    assert [each.comment for each in said] == ["how many servers?", "north has 3 servers."]
    for each in (south, north):
        reviewer.approve(each.id)
    assert ended(agent, run.id).output == {"live": ["north is live", "south is live"], "within a day": True}
    assert agent.run_file(run.id, "report.md") == b"north is live\nsouth is live"


def runs(desk: Desk) -> None:
    reader = desk.reader
    with desk.works() as (reviewer, agent):
        reader.save("data/processes/careful.py")
        run = agent.start_run("careful", {})
        reviewer.approve(next_asked(reviewer, "Careful").id)
        assert ended(agent, run.id).output is True
    assert (reader.folder / "server.log").read_text().count("closed") == 2


def next_asked(reviewer: Assent, title: str) -> Breakpoint:
    """Wait for a pending breakpoint with this title, and return it."""
    while not (found := [each for each in reviewer.list(status="waiting").items if each.title == title]):
        pass
    return reviewer.get(found[0].id)


def ended(agent: Assent, run_id: str) -> Run:
    while not (found := agent.run(run_id)).ended:
        pass
    return found


def _clone(folder: Path) -> None:
    """Link the files that `make serve` uses and the existing environment, because tests do not download packages."""
    build = ("package.json", "package-lock.json", ".npmrc", "hatch_build.py")
    for name in ("Makefile", "pyproject.toml", "requirements", *build):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)


def _installed(reader: Reader) -> None:
    """Install the package with pip, using the dependencies that are already installed."""
    build = ("package.json", "package-lock.json", ".npmrc", "hatch_build.py")
    for name in ("pyproject.toml", "README.md", "LICENSE", *build):
        shutil.copy(ROOT / name, reader.folder)
    shutil.copytree(ROOT / "src", reader.folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (here,) = {path for path in sys.path if path.endswith("site-packages")}
    # pip inverts this setting: false disables isolation.
    reader.env |= {"PYTHONPATH": here, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "false"}
    reader.run("install")


def _named_a_port(reader: Reader) -> str:
    port = str(free_port())
    reader.words |= {URL: f"http://127.0.0.1:{port}", "make serve": "make -o .venv/runtime.stamp serve"}
    return port


def _signed_in(reader: Reader, browser: Browser, seat: Seat) -> None:
    shown = seat.until("Ask your first question")
    (link,) = re.findall(r"http\S+/sign-in/\S+", shown)
    (reader.words["asta_…"],) = re.findall(r"Agent token +(asta_\w+)", shown)
    browser.signs_in(link)


def _until(run: "subprocess.Popen[str]", text: str) -> str:
    """Read the output of a command line by line until it contains this text."""
    assert run.stdout is not None
    shown = ""
    while text not in shown:
        line = run.stdout.readline()
        assert line, shown
        shown += line
    return shown
