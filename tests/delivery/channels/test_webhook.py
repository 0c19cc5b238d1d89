"""Webhook messages: what they contain, what they never contain, and how they are signed."""

import base64
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from assent.core.access import Actor, Kind
from assent.core.breakpoint import (
    EVENT_OF,
    NEVER,
    TERMINAL,
    Action,
    Breakpoint,
    Event,
    Response,
    answered,
    cancel,
    expire,
    record,
    release,
    time_out,
)
from assent.core.canonical import Json
from assent.core.strategies import Decision
from assent.delivery.channels.webhook.message import (
    LARGEST_BODY,
    STATUS_AFTER,
    Message,
    message,
    new_secret,
    signed_headers,
)

AT = 1_800_000_000_123_456
ANN = Actor(Kind.PERSON, "ann")
BOT = Actor(Kind.AGENT, "bot")
DELIVERY = "dl_01"


def raised(**changes: Any) -> tuple[Breakpoint, Event]:
    fields: dict[str, Any] = {
        "id": "bp_1",
        "project": "default",
        "agent_id": "agent-1",
        "run_id": "run-1",
        "title": "Deploy",
        "gate": "deploy",
        "payload": {"question": "password hunter2?"},
        "tags": ("hunter2",),
        "seats": (),
        "strategy": "single",
        "risk": None,
        "priority": "normal",
        "on_timeout": "expire",
        "ttl_seconds": None,
        "callback_url": "https://hooks.example/hunter2",
        "digest": "d" * 64,
        "created_at": AT,
        "created_by": BOT,
        "created_by_id": "tok_hunter2",
        "due_at": NEVER,
        "auto_approval": {},
        "warnings": (),
    }
    return record(Breakpoint(**fields | changes), "created", actor=BOT, at=AT)


def responded(current: Breakpoint) -> tuple[Breakpoint, Event]:
    return record(current, EVENT_OF[Action.RESPOND], actor=ANN, at=AT + 1, metadata={"approved": True})


def released(current: Breakpoint, **changes: Any) -> tuple[Breakpoint, Event]:
    given = Response(person="ann", approved=True, at=AT + 2, via="api", **changes)
    result = answered(Decision.APPROVED, [given], last=given)
    return release(current, Decision.APPROVED, actor=ANN, at=AT + 2, result=result)


ENDINGS: dict[str, Callable[[Breakpoint], tuple[Breakpoint, Event]]] = {
    "released": released,
    "expired": lambda current: expire(current, actor=ANN, at=AT + 2),
    "cancelled": lambda current: cancel(current, actor=BOT, at=AT + 2),
}


def read(made: Message) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(made.body)
    return body


def test_a_new_breakpoint_is_announced() -> None:
    current, event = raised()

    made = message(DELIVERY, current, event)

    assert made.id == DELIVERY
    assert read(made) == {
        "type": "breakpoint.created",
        "timestamp": "2027-01-15T08:00:00.123456Z",
        "data": {
            "breakpointId": "bp_1",
            "project": "default",
            "agentId": "agent-1",
            "runId": "run-1",
            "gate": "deploy",
            "title": "Deploy",
            "status": "waiting",
            "digest": "d" * 64,
            "seq": 1,
            "actor": "agent:bot",
        },
    }


def test_a_decision_includes_its_result() -> None:
    current, event = released(responded(raised()[0])[0], comment="Fine.")

    body = read(message(DELIVERY, current, event))

    assert body["type"] == "breakpoint.released"
    assert body["data"]["status"] == "released"
    assert body["data"]["decision"] == "approved"
    assert body["data"]["actor"] == "person:ann"
    assert body["data"]["result"] == current.result
    assert body["data"]["result"]["feedback"] == "Fine."


@pytest.mark.parametrize("kind", ["expired", "cancelled"])
def test_an_ending_without_an_answer_is_not_an_approval(kind: str) -> None:
    current, event = ENDINGS[kind](raised()[0])

    data = read(message(DELIVERY, current, event))["data"]

    assert data["status"] == kind
    assert "decision" not in data
    assert data["result"]["approved"] is False


def test_a_rejecting_timeout_is_sent_as_a_rejection() -> None:
    data = read(message(DELIVERY, *time_out(raised(on_timeout="reject")[0], at=AT)))["data"]

    assert (data["status"], data["decision"], data["result"]["approved"]) == ("released", "rejected", False)


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_later_events_do_not_change_an_earlier_message(end: Callable[[Breakpoint], tuple[Breakpoint, Event]]) -> None:
    first, created = raised()
    second, answer = responded(first)
    last, _ = end(second)

    assert message(DELIVERY, first, created) == message(DELIVERY, last, created)
    assert message(DELIVERY, second, answer) == message(DELIVERY, last, answer)


def test_event_types_match_the_lifecycle() -> None:
    assert {status for status in STATUS_AFTER.values() if status in TERMINAL} == TERMINAL
    assert set(STATUS_AFTER) == {"created", "responded", "released", "expired", "cancelled"}
    for kind, end in ENDINGS.items():
        current, event = end(raised()[0])
        assert event.type == kind
        assert current.status is STATUS_AFTER[kind]


def test_an_event_without_a_message_type_is_not_sent() -> None:
    current, event = record(raised()[0], "commented", actor=ANN, at=AT)
    with pytest.raises(KeyError):
        message(DELIVERY, current, event)


@pytest.mark.parametrize("kind", ["created", *ENDINGS])
def test_a_message_contains_neither_the_payload_nor_the_token_id(kind: str) -> None:
    current, event = raised()
    if kind in ENDINGS:
        current, event = ENDINGS[kind](current)
    assert b"hunter2" not in message(DELIVERY, current, event).body


@given(st.integers(0, 30_000))
def test_a_message_stays_within_the_size_limit(size: int) -> None:
    current, event = released(raised(title="ü" * 300, gate="ü" * 200, agent_id="ü" * 200)[0], comment="é" * size)

    body = message(DELIVERY, current, event).body
    data = json.loads(body)["data"]

    assert len(body) <= LARGEST_BODY
    assert ("result" in data) == (not data.get("resultOmitted", False))
    assert data["decision"] == "approved", "the decision must never be omitted"


def test_a_result_is_included_if_it_fits() -> None:
    assert "result" in read(message(DELIVERY, *released(raised()[0], comment="a" * 5_000)))["data"]
    assert read(message(DELIVERY, *released(raised()[0], comment="a" * 20_000)))["data"]["resultOmitted"] is True


# The library's verifier uses the real clock.
def now() -> int:
    return time.time_ns() // 1000


secrets = st.binary(min_size=32, max_size=32).map(lambda entropy: new_secret(lambda _: entropy))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
bodies = st.dictionaries(texts, texts | st.integers() | st.none(), max_size=5)
ids = st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1, max_size=30)


def encoded(body: Mapping[str, Json]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


@given(ids, bodies, secrets)
def test_the_standard_webhooks_library_accepts_our_messages(message_id: str, body: dict[str, Any], secret: str) -> None:
    headers = signed_headers(message_id, encoded(body), secrets=[secret], at=now())

    assert Webhook(secret).verify(encoded(body), headers) == body


@given(ids, bodies, st.lists(secrets, min_size=3, max_size=3, unique=True))
def test_messages_verify_with_either_secret_during_a_rotation(
    message_id: str, body: dict[str, Any], three: list[str]
) -> None:
    new, old, other = three
    headers = signed_headers(message_id, encoded(body), secrets=[new, old], at=now())

    assert Webhook(new).verify(encoded(body), headers) == body
    assert Webhook(old).verify(encoded(body), headers) == body
    assert headers["webhook-signature"].count("v1,") == 2
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(encoded(body), headers)


def flipped(content: bytes, bit: int) -> bytes:
    place, shift = divmod(bit % (len(content) * 8), 8)
    return content[:place] + bytes([content[place] ^ (1 << shift)]) + content[place + 1 :]


@given(
    bodies,
    secrets,
    st.sampled_from(["body", "webhook-id", "webhook-timestamp", "webhook-signature"]),
    st.integers(0, 10_000),
)
def test_a_single_flipped_bit_is_detected(body: dict[str, Any], secret: str, where: str, bit: int) -> None:
    content = encoded(body)
    headers = signed_headers(DELIVERY, content, secrets=[secret], at=now())
    if where == "body":
        content = flipped(content, bit)
    elif where == "webhook-signature":
        # Flip the decoded bytes, because the last base64 character contains unused bits.
        signature = flipped(base64.b64decode(headers[where].removeprefix("v1,")), bit)
        headers[where] = f"v1,{base64.b64encode(signature).decode()}"
    else:
        headers[where] = flipped(headers[where].encode(), bit).decode("latin-1")

    # Invalid UTF-8 or a malformed signature list raises ValueError.
    with pytest.raises((WebhookVerificationError, ValueError)):
        Webhook(secret).verify(content, headers)


def test_the_timestamp_header_is_the_time_of_the_attempt() -> None:
    headers = signed_headers(DELIVERY, b"{}", secrets=[new_secret(os.urandom)], at=AT)

    assert headers["webhook-timestamp"] == "1800000000"
    assert headers["webhook-id"] == DELIVERY
    assert headers["content-type"] == "application/json"


def test_the_signature_matches_the_example_in_the_specification() -> None:
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        at=1_614_265_330_000_000,
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_does_not_depend_on_the_local_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, at = new_secret(os.urandom), now()
    here = signed_headers(DELIVERY, b"{}", secrets=[secret], at=at)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert signed_headers(DELIVERY, b"{}", secrets=[secret], at=at) == here
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_message_without_a_secret_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="messages are always signed"):
        signed_headers(DELIVERY, b"{}", secrets=[], at=AT)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "whsec_",
        "whsec_!!!!",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_" + base64.b64encode(bytes(32)).decode() + "\n",
        base64.b64encode(bytes(32)).decode(),
        "whsk_" + base64.b64encode(bytes(32)).decode(),
        "whsec_ü" + base64.b64encode(bytes(32)).decode(),
    ],
)
def test_an_invalid_secret_cannot_sign(bad: str) -> None:
    with pytest.raises(ValueError, match="A webhook secret must be whsec_") as refused:
        signed_headers(DELIVERY, b"{}", secrets=[bad], at=AT)
    assert len(bad) < 10 or bad[6:] not in str(refused.value)


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_is_accepted_with_and_without_padding(key: bytes) -> None:
    padded = "whsec_" + base64.b64encode(key).decode()
    one, other = (signed_headers("a", b"{}", secrets=[each], at=AT) for each in (padded, padded.rstrip("=")))
    assert one == other


def test_a_new_secret_has_32_random_bytes() -> None:
    asked = list[int]()

    def random(size: int) -> bytes:
        asked.append(size)
        return bytes(range(size))

    secret = new_secret(random)
    assert asked == [32]
    assert secret.startswith("whsec_")
    assert base64.b64decode(secret.removeprefix("whsec_")) == bytes(range(32))
