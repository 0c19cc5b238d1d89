"""Coalesced reads: no result is older than the caller's request, and a cancelled caller does not affect others."""

import asyncio
from dataclasses import dataclass, field

import pytest

from assent.db.coalescing import Shared


@dataclass
class Book:
    """Data that changes while it is being read; the test decides when each read ends."""

    text: str = "old"
    looks: list["asyncio.Future[None]"] = field(default_factory=list)

    async def look(self, key: str) -> str:
        found = f"{key}: {self.text}"
        gate = asyncio.get_running_loop().create_future()
        self.looks.append(gate)
        await gate
        return found

    def let_go(self, number: int) -> None:
        self.looks[number].set_result(None)


async def settled() -> None:
    """Let all tasks run until they are waiting."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_concurrent_requests_for_one_key_cause_two_reads() -> None:
    book = Book()
    shared = Shared(book.look)
    asking = [asyncio.create_task(shared.get("a")) for _ in range(20)]
    await settled()
    assert len(book.looks) == 1
    book.let_go(0)
    await settled()
    assert len(book.looks) == 2
    book.let_go(1)
    assert await asyncio.gather(*asking) == ["a: old"] * 20


async def test_a_request_after_a_change_gets_the_new_value() -> None:
    book = Book()
    shared = Shared(book.look)
    before = asyncio.create_task(shared.get("a"))
    await settled()
    book.text = "new"
    after = [asyncio.create_task(shared.get("a")) for _ in range(2)]
    await settled()
    book.let_go(0)
    await settled()
    book.let_go(1)
    assert (await before, await asyncio.gather(*after)) == ("a: old", ["a: new", "a: new"])


async def test_a_change_during_the_second_read_is_seen_by_later_requests() -> None:
    book = Book()
    shared = Shared(book.look)
    first, second = (asyncio.create_task(shared.get("a")) for _ in range(2))
    await settled()
    book.let_go(0)
    await settled()
    book.text = "new"
    third = asyncio.create_task(shared.get("a"))
    await settled()
    book.let_go(1)
    await settled()
    book.let_go(2)
    assert [await each for each in (first, second, third)] == ["a: old", "a: old", "a: new"]


async def test_different_keys_do_not_wait_for_each_other() -> None:
    book = Book()
    shared = Shared(book.look)
    one, other = asyncio.create_task(shared.get("a")), asyncio.create_task(shared.get("b"))
    await settled()
    book.let_go(1)
    assert await other == "b: old"
    book.let_go(0)
    assert await one == "a: old"


@pytest.mark.parametrize("leaving", [0, 1])
async def test_a_cancelled_caller_does_not_affect_the_others(leaving: int) -> None:
    book = Book()
    shared = Shared(book.look)
    asking = [asyncio.create_task(shared.get("a")) for _ in range(3)]
    await settled()
    asking[leaving].cancel()
    await settled()
    book.let_go(0)
    await settled()
    book.let_go(1)
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [each for n, each in enumerate(found) if n != leaving] == ["a: old"] * 2


async def test_an_error_reaches_only_the_callers_of_that_read_and_is_not_cached() -> None:
    answers: list[str | Exception] = [OSError("gone"), "back", "back again"]

    async def look(_: str) -> str:
        await asyncio.sleep(0)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    shared = Shared(look)
    found = await asyncio.gather(*(shared.get("a") for _ in range(3)), return_exceptions=True)
    assert isinstance(found[0], OSError)
    assert found[1:] == ["back", "back"]
    assert await shared.get("a") == "back again"


async def test_finished_reads_leave_no_state_behind() -> None:
    async def look(key: int) -> int:
        await asyncio.sleep(0)
        return key

    shared = Shared(look)
    await asyncio.gather(*(shared.get(n % 7) for n in range(100)))
    await settled()
    assert not shared._under_way
    assert not shared._following
