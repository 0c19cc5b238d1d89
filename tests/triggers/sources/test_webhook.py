"""The generic webhook source: every way to authenticate, and CloudEvents."""

import json
from base64 import b64encode
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from assent.core.errors import InvalidRequest, MalformedJson, Unauthenticated
from assent.kernel.ports import Incoming
from assent.triggers.event import Arrived, Trust
from tests.triggers.sources.moments import NOW, moment
from tests.triggers.sources.signing import SECRET, hexed, source, standard

BEARER = {"authorization": f"Bearer {SECRET}"}


def take(settings: dict[str, Any], headers: dict[str, str], body: bytes, key: str | None = None) -> Arrived:
    [arrived] = source("webhook", settings).take(Incoming(headers, body, NOW), key=key)
    return arrived


def bearing(body: Any, headers: dict[str, str] | None = None, **settings: Any) -> Arrived:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"verify": "bearer", "secrets": ["env:HOOK_SECRET"], **settings}
    return take(given, {**BEARER, **(headers or {})}, raw)


def test_a_standard_webhook_defines_its_own_type_time_and_id() -> None:
    body = json.dumps({"type": "invoice.paid", "timestamp": "2026-11-10T08:31:00Z", "data": {"id": 7}}).encode()
    arrived = take({"secrets": ["env:HOOK_STANDARD"]}, standard(body, key="msg_7"), body)
    assert (arrived.type, arrived.key, arrived.delivery_id) == ("invoice.paid", "webhook:msg_7", "msg_7")
    assert (arrived.occurred_at, arrived.data) == (1_794_299_460_000_000, json.loads(body))
    assert arrived.headers == {"webhook-id": "msg_7"}
    assert arrived.window is None


def test_a_type_in_an_unsigned_body_is_treated_only_as_data() -> None:
    assert bearing({"type": "invoice.paid"}).type == "webhook"


@pytest.mark.parametrize(
    "name", ["github.push", "GitHub.push", "schedule.tick", "git.pushed", "webhook.other", "run.done"]
)
def test_event_types_of_other_sources_are_rejected(name: str) -> None:
    body = json.dumps({"type": name}).encode()
    with pytest.raises(InvalidRequest, match="other sources"):
        take({"secrets": ["env:HOOK_STANDARD"]}, standard(body), body)
    with pytest.raises(InvalidRequest, match="other sources"):
        bearing({}, {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/x", "ce-type": name}, cloudevents=True)


def test_a_bearer_token_or_a_secret_path_authenticates_the_sender() -> None:
    assert bearing({"a": 1}).verified == "bearer"
    by_path = take({"verify": "path", "secrets": ["env:HOOK_SECRET"]}, {}, b"{}", key=SECRET)
    assert by_path.verified == "path"
    for headers in ({"authorization": SECRET}, {"authorization": f"Basic {SECRET}"}, {"authorization": "Bearer no"}):
        with pytest.raises(Unauthenticated):
            take({"verify": "bearer", "secrets": ["env:HOOK_SECRET"]}, headers, b"{}")


def test_an_hmac_is_read_from_the_configured_header() -> None:
    settings = {"verify": "hmac", "secrets": ["env:HOOK_SECRET"], "header": "X-Shop-Signature", "prefix": "sha256="}
    assert take(settings, {"x-shop-signature": f"sha256={hexed(b'[1]')}"}, b"[1]").data == [1]


def test_an_unverified_source_must_be_configured_explicitly_and_is_never_trusted() -> None:
    arrived = take({"verify": "none"}, {}, b"{}")
    assert (arrived.verified, arrived.trust) == ("none", Trust.UNTRUSTED)
    for settings in ({"verify": "none", "trust": "trusted"}, {"verify": "none", "secrets": ["env:HOOK_SECRET"]}):
        with pytest.raises(InvalidRequest):
            source("webhook", settings)


def test_a_source_is_trusted_only_if_configured() -> None:
    assert bearing({}).trust is Trust.UNTRUSTED
    assert bearing({}, trust="trusted").trust is Trust.TRUSTED


def test_a_delivery_header_identifies_duplicate_events() -> None:
    arrived = bearing({}, {"x-shop-id": "d-1"}, delivery_header="X-Shop-Id")
    assert (arrived.key, arrived.delivery_id, arrived.headers["x-shop-id"]) == ("webhook:d-1", "d-1", "d-1")


def test_a_long_delivery_id_fits_into_the_index() -> None:
    keys = {bearing({}, {"x-shop-id": "d" * 4_000 + end}, delivery_header="X-Shop-Id").key for end in "ab"}
    assert len(keys) == 2
    assert max(map(len, keys)) <= 300


def test_the_view_is_filled_from_the_body_as_configured() -> None:
    view = {
        "repo": "{{ event.data.repo.name }}",
        "labels": "{{ event.data.labels }}",
        "tags": "{{ event.data.stage }}",
        "attempt": "{{ event.data.try }}",
        "branch": "{{ event.data.nowhere }}",
        "title": "{{ event.data.repo }}",
        "url": "https://ci.example/{{ event.data.try }}",
    }
    body = {"repo": {"name": "acme/shop"}, "labels": ["a", 1, None, "a"], "stage": "build", "try": 2}
    assert bearing(body, view=view).view == {
        "repo": "acme/shop",
        "labels": ["a", "1"],
        "tags": ["build"],
        "attempt": 2,
        "url": "https://ci.example/2",
    }


def event(data: Any = None, **more: Any) -> CloudEvent:
    attributes = {
        "id": "e 1",
        "source": "/ci/é",
        "type": "shop.built",
        "specversion": "1.0",
        "subject": 'build "7" 100%',
        "time": moment(NOW),
        "datacontenttype": "application/json",
        "causationid": "run_01kfake",
        "depth": "9",
        **more,
    }
    return CloudEvent(attributes=attributes, data={"ok": True} if data is None else data)


@pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
def test_cloudevents_from_the_official_library_are_parsed(write: Any) -> None:
    message: HTTPMessage = write(event(), JSONFormat())
    binary = {"cloudevents": True} if write is to_binary_event else {}
    arrived = bearing(message.body, {name.lower(): value for name, value in message.headers.items()}, **binary)
    assert (arrived.type, arrived.subject, arrived.data) == ("shop.built", 'build "7" 100%', {"ok": True})
    assert (arrived.key, arrived.delivery_id, arrived.occurred_at) == ("ce:/ci/é e 1", "e 1", NOW)
    assert arrived.headers["ce-source"] == "/ci/é"
    assert arrived.mark is None, "only our own mark attributes an event to a run"
    assert not [name for name in arrived.headers if "depth" in name or "causation" in name]


def test_a_signed_cloudevent_is_identified_by_the_signed_id() -> None:
    message = to_structured_event(event(), JSONFormat())
    headers = {
        **{name.lower(): value for name, value in message.headers.items()},
        **standard(message.body, key="msg_1"),
    }
    assert take({"secrets": ["env:HOOK_STANDARD"]}, headers, message.body).key == "webhook:msg_1"


STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/x", "type": "t"}


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ({}, None),
        ({"data": [1]}, [1]),
        ({"data_base64": b64encode(b'{"a":1}').decode()}, {"a": 1}),
        ({"data_base64": b64encode(b"hello").decode(), "datacontenttype": "text/plain"}, "hello"),
    ],
)
def test_the_data_of_a_cloudevent_is_decoded(more: dict[str, Any], data: Any) -> None:
    assert bearing({**ATTRIBUTES, **more}, STRUCTURED).data == data


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        ({"content-type": "application/cloudevents-batch+json"}, [ATTRIBUTES], "send each event separately"),
        (STRUCTURED, [ATTRIBUTES], "must be a JSON object that contains one event"),
        (STRUCTURED, {**ATTRIBUTES, "id": ""}, "/id: is required"),
        (STRUCTURED, {**ATTRIBUTES, "source": 7}, "/source: is required"),
        (STRUCTURED, {**ATTRIBUTES, "specversion": "2.0"}, "must be 1.0"),
        (STRUCTURED, {**ATTRIBUTES, "subject": "x" * 501}, "at most 500"),
        (STRUCTURED, {**ATTRIBUTES, "data_base64": "%%"}, "must be base64"),
        (STRUCTURED, {**ATTRIBUTES, "type": "t" * 300}, "at most 200"),
    ],
)
def test_an_invalid_cloudevent_is_rejected_with_the_reason(headers: dict[str, str], body: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        bearing(body, headers)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":1,"a":2}', b'{"a":12345678901234567890}', b'{"a":"\\u0000"}', b"\xff", b'{"a":NaN}']
)
def test_invalid_or_ambiguous_json_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        bearing(body)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"verify": "hmac", "signed": "{timestamp}.{body}"}, "timestamp_header"),
        ({"verify": "hmac", "timestamp_header": "x-time", "signed": "{timestamp}"}, "once"),
        ({"verify": "hmac", "header": "no header"}, "must be a header name"),
        ({"verify": "hmac", "timestamp_header": "x-time", "tolerance": "2h"}, "between 1s and 1h"),
        ({"verify": "hmac", "encoding": "rot13"}, "hex, base64"),
        ({"verify": "hmac", "header": "x-sign", "delivery_header": "x-sign"}, "authenticates the sender"),
        ({"verify": "bearer", "delivery_header": "Authorization"}, "authenticates the sender"),
        ({"verify": "bearer", "view": {"colour": "x"}}, "is not one of"),
        ({"verify": "bearer", "view": {"repo": 7}}, "must be a string"),
        ({"verify": "bearer", "view": {"repo": "{{ event.x }}"}}, "events do not have a field named x"),
        ({"verify": "magic"}, "standard-webhooks, hmac"),
    ],
)
def test_contradictory_settings_are_rejected(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        source("webhook", {"secrets": ["env:HOOK_SECRET"], **settings})


ORDER = json.dumps({"order": 7}).encode()
IN_HEADERS = {"ce-specversion": "1.0", "ce-id": "again", "ce-source": "/shop", "ce-type": "deploy.wanted"}
HMAC = {"verify": "hmac", "secrets": ["env:HOOK_SECRET"]}


def test_unsigned_headers_do_not_define_an_event() -> None:
    """Otherwise, an attacker who intercepted a signed body could replay it with any type and ID."""
    said = {"x-signature": hexed(ORDER), "content-type": "application/json"}
    plain, other = take(HMAC, said, ORDER), take(HMAC, {**said, **IN_HEADERS}, ORDER)
    assert (other.type, other.key) == (plain.type, plain.key)


def test_a_different_body_with_the_same_header_attributes_is_a_different_event() -> None:
    keys: set[str] = set()
    for body in (ORDER, ORDER, b"{}"):
        arrived = take({**HMAC, "cloudevents": True}, {"x-signature": hexed(body), **IN_HEADERS}, body)
        assert arrived.type == "deploy.wanted"
        keys.add(arrived.key)
    assert len(keys) == 2


def test_the_cloudevents_setting_must_be_a_boolean() -> None:
    with pytest.raises(InvalidRequest, match="true or false"):
        source("webhook", {**HMAC, "cloudevents": "yes"})


@pytest.mark.parametrize("empty", [{}, {"build": None}, {"build": ""}, {"build": 7}])
def test_events_without_the_dedup_fields_are_not_duplicates(empty: dict[str, Any]) -> None:
    template = "{{ event.source }}/{{ event.data.build }}/{{ event.data.phase }}"
    first, second = (bearing({"job": name, **empty}, dedup=template) for name in ("deploy", "test"))
    assert first.key != second.key, "the second event would be lost as a duplicate"
    assert (first.key.partition(":")[0], first.window) == ("sha256", 600_000_000)
    whole = bearing({"build": 0, "phase": False}, dedup=template)
    assert (whole.key, whole.window) == ("dedup:-/0/false", None)


def test_a_longer_signature_tolerance_extends_deduplication() -> None:
    stamp = str(NOW // 1_000_000)
    for tolerance, window in (("1m", 600), ("1h", 7_200)):
        settings = {**HMAC, "timestamp_header": "x-time", "tolerance": tolerance}
        headers = {"x-time": stamp, "x-signature": hexed(f"{stamp}.".encode() + ORDER)}
        assert take(settings, headers, ORDER).window == window * 1_000_000
