"""Runs whose breakpoints competing reviewers decide while workers, nodes and PostgreSQL itself are killed."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from assent.kernel.settings import Settings
from tests.faults.kills import PATIENCE, end, gone, said, secured, tokens_of
from tests.faults.load import PEOPLE, rows
from tests.support.cluster import Cluster
from tests.support.nodes import Process, free_port, launch, launch_worker, ready

TASKS = ("a", "b", "c")
SOURCE = '''
import os

from assent import process, task


@task(retries=3, backoff=0.1)
def note(key, name):
    """An effect that can be counted: one line for each time that it was begun."""
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{key} {name}\\n")
    return f"{key} {name}"


@process
async def fire(inputs, ctx):
    first = await ctx.task(note, ctx.run_id, "a")
    one = await ctx.breakpoint("One?", title="One")
    second = await ctx.task(note, ctx.run_id, "b")
    two = await ctx.breakpoint("Two?", title="Two")
    third = await ctx.task(note, ctx.run_id, "c")
    return {"tasks": [first, second, third], "decisions": [one.decision, two.decision]}
'''


@dataclass
class Report:
    what: str
    runs: int
    kills: Counter[str] = field(default_factory=Counter[str])
    begun: int = 0
    decided: int = 0
    refused: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list[str])

    def told(self) -> str:
        killed = ", ".join(f"{what}: {count}" for what, count in sorted(self.kills.items()))
        return (
            f"{self.runs} runs of 3 tasks and 2 breakpoints on {self.what}, {sum(self.kills.values())} kills"
            f" ({killed}):"
            f" {self.decided} decisions, {self.refused} rivals told so, {3 * self.runs} tasks completed once"
            f" ({self.begun} begun), {len(self.wrong)} wrong, in {self.seconds:.0f} s"
        )


@dataclass
class Fire:
    settings: Settings
    count: int
    seed: int
    kills: int
    server: Cluster | None = None
    """The PostgreSQL server to kill, if any."""
    log: Path | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.report = Report("PostgreSQL" if self.settings.database_url else "SQLite", self.count)
        self.effects = self.settings.data_dir / "effects.txt"
        self.over = asyncio.Event()

    async def run(self) -> Report:
        folder = self.settings.process_folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fire.py").write_text(SOURCE)
        self.effects.touch()
        self.tokens = await tokens_of(self.settings)
        started = time.monotonic()
        processes = self._launched()
        self.urls = [each.url for each in processes if each.url]
        try:
            async with httpx2.AsyncClient(timeout=30) as self.client:
                await self._up(processes)
                people = [asyncio.create_task(self._reviewer(name)) for name in PEOPLE]
                killing = asyncio.create_task(self._killer(processes))
                await asyncio.gather(*(self._start(n) for n in range(self.count)))
                await self._all_done(killing)
                self.over.set()
                await asyncio.gather(*people, killing)
        finally:
            self.over.set()
            for process in processes:
                end(process)
        self.report.seconds = time.monotonic() - started
        self._judge()
        return self.report

    def _launched(self) -> list[Process]:
        nodes = [self._node(free_port())]
        return [*nodes, self._worker(), self._worker()] if self.settings.database_url else nodes

    def _node(self, port: int) -> Process:
        return launch(self.settings, port=port, log=self.log, EFFECTS=str(self.effects), **secured(self.settings))

    def _worker(self) -> Process:
        return launch_worker(self.settings, log=self.log, EFFECTS=str(self.effects), **secured(self.settings))

    async def _up(self, processes: list[Process]) -> None:
        """Wait until all processes are ready; restart any that died because PostgreSQL was killed during its start."""
        for n, each in enumerate(processes):
            while each.url and not await asyncio.to_thread(ready, each.url, each.popen):
                if each.popen.poll() is None:
                    heard = self.log.read_text()[-4000:] if self.log else "no log kept"
                    msg = f"A node did not get ready: {heard}"
                    raise AssertionError(msg)
                processes[n] = each = self._again(each)  # noqa: PLW2901  # replaced by its successor
            if each.popen.poll() is not None:
                processes[n] = self._again(each)

    def _again(self, gone: Process) -> Process:
        return self._node(int(gone.url.rpartition(":")[2])) if gone.url else self._worker()

    async def _start(self, n: int) -> None:
        body = {"process": "fire", "inputs": {"n": n}}
        answer = await self._insist("agent", "POST", "/api/runs", json=body, headers={"idempotency-key": f"run-{n}"})
        if answer.status_code != 201:
            self.report.wrong.append(f"start {n} answered {answer.status_code} {answer.text[:200]}")

    async def _insist(self, who: str, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.tokens[who]}"} | options.pop("headers", {})
        while True:
            with contextlib.suppress(httpx2.TransportError):
                url = self.chance.choice(self.urls) + path
                answer = await self.client.request(method, url, headers=headers, **options)
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.1)

    async def _reviewer(self, name: str) -> None:
        """Decide every pending breakpoint at random, as fast as possible."""
        while not self.over.is_set():
            page = await self._insist(name, "GET", "/api/breakpoints?status=waiting&limit=20&sort=created")
            items = page.json()["items"]
            for item in items:
                body = {"approved": self.chance.random() < 0.6}
                answer = await self._insist(name, "POST", f"/api/breakpoints/{item['id']}/feedback", json=body)
                if answer.status_code == 200:
                    self.report.decided += 1
                elif answer.status_code == 409:
                    self.report.refused += 1
                else:
                    self.report.wrong.append(f"{name} was answered {answer.status_code} {answer.text[:200]}")
            if not items:
                await asyncio.sleep(0.1)

    async def _killer(self, processes: list[Process]) -> None:
        while sum(self.report.kills.values()) < self.kills and not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(0.5, 2.5))
            if self.server is not None and self.chance.random() < 0.3:
                await asyncio.to_thread(self.server.kill)
                await asyncio.to_thread(self.server.start)
                self.report.kills["PostgreSQL"] += 1
                continue
            await self._up(processes)
            n = self.chance.randrange(len(processes))
            victim = processes[n]
            await gone(victim)
            processes[n] = self._again(victim)
            self.report.kills["server" if victim.url else "worker"] += 1
        await self._up(processes)

    async def _all_done(self, killing: "asyncio.Task[None]") -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not (killing.done() and killing.exception()):
            with contextlib.suppress(Exception):
                if len(rows(self.settings, "SELECT id FROM assent_runs WHERE state = 'done'")) >= self.count:
                    return
            await asyncio.sleep(0.5)

    def _judge(self) -> None:
        wrong = self.report.wrong
        states = Counter(row[0] for row in rows(self.settings, "SELECT state FROM assent_runs"))
        if states != {"done": self.count}:
            wrong.append(f"of {self.count} runs: {dict(states)}")
        completed = Counter(
            (run, path)
            for run, path in rows(self.settings, "SELECT run_id, path FROM assent_run_journal WHERE type = 'task_done'")
        )
        wrong += [f"{run} completed the task at {path} {n} times" for (run, path), n in completed.items() if n != 1]
        if len(completed) != 3 * self.count:
            wrong.append(f"{len(completed)} tasks completed instead of {3 * self.count}")
        open_steps = rows(self.settings, "SELECT run_id, path, state FROM assent_run_steps WHERE state <> 'done'")
        wrong += [f"a step was left open: {each}" for each in open_steps]
        wrong += [f"a breakpoint was left open: {each}" for each in rows(self.settings, WAITING)]
        answers = rows(self.settings, ANSWERS)
        decisions: dict[str, list[str]] = {}
        for run, decision in answers:
            decisions.setdefault(run, []).append(decision)
        for run, output in rows(self.settings, "SELECT id, output FROM assent_runs WHERE state = 'done'"):
            told = json.loads(output)
            if told["decisions"] != decisions.get(run) or told["tasks"] != [f"{run} {name}" for name in TASKS]:
                wrong.append(f"{run} says {told}, and the breakpoints say {decisions.get(run)}")
        self.report.begun = len(self.effects.read_text().splitlines())
        wrong += [*said(self.settings, "fsck"), *said(self.settings, "audit", "verify")]


WAITING = "SELECT id, status FROM assent_breakpoints WHERE status = 'waiting'"
ANSWERS = "SELECT run_id, decision FROM assent_breakpoints WHERE status = 'released' ORDER BY run_id, created_at, id"
