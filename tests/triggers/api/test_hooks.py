"""Source webhooks: events are verified and stored once, and all unavailable sources return identical responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from assent.db.transaction import Transaction
from assent.http.middleware import MAX_BODY
from assent.kernel.settings import Settings
from assent.people.store.projects import Projects
from assent.triggers.event import EventState, TriggerEvent
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.webhooks import Ingress
from tests.support.nodes import ManualClock, Node, running_node
from tests.triggers.sources.signing import ENVIRONMENT, SECRET, SIGNED, golden, hexed


@dataclass
class Outside:
    """A client that calls a node, and the events and sources that the node stored."""

    node: Node
    clock: ManualClock

    async def source(self, name: str, kind: str = "github", **more: Any) -> StoredSource:
        project, enabled = more.pop("project", "default"), more.pop("enabled", True)
        settings = {"secrets": ["env:HOOK_SECRET"], **more}

        def use_case(tx: Transaction) -> StoredSource:
            made = StoredSource(
                id=tx.new_id("src"),
                project=project,
                name=name,
                kind=kind,
                settings={key: value for key, value in settings.items() if value is not None},
                enabled=enabled,
                created_at=tx.now(),
                updated_at=tx.now(),
            )
            tx[Sources].add(made)
            return made

        return await self.node.assent.database.write(use_case)

    async def push(
        self, address: str = "shop", *, delivery: str = "d-1", body: Any = None, **more: Any
    ) -> httpx2.Response:
        case = golden("github", "push")
        raw = body if isinstance(body, bytes) else json.dumps(case["body"] if body is None else body).encode()
        headers = {**case["headers"], "x-github-delivery": delivery, **SIGNED["github"](raw), **more.pop("headers", {})}
        return await self.node.client.post(f"/hooks/{address}", content=raw, headers=headers)

    async def post(self, path: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return await self.node.client.post(path, content=body, headers=dict(headers or {}))

    async def events(self, project: str = "default") -> list[TriggerEvent]:
        def use_case(tx: Transaction) -> list[TriggerEvent]:
            listed = tx[TriggerEvents].page(project, {}, before=None, limit=100)
            return [tx[TriggerEvents].get(each.id, project=project) for each in listed]

        return await self.node.assent.database.read(use_case)

    async def known(self, source: StoredSource) -> StoredSource:
        await self.node.assent[Ingress].note_refusals()
        return await self.node.assent.database.read(lambda tx: tx[Sources].get(source.id))

    async def change(self, source: StoredSource, **changes: Any) -> None:
        def use_case(tx: Transaction) -> None:
            tx[Sources].save(replace(tx[Sources].get(source.id), **changes), now=tx.now())

        await self.node.assent.database.write(use_case)
        self.node.assent[Ingress].forget()


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def outside(node: Node, clock: ManualClock) -> Outside:
    return Outside(node, clock)


async def test_a_signed_event_is_stored_in_full(outside: Outside) -> None:
    source = await outside.source("shop")
    answer = await outside.push()
    assert answer.status_code == 202, answer.text
    [event] = await outside.events()
    assert answer.json() == {"eventId": event.id, "duplicate": False}
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("application/json", "no-store")
    assert (event.source_id, event.source, event.type) == (source.id, "shop", "github.push")
    assert event.arrived.data == golden("github", "push")["body"]
    assert (event.arrived.verified, event.arrived.key) == ("hmac-sha256", "github:d-1")
    assert sorted(event.arrived.headers) == [
        "content-type", "user-agent", "x-github-delivery", "x-github-event", "x-github-hook-id",
    ]  # fmt: skip
    assert (await outside.known(source)).heard_at == outside.clock.now()


async def test_a_repeated_delivery_is_counted_as_a_duplicate(outside: Outside) -> None:
    await outside.source("shop")
    first, again = [await outside.push() for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == {"eventId": first.json()["eventId"], "duplicate": True}
    [event] = await outside.events()
    assert event.duplicates == 1


async def test_simultaneous_deliveries_of_one_event_are_stored_once(outside: Outside) -> None:
    await outside.source("shop")
    answers = await asyncio.gather(*(outside.push() for _ in range(20)))
    assert sorted(each.status_code for each in answers) == [200] * 19 + [202]
    [event] = await outside.events()
    assert {each.json()["eventId"] for each in answers} == {event.id}
    assert event.duplicates == 19


async def test_a_failed_event_is_processed_again_when_redelivered(outside: Outside) -> None:
    await outside.source("shop")
    event_id = (await outside.push()).json()["eventId"]
    await outside.node.assent.database.write(lambda tx: tx[TriggerEvents].put_off(event_id, "broke", next_at=None))
    assert (await outside.events())[0].state is EventState.FAILED
    assert (await outside.push()).json() == {"eventId": event_id, "duplicate": True}
    assert (await outside.events())[0].state is not EventState.FAILED


async def test_identical_bodies_without_an_id_are_separate_events_after_ten_minutes(outside: Outside) -> None:
    await outside.source("ci", "jenkins")
    body = json.dumps(golden("jenkins", "completed")["body"]).encode()
    first = await outside.post(f"/hooks/ci/{SECRET}", body)
    outside.clock.advance(599)
    again = await outside.post(f"/hooks/ci/{SECRET}", body)
    outside.clock.advance(2)
    later = await outside.post(f"/hooks/ci/{SECRET}", body)
    assert [each.status_code for each in (first, again, later)] == [202, 200, 202]
    assert len(await outside.events()) == 2


async def test_unknown_disabled_and_removed_sources_return_identical_404s(outside: Outside) -> None:
    await outside.source("off", enabled=False)
    await outside.source("nightly", "schedule", secrets=None, cron="0 2 * * *")
    removed = await outside.source("gone")
    await outside.node.assent.database.write(lambda tx: tx[Sources].remove(removed.id, now=tx.now()))
    answers = [
        await outside.push(address)
        for address in ("off", "nightly", "gone", removed.id, "never", "No%20name", "a" * 90, "off/key", "never/key")
    ]
    assert {each.status_code for each in answers} == {404}
    assert len({json.dumps({**each.json()}, sort_keys=True) for each in answers}) == 1
    assert {tuple(sorted(set(each.headers) - {"x-request-id"})) for each in answers} == {
        tuple(sorted(set(answers[0].headers) - {"x-request-id"}))
    }
    assert await outside.events() == []


async def test_a_source_is_reachable_by_name_in_the_default_project_and_by_id_in_all_projects(outside: Outside) -> None:
    await outside.node.assent.database.write(
        lambda tx: tx[Projects].add(replace(tx[Projects].get("default"), id="shop", name="Shop"))
    )
    mine = await outside.source("mine")
    theirs = await outside.source("theirs", project="shop")
    assert [(await outside.push(each, delivery=each)).status_code for each in ("mine", mine.id, theirs.id)] == [202] * 3
    assert (await outside.push("theirs")).status_code == 404
    assert [each.source for each in await outside.events("shop")] == ["theirs"]


async def test_a_source_named_after_another_sources_id_does_not_receive_that_sources_events(outside: Outside) -> None:
    theirs = await outside.source("theirs")
    await outside.source(theirs.id)
    await outside.push(theirs.id)
    [event] = await outside.events()
    assert event.source_id == theirs.id


async def test_an_invalid_signature_is_rejected_without_a_reason_and_counted(outside: Outside) -> None:
    source = await outside.source("shop")
    wrong = [
        {"x-hub-signature-256": f"sha256={hexed(b'another body')}"},
        {"x-hub-signature-256": "sha256="},
        {"x-hub-signature-256": ""},
    ]
    with capture_logs() as logs:
        answers = [await outside.push(headers=each) for each in wrong]
    assert {each.status_code for each in answers} == {401}
    assert {each.json()["detail"] for each in answers} == {
        "This event could not be verified as coming from this source."
    }
    assert await outside.events() == []
    known = await outside.known(source)
    assert (known.refused, known.refused_at) == (3, outside.clock.now())
    assert known.last_refusal == "The x-hub-signature-256 header does not contain a signature."
    assert "Round half up" not in str(logs), "nothing of the body is logged"
    assert [each["event"] for each in logs].count("hook_refused") == 1, "many rejections are one line"


async def test_an_invalid_body_is_rejected_and_the_reason_recorded(outside: Outside) -> None:
    source = await outside.source("shop")
    reasons = {
        b'{"id": 12345678901234567890}': (400, "An integer is outside"),
        b'{"title": "\\u0000"}': (400, "NUL"),
        b"{": (400, "line 1"),
        b"[]": (422, "must be an object"),
    }
    for body, (status, reason) in reasons.items():
        answer = await outside.push(body=body)
        assert (answer.status_code, reason in answer.json()["detail"]) == (status, True), answer.text
        assert reason in ((await outside.known(source)).last_refusal or "")
    assert (await outside.known(source)).refused == 4
    assert await outside.events() == []


async def test_the_maximum_body_size_is_a_source_setting(outside: Outside) -> None:
    await outside.source("small", max_bytes=1_000)
    await outside.source("shop")
    await outside.source("large", max_bytes=25 * 1024 * 1024)
    big = json.dumps({"text": "x" * (MAX_BODY + 1)}).encode()
    assert (await outside.push("small", body=b'{"a": 1}')).status_code == 202
    for address, body in (("small", b'{"a": "%s"}' % (b"x" * 1_000)), ("shop", big)):
        answer = await outside.push(address, body=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert (await outside.push("large", body=big)).status_code == 202


async def test_a_chunked_body_is_rejected_once_it_exceeds_the_limit(outside: Outside) -> None:
    await outside.source("small", max_bytes=1_000)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 500

    answer = await outside.node.client.post("/hooks/small", content=parts())
    assert answer.status_code == 413


async def test_unsigned_requests_do_not_count_toward_the_rate_limit_of_a_source(outside: Outside) -> None:
    await outside.source("shop", per_minute=3)
    for _ in range(10):
        assert (await outside.push(headers={"x-hub-signature-256": "sha256=00"})).status_code == 401
    answers = [await outside.push(delivery=f"d-{n}") for n in range(5)]
    assert [each.status_code for each in answers] == [202, 202, 202, 429, 429]
    assert answers[-1].headers["retry-after"] == "20"
    outside.clock.advance(20)
    assert (await outside.push(delivery="d-4")).status_code == 202


async def test_unsigned_requests_are_throttled_without_blocking_the_source(outside: Outside) -> None:
    await outside.source("shop")
    answers = [await outside.push(headers={"x-hub-signature-256": "sha256=00"}) for _ in range(125)]
    assert [each.status_code for each in answers] == [401] * 120 + [429] * 5
    assert (await outside.push()).status_code == 202, "same address, such as that of a proxy"
    unknown = [(await outside.post("/hooks/never")).status_code for _ in range(125)]
    assert unknown == [404] * 120 + [429] * 5


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_webhooks_accept_only_post_and_send_no_cors_headers(outside: Outside, method: str) -> None:
    await outside.source("shop")
    answer = await outside.node.client.request(method, "/hooks/shop", headers={"origin": "https://evil.example"})
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
    taken = await outside.push(headers={"origin": "https://evil.example"})
    assert not [name for name in taken.headers if name.startswith("access-control") or name == "set-cookie"]


async def test_source_changes_apply_to_the_next_request(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    source = await outside.source("shop")
    assert (await outside.push(delivery="d-1")).status_code == 202
    monkeypatch.setenv("HOOK_SECRET", "the next one")
    assert (await outside.push(delivery="d-2")).status_code == 401, "secrets are read for each request"
    monkeypatch.setenv("HOOK_OLD", SECRET)
    await outside.change(source, settings={"secrets": ["env:HOOK_SECRET", "env:HOOK_OLD"]})
    assert (await outside.push(delivery="d-3")).status_code == 202
    await outside.change(source, enabled=False)
    assert (await outside.push(delivery="d-4")).status_code == 404


async def test_a_source_with_an_unreadable_secret_asks_senders_to_retry(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    await outside.source("shop")
    monkeypatch.delenv("HOOK_SECRET")
    answer = await outside.push()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "HOOK_SECRET" not in answer.text
    assert await outside.events() == []
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    assert (await outside.push()).status_code == 202


async def test_the_default_event_type_contains_the_sources_name(outside: Outside) -> None:
    await outside.source("deploys", "webhook", verify="bearer")
    answer = await outside.post("/hooks/deploys", b'{"ok": true}', {"authorization": f"Bearer {SECRET}"})
    assert answer.status_code == 202, answer.text
    assert [each.type for each in await outside.events()] == ["webhook.deploys"]


async def test_a_secret_in_the_url_is_not_logged(settings: Settings, clock: ManualClock) -> None:
    async with running_node(settings.model_copy(update={"access_log": True}), clock=clock) as node:
        outside = Outside(node, clock)
        await outside.source("ci", "jenkins")
        with capture_logs() as logs:
            good = await outside.post(f"/hooks/ci/{SECRET}", b'{"build": {"phase": "STARTED"}}')
            wrong = await outside.post("/hooks/ci/hunter2", b"{}")
    assert (good.status_code, wrong.status_code) == (202, 401)
    requests = [each for each in logs if each["event"] == "request"]
    assert {each["path"] for each in requests} == {"/hooks/ci/…"}
    assert {each["route"] for each in requests} == {"/hooks/{source}/{key}"}
    assert "hunter2" not in str(logs)
    assert SECRET not in str(logs)


async def test_webhooks_return_503_with_retry_after_while_the_database_fails(outside: Outside) -> None:
    await outside.source("shop")
    assert (await outside.push(delivery="d-1")).status_code == 202
    await _renamed(outside.node, "assent_trigger_events", "away")
    answer = await outside.push(delivery="d-2")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    await _renamed(outside.node, "away", "assent_trigger_events")
    assert (await outside.push(delivery="d-2")).status_code == 202


async def _renamed(node: Node, before: str, after: str) -> None:
    await node.assent.database.write(lambda tx: tx.session.write(f"ALTER TABLE {before} RENAME TO {after}", [{}]))


async def test_a_replay_within_the_tolerance_is_a_duplicate(outside: Outside, clock: ManualClock) -> None:
    await outside.source("bank", "webhook", verify="hmac", timestamp_header="x-time", tolerance="1h")
    body = json.dumps({"pay": 100}).encode()
    stamp = str(clock.now() // 1_000_000)
    headers = {"x-time": stamp, "x-signature": hexed(f"{stamp}.".encode() + body), "content-type": "application/json"}
    assert (await outside.post("/hooks/bank", body, headers)).status_code == 202
    clock.advance(20 * 60)
    again = await outside.post("/hooks/bank", body, headers)
    assert again.status_code == 200, "a replay is a duplicate"
    assert len(await outside.events()) == 1


async def test_disabling_or_removing_a_source_takes_effect_immediately(outside: Outside, node: Node) -> None:
    made = await outside.source("shop")
    admin = await node.token("admin")
    assert (await outside.push()).status_code == 202
    await node.call("PATCH", f"/api/sources/{made.id}", admin, json={"enabled": False})
    assert (await outside.push()).status_code == 404
    await node.call("PATCH", f"/api/sources/{made.id}", admin, json={"enabled": True})
    assert (await outside.push()).status_code == 200
    await node.call("DELETE", f"/api/sources/{made.id}", admin)
    assert (await outside.push()).status_code == 404
