"""Shared fixtures of the browser tests: a real server, a real Chromium, people and agents."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from tests.browser.chromium import FLAGS, NONE, executable
from tests.support.keys import key_reference
from tests.support.nodes import prepared, running_node, server
from tests.support.postgres import new_database

PEOPLE = {"ann": {Role.REVIEWER}, "bea": {Role.REVIEWER}, "root": set(Role)}
# Pages can be slow on a busy machine, and no test asserts how fast they are.
expect.set_options(timeout=30_000)
on_one_database = pytest.mark.parametrize("kind", ["sqlite"], indirect=True, scope="package")
"""For tests about layout and scripts, which do not depend on the database."""
UNDO_SECONDS = 60
"""Long enough to undo on a busy machine; most tests use a server without an undo window."""


@dataclass
class World:
    """A server and its data, accessed over HTTP."""

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
        """Poll as an agent does until the breakpoint is no longer pending."""
        while True:
            answer = self._call("GET", f"/api/breakpoints/{breakpoint_id}/status?wait=30")
            seen: dict[str, Any] = answer.json()
            if seen["status"] != "waiting":
                return seen

    def status(self, breakpoint_id: str) -> dict[str, Any]:
        """Return the breakpoint as the agent sees it, without waiting."""
        seen: dict[str, Any] = self._call("GET", f"/api/breakpoints/{breakpoint_id}").json()
        return seen

    def comment(self, breakpoint_id: str, text: str) -> None:
        self._call("POST", f"/api/breakpoints/{breakpoint_id}/feedback", json={"comment": text})

    def _call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.agent}"}
        return httpx2.request(method, self.url + path, headers=headers, timeout=60, **options)

    def link(self, name: str) -> str:
        """Create a sign-in link directly in the database, as `assent user link` does while the server is running."""

        async def make() -> str:
            async with running_node(self.settings) as node:

                def use_case(tx: Transaction) -> str:
                    return node.assent[PeopleService].create_link(tx, tx[People].get_by_name(name).id, purpose="test")

                return await node.assent.database.write(use_case)

        # In another thread, because Playwright's event loop occupies this one.
        with ThreadPoolExecutor(1) as thread:
            return f"{self.url}/sign-in/{thread.submit(asyncio.run, make()).result()}"


def _people(settings: Settings) -> None:
    async def make() -> None:
        async with running_node(settings) as node:

            def use_case(tx: Transaction) -> None:
                for name, roles in PEOPLE.items():
                    node.assent[PeopleService].create_person(tx, name, project="default", roles=frozenset(roles))

            await node.assent.database.write(use_case)

    asyncio.run(make())


@contextlib.contextmanager
def running(kind: str, folder: Path, url: str, *, undo_seconds: int) -> Iterator[World]:
    """Start a server with new data, an agent token and the people."""
    with contextlib.ExitStack() as stack:
        settings = Settings(data_dir=folder / "data", undo_seconds=undo_seconds)
        if kind == "postgresql":
            change = {"database_url": stack.enter_context(new_database(url)), "secret_keys": (key_reference(folder),)}
            settings = settings.model_copy(update=change)
        # In another thread, because Playwright's event loop occupies this one.
        with ThreadPoolExecutor(1) as thread:
            (agent,) = thread.submit(prepared, settings, "agent").result()
            thread.submit(_people, settings).result()
        process = stack.enter_context(server(settings, log=folder / "server.log", undo_seconds=str(undo_seconds)))
        yield World(process.url, settings, agent)


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """Runs each test on both databases, unless it is marked `on_one_database`."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def world(kind: str, postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server without an undo window, on which answers take effect immediately."""
    with running(kind, tmp_path_factory.mktemp("world"), postgres_url, undo_seconds=0) as found:
        yield found


@pytest.fixture(scope="module")
def patient_world(kind: str, postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server with an undo window."""
    with running(kind, tmp_path_factory.mktemp("patient"), postgres_url, undo_seconds=UNDO_SECONDS) as found:
        yield found


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Start Chromium; it is closed before tests in other packages, because Playwright's event loop blocks theirs."""
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
    """Open browser contexts (without scripts by default) and close them after the test."""
    contexts: list[BrowserContext] = []

    def open_context(*, scripts: bool = False, width: int = 1280, **options: Any) -> BrowserContext:
        size = {"width": width, "height": 900}
        contexts.append(chromium.new_context(java_script_enabled=scripts, viewport=size, **options))  # type: ignore[arg-type]
        return contexts[-1]

    yield open_context
    for context in contexts:
        context.close()


def signed_in_state(world: World, chromium: Browser, name: str) -> Any:
    """Return a person's cookies after signing in with a link."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(world.link(name))
    page.get_by_role("button", name=f"Sign in as {name}").click()
    state = context.storage_state()
    context.close()
    return state


class States(dict[str, Any]):
    """The cookies of each person, who signs in when they are first needed."""

    def __init__(self, world: World, chromium: Browser) -> None:
        super().__init__()
        self.world = world
        self.chromium = chromium

    def __missing__(self, name: str) -> Any:
        self[name] = state = signed_in_state(self.world, self.chromium, name)
        return state


@pytest.fixture(scope="module")
def states(world: World, chromium: Browser) -> States:
    return States(world, chromium)


@pytest.fixture(scope="module")
def ann_state(states: dict[str, Any]) -> Any:
    return states["ann"]


@pytest.fixture
def ann(opened: Opener, states: dict[str, Any]) -> Page:
    """A page without scripts on which Ann is signed in."""
    return opened(storage_state=states["ann"]).new_page()


Desk = Callable[..., Page]


@pytest.fixture
def desk(opened: Opener, states: dict[str, Any]) -> Desk:
    """Open pages with scripts for a person who is signed in; errors in scripts fail the test."""

    def sit(name: str = "ann", **options: Any) -> Page:
        return watched(opened(scripts=True, storage_state=states[name], **options).new_page())

    return sit


@pytest.fixture
def patient_desk(opened: Opener, patient_world: World, chromium: Browser) -> Desk:
    """Like `desk`, but on the server with an undo window."""

    def sit(name: str = "ann", **options: Any) -> Page:
        state = signed_in_state(patient_world, chromium, name)
        return watched(opened(scripts=True, storage_state=state, **options).new_page())

    return sit


def watched(page: Page) -> Page:
    def raise_error(error: Any) -> None:
        raise AssertionError(f"a script failed: {error}")

    page.on("pageerror", raise_error)
    return page


@pytest.fixture(scope="package")
def background() -> Iterator[Callable[..., "Future[dict[str, Any]]"]]:
    """Run an agent's calls while a person uses the browser; calls that are still waiting at the end are not awaited."""
    pool = ThreadPoolExecutor(8)
    yield pool.submit
    pool.shutdown(wait=False, cancel_futures=True)
