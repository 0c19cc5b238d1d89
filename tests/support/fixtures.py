"""Fixtures that tests of several features share."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from assent.kernel.settings import Settings
from tests.audit.usecases.living import Lives, live
from tests.cli.commands import Desk
from tests.support.nodes import ManualClock, Node, prepared, running_node, server


@pytest.fixture(scope="module")
def shared_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def shared(module_settings: Settings, shared_clock: ManualClock) -> AsyncIterator[Node]:
    """A node shared by a module, for tests that do not affect each other."""
    async with running_node(module_settings, clock=shared_clock) as running:
        yield running


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server for commands, with an agent token and a reviewer token."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("desk") / "data")
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process:
        yield Desk(process.url, settings.data_dir, agent, reviewer)


@pytest.fixture(scope="module")
def lives(module_settings: Settings) -> Lives:
    """A database of varied breakpoints, shared by tests that restore everything they modify."""

    async def run() -> Lives:
        clock = ManualClock()
        async with running_node(module_settings, clock=clock) as node:
            return await live(node, clock)

    return asyncio.run(run())
