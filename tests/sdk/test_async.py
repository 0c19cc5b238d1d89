"""The async client over real sockets: the same calls as the sync client, and no open connection after cancelling."""

import asyncio
import contextlib
import inspect
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from assent.contracts.breakpoints import Event, Feedback
from assent.kernel.settings import Settings
from assent.sdk.aio import AsyncAssent
from assent.sdk.calls import Calls
from assent.sdk.client import Assent
from assent.sdk.errors import (
    Cancelled,
    Expired,
    NotApproved,
    NotFound,
    Rejected,
    StillWaiting,
    UnexpectedAnswer,
    Unreachable,
)
from tests.sdk.scripted import RESET, Hang, Say, Stream, scripted
from tests.sdk.test_client import DRAINING, ID, RELEASED, UNAVAILABLE, WAITING, WHOLE
from tests.sdk.test_rules import TESTED, lines, progress, result
from tests.sdk.test_waits import event, sse
from tests.support.nodes import free_port, prepared, start_server

CALLS = sorted(name for name, _ in inspect.getmembers(Calls, inspect.isfunction) if not name.startswith("_"))
SPECIAL = {"stream", "perform", "close"}


def public(client: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_offer_the_same_calls() -> None:
    assert public(Assent) == public(AsyncAssent) == set(CALLS) | SPECIAL


@pytest.mark.parametrize("name", [*CALLS, "stream", "close", "__init__"])
def test_a_call_has_the_same_signature_on_both_clients(name: str) -> None:
    def parameters(client: type) -> list[inspect.Parameter]:
        return list(inspect.signature(getattr(client, name)).parameters.values())

    assert parameters(Assent) == parameters(AsyncAssent)
    assert inspect.getdoc(getattr(Assent, name)) == inspect.getdoc(getattr(AsyncAssent, name)) or name in SPECIAL


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_coroutines_only_on_the_async_client(name: str) -> None:
    assert asyncio.iscoroutinefunction(getattr(AsyncAssent, name))
    assert not inspect.iscoroutinefunction(getattr(Assent, name))


async def test_a_wait_survives_a_draining_server_a_reset_connection_and_a_503() -> None:
    with scripted([DRAINING, RESET, UNAVAILABLE, Say(200, RELEASED)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            found = await assent.wait(ID)

    assert found.approved
    assert len(fake.heard) == 4


async def test_a_retried_create_reuses_its_idempotency_key() -> None:
    with scripted([RESET, UNAVAILABLE, Say(201, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            await assent.create("Shall I?", agent_id="a")

    assert len({heard.headers["idempotency-key"] for heard in fake.heard}) == 1
    assert len(fake.heard) == 3


@pytest.mark.parametrize("call", ["create", "cancel"])
async def test_a_rate_limited_request_is_retried_after_the_requested_delay(call: str) -> None:
    told: list[str] = []
    slow = Say(429, {"code": "rate_limited", "detail": "Slowly."}, {"Retry-After": "0"})
    with scripted([slow, Say(200, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t", on_trouble=told.append) as assent:
            asked = assent.create("Shall I?", agent_id="a") if call == "create" else assent.cancel(ID)
            assert (await asked).id == ID

    assert told == ["the server returned status 429"]


async def test_a_refused_connection_raises_unreachable() -> None:
    async with AsyncAssent(f"http://127.0.0.1:{free_port()}", "t", patience=0) as assent:
        with pytest.raises(Unreachable):
            await assent.get(ID)


async def test_a_cancelled_wait_closes_its_request() -> None:
    hang = Hang()
    with scripted([hang]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            waiting = asyncio.create_task(assent.wait(ID))
            await hang.client_came()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await hang.client_left()

    assert len(fake.heard) == 1


async def test_the_client_remains_usable_after_a_cancelled_wait() -> None:
    hang = Hang()
    with scripted([hang, Say(200, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            waiting = asyncio.create_task(assent.wait(ID))
            await hang.client_came()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            assert (await assent.get(ID)).id == ID


async def test_concurrent_waits_on_one_client_do_not_block_each_other() -> None:
    hangs = [Hang() for _ in range(150)]
    with scripted([*hangs, Say(200, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            waits = [asyncio.create_task(assent.wait(ID)) for _ in hangs]
            for each in hangs:
                await each.client_came()
            assert (await assent.get(ID)).id == ID
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def test_a_response_that_arrives_in_chunks_is_read_in_full() -> None:
    go_on, whole = threading.Event(), json.dumps(WHOLE).encode()
    pieces: list[bytes | threading.Event] = [whole[:40], go_on, whole[40:]]
    with scripted([Stream(pieces, {"Content-Length": str(len(whole)), "Content-Type": "application/json"})]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            reading = asyncio.create_task(assent.get(ID))
            await asyncio.sleep(0)
            go_on.set()
            assert (await reading).id == ID


async def test_a_truncated_response_is_retried() -> None:
    whole = json.dumps(WHOLE).encode()
    broken = Stream([whole[:40]], {"Content-Length": str(len(whole)), "Content-Type": "application/json"})
    with scripted([broken, Say(200, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            assert (await assent.get(ID)).id == ID

    assert len(fake.heard) == 2


async def test_a_backtest_reports_its_progress() -> None:
    told: list[tuple[int, int]] = []
    with scripted([RESET, lines(progress(4), progress(9), result())]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            found = await assent.backtest("a.*", on_progress=lambda scanned, total: told.append((scanned, total)))

    assert (found.matched, told) == (1, [(4, 9), (9, 9)])


def test_unicode_line_separators_do_not_split_a_line() -> None:
    tested = json.dumps({"result": TESTED | {"pattern": "a\u2028\x85b"}}, ensure_ascii=False).encode()
    with scripted([lines(tested)]) as fake, Assent(fake.url, "t") as assent:
        assert assent.backtest("x", on_progress=lambda *_: None).pattern == "a\u2028\x85b"


def ended(status: str, decision: str | None = None, **more: Any) -> Say:
    approved = decision == "approved"
    result = {"approved": approved, "status": status, "auto": False, "decision": decision} | more
    return Say(200, {"status": status, "updatedAt": "t2", "decision": decision, "result": result})


OUTCOMES = [
    (ended("released", "rejected", feedback="Not today."), Rejected, "Not today"),
    (ended("expired"), Expired, "in time"),
    (ended("cancelled"), Cancelled, "Cancelled before"),
    (ended("released", "approved", approved=False), Rejected, "Rejected"),
    (ended("expired", "approved"), Expired, "in time"),
    (Say(200, {"status": "released", "updatedAt": "t", "decision": "approved"}), NotApproved, "Not approved"),
    (
        Say(200, {"status": "released", "updatedAt": "t", "result": {"approved": True, "status": "released",
                  "auto": False, "decision": "approved"}}),
        NotApproved,
        "Not approved",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "error", "text"), OUTCOMES)
def test_any_outcome_except_approval_raises(answer: Say, error: type[NotApproved], text: str) -> None:
    with scripted([Say(201, WHOLE), answer]) as fake, Assent(fake.url, "t") as assent:
        with pytest.raises(error, match=text) as raised:
            assent.require_approval("Shall I?", agent_id="a")
        assert isinstance(raised.value, NotApproved)


@pytest.mark.parametrize(("answer", "error", "text"), OUTCOMES)
async def test_any_outcome_except_approval_raises_when_awaited(
    answer: Say, error: type[NotApproved], text: str
) -> None:
    with scripted([Say(201, WHOLE), answer]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            with pytest.raises(error, match=text):
                await assent.require_approval("Shall I?", agent_id="a")


async def test_an_approval_is_returned_and_a_rejection_includes_its_result() -> None:
    approved, rejected = ended("released", "approved", option="B"), ended("released", "rejected", respondedBy="ann")
    with scripted([Say(201, WHOLE), approved, Say(201, WHOLE), rejected]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            assert (await assent.require_approval("Which?", agent_id="a", options=["A", "B"])).option == "B"
            with pytest.raises(Rejected) as raised:
                await assent.require_approval("Which?", agent_id="a")

    assert raised.value.result is not None
    assert raised.value.result.responded_by == "ann"


def test_a_timed_out_wait_does_not_count_as_approval() -> None:
    with (
        scripted([Say(201, WHOLE), Say(200, WAITING)]) as fake,
        Assent(fake.url, "t") as assent,
        pytest.raises(StillWaiting),
    ):
        assent.require_approval("Shall I?", agent_id="a", timeout=0)


async def collected(events: AsyncIterator[Event]) -> list[int]:
    return [each.seq async for each in events]


def numbers(events: Iterator[Event]) -> list[int]:
    return [each.seq for each in events]


CUT = [
    Stream([sse(event(1, "created"), event(2)), sse(event(3))[:30]]),
    RESET,
    UNAVAILABLE,
    Stream([b": still waiting\n\n", sse(event(3, comment="\u2028")), sse(event(4, "released"))]),
]


async def test_a_disconnected_stream_resumes_after_the_last_event() -> None:
    with scripted(CUT) as fake, Assent(fake.url, "t") as assent:
        assert numbers(assent.stream(ID)) == [1, 2, 3, 4]
    with scripted(CUT) as again:
        async with AsyncAssent(again.url, "t") as other:
            assert await collected(other.stream(ID)) == [1, 2, 3, 4]

    for one in (fake, again):
        assert [heard.headers["last-event-id"] for heard in one.heard] == ["0", "2", "2", "2"]


async def test_an_event_is_delivered_as_soon_as_it_is_sent() -> None:
    go_on = threading.Event()
    with scripted([Stream([sse(event(1, "created")), go_on, sse(event(2, "released"))])]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            stream = assent.stream(ID)
            first = await anext(stream)
            go_on.set()
            assert (first.type, await collected(stream)) == ("created", [2])


async def test_leaving_a_stream_closes_its_connection() -> None:
    with scripted([Stream([sse(event(1)), threading.Event()]), Say(200, WHOLE)]) as fake:
        async with AsyncAssent(fake.url, "t") as assent:
            async with contextlib.aclosing(assent.stream(ID)) as events:
                await anext(events)
            assert (await assent.get(ID)).id == ID
        with Assent(fake.url, "t") as other:
            assert other.get(ID).id == ID


@pytest.mark.parametrize(
    ("answer", "error"),
    [(Say(404, {"code": "not_found", "detail": "No."}), NotFound), (Say(200, b"<html>"), UnexpectedAnswer)],
)
async def test_a_response_that_is_not_an_event_stream_raises(answer: Say, error: type[Exception]) -> None:
    with scripted([answer]) as fake, Assent(fake.url, "t") as assent, pytest.raises(error):
        numbers(assent.stream(ID))
    with scripted([answer]) as fake:
        async with AsyncAssent(fake.url, "t") as other:
            with pytest.raises(error):
                await collected(other.stream(ID))


async def test_waits_and_streams_survive_a_server_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    agent_token, reviewer_token = await asyncio.to_thread(prepared, settings, "agent", "reviewer")
    port, noticed = free_port(), asyncio.Event()
    agent = AsyncAssent(f"http://127.0.0.1:{port}", agent_token, patience=240, on_trouble=lambda _: noticed.set())
    heard: list[str] = []

    async def reply(comment: Feedback) -> str:
        heard.append(comment.comment)
        return "Tested this morning."

    async with agent, AsyncAssent(agent.url, reviewer_token) as reviewer:
        before = await asyncio.to_thread(start_server, settings, port=port)
        asked = await agent.create("Shall I?", agent_id="a")
        waiting = asyncio.create_task(agent.wait(asked.id, on_comment=reply))
        streaming = asyncio.create_task(_types(agent, asked.id))
        await asyncio.to_thread(before.stop, timeout=120)
        await noticed.wait()
        after = await asyncio.to_thread(start_server, settings, port=port)
        await reviewer.comment(asked.id, "Is it tested?")
        async with contextlib.aclosing(reviewer.stream(asked.id)) as events:
            seen = [each async for each in _until_second_comment(events)]
        await reviewer.approve(asked.id, comment="Then yes.", digest=asked.digest)
        status, types = await waiting, await streaming
        await asyncio.to_thread(after.stop, timeout=120)

    assert [each.metadata["comment"] for each in seen] == ["Is it tested?", "Tested this morning."]
    assert heard == ["Is it tested?"]
    assert status.approved
    assert types == ["created", "commented", "commented", "responded", "released"]


async def _types(client: AsyncAssent, breakpoint_id: str) -> list[str]:
    return [each.type async for each in client.stream(breakpoint_id)]


async def _until_second_comment(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    comments = 0
    async for each in events:
        if each.type == "commented":
            comments += 1
            yield each
        if comments == 2:
            return
