"""A database of varied breakpoints, shared by tests that restore everything they modify."""

import asyncio

import pytest

from assent.settings import Settings
from tests.services.living import Lives, live
from tests.support.nodes import ManualClock, running_node


@pytest.fixture(scope="module")
def lives(module_settings: Settings) -> Lives:
    async def run() -> Lives:
        clock = ManualClock()
        async with running_node(module_settings, clock=clock) as node:
            return await live(node, clock)

    return asyncio.run(run())
