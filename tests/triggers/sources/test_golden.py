"""Each provider's payload is converted to the type, subject and flat view that triggers match."""

import json
from urllib.parse import quote_plus

import pytest

from assent.core.patterns.expressions import Kind
from assent.core.timestamps import iso
from assent.kernel.ports import Incoming
from assent.triggers.event import EVENT_ATTRIBUTES, VIEW
from tests.triggers.sources.moments import NOW
from tests.triggers.sources.signing import GOLDEN, golden, hexed, source, take

CASES = sorted((path.parent.name, path.stem) for path in GOLDEN.glob("*/*.json"))
VERIFIED = {"gitlab": "standard-webhooks", "jenkins": "path"}
OF_KIND = {Kind.TEXT: str, Kind.LIST: list, Kind.NUMBER: int}
UNSPEAKABLE = ("signature", "token", "authorization", "cookie")


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_payload_is_converted_to_the_common_view(kind: str, name: str) -> None:
    case = golden(kind, name)
    arrived, expected = take(kind, case["headers"], case["body"]), case["expected"]
    assert (arrived.type, arrived.subject, dict(arrived.view)) == (
        expected["type"],
        expected["subject"],
        expected["view"],
    )
    assert arrived.data == case["body"]
    assert arrived.verified == VERIFIED.get(kind, "hmac-sha256")
    assert arrived.mark == expected.get("mark")
    if "key" in expected and kind != "gitlab":
        assert arrived.key == expected["key"]
    if "occurredAt" in expected:
        assert arrived.occurred_at is not None
        assert iso(arrived.occurred_at) == expected["occurredAt"]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_view_contains_only_known_attributes_of_the_right_type(kind: str, name: str) -> None:
    case = golden(kind, name)
    view = take(kind, case["headers"], case["body"]).view
    assert set(view) <= set(VIEW)
    for each, value in view.items():
        assert isinstance(value, OF_KIND[EVENT_ATTRIBUTES[each].kind]), each


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_authentication_headers_are_not_stored(kind: str, name: str) -> None:
    case = golden(kind, name)
    more = {"authorization": "Bearer x", "cookie": "a=b", "x-gitlab-token": "x", "x-forwarded-for": "10.0.0.1"}
    kept = take(kind, {**case["headers"], **more}, case["body"]).headers
    assert not [header for header in kept if any(word in header for word in UNSPEAKABLE)]
    assert set(kept) <= set(case["headers"]) | {"webhook-id"}


def test_github_payloads_can_be_form_encoded() -> None:
    case = golden("github", "push")
    body = f"payload={quote_plus(json.dumps(case['body']))}".encode()
    headers = {**case["headers"], "content-type": "application/x-www-form-urlencoded"}
    arrived = take("github", headers, body)
    assert (arrived.type, arrived.data) == ("github.push", case["body"])


def test_a_gitlab_event_with_a_plain_secret_uses_its_idempotency_key() -> None:
    case = golden("gitlab", "push")
    body = json.dumps(case["body"]).encode()
    plain = source("gitlab", {"secrets": ["env:HOOK_SECRET"]})
    headers = {**case["headers"], "x-gitlab-token": "It's a Secret to Everybody"}
    [arrived] = plain.take(Incoming(headers, body, NOW), key=None)
    assert (arrived.verified, arrived.key) == ("bearer", case["expected"]["key"])


def test_an_event_without_an_id_is_deduplicated_for_ten_minutes() -> None:
    case = golden("jenkins", "completed")
    first, again = (take("jenkins", case["headers"], case["body"]) for _ in range(2))
    other = take("jenkins", case["headers"], {**case["body"], "name": "store"})
    assert first.key == again.key != other.key
    assert (first.key.partition(":")[0], first.window) == ("sha256", 600_000_000)


def test_a_dedup_template_identifies_events_without_an_id() -> None:
    case = golden("jenkins", "completed")
    body = json.dumps(case["body"]).encode()
    settings = {"secrets": ["env:HOOK_SECRET"], "dedup": "{{ event.url }} {{ event.action }}"}
    [arrived] = source("jenkins", settings).take(Incoming({}, body, NOW), key="It's a Secret to Everybody")
    assert arrived.key == "dedup:https://jenkins.example/job/shop/18/ completed"
    assert arrived.window is None


def test_the_id_from_the_sender_takes_precedence_over_a_template() -> None:
    case = golden("github", "push")
    body = json.dumps(case["body"]).encode()
    made = source("github", {"secrets": ["env:HOOK_SECRET"], "dedup": "{{ event.sha }}"})
    signed = {**case["headers"], "x-hub-signature-256": f"sha256={hexed(body)}"}
    [arrived] = made.take(Incoming(signed, body, NOW), key=None)
    assert arrived.key == case["expected"]["key"]
