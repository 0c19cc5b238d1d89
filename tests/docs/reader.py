"""A reader who follows a page step by step; blocks that were not tried are reported."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2

from assent.kernel.settings import Settings
from tests.cli.commands import environment
from tests.cli.terminal import Seat
from tests.docs.pages import Block, blocks
from tests.support.nodes import prepared, server
from tests.web.reading import Page

URL = "http://127.0.0.1:7373"
"""The URL of the server on the pages."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Reader:
    """A reader with a page, a folder, and a terminal that keeps exported variables."""

    page: Path
    folder: Path
    env: dict[str, str]
    words: dict[str, str] = field(default_factory=dict[str, str])
    """The reader's values for placeholders on the page."""
    tried: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    running: list["subprocess.Popen[str]"] = field(default_factory=list["subprocess.Popen[str]"])

    @property
    def memory(self) -> Path:
        return self.folder / ".exports"

    def code(self, kind: str, name: str) -> str:
        """Return a block of the page with placeholders replaced, and mark it as tried."""
        (found,) = (each for each in blocks(self.page) if (each.kind, each.name) == (kind, name))
        self.tried.add((kind, name))
        code = found.code
        for word, own in self.words.items():
            code = code.replace(word, own)
        return code

    def save(self, name: str) -> Path:
        """Save a file with the content shown on the page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.code("file", name))
        return path

    def start(self, name: str, **env: str) -> "subprocess.Popen[str]":
        """Start a snippet in the background, without a terminal."""
        shell = subprocess.Popen(
            self._shell(name),
            cwd=self.folder,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(shell)
        return shell

    def run(self, name: str, **env: str) -> str:
        return said(self.start(name, **env))

    def sit(self, name: str, **env: str) -> Seat:
        """Type a snippet into a real terminal."""
        return Seat(self._shell(name), env=self.env | env, cwd=self.folder)

    def expect(self, name: str, shown: str) -> None:
        """Compare output with the block on the page, line by line and in order; … matches anything."""
        lines = iter(_COLOURS.sub("", shown).splitlines())
        for wanted in filter(None, map(str.strip, self.code("shows", name).splitlines())):
            pattern = re.escape(wanted).replace("…", ".*")
            assert any(re.search(pattern, line) for line in lines), f"{wanted!r} is missing or out of order in {shown}"

    def untried(self) -> list[Block]:
        return [each for each in blocks(self.page) if each.kind and (each.kind, each.name) not in self.tried]

    def _shell(self, name: str) -> list[str]:
        self.memory.touch()
        code = self.code("run", name)
        return ["bash", "-c", f"set -eu -o pipefail\n. {self.memory}\n{code}\nexport -p > {self.memory}\n"]

    @contextlib.contextmanager
    def beside_a_server(self, settings: Settings) -> Iterator[str]:
        """Start a server, use its URL and an agent token on the page, and yield a reviewer token."""
        agent, reviewer = prepared(settings, "agent", "reviewer")
        with server(settings, log=self.folder / "server.log") as process:
            self.env["ASSENT_DATA_DIR"] = str(settings.data_dir)
            self.words |= {URL: process.url, "asta_…": agent}
            yield reviewer


@contextlib.contextmanager
def opened(page: Path, folder: Path) -> Iterator[Reader]:
    """Open a page for a reader with a new folder."""
    folder.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    reader = Reader(page, folder, environment(PATH=path, ASSENT_LOCAL_DIR=str(folder / "local")))
    try:
        yield reader
    finally:
        for shell in reader.running:
            if shell.returncode is None:
                shell.kill()
                shell.communicate()


@contextlib.contextmanager
def reading(page: Path, folder: Path) -> Iterator[Reader]:
    """Read a page to the end, and fail if a block was not tried."""
    with opened(page, folder) as reader:
        yield reader
    left = [f"{each.kind}: {each.name}" for each in reader.untried()]
    assert not left, f"not tried: {', '.join(left)}"


def said(shell: "subprocess.Popen[str]") -> str:
    """Return the output of a command that must succeed."""
    output = shell.communicate(timeout=300)[0]
    assert shell.returncode == 0, output
    return output


class Browser:
    """A person who received a sign-in link and uses a browser without JavaScript."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=url, headers={"accept": "text/html", "origin": url}, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def signs_in(self, link: str) -> None:
        form = self._page(link).form(httpx2.URL(link).path)
        assert self._client.post(form.action, data=form.fields).status_code == 303

    def approves(self, title: str, **typed: Any) -> None:
        """Wait until a breakpoint with this title is in the inbox, and approve it."""
        while not (found := [link for link in self._inbox(title) if link.startswith("/breakpoints/bp_")]):
            pass
        form = self._page(found[0]).form("/confirm")
        shown = self._client.post(form.action, data=form.fields | {"decision": "approve"} | typed)
        assert shown.status_code == 200, shown.text
        sure = Page(shown.text).form("/decide")
        done = self._client.post(sure.action, data=sure.fields)
        assert done.status_code == 303, done.text

    def _inbox(self, title: str) -> list[str]:
        page = self._page("/")
        return page.links() if title in page.text else []

    def _page(self, path: str) -> Page:
        """Open a page, and retry while the server is starting."""
        while True:
            with contextlib.suppress(httpx2.ConnectError):
                answer = self._client.get(path)
                break
        assert answer.status_code == 200, answer.text
        return Page(answer.text)
