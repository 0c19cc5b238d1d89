"""Polls for changes without a notification, such as rows written by another process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def until(look: Callable[[], Awaitable[Value]], enough: Callable[[Value], bool]) -> Value:
    """Poll until the result is sufficient; the only time limit is the test's own."""
    while not enough(found := await look()):  # noqa: ASYNC110  # nothing signals the change
        await asyncio.sleep(0.05)
    return found
