"""Fixtures for a node that executes processes from a folder, on both databases."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.support.nodes import Node, running_node

IMPORTS = "import asyncio\nfrom pathlib import Path\nfrom assent import NotApproved, TaskFailed, process, task\n"


@dataclass
class Works:
    """A node with a folder of processes, and an agent and a reviewer who use it."""

    node: Node
    settings: Settings
    agent: str
    reviewer: str

    def write(self, name: str, source: str) -> None:
        folder = self.settings.process_folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(IMPORTS + textwrap.dedent(source))

    async def start(self, process: str, inputs: Any = None, **more: Any) -> str:
        body = {"process": process, "inputs": inputs} | more
        answer = await self.node.call("POST", "/api/runs", self.agent, json=body)
        assert answer.status_code == 201, answer.text
        run_id: str = answer.json()["id"]
        return run_id

    async def get(self, run_id: str) -> dict[str, Any]:
        answer = await self.node.call("GET", f"/api/runs/{run_id}", self.agent)
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        return run

    async def until(self, run_id: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait until the condition holds for a run."""
        async with asyncio.timeout(60):
            while not holds(run := await self.get(run_id)):  # noqa: ASYNC110  # the API sends no notifications about runs
                await asyncio.sleep(0.02)
        return run

    async def ended(self, run_id: str) -> dict[str, Any]:
        return await self.until(run_id, lambda run: run["state"] in {"done", "failed", "cancelled"})

    async def asked(self, run_id: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the run has at least this many pending breakpoints, and return them."""
        run = await self.until(run_id, lambda run: len(waiting(run)) >= count or run["state"] in {"failed", "done"})
        assert len(waiting(run)) >= count, run
        return waiting(run)

    async def answer(self, step: dict[str, Any], *, approved: bool = True, **more: Any) -> None:
        answer = await self.node.feedback(step["breakpointId"], self.reviewer, approved=approved, **more)
        assert answer.status_code == 200, answer.text

    async def past(self, run_id: str, path: str) -> None:
        """Wait until a step is done."""
        await self.until(run_id, lambda run: (path, "done") in {(each["path"], each["state"]) for each in run["steps"]})

    async def journal(self, run_id: str) -> list[dict[str, Any]]:
        answer = await self.node.call("GET", f"/api/runs/{run_id}/journal", self.agent)
        assert answer.status_code == 200, answer.text
        lines: list[dict[str, Any]] = answer.json()["items"]
        return lines

    async def types(self, run_id: str) -> list[str]:
        return [line["type"] for line in await self.journal(run_id)]


def waiting(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in run["steps"] if step["kind"] == "breakpoint" and step["state"] == "waiting"]


@pytest.fixture
async def works(settings: Settings) -> AsyncIterator[Works]:
    async with running_node(settings, worker=True) as node:
        yield Works(node, settings, await node.token("agent"), await node.token("reviewer"))
