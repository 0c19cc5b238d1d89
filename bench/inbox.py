"""The inbox with ten thousand pending breakpoints: time to load it, to open the next one, and to show a change."""

import argparse
import asyncio
import http.client
import itertools
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, Page, expect, sync_playwright

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from bench.load import http_load
from bench.report import Report
from tests.browser.chromium import FLAGS, NONE, executable
from tests.browser.conftest import World, signed_in_state
from tests.support.nodes import Process, prepared, running_node, server

WARM_UP, REQUESTS, LOADS, PRESSES, CHANGES = 5, 200, 7, 50, 20
GOAL_SERVER, GOAL_PAINT, GOAL_KEY, GOAL_LIVE, GOAL_LINES = 50, 1000, 150, 500, 1200
ROWS_ONLY = {"HX-Request": "true", "HX-Target": "div#rows"}
FILES = (
    {"path": "plan.md", "format": "markdown", "content": "# Plan\n\n- [x] build\n- [ ] ship\n\n" + "More of it. " * 40},
    {"path": "app.py", "format": "code", "language": "python", "content": "def go(n):\n    return n + 1\n\n\n" * 20},
    {"path": "a.diff", "format": "diff", "content": "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n"},
    {"path": "plan.json", "format": "json", "content": '{"replicas": 3, "region": "eu", "steps": ["build", "ship"]}'},
)
# Measures from the browser's timestamp of the key press until the frame with the next breakpoint was painted.
KEY = """() => {
  const shown = () => document.querySelector("#detail > .one")?.dataset.id;
  const before = shown();
  window.benchKey = new Promise((done, failed) => {
    setTimeout(() => failed(new Error("no other breakpoint was shown")), 60_000);
    let pressed;
    document.addEventListener("keydown", (event) => { pressed = event.timeStamp; }, { capture: true, once: true });
    new MutationObserver((_, observer) => {
      if (!shown() || shown() === before) return;
      observer.disconnect();
      const there = performance.now() - pressed;
      requestAnimationFrame(() => setTimeout(() => done([there, performance.now() - pressed])));
    }).observe(document.querySelector("#detail"), { childList: true, subtree: true });
  });
}"""
LIVE = """(title) => {
  window.benchLive = new Promise((done, failed) => {
    setTimeout(() => failed(new Error("the row did not appear")), 60_000);
    new MutationObserver((_, observer) => {
      const titles = [...document.querySelectorAll("#rows .row .title")];
      if (!titles.some((each) => each.textContent === title)) return;
      observer.disconnect();
      done(Date.now());
    }).observe(document.querySelector("#rows"), { childList: true, subtree: true, characterData: true });
  });
}"""
PAINT = """() => new Promise((done, failed) => {
  setTimeout(() => failed(new Error("nothing was painted")), 60_000);
  new PerformanceObserver((list, observer) => {
    const [entry] = list.getEntriesByName("first-contentful-paint");
    if (!entry) return;
    observer.disconnect();
    done(entry.startTime);
  }).observe({ type: "paint", buffered: true });
})"""


def inbox(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    path = executable()
    if path is None:
        print(NONE, file=sys.stderr)
        return
    (agent,) = prepared(settings, "agent")
    asyncio.run(_reviewer(settings))
    dialect = "postgresql" if settings.database_url else "sqlite"
    with server(settings, creates_per_minute="0") as process:
        bodies = [("POST", "/api/breakpoints", _body(n)) for n in range(options.waiting)]
        found = http_load(process.url, agent, bodies, connections=16, once=True)
        assert not found.failed
        print(f"{found.count:,} waiting in {found.seconds:.0f} s", flush=True)
        world = World(process.url, settings, agent)
        with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
            state = signed_in_state(world, browser, "ann")
            _served(process, state, report, dialect)
            _painted(world, browser, state, report, dialect)
            page = _opened(world, browser, state)
            _keys(page, report, dialect)
            _changes(_opened(world, browser, state), world, report, dialect)
    _lines(report)


async def _reviewer(settings: Settings) -> None:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> None:
            node.assent[PeopleService].create_person(tx, "ann", project="default", roles=frozenset({Role.REVIEWER}))

        await node.assent.database.write(use_case)


def _body(n: int) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "question": f"Shall build {n} go to production? It was tested on the staging machines since yesterday.",
        "breakpointId": f"deploy.{n % 20}",
    }
    if n % 3 == 0:
        payload["context"] = {"files": [FILES[n // 3 % len(FILES)]]}
    return {
        "agentId": f"agent-{n % 12}",
        "runId": f"run-{n // 10}",
        "title": f"Deploy build {n}",
        "payload": payload,
        "tags": ["prod", f"team-{n % 5}"] if n % 2 else [f"team-{n % 5}"],
        "ttlSeconds": 86_400 + n * 7919 % 500_000,
    }


def _served(process: Process, state: Any, report: Report, dialect: str) -> None:
    """Measure response times over one connection; a trivial request shows how busy the machine is."""
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in state["cookies"])
    headers = {"Cookie": cookie, "Accept": "text/html", "Accept-Encoding": "gzip"}
    for what, more in (("GET /, whole page", {}), ("GET /, rows only", ROWS_ONLY)):
        before = _core_seconds(process.popen.pid)
        _report(report, dialect, what, list(_times(process.url, "/", headers | more)), GOAL_SERVER)
        used = (_core_seconds(process.popen.pid) - before) * 1000 / (WARM_UP + REQUESTS)
        report.fact("inbox", dialect, f"{what}: server CPU time", f"{used:.1f} ms each")
    _report(report, dialect, "GET /healthz, for comparison", list(_times(process.url, "/healthz", {})), None)


def _times(url: str, path: str, headers: Mapping[str, str]) -> Iterator[float]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    for n in range(WARM_UP + REQUESTS):
        started = time.perf_counter()
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        body = answer.read()
        took = (time.perf_counter() - started) * 1000
        assert answer.status == 200, body
        if n >= WARM_UP:
            yield took
    connection.close()


def _core_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # in procfs
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _painted(world: World, browser: Browser, state: Any, report: Report, dialect: str) -> None:
    """Measure each first paint in a new browser context, which has nothing cached."""
    times: list[float] = []
    for _ in range(LOADS):
        with browser.new_context(storage_state=state) as context:
            page = context.new_page()
            page.goto(world.url)
            times.append(page.evaluate(PAINT))
    _report(report, dialect, "first contentful paint of /", times, GOAL_PAINT)


def _opened(world: World, browser: Browser, state: Any) -> Page:
    page = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 900}).new_page()
    page.goto(world.url)
    expect(page.locator("#connection")).to_have_text("Live", timeout=60_000)
    return page


def _keys(page: Page, report: Report, dialect: str) -> None:
    there: list[float] = []
    painted: list[float] = []
    for _ in range(min(PRESSES, page.locator("#rows .row").count())):
        page.evaluate(KEY)
        page.keyboard.press("j")
        in_page, on_screen = page.evaluate("window.benchKey")
        there.append(in_page)
        painted.append(on_screen)
    page.context.close()
    _report(report, dialect, "j pressed → detail in the page", there, GOAL_KEY)
    _report(report, dialect, "j pressed → detail painted", painted, GOAL_KEY)


def _changes(page: Page, world: World, report: Report, dialect: str) -> None:
    times: list[float] = []
    client = httpx2.Client(base_url=world.url, headers={"authorization": f"Bearer {world.agent}"}, timeout=60)
    client.get("/healthz")  # connect before the measurement
    # Each new breakpoint has the earliest deadline, so that it is the first row.
    for n, ttl in zip(range(CHANGES), itertools.count(3600, -60), strict=False):
        title = f"Live change {n}"
        page.evaluate(LIVE, title)
        sent = time.time() * 1000
        body = {"agentId": "deploy-bot", "title": title, "payload": {"question": "Deploy?"}, "ttlSeconds": ttl}
        assert client.post("/api/breakpoints", json=body).status_code == 201
        times.append(page.evaluate("window.benchLive") - sent)
    client.close()
    page.context.close()
    _report(report, dialect, "create → row in an open list", times, GOAL_LIVE)


def _report(report: Report, dialect: str, what: str, times: list[float], goal: int | None) -> None:
    ordered = sorted(times)
    half, worst = statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]
    measured = f"p50 {half:.0f} ms, p95 {worst:.0f} ms"
    met = None if goal is None else worst < goal
    report.fact("inbox", dialect, f"{what}, {len(times)} times", measured, f"p95 < {goal} ms" if goal else "", met=met)


def _lines(report: Report) -> None:
    """Count the lines of our own JavaScript; third-party scripts are in a separate folder."""
    scripts = [each for each in files("assent.web").joinpath("static").iterdir() if each.name.endswith(".js")]
    count = sum(len(each.read_text().splitlines()) for each in scripts)
    what = f"own JavaScript, {len(scripts)} files"
    if not any(line.what == what for line in report.lines):
        report.fact("inbox", "", what, f"{count} lines", f"≤ {GOAL_LINES} lines", met=count <= GOAL_LINES)
