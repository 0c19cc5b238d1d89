"""Deliveries during failures: receivers return errors or are down for an hour, and servers are killed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Delivery
from assent.delivery.usecases.outbox import DeliveryService
from assent.kernel.settings import Settings
from tests.db.making import create, person, respond
from tests.delivery.usecases.delegating import channel, deliveries, in_state, route, settle
from tests.faults.kills import said, secured
from tests.faults.load import rows
from tests.support.jira import TOKEN, USER, Jira, jira_server
from tests.support.mail import MailServer, mail_server
from tests.support.nodes import ManualClock, Node, running_node, start_server
from tests.support.receiver import Answer, Receiver, receiving
from tests.support.until import until

SECRET = "whsec_" + "c2VjcmV0" * 5
SECRETS = {"HOOK_SECRET": SECRET, "JIRA_TOKEN": TOKEN}
ASKED = 40
MINUTE, HOUR = 60, 3600
LOOKS = 50
"""Number of consecutive checks that must find no delivery in progress."""
STATES = "SELECT channel, purpose, state, attempts FROM assent_deliveries ORDER BY channel, seq"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running


@pytest.fixture
def jira() -> Iterator[Jira]:
    with jira_server() as running:
        yield running


@pytest.fixture
async def working(settings: Settings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, clock=clock, worker=True) as node:
        yield node


async def hooked(node: Node, receiver: Receiver, **more: Any) -> str:
    made = await channel(node, "hook", "webhook", url=receiver.url("/hook"), secrets=["env:HOOK_SECRET"])
    await route(node, "hook", **more)
    return made


async def mailed(node: Node, mail: MailServer) -> None:
    given: dict[str, Any] = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.test"}
    await channel(node, "mail", "email", **given, addresses=["ops@example.test"])


async def heal(node: Node) -> None:
    """Queue due deliveries, because their jobs are scheduled by the real clock."""
    await node.assent.database.write(node.assent[DeliveryService].heal)


async def attempted(node: Node, breakpoint_id: str, times: int) -> list[Delivery]:
    return await until(
        partial(deliveries, node, breakpoint_id),
        lambda found: bool(found) and all(each.attempts >= times and each.state != "sending" for each in found),
    )


async def all_tried(node: Node, times: int) -> None:
    def enough(found: list[Delivery]) -> bool:
        return all(each.attempts >= times and each.state != "sending" for each in found)

    await until(partial(deliveries, node), enough)


async def first_tried(node: Node, breakpoint_id: str, times: int) -> None:
    def enough(found: list[Delivery]) -> bool:
        return any(each.attempts >= times and each.state != "sending" for each in found)

    await until(partial(deliveries, node, breakpoint_id), enough)


async def stored_channel(node: Node, channel_id: str) -> StoredChannel:
    return await node.assent.database.read(lambda tx: tx[Channels].get(channel_id))


@pytest.mark.parametrize("status", [500, 503, 429, 302, 404])
async def test_a_temporary_failure_is_retried_until_it_succeeds(
    working: Node, receiver: Receiver, clock: ManualClock, status: int
) -> None:
    channel_id = await hooked(working, receiver)
    receiver.answer("/hook", Answer(status), Answer(status), Answer(204))
    breakpoint_id = await create(working)
    for times in (1, 2):
        [failed] = await attempted(working, breakpoint_id, times)
        assert (failed.state, failed.attempts) == ("pending", times)
        assert str(status) in (failed.last_error or "")
        assert (await stored_channel(working, channel_id)).last_error == failed.last_error
        clock.advance(2 * HOUR)
        await heal(working)
    [done] = await in_state(working, breakpoint_id, "sent")
    assert (done.attempts, len({call.id for call in receiver.calls}), len(receiver.calls)) == (3, 1, 3)
    assert (await stored_channel(working, channel_id)).last_error is None


async def test_the_retry_after_header_schedules_the_next_attempt(
    working: Node, receiver: Receiver, clock: ManualClock
) -> None:
    await hooked(working, receiver)
    receiver.answer("/hook", Answer(429, {"retry-after": "900"}))
    [failed] = await attempted(working, await create(working), 1)
    assert failed.next_at - clock.now() == 900_000_000


async def test_a_receiver_that_returns_410_is_disabled_and_the_fallback_is_used(
    working: Node, receiver: Receiver, mail: MailServer
) -> None:
    channel_id = await hooked(working, receiver, fallback=["mail"])
    await mailed(working, mail)
    receiver.answer("/hook", Answer(410))
    first = await create(working)
    assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) == 1)
    second = await create(working)
    assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) == 2)
    assert len(receiver.calls) == 1, "a disabled channel was called"
    for each in (first, second):
        found = await in_state(working, each, "dead", "sent")
        assert sorted(one.state for one in found) == ["dead", "sent"]
    stored = await stored_channel(working, channel_id)
    assert (stored.enabled, "410" in (stored.disabled_because or "")) == (False, True)


async def test_a_persistently_failing_channel_falls_back_to_the_next_channel(
    working: Node, receiver: Receiver, mail: MailServer, clock: ManualClock
) -> None:
    await hooked(working, receiver, fallback=["mail"])
    await mailed(working, mail)
    receiver.answer("/hook", Answer(500))
    breakpoint_id = await create(working)
    for times in range(1, 6):
        await first_tried(working, breakpoint_id, times)
        clock.advance(2 * HOUR)
        await heal(working)
    assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) == 1)
    found = await in_state(working, breakpoint_id, "dead", "sent")
    assert [(each.state, each.attempts) for each in sorted(found, key=lambda each: each.state)] == [
        ("dead", 5),
        ("sent", 1),
    ]


async def test_receivers_that_hang_or_disconnect_are_retried_without_delaying_others(
    working: Node, receiver: Receiver, clock: ManualClock
) -> None:
    paths = {"hangs": "/hangs", "drops": "/drops", "well": "/well"}
    for name, path in paths.items():
        await channel(working, name, "webhook", url=receiver.url(path), secrets=["env:HOOK_SECRET"])
    await route(working, *paths)
    receiver.hold("/hangs")
    receiver.answer("/drops", Answer(drops=True))
    breakpoint_id = await create(working)
    assert await asyncio.to_thread(receiver.wait, lambda calls: {call.path for call in calls} == set(paths.values()))
    # The channel that hangs is still waiting for its response.
    found = await until(
        partial(deliveries, working, breakpoint_id), lambda all_: [each.state for each in all_].count("sent") == 1
    )
    assert sorted(each.state for each in found) != ["sent", "sent", "sent"]
    failed = await attempted(working, breakpoint_id, 1)
    assert sorted(each.state for each in failed) == ["pending", "pending", "sent"]
    assert all(each.last_error for each in failed if each.state == "pending")
    receiver.let_go("/hangs")  # too late: the response is no longer read
    receiver.answer("/drops", Answer(204))
    clock.advance(2 * HOUR)
    await heal(working)
    done = await in_state(working, breakpoint_id, "sent")
    assert sorted(each.attempts for each in done) == [1, 2, 2]
    for path in paths.values():
        assert len({call.id for call in receiver.to(path)}) == 1, "a retry sent a different message"


async def test_a_delivered_message_cannot_be_retried(working: Node, mail: MailServer) -> None:
    await mailed(working, mail)
    await route(working, "mail")
    [sent] = await in_state(working, await create(working), "sent")
    admin = await working.token("admin")
    answer = await working.call("POST", f"/api/deliveries/{sent.id}/retry", admin)
    assert answer.status_code == 409
    assert len(mail.letters) == 1


async def test_an_hour_long_outage_loses_no_messages(
    working: Node, receiver: Receiver, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = await person(working, "ann", "reviewer")
    await hooked(working, receiver)
    receiver.answer("/hook", Answer(503))
    ids = [await create(working) for _ in range(ASKED)]
    answered = ids[: ASKED // 4]
    for times in (1, 2, 3):
        await all_tried(working, times)
        clock.advance(20 * MINUTE)
        await heal(working)
    await all_tried(working, 4)
    for each in answered:
        await respond(working, each, ann)
    # After the clock jump, deliveries in progress would look abandoned by a dead worker, so let them finish first.
    for _ in range(LOOKS):
        await until(partial(deliveries, working), lambda all_: all(each.state != "sending" for each in all_))
    tried = len(receiver.calls)
    receiver.answer("/hook", Answer(204))
    clock.advance(2 * HOUR)

    async def pushed() -> list[Delivery]:
        found = await deliveries(working)
        if all(each.state != "sending" for each in found):
            # Advance only when no delivery is in progress, and by less than a claim's 30 seconds, because a worker may
            # have just claimed a delivery.
            clock.advance(MINUTE // 3)
            await heal(working)
        return found

    found = await until(pushed, lambda all_: all(each.state in {"sent", "superseded"} for each in all_))
    told = {call.json["data"]["breakpointId"] for call in receiver.calls[tried:]}
    needless = {each.breakpoint_id for each in found if each.state == "superseded"}
    arrived = [call.id for call in receiver.calls[tried:]]
    with capsys.disabled():
        sys.stdout.write(
            f"\noutage of an hour: {tried} attempts failed, {len(found)} deliveries in the end,"
            f" {len(arrived)} arrived, {len(arrived) - len(set(arrived))} of them twice\n"
        )
    assert told | needless == set(ids)
    assert needless <= set(answered), "only answered breakpoints may go without a notification"
    assert len(arrived) == len(set(arrived))


@pytest.mark.timeout(600)
async def test_kill_9_between_sending_and_recording_loses_no_message(
    settings: Settings, receiver: Receiver, mail: MailServer, jira: Jira, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_node(settings) as node:
        await channel(node, "hook", "webhook", url=receiver.url("/hook"), secrets=["env:HOOK_SECRET"])
        await mailed(node, mail)
        given: dict[str, Any] = {"url": jira.url, "project": "OPS", "user": USER, "token": "env:JIRA_TOKEN"}
        await channel(node, "jira", **given, issueType="Task", pollSeconds=0)
        await route(node, "hook", "mail", "jira")
    environment = secured(settings) | SECRETS
    receiver.hold("/hook")
    mail.hold()
    jira.drop()
    process = await asyncio.to_thread(start_server, settings, **environment)
    try:
        async with running_node(settings) as node:
            breakpoint_id = await create(node)
            await settle(node)
        assert await asyncio.to_thread(receiver.wait, lambda calls: len(calls) == 1)
        assert await asyncio.to_thread(jira.wait, lambda issues: len(issues) == 1)
    finally:
        process.kill()
    receiver.let_go("/hook")
    mail.let_go()
    process = await asyncio.to_thread(start_server, settings, **environment)
    try:
        await until(
            lambda: asyncio.to_thread(rows, settings, STATES),
            lambda found: len(found) == 3 and all(row[2] == "sent" for row in found),
        )
    finally:
        process.kill()
    ids = [str(letter.message["message-id"]) for letter in mail.letters]
    again = receiver.repeats() + len(ids) - len(set(ids))
    with capsys.disabled():
        sys.stdout.write(f"\nkill -9 between sending and noting, 3 channels: 0 lost, {again} messages told again\n")
    assert {call.json["data"]["breakpointId"] for call in receiver.calls} == {breakpoint_id}
    assert len({call.id for call in receiver.calls}) == 1, "the repeated message has a different id"
    assert len(set(ids)) == 1, "the repeated email has a different id"
    assert len(jira.issues) == 1, "a breakpoint has two issues"
    assert said(settings, "fsck") == []
