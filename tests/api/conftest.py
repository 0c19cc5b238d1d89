"""A node shared by a module, for tests that do not affect each other."""

from collections.abc import AsyncIterator

import pytest

from assent.settings import Settings
from tests.support.nodes import ManualClock, Node, running_node


@pytest.fixture(scope="module")
def shared_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def shared(module_settings: Settings, shared_clock: ManualClock) -> AsyncIterator[Node]:
    async with running_node(module_settings, clock=shared_clock) as running:
        yield running
