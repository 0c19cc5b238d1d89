"""The client over real sockets, with a scripted server that misbehaves and with a real server that restarts."""

import threading
from pathlib import Path
from typing import Any

import pytest

from assent.kernel.settings import Settings
from assent.sdk import client as client_module
from assent.sdk.client import Assent, BadAddress
from assent.sdk.errors import NotFound, Unauthenticated, UnexpectedAnswer, Unreachable
from tests.sdk.scripted import RESET, Say, scripted
from tests.support.nodes import free_port, prepared, server

ID = "bp_01m7gkk3aysqtzggwp8csw9t60"
DLV = "dlv_01m7gkk3aysqtzggwp8csw9t60"
WAITING = {"status": "waiting", "updatedAt": "t1"}
RELEASED = {
    "status": "released",
    "decision": "approved",
    "updatedAt": "t2",
    "result": {"approved": True, "status": "released", "auto": False},
}
WHOLE: dict[str, Any] = {
    "id": ID, "breakpointId": ID, "status": "waiting", "agentId": "a", "gate": "g", "tags": [], "experts": [],
    "strategy": "single", "priority": "normal", "createdAt": "t1", "updatedAt": "t1", "payload": {}, "feedback": [],
    "responses": [], "autoApproval": {}, "digest": "d", "onTimeout": "expire", "createdBy": "agent:a", "warnings": [],
    "version": 1,
}  # fmt: skip
DRAINING = Say(200, WAITING, {"Retry-After": "0", "Connection": "close"})
UNAVAILABLE = Say(503, {"code": "unavailable", "detail": "Stopping."}, {"Retry-After": "0"})


def test_a_wait_survives_a_draining_server_a_reset_connection_and_a_503() -> None:
    with scripted([DRAINING, RESET, UNAVAILABLE, Say(200, RELEASED)]) as fake, Assent(fake.url, "t") as assent:
        found = assent.wait(ID)

    assert found.approved
    assert len(fake.heard) == 4
    assert all(heard.path == f"/api/breakpoints/{ID}/status?wait=25.000" for heard in fake.heard)


def test_a_retried_create_reuses_its_idempotency_key() -> None:
    with scripted([RESET, UNAVAILABLE, Say(201, WHOLE)]) as fake, Assent(fake.url, "t") as assent:
        assent.create("Shall I?", agent_id="a")
        assent.create("Shall I?", agent_id="a")

    keys = [heard.headers["idempotency-key"] for heard in fake.heard]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]
    assert len({heard.body for heard in fake.heard}) == 1


def test_a_refused_connection_raises_unreachable_with_the_url() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    with Assent(url, "t", patience=0) as assent, pytest.raises(Unreachable, match=url):
        assent.wait(ID)


def test_connection_problems_are_reported_to_the_callback() -> None:
    told: list[str] = []
    with scripted([UNAVAILABLE, Say(200, RELEASED)]) as fake, Assent(fake.url, "t", on_trouble=told.append) as assent:
        assent.wait(ID)

    assert told == ["the server returned status 503"]


@pytest.mark.parametrize("answer", [Say(200, b"<html>"), Say(200, []), Say(302, b"", {"Location": "http://x/"})])
def test_an_error_from_another_service_mentions_the_url_setting(answer: Say) -> None:
    with (
        scripted([answer]) as fake,
        Assent(fake.url, "t") as assent,
        pytest.raises(UnexpectedAnswer, match="ASSENT_URL"),
    ):
        assent.get(ID)
    assert len(fake.heard) == 1


def test_the_token_is_sent_as_a_bearer_token_and_a_401_is_not_retried() -> None:
    refused = Say(401, {"code": "unauthenticated", "detail": "No."})
    with scripted([refused]) as fake, Assent(fake.url, "secret") as assent, pytest.raises(Unauthenticated):
        assent.list(status=["waiting", "expired"], tag=["a"], limit=5)

    assert fake.heard[0].headers["authorization"] == "Bearer secret"
    assert fake.heard[0].path == "/api/breakpoints?status=waiting&status=expired&tag=a&limit=5"
    assert len(fake.heard) == 1


DELIVERY: dict[str, Any] = {
    "id": DLV, "breakpointId": ID, "channel": "callback", "recipient": "https://example.org/…", "type": "released",
    "seq": 3, "state": "dead", "attempts": 2, "lastError": "No.", "createdAt": "t1", "updatedAt": "t2",
}  # fmt: skip


def test_deliveries_can_be_listed_read_and_retried() -> None:
    attempt = {"n": 1, "at": "t1", "worker": "w", "milliseconds": 3, "status": 500, "error": "No."}
    said = [
        Say(200, {"items": [DELIVERY], "nextCursor": DLV}),
        Say(200, DELIVERY | {"log": [attempt]}),
        Say(200, DELIVERY | {"state": "pending", "nextAttemptAt": "t3"}),
    ]
    with scripted(said) as fake, Assent(fake.url, "t") as assent:
        page = assent.deliveries(breakpoint_id=ID, state="dead", limit=1)
        found = assent.delivery(DLV)
        revived = assent.retry_delivery(DLV)

    assert [(heard.method, heard.path) for heard in fake.heard] == [
        ("GET", f"/api/deliveries?breakpointId={ID}&state=dead&limit=1"),
        ("GET", f"/api/deliveries/{DLV}"),
        ("POST", f"/api/deliveries/{DLV}/retry"),
    ]
    assert (page.items[0].last_error, page.next_cursor) == ("No.", DLV)
    assert (found.log[0].status, found.log[0].worker) == (500, "w")
    assert (revived.state, revived.next_attempt_at) == ("pending", "t3")


def test_a_delivery_retry_that_may_have_arrived_is_not_repeated() -> None:
    with scripted([RESET]) as fake, Assent(fake.url, "t") as assent, pytest.raises(Unreachable):
        assent.retry_delivery(DLV)

    assert len(fake.heard) == 1


@pytest.mark.parametrize("delivery_id", ["", "../tokens", "a/b", "x?y"])
def test_an_invalid_delivery_id_is_rejected_without_a_request(delivery_id: str) -> None:
    with scripted([Say(200, DELIVERY)]) as fake, Assent(fake.url, "t") as assent:
        for call in (assent.delivery, assent.retry_delivery):
            with pytest.raises(NotFound, match="delivery"):
                call(delivery_id)

    assert fake.heard == []


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:7373", "http://", "http://[::1"])
def test_an_invalid_server_url_is_rejected_before_any_request(url: str) -> None:
    with pytest.raises(BadAddress, match="ASSENT_URL"):
        Assent(url, "t")


@pytest.mark.parametrize("token", ["two words", "nëw", "line\nbreak"])
def test_a_malformed_token_is_rejected(token: str) -> None:
    with pytest.raises(BadAddress, match="ASSENT_TOKEN"):
        Assent(client_module.DEFAULT_URL, token)


def test_a_wait_survives_a_server_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    agent_token, reviewer_token = prepared(settings, "agent", "reviewer")
    port, noticed, ends = free_port(), threading.Event(), list[Any]()
    agent = Assent(f"http://127.0.0.1:{port}", agent_token, patience=60, on_trouble=lambda _: noticed.set())
    with agent:
        with server(settings, port=port):
            asked = agent.create("Shall I?", agent_id="a")
            waiting = threading.Thread(target=lambda: ends.append(agent.wait(asked.id)))
            waiting.start()
        assert noticed.wait(30)
        with server(settings, port=port), Assent(agent.url, reviewer_token) as reviewer:
            reviewer.approve(asked.id, comment="Yes.", digest=asked.digest)
            waiting.join(30)

    assert ends[0].approved
    assert ends[0].result.feedback == "Yes."
