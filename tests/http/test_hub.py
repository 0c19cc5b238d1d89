"""The hub: each change wakes exactly its waiters, no change is lost, and no state is left behind."""

import asyncio
from typing import Any

import pytest

from assent.core.breakpoint import Status
from assent.http.waiters import INBOX_BACKLOG, Hub, Woken, parked
from assent.kernel.ports import Hint


def hint(breakpoint_id: str, project: str = "default", version: int = 2) -> Hint:
    return Hint(project, breakpoint_id, Status.WAITING, version)


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_change_wakes_only_its_own_waiters() -> None:
    hub = Hub()
    mine, also_mine, other = hub.register("bp_1", "t1"), hub.register("bp_1", "t2"), hub.register("bp_2", "t1")
    hub.wake([hint("bp_1")])
    assert await mine.future is Woken.CHANGED
    assert await also_mine.future is Woken.CHANGED
    assert not other.future.done()


async def test_a_change_before_the_wait_starts_is_not_lost() -> None:
    hub = Hub()
    waiter = hub.register("bp_1", "t1")
    hub.wake([hint("bp_1")])
    assert await parked(waiter, 30, never) is Woken.CHANGED


async def test_only_the_first_wake_up_reason_counts() -> None:
    hub = Hub()
    waiter = hub.register("bp_1", "t1")
    hub.wake([hint("bp_1"), hint("bp_1")])
    hub.cut("t1")
    hub.drain()
    assert await waiter.future is Woken.CHANGED


async def test_a_rearmed_waiter_is_woken_again() -> None:
    hub = Hub()
    waiter = hub.register("bp_1", "t1")
    hub.wake([hint("bp_1")])
    hub.rearm(waiter)
    assert not waiter.future.done()
    hub.wake_ids(["bp_1", "bp_unknown"])
    assert await waiter.future is Woken.CHANGED


async def test_a_wait_ends_at_a_timeout_or_a_disconnect() -> None:
    hub = Hub()
    assert await parked(hub.register("bp_1", "t1"), 0, never) is Woken.TIMEOUT
    assert await parked(hub.register("bp_1", "t1"), -5, None) is Woken.TIMEOUT
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def leaving() -> Any:
        return next(messages)

    assert await parked(hub.register("bp_1", "t1"), 30, leaving) is Woken.GONE


async def test_a_completed_wait_leaves_no_task_behind() -> None:
    hub = Hub()
    before = asyncio.all_tasks()
    waiter = hub.register("bp_1", "t1")
    hub.wake([hint("bp_1")])
    await parked(waiter, 30, never)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_removed_waiter_is_neither_counted_nor_woken() -> None:
    hub = Hub()
    waiter = hub.register("bp_1", "t1")
    assert (hub.waiters, hub.held_by("t1"), hub.waited_for(), hub.tokens()) == (1, 1, ["bp_1"], {"t1"})
    hub.remove(waiter)
    hub.remove(waiter)
    hub.wake([hint("bp_1")])
    assert not waiter.future.done()
    assert (hub.waiters, hub.held_by("t1"), hub.waited_for(), hub.tokens()) == (0, 0, [], set())


async def test_revoking_a_token_ends_only_its_own_waits_and_inboxes() -> None:
    hub = Hub()
    mine, other = hub.register("bp_1", "t1"), hub.register("bp_1", "t2")
    my_inbox, other_inbox = hub.open_inbox("default", "t1"), hub.open_inbox("default", "t2")
    hub.cut("t1")
    assert await mine.future is Woken.REVOKED
    assert my_inbox.closed
    assert my_inbox.ready.is_set()
    assert not other.future.done()
    assert not other_inbox.closed
    hub.cut("unknown")


async def test_draining_ends_all_current_and_later_waits_and_inboxes() -> None:
    hub = Hub()
    waiter, inbox = hub.register("bp_1", "t1"), hub.open_inbox("default", "t1")
    hub.drain()
    assert await waiter.future is Woken.DRAINED
    assert inbox.closed
    assert await hub.register("bp_2", "t2").future is Woken.DRAINED
    assert hub.open_inbox("default", "t2").closed
    hub.rearm(waiter)
    assert await waiter.future is Woken.DRAINED


async def test_waits_and_inboxes_count_toward_a_tokens_limit() -> None:
    hub = Hub()
    hub.register("bp_1", "t1")
    hub.register("bp_2", "t1")
    inbox = hub.open_inbox("default", "t1")
    hub.open_inbox("other", "t2")
    assert (hub.held_by("t1"), hub.held_by("t2"), hub.held_by("t3")) == (3, 1, 0)
    assert (hub.waiters, hub.inboxes) == (2, 2)
    hub.close_inbox(inbox)
    assert (hub.held_by("t1"), hub.inboxes) == (2, 1)


async def test_an_inbox_keeps_the_latest_change_of_each_breakpoint_of_its_project() -> None:
    hub = Hub()
    inbox = hub.open_inbox("default", "t1")
    hub.wake([hint("bp_1", version=2), hint("bp_1", version=3), hint("bp_2"), hint("bp_3", "elsewhere")])
    assert {each.breakpoint_id: each.version for each in inbox.hints.values()} == {"bp_1": 3, "bp_2": 2}
    assert inbox.ready.is_set()


async def test_an_inbox_that_is_not_read_stops_growing_and_is_marked_as_overflowed() -> None:
    hub = Hub()
    inbox = hub.open_inbox("default", "t1")
    hub.wake([hint(f"bp_{n}") for n in range(INBOX_BACKLOG)])
    assert not inbox.overflowed
    hub.wake([hint("bp_more")])
    assert inbox.overflowed
    assert len(inbox.hints) == INBOX_BACKLOG


@pytest.mark.parametrize("waiters", [1, 1000])
async def test_many_waiters_leave_no_state_behind(waiters: int) -> None:
    hub = Hub()
    held = [hub.register(f"bp_{n % 7}", f"t{n % 3}") for n in range(waiters)]
    assert hub.waiters == waiters
    hub.wake([hint(f"bp_{n}") for n in range(7)])
    assert all(waiter.future.done() for waiter in held)
    for waiter in held:
        hub.remove(waiter)
    assert (hub.waiters, hub.waited_for(), hub.tokens()) == (0, [], set())
