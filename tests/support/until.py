"""Waiting for what tells nobody that it has happened, such as a row that another process writes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def until(look: Callable[[], Awaitable[Value]], enough: Callable[[Value], bool]) -> Value:
    """Look again and again until what is there is enough; the test's own time limit is the only one."""
    while not enough(found := await look()):  # noqa: ASYNC110  # there is nothing to be told by
        await asyncio.sleep(0.05)
    return found
