"""A real server, a real Chromium, people and agents: what the browser tests share."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from assent.domain.access import Role
from assent.settings import Settings
from assent.store.transaction import Transaction
from tests.browser.chromium import FLAGS, NONE, executable
from tests.support.nodes import prepared, running_node, server

PEOPLE = ("ann", "bea")


@dataclass
class World:
    """A server with its data, seen from outside."""

    url: str
    settings: Settings
    agent: str

    def create(self, **body: Any) -> dict[str, Any]:
        sent = {"agentId": "deploy-bot", "title": "Deploy to production", "payload": {"question": "Deploy?"}} | body
        answer = self._call("POST", "/api/breakpoints", json=sent)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def wait_for(self, breakpoint_id: str) -> dict[str, Any]:
        """Wait as an agent does, until there is an answer."""
        while True:
            answer = self._call("GET", f"/api/breakpoints/{breakpoint_id}/status?wait=30")
            seen: dict[str, Any] = answer.json()
            if seen["status"] != "waiting":
                return seen

    def _call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.agent}"}
        return httpx2.request(method, self.url + path, headers=headers, timeout=60, **options)

    def link(self, name: str) -> str:
        """Make a one-time link on the data, as `assent user link` does beside a running server."""

        async def make() -> str:
            async with running_node(self.settings) as node:

                def use_case(tx: Transaction) -> str:
                    return node.assent.people.create_link(tx, tx.people.get_by_name(name).id, purpose="test")

                return await node.assent.database.write(use_case)

        # On a thread of its own: Playwright's loop runs in this one.
        with ThreadPoolExecutor(1) as thread:
            return f"{self.url}/sign-in/{thread.submit(asyncio.run, make()).result()}"


def _people(settings: Settings) -> None:
    async def make() -> None:
        async with running_node(settings) as node:

            def use_case(tx: Transaction) -> None:
                for name in PEOPLE:
                    roles = frozenset({Role.REVIEWER})
                    node.assent.people.create_person(tx, name, project="default", roles=roles)

            await node.assent.database.write(use_case)

    asyncio.run(make())


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("browser")
    settings = Settings(data_dir=folder / "data")
    (agent,) = prepared(settings, "agent")
    _people(settings)
    with server(settings, log=folder / "server.log") as process:
        yield World(process.url, settings, agent)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Closed before other tests start: no other event loop can run on this thread while Playwright's does."""
    path = executable()
    if path is None:
        pytest.fail(NONE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


Opener = Callable[..., BrowserContext]


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Opener]:
    """Open browsers that are closed after the test; without scripts unless asked."""
    contexts: list[BrowserContext] = []

    def open_context(*, scripts: bool = False, width: int = 1280, **options: Any) -> BrowserContext:
        size = {"width": width, "height": 900}
        contexts.append(chromium.new_context(java_script_enabled=scripts, viewport=size, **options))  # type: ignore[arg-type]
        return contexts[-1]

    yield open_context
    for context in contexts:
        context.close()


@pytest.fixture(scope="package")
def ann_state(world: World, chromium: Browser) -> Any:
    """Ann's cookies after she signed in by a link."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(world.link("ann"))
    page.get_by_role("button", name="Sign in as ann").click()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def ann(opened: Opener, ann_state: Any) -> Page:
    """Ann at her desk, signed in, without scripts."""
    return opened(storage_state=ann_state).new_page()


@pytest.fixture(scope="package")
def background() -> Iterator[Callable[..., "Future[dict[str, Any]]"]]:
    """Run what an agent does while a person is at the browser."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit
