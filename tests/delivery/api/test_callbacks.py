"""Callback URLs: signatures are verified, replays have no effect, and only POST is allowed."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest
from prometheus_client import generate_latest
from starlette.routing import Router
from structlog.testing import capture_logs

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.breakpoint import Breakpoint
from assent.db.transaction import Transaction
from assent.delivery.api.callbacks import callbacks
from assent.delivery.channels.webhook.message import new_secret, signed_headers
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Deliveries, about
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.replies import AnsweringService
from assent.http.middleware import MAX_BODY, Edge
from assent.kernel.telemetry import Metrics
from tests.db.making import create, person, respond, stored
from tests.delivery.usecases.test_channel_answers import Board, Parrot, add_channel
from tests.support.nodes import ManualClock, Node

MINE, OTHERS = new_secret(os.urandom), new_secret(os.urandom)


@dataclass
class Hook:
    """A webhook channel that answers as Ann."""

    node: Node
    clock: ManualClock
    channel: StoredChannel

    @property
    def path(self) -> str:
        return f"/callbacks/{self.channel.id}"

    async def asked(self, payload: Mapping[str, Any] | None = None, **options: Any) -> Breakpoint:
        """Create a breakpoint, and record that this channel sent a message about it."""
        breakpoint_id = await create(self.node, payload, **options)

        def use_case(tx: Transaction) -> Breakpoint:
            current = tx[Breakpoints].get(breakpoint_id, project="default")
            event = tx[Breakpoints].events(breakpoint_id, limit=1)[0]
            made = about(tx.new_id("dlv"), current, event, channel=self.channel.id, recipient="place")
            assert tx[Deliveries].add(replace(made, state="sent"), now=tx.now())
            return current

        return await self.node.assent.database.write(use_case)

    def signed(self, said: Mapping[str, Any], *, key: str = "msg_1", secret: str = MINE) -> dict[str, Any]:
        body = json.dumps(said).encode()
        return {"content": body, "headers": signed_headers(key, body, secrets=[secret], at=self.clock.now())}

    async def say(self, about_it: Breakpoint, *, key: str = "msg_1", **said: Any) -> httpx2.Response:
        whole = {"breakpointId": about_it.id, "approved": True, "digest": about_it.digest} | said
        return await self.node.client.post(self.path, **self.signed(whole, key=key))


@pytest.fixture
async def hook(node: Node, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Hook:
    monkeypatch.setenv("HOOK_MINE", MINE)
    monkeypatch.setenv("HOOK_OTHERS", OTHERS)
    await person(node, "ann", "reviewer")
    settings = {"url": "https://hooks.example/", "secrets": ["env:HOOK_MINE"], "answersAs": "ann"}
    return Hook(node, clock, await add_channel(node, "hook", "webhook", settings=settings))


async def test_a_signed_answer_decides_the_breakpoint(hook: Hook) -> None:
    current = await hook.asked()
    answer = await hook.say(current, comment="Fine.")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "done": True,
        "message": "Your approval was recorded. The breakpoint is approved.",
        "breakpointId": current.id,
        "status": "released",
        "decision": "approved",
    }
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("application/json", "no-store")
    result = (await stored(hook.node, current.id)).result or {}
    assert (result["respondedBy"], result["via"], result["feedback"]) == ("ann", "webhook", "Fine.")


async def test_replaying_an_answer_succeeds_but_has_no_effect(hook: Hook) -> None:
    await person(hook.node, "bob", "reviewer")
    current = await hook.asked({"expert": ["ann", "bob"], "strategy": "collect-all"})
    first = await hook.say(current)
    hook.clock.advance(60)
    again = await hook.say(current, approved=False)
    assert (first.status_code, again.status_code) == (200, 200)
    events = await hook.node.assent.database.read(lambda tx: tx[Breakpoints].events(current.id))
    assert [each.type for each in events].count("responded") == 1
    (given,) = await hook.node.assent.database.read(lambda tx: tx[Breakpoints].responses(current.id))
    assert given.approved


async def test_a_request_with_an_invalid_signature_is_rejected_and_not_logged(hook: Hook) -> None:
    current = await hook.asked()
    said = {"breakpointId": current.id, "approved": True, "digest": current.digest, "comment": "hunter2"}
    good = hook.signed(said)
    other = await add_channel(
        hook.node, "other", "webhook", settings={**hook.channel.settings, "secrets": ["env:HOOK_OTHERS"]}
    )
    forged: list[tuple[str, dict[str, Any]]] = [
        (hook.path, {**good, "content": good["content"].replace(b"true", b"1   ")}),
        (hook.path, {**good, "headers": {**good["headers"], "webhook-id": "msg_2"}}),
        (hook.path, hook.signed(said, secret=OTHERS)),
        (hook.path, {"content": good["content"]}),
        (f"/callbacks/{other.id}", good),
    ]
    with capture_logs() as logs:
        for path, request in forged:
            answer = await hook.node.client.post(path, **request)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        hook.clock.advance(301)
        assert (await hook.node.client.post(hook.path, **good)).status_code == 401
    assert len([each for each in logs if each["event"] == "callback_refused"]) == 6
    assert "hunter2" not in str(logs)
    assert (await stored(hook.node, current.id)).votes == 0
    metrics = generate_latest(hook.node.assent.metrics.registry).decode()
    assert 'method="POST",route="/callbacks/{channel_id}",status="401"} 6.0' in metrics


@pytest.mark.parametrize(
    ("payload", "said", "status", "code"),
    [
        ({"risk": "high"}, {}, 403, "forbidden"),
        ({"expert": "bob"}, {}, 403, "not_eligible"),
        ({}, {"digest": "0" * 64}, 412, "digest_mismatch"),
        ({}, {"digest": None}, 422, "invalid_request"),
        ({"options": ["now"]}, {}, 422, "invalid_request"),
        ({}, {"approved": "yes"}, 422, "invalid_request"),
        ({}, {"breakpointId": "bp_unknown"}, 404, "not_found"),
        ({}, {"deliveryId": "dlv_unknown"}, 404, "not_found"),
    ],
)
async def test_an_error_response_contains_the_reason(
    hook: Hook, payload: dict[str, Any], said: dict[str, Any], status: int, code: str
) -> None:
    await person(hook.node, "bob", "reviewer")
    current = await hook.asked(payload)
    answer = await hook.say(current, **said)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await stored(hook.node, current.id)).votes == 0


async def test_a_refused_answer_is_refused_again_when_it_is_repeated(hook: Hook) -> None:
    bob = await person(hook.node, "bob", "reviewer")
    current = await hook.asked()
    await respond(hook.node, current.id, bob, approved=False)
    answers = [await hook.say(current) for _ in range(2)]
    assert [(each.status_code, each.json()["code"]) for each in answers] == [(409, "already_ended"), (409, "conflict")]
    assert answers[0].json()["standing"]["by"] == "person:bob"


async def test_responses_for_unknown_disabled_and_removed_channels_are_identical(hook: Hook) -> None:
    off = await add_channel(hook.node, "off", "webhook", settings=hook.channel.settings, enabled=False)
    gone = await add_channel(hook.node, "gone", "webhook", settings=hook.channel.settings)
    await hook.node.assent.database.write(lambda tx: tx[Channels].remove(gone.id, now=tx.now()))
    answers = [
        await hook.node.client.post(f"/callbacks/{each}", **hook.signed({}))
        for each in ("chn_unknown", off.id, gone.id, "UPPER", "a%00b", "x" * 200)
    ]
    assert {each.status_code for each in answers} == {404}
    assert len({each.text for each in answers}) == 1


async def test_a_channel_with_a_missing_secret_returns_503_with_retry_after(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = await hook.asked()
    monkeypatch.delenv("HOOK_MINE")
    answer = await hook.say(current)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert "HOOK_MINE" not in answer.text
    monkeypatch.setenv("HOOK_MINE", MINE)
    assert (await hook.say(current)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_only_post_requests_are_allowed(hook: Hook, method: str) -> None:
    current = await hook.asked()
    said = {"breakpointId": current.id, "approved": True, "digest": current.digest}
    answer = await hook.node.client.request(method, hook.path, **hook.signed(said))
    assert answer.status_code == 405
    assert (await stored(hook.node, current.id)).votes == 0


async def test_an_oversized_body_returns_413(hook: Hook) -> None:
    answer = await hook.node.client.post(hook.path, content=b" " * (MAX_BODY + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def small(hook: Hook, parrot: Parrot, *, per_minute: int) -> httpx2.AsyncClient:
    """Return a client of a separate app with a low rate limit."""
    assent = hook.node.assent
    answering = AnsweringService(
        assent.database,
        assent[BreakpointService],
        Board(parrot),
        clock=hook.clock,
        base_url="",
        links=assent[LinkService],
    )
    app = Edge(
        Router(callbacks(answering, hook.clock.now, per_minute=per_minute)),
        metrics=Metrics(),
        access_log=False,
    )
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://assent.test")


async def test_forged_requests_do_not_count_toward_the_channels_rate_limit(hook: Hook) -> None:
    async with small(hook, Parrot(), per_minute=2) as client:
        forged = [(await client.post(hook.path, content=b"forged")).status_code for _ in range(5)]
        real = [await client.post(hook.path, content=b"squawk") for _ in range(3)]
    assert forged == [401] * 5
    assert [each.status_code for each in real] == [200, 200, 429]
    assert real[-1].headers["retry-after"] == "30"
    assert real[0].json() == {"key": "squawk", "done": True}


async def test_a_caller_cannot_set_internal_headers(hook: Hook) -> None:
    heard: list[Mapping[str, str]] = []

    class Listener(Parrot):
        def hear(self, incoming: Any) -> Any:
            heard.append(incoming.headers)
            return super().hear(incoming)

    headers = [("X-Assent-Socket", "yes"), ("X-Twice", "first"), ("X-Twice", "second"), ("X_Odd:", "yes")]
    async with small(hook, Listener(), per_minute=5) as client:
        await client.post(hook.path, content=b"squawk", headers=headers)
    (found,) = heard
    assert found["x-twice"] == "first"
    assert not {"x-assent-socket", "x_odd:"} & found.keys()
