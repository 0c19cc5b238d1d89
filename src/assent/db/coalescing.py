"""Combines concurrent reads."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Coalescer(Generic[Value]):
    """Combines concurrent reads of single keys into one statement."""

    def __init__(self, load: Callable[[list[str]], Any]) -> None:
        self._load = load
        self._waiting: dict[str, list[asyncio.Future[Value | None]]] = {}
        self._running = 0

    async def get(self, key: str) -> Value | None:
        future: asyncio.Future[Value | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._running < 2:  # noqa: PLR2004  # one statement running, one being collected
            self._running += 1
            task = asyncio.get_running_loop().create_task(self._drain())
            task.add_done_callback(lambda _: None)
        return await future

    async def _drain(self) -> None:
        try:
            while self._waiting:
                taken = self._waiting
                self._waiting = {}
                await self._answer(taken)
        finally:
            self._running -= 1

    async def _answer(self, taken: dict[str, list[asyncio.Future[Value | None]]]) -> None:
        try:
            found: Mapping[str, Value] = await self._load(list(taken))
        except Exception as error:  # noqa: BLE001  # every reader in the batch receives it
            for futures in taken.values():
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
            return
        for key, futures in taken.items():
            for future in futures:
                if not future.done():
                    future.set_result(found.get(key))


class Shared(Generic[Key, Value]):
    """Runs one lookup for all callers that ask for the same key while another lookup is running.

    The shared lookup starts after the last of these calls, so that callers see their own writes.
    """

    def __init__(self, look: Callable[[Key], Awaitable[Value]]) -> None:
        self._look = look
        self._under_way: dict[Key, asyncio.Task[Value]] = {}
        self._following: dict[Key, asyncio.Task[Value]] = {}

    async def get(self, key: Key) -> Value:
        under_way = self._under_way.get(key)
        # A running lookup may have read before the caller's last write, so the caller must wait for the next one.
        if under_way is None:
            found = self._under_way[key] = self._task(key, None)
        elif key in self._following:
            found = self._following[key]
        else:
            found = self._following[key] = self._task(key, under_way)
        # Cancelling one caller must not affect the others.
        return await asyncio.shield(found)

    def _task(self, key: Key, before: "asyncio.Task[Value] | None") -> "asyncio.Task[Value]":
        task = asyncio.get_running_loop().create_task(self._answer(key, before))
        task.add_done_callback(partial(self._ended, key))
        return task

    async def _answer(self, key: Key, before: "asyncio.Task[Value] | None") -> Value:
        if before is not None:
            await asyncio.wait([before])
            self._under_way[key] = self._following.pop(key)
        return await self._look(key)

    def _ended(self, key: Key, task: "asyncio.Task[Value]") -> None:
        if self._under_way.get(key) is task and key not in self._following:
            del self._under_way[key]
        # If all callers were cancelled, nothing else would retrieve the exception.
        if not task.cancelled():
            task.exception()
