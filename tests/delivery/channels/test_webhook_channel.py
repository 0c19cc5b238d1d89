"""The webhook channel: what it sends, whose answers it accepts, and protection against forgery and replay."""

import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from assent.core.breakpoint import Breakpoint, Event, record
from assent.core.errors import Conflict, InvalidRequest, Unauthenticated, Unavailable
from assent.delivery.channels.registry import KINDS
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.webhook.channel import EVENTS, INLINE, WebhookChannel
from assent.delivery.channels.webhook.message import LARGEST_BODY, new_secret, signed_headers, verified
from assent.delivery.message import Addressee, Digest, Note, Purpose
from assent.delivery.ports import Heard, Told, Wish
from assent.kernel.outbound import Outbound, Permanent, Transient
from assent.kernel.ports import Incoming
from tests.delivery.channels.test_webhook import ANN, AT, raised, released
from tests.support.nodes import free_port
from tests.support.receiver import Answer, Receiver, receiving

OLD, NEW, OTHER = (new_secret(os.urandom) for _ in range(3))
SECRETS = {"env:OLD": OLD, "env:NEW": NEW, "env:OTHER": OTHER, "env:ODD": "whsec_short"}
URL = "https://hooks.example/assent"
NOW = 1_800_000_000_000_000
ANSWER = {"deliveryId": "dlv_1", "approved": True, "comment": "Fine.", "digest": "d" * 64}


def resolve(reference: str) -> str:
    if reference not in SECRETS:
        msg = f"{reference} leads nowhere"
        raise ValueError(msg)
    return SECRETS[reference]


def tools(outbound: Outbound | None = None) -> Tools:
    return Tools(
        outbound or Outbound(allow=[ip_network("127.0.0.0/8")]),
        resolve,
        lambda: time.time_ns() // 1000,
        os.urandom,
        "https://assent.example",
    )


def channel(**settings: Any) -> WebhookChannel:
    return WebhookChannel({"url": URL, "secrets": ["env:NEW"], "answersAs": "ann"} | settings, tools())


def note(purpose: Purpose = Purpose.ASK, told: tuple[Breakpoint, Event] | None = None, **changes: Any) -> Note:
    current, event = told or raised(**changes)
    return Note(
        id="dlv_1",
        purpose=purpose,
        to=Addressee(),
        breakpoint=current,
        event=event,
        review_url="https://assent.example/breakpoints/bp_1",
        answer_url="https://assent.example/callbacks/chn_1",
        at=time.time_ns() // 1000,
    )


def incoming(said: Mapping[str, Any] | bytes, secret: str = NEW, *, key: str = "msg_1", at: int = NOW) -> Incoming:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return Incoming(signed_headers(key, body, secrets=[secret], at=at), body, NOW)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    made = Outbound(allow=[ip_network("127.0.0.0/8")])
    yield made
    await made.close()


def hooked(receiver: Receiver, outbound: Outbound, **settings: Any) -> WebhookChannel:
    chosen = {"url": receiver.url("/hook"), "secrets": ["env:OLD", "env:NEW"], "answersAs": "ann"} | settings
    return WebhookChannel(chosen, tools(outbound))


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"url": None}, "/settings/url"),
        ({"url": "ftp://hooks.example"}, "/settings/url"),
        ({"url": "http://10.1.2.3/hook"}, "/settings/url"),
        ({"secrets": []}, "/settings/secrets"),
        ({"secrets": ["env:OLD", "env:NEW", "env:OTHER"]}, "/settings/secrets"),
        ({"secrets": [NEW]}, "/settings/secrets/0"),
        ({"secrets": ["env:NEW", "env:NOWHERE"]}, "/settings/secrets/1"),
        ({"secrets": ["env:NEW", "env:ODD"]}, "/settings/secrets/1"),
        ({"events": ["created", "eaten"]}, "/settings/events"),
        ({"answersInline": "yes"}, "/settings/answersInline"),
        ({"answersInline": True, "answersAs": None}, "/settings/answersInline"),
        ({"answersInline": True, "url": "http://hooks.example/"}, "/settings/answersInline"),
        ({"answersInline": True, "url": "http://93.184.216.34/"}, "/settings/answersInline"),
        ({"colour": "red"}, "/settings/colour"),
    ],
)
def test_the_error_for_an_invalid_setting_points_to_it(settings: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        channel(**settings)
    assert refused.value.details["errors"][0]["pointer"] == pointer  # type: ignore[index]
    assert NEW not in refused.value.message


def test_the_webhook_channel_is_registered_with_its_secret_settings() -> None:
    kind = KINDS["webhook"]
    made = kind.make({"url": URL, "secrets": ["env:NEW"]}, tools())
    assert isinstance(made, WebhookChannel)
    assert (kind.personal({}), kind.secrets, kind.follows, kind.pacing) == (False, frozenset({"secrets"}), True, None)


async def test_a_question_includes_everything_needed_to_answer_it(receiver: Receiver, outbound: Outbound) -> None:
    form = {"properties": {"why": {"type": "string"}}}
    payload = {"question": "Deploy?", "options": ["now", "later"], "form": form, "expert": "ops"}
    asked = note(payload=payload, tags=("prod",), risk="low", ttl_seconds=300, due_at=AT + 300_000_000)
    posted = await hooked(receiver, outbound).send(asked)
    (call,) = receiver.calls
    assert (posted.trace, posted.status, posted.said) == ({"id": "dlv_1"}, 204, None)
    assert (call.id, call.json["type"]) == ("dlv_1", "breakpoint.created")
    told = {
        "deliveryId": "dlv_1",
        "breakpointId": "bp_1",
        "question": "Deploy?",
        "description": "Deploy?",
        "options": ["now", "later"],
        "form": form,
        "tags": ["prod"],
        "risk": "low",
        "experts": [],
        "expert": "ops",
        "dueAt": "2027-01-15T08:05:00.123456Z",
        "timeoutMs": 300_000,
        "effectId": "bp_1",
        "runId": "run-1",
        "digest": "d" * 64,
        "status": "waiting",
        "reviewUrl": "https://assent.example/breakpoints/bp_1",
        "callbackUrl": "https://assent.example/callbacks/chn_1",
    }
    assert told.items() <= call.json["data"].items()


async def test_messages_are_signed_with_both_secrets_during_a_rotation(receiver: Receiver, outbound: Outbound) -> None:
    await hooked(receiver, outbound).send(note())
    (call,) = receiver.calls
    call.verify(OLD)
    call.verify(NEW)


@pytest.mark.parametrize(
    ("purpose", "kind"), [(Purpose.REMIND, "reminded"), (Purpose.ESCALATE, "escalated"), (Purpose.TELL, "commented")]
)
async def test_only_subscribed_events_are_sent(
    receiver: Receiver, outbound: Outbound, purpose: Purpose, kind: str
) -> None:
    told = record(raised()[0], kind, actor=ANN, at=AT + 1)
    posted = await hooked(receiver, outbound, events=["created", "released"]).send(note(purpose, told))
    assert "skipped" in posted.trace
    assert receiver.calls == []
    await hooked(receiver, outbound).send(note(purpose, told))
    assert [call.json["type"] for call in receiver.calls] == ([f"breakpoint.{kind}"] if kind in EVENTS else [])


async def test_the_final_event_omits_the_question(receiver: Receiver, outbound: Outbound) -> None:
    told = released(raised()[0], comment="Fine.")
    await hooked(receiver, outbound).close(note(Purpose.CLOSE, told))
    (call,) = receiver.calls
    assert (call.json["type"], call.json["data"]["result"]["approved"]) == ("breakpoint.released", True)
    assert "question" not in call.json["data"]
    assert await hooked(receiver, outbound, events=["created"]).close(note(Purpose.CLOSE, told)) is None


async def test_an_overlong_question_is_omitted_and_marked_as_omitted(receiver: Receiver, outbound: Outbound) -> None:
    await hooked(receiver, outbound).send(note(payload={"question": "?" * LARGEST_BODY}))
    (call,) = receiver.calls
    assert len(call.body) <= LARGEST_BODY
    assert (call.json["data"]["questionOmitted"], call.json["data"]["descriptionOmitted"]) == (True, True)
    assert call.json["data"]["digest"] == "d" * 64


async def test_a_digest_is_sent_as_one_request(receiver: Receiver, outbound: Outbound) -> None:
    first, _ = raised()
    urls = {"bp_1": "https://assent.example/breakpoints/bp_1"}
    digest = Digest(
        id="dlv_9", to=Addressee(), waiting=(first,), total=40, ended=2, inbox_url="https://assent.example/", urls=urls
    )
    await hooked(receiver, outbound).digest(digest)
    (call,) = receiver.calls
    assert (call.json["type"], call.json["data"]["total"], call.json["data"]["ended"]) == ("breakpoint.digest", 40, 2)
    assert call.json["data"]["waiting"][0]["reviewUrl"] == urls["bp_1"]


async def test_a_410_response_marks_the_receiver_as_gone(receiver: Receiver, outbound: Outbound) -> None:
    receiver.answer("/hook", Answer(410))
    with pytest.raises(Permanent) as refused:
        await hooked(receiver, outbound).send(note())
    assert refused.value.gone


async def test_an_unreadable_secret_is_a_transient_failure(receiver: Receiver, outbound: Outbound) -> None:
    SECRETS["env:PASSING"] = NEW
    made = hooked(receiver, outbound, secrets=["env:PASSING"])
    del SECRETS["env:PASSING"]
    with pytest.raises(Transient):
        await made.send(note())
    with pytest.raises(Unavailable):
        made.hear(incoming(ANSWER))
    assert receiver.calls == []


async def test_a_channel_check_does_not_send_a_message(receiver: Receiver, outbound: Outbound) -> None:
    said = await hooked(receiver, outbound).check()
    assert "127.0.0.1" in said
    assert "ann" in said
    assert receiver.calls == []
    with pytest.raises(Transient):
        await hooked(receiver, outbound, url=f"http://127.0.0.1:{free_port()}/").check()


def test_a_signed_answer_is_parsed() -> None:
    (heard,) = channel().hear(incoming(ANSWER))
    assert (heard.key, heard.wish, heard.identity, heard.delivery_id) == ("msg_1", Wish.ANSWER, "ann", "dlv_1")
    answer = channel().answer(heard, raised()[0])
    assert answer is not None
    assert (answer.approved, answer.comment, answer.digest) == (True, "Fine.", "d" * 64)


def test_a_signature_from_the_standard_webhooks_library_is_accepted() -> None:
    body = json.dumps(ANSWER)
    moment = datetime.fromtimestamp(NOW // 1_000_000, tz=UTC)
    signature = Webhook(NEW).sign("msg_e", moment, body)
    headers = {"webhook-id": "msg_e", "webhook-timestamp": str(NOW // 1_000_000), "webhook-signature": signature}
    assert channel().hear(Incoming(headers, body.encode(), NOW))[0].key == "msg_e"


def test_a_message_without_a_verdict_is_parsed_as_a_comment() -> None:
    (heard,) = channel().hear(incoming({"breakpointId": "bp_1", "comment": "Which cluster?"}))
    assert (heard.wish, heard.comment, heard.breakpoint_id) == (Wish.COMMENT, "Which cluster?", "bp_1")


@pytest.mark.parametrize("secret", [OLD, NEW], ids=["old", "new"])
def test_either_secret_is_accepted_during_a_rotation(secret: str) -> None:
    assert channel(secrets=["env:OLD", "env:NEW"]).hear(incoming(ANSWER, secret))


def test_the_secret_of_another_channel_is_rejected() -> None:
    with pytest.raises(Unauthenticated):
        channel().hear(incoming(ANSWER, OTHER))


@pytest.mark.parametrize(("seconds", "believed"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_signatures_are_valid_for_five_minutes(seconds: int, *, believed: bool) -> None:
    sent = incoming(ANSWER, at=NOW + seconds * 1_000_000)
    if believed:
        assert channel().hear(sent)
    else:
        with pytest.raises(Unauthenticated):
            channel().hear(sent)


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-id": ""},
        {"webhook-id": "with space"},
        {"webhook-id": "x" * 201},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "1.8e9"},
        {"webhook-timestamp": "٣"},
        {"webhook-timestamp": "9" * 13},
        {"webhook-signature": ""},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v1a,AAAA"},
    ],
)
def test_malformed_headers_are_rejected(headers: dict[str, str]) -> None:
    good = incoming(ANSWER)
    with pytest.raises(Unauthenticated):
        channel().hear(Incoming({**good.headers, **headers}, good.body, good.at))
    for name in headers:
        with pytest.raises(Unauthenticated):
            channel().hear(
                Incoming({each: good.headers[each] for each in good.headers if each != name}, good.body, good.at)
            )


@given(data=st.data())
def test_changing_any_byte_invalidates_a_request(data: st.DataObject) -> None:
    good = incoming(ANSWER)
    part = data.draw(st.sampled_from(["body", "webhook-id", "webhook-timestamp", "webhook-signature"]))
    whole = good.body if part == "body" else good.headers[part].encode()
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytes([*whole[:place], whole[place] ^ data.draw(st.integers(1, 255)), *whole[place + 1 :]])
    headers = good.headers if part == "body" else {**good.headers, part: changed.decode("latin-1")}
    with pytest.raises(Unauthenticated):
        verified(Incoming(headers, changed if part == "body" else good.body, good.at), [NEW])


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        (b"approved", "/"),
        (b"[]", "/"),
        (b'{"approved": true, "approved": false}', "/"),
        ({**ANSWER, "approved": "true"}, "/approved"),
        ({**ANSWER, "answers": []}, "/answers"),
        ({**ANSWER, "via": "web"}, "/via"),
        ({**ANSWER, "confirm": "deploy"}, "/confirm"),
        ({"approved": True, "digest": "d" * 64}, "/deliveryId"),
        ({"approved": True, "deliveryId": "dlv_1"}, "/digest"),
        ({"deliveryId": "dlv_1"}, "/approved"),
    ],
)
def test_the_error_for_an_invalid_answer_points_to_the_field(said: Any, pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        channel().hear(incoming(said))
    assert refused.value.details["errors"][0]["pointer"] == pointer  # type: ignore[index]


async def test_our_own_message_is_not_an_answer_if_it_is_sent_back(receiver: Receiver, outbound: Outbound) -> None:
    made = hooked(receiver, outbound)
    await made.send(note())
    (call,) = receiver.calls
    with pytest.raises(InvalidRequest):
        made.hear(Incoming(call.headers, call.body, time.time_ns() // 1000))


async def test_an_inline_answer_is_returned_for_processing(receiver: Receiver, outbound: Outbound) -> None:
    said = {"approved": False, "comment": "Not today.", "digest": "d" * 64, "deliveryId": "dlv_of_another"}
    receiver.answer("/hook", Answer(200, body=json.dumps(said).encode()))
    made = hooked(receiver, outbound, answersInline=True)
    posted = await made.send(note())
    assert posted.said is not None
    (heard,) = made.hear(posted.said)
    assert (heard.key, heard.delivery_id, heard.breakpoint_id) == (f"{INLINE}dlv_1", "dlv_1", "bp_1")
    assert heard.said["approved"] is False
    again = await made.send(note())
    assert again.said is not None
    assert made.hear(again.said)[0].key == heard.key


@pytest.mark.parametrize(
    ("settings", "purpose", "status", "body"),
    [
        ({}, Purpose.ASK, 200, b'{"approved":true}'),
        ({"answersInline": True}, Purpose.ASK, 202, b'{"approved":true}'),
        ({"answersInline": True}, Purpose.ASK, 200, b"ok"),
        ({"answersInline": True}, Purpose.ASK, 200, b"[true]"),
        ({"answersInline": True}, Purpose.ASK, 200, b'{"status":"fine"}'),
        ({"answersInline": True}, Purpose.CLOSE, 200, b'{"approved":true}'),
    ],
)
async def test_a_response_that_is_not_an_inline_answer_is_ignored(
    receiver: Receiver, outbound: Outbound, settings: dict[str, Any], purpose: Purpose, status: int, body: bytes
) -> None:
    receiver.answer("/hook", Answer(status, body=body))
    posted = await hooked(receiver, outbound, **settings).send(note(purpose))
    assert posted.said is None


async def test_a_program_receives_the_current_state_or_the_error() -> None:
    current, _ = released(raised()[0])
    heard = Heard(key="msg_1", wish=Wish.ANSWER)
    body = await channel().reply(heard, Told(done=True, message="Taken.", breakpoint=current))
    assert body == {
        "done": True,
        "message": "Taken.",
        "breakpointId": "bp_1",
        "status": "released",
        "decision": "approved",
    }
    refused = Told(done=True, message="No.", error=Conflict("No."))
    with pytest.raises(Conflict):
        await channel().reply(heard, refused)
    inline = Heard(key=f"{INLINE}dlv_1", wish=Wish.ANSWER)
    assert await channel().reply(inline, refused) == {"done": False, "message": "No."}


def test_an_answer_with_a_null_verdict_is_a_comment() -> None:
    assert channel().hear(incoming({**ANSWER, "approved": None}))[0].wish is Wish.COMMENT


def test_the_events_cover_the_lifecycle_of_a_breakpoint() -> None:
    assert EVENTS == ("created", "reminded", "escalated", "responded", "released", "expired", "cancelled")
