"""A live server for agents that run in the test process, and a reviewer who answers while they wait."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from assent.sdk.aio import AsyncAssent
from assent.sdk.client import Assent
from tests.support.nodes import prepared, server
from tests.support.until import until


@dataclass
class Desk:
    url: str
    token: str
    reviewer: Assent
    settings: Settings

    def client(self) -> AsyncAssent:
        """Return a client that uses an agent's token."""
        return AsyncAssent(self.url, self.token)

    async def asked(self, number: int = 1) -> list[Breakpoint]:
        """Wait until this many questions are pending, and return them in the order in which they were asked."""

        def waiting() -> list[Breakpoint]:
            found = self.reviewer.list(status="waiting", sort="created").items
            return [self.reviewer.get(each.id) for each in found]

        return await until(lambda: asyncio.to_thread(waiting), lambda found: len(found) == number)

    async def answer(self, asked: Breakpoint, **answer: Any) -> None:
        await asyncio.to_thread(self.reviewer.feedback, asked.id, {"digest": asked.digest, **answer})


def said_without(package: str, integration: str) -> str:
    """Return the error message from importing an integration whose package is not installed."""
    code = f"import sys; sys.modules[{package!r}] = None; import assent.agents.{integration}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr.splitlines()[-1]


@contextlib.contextmanager
def open_desk(folder: Path, template: Path, **env: str) -> Iterator[Desk]:
    settings = Settings(data_dir=folder)
    shutil.copy(template, settings.sqlite_path)
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings, **env) as process, Assent(process.url, reviewer) as person:
        yield Desk(process.url, agent, person, settings)
