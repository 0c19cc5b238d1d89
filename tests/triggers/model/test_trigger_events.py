"""Trigger events: stored names, attributes for patterns, and the envelope for external programs."""

from enum import StrEnum
from typing import Any

import pytest

from assent.core.errors import PatternError
from assent.core.patterns.pattern import match, parse
from assent.runs.model import MARK
from assent.triggers.event import (
    EVENT_ATTRIBUTES,
    VIEW,
    WINDOW,
    Arrived,
    EventState,
    TriggerEvent,
    Trust,
    envelope,
    seen,
    subject_of,
)

AT = 1_700_000_000_000_000
SINGLE_TEXTS = [
    "repo", "branch", "ref", "sha", "before", "actor", "actortype", "action", "conclusion", "title", "url", "source",
    "type", "subject", "trust", "verified",
]  # fmt: skip
LISTS_OF_TEXTS = ["paths", "labels", "tags"]
NUMBERS = ["attempt", "depth"]
WORDS: dict[type[StrEnum], list[str]] = {
    Trust: ["untrusted", "trusted"],
    EventState: ["received", "matched", "unmatched", "failed"],
}


def arrived(**changes: Any) -> Arrived:
    given: dict[str, Any] = {"type": "github.push", "key": "github:1", "data": {"number": 7}}
    return Arrived(**(given | changes))


def event(*, told: Arrived | None = None, **changes: Any) -> TriggerEvent:
    given: dict[str, Any] = {
        "id": "evt_1", "project": "default", "source_id": "src_1", "source": "github", "correlation_id": "evt_0",
        "received_at": AT,
    }  # fmt: skip
    return TriggerEvent(arrived=told or arrived(), **(given | changes))


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_stored_names_never_change(kind: type[StrEnum]) -> None:
    assert set(WORDS[kind]) <= set(kind)


def test_the_run_mark_never_changes() -> None:
    """Existing commits and comments contain this mark; with a different one, loops would not be detected."""
    assert MARK == "assent-run:"


def test_identical_bodies_count_as_the_same_event_for_ten_minutes() -> None:
    assert WINDOW == 600_000_000


def test_an_event_is_untrusted_and_unverified_by_default() -> None:
    least = arrived()
    assert (least.verified, least.trust) == ("none", Trust.UNTRUSTED)
    assert (least.view, least.headers, least.marks, least.mark) == ({}, {}, (), None)
    fresh = event()
    assert (fresh.state, fresh.duplicates, fresh.depth, fresh.attempts) == (EventState.RECEIVED, 0, 0, 0)


def test_an_event_is_attributed_to_the_first_run_whose_mark_it_contains() -> None:
    assert arrived(marks=("run_1",)).mark == "run_1"
    assert arrived(marks=("run_2", "run_1", "run_3")).mark == "run_2"


def test_all_providers_use_the_same_attribute_names() -> None:
    assert set(VIEW) == {
        "repo", "branch", "ref", "sha", "before", "actor", "actortype", "action", "conclusion", "paths", "labels",
        "title", "url", "attempt", "tags",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "taken", "refused"),
    [
        (SINGLE_TEXTS, "exists", ["= 1", "contains 1"]),
        (LISTS_OF_TEXTS, "contains 'x'", ["= 'x'", "> 1", "startswith 'x'"]),
        (NUMBERS, "> 1", ["= 'x'", "contains 'x'", "matches 'x'"]),
        (["data"], ".a.b = 1", ["= 1", " exists"]),
    ],
    ids=["texts", "lists", "numbers", "objects"],
)
def test_each_attribute_supports_the_operators_of_its_type(names: list[str], taken: str, refused: list[str]) -> None:
    for name in names:
        parse(f"*({name}{'' if taken.startswith('.') else ' '}{taken})", EVENT_ATTRIBUTES)
        for each in refused:
            with pytest.raises(PatternError):
                parse(f"*({name} {each})", EVENT_ATTRIBUTES)


def test_unknown_attributes_are_rejected() -> None:
    assert set(EVENT_ATTRIBUTES) == {*SINGLE_TEXTS, *LISTS_OF_TEXTS, *NUMBERS, "data"}
    with pytest.raises(PatternError, match=r"color is not an attribute"):
        parse("*(color = 'red')", EVENT_ATTRIBUTES)


def test_trust_has_only_two_values() -> None:
    for trust in ("trusted", "untrusted"):
        parse(f"*(trust = '{trust}')", EVENT_ATTRIBUTES)
    with pytest.raises(PatternError, match=r"trust"):
        parse("*(trust = 'half')", EVENT_ATTRIBUTES)


@pytest.mark.parametrize("trust", Trust)
def test_patterns_can_use_the_trust_of_an_event(trust: Trust) -> None:
    subject = subject_of(event(told=arrived(trust=trust)))
    assert match(parse(f"github.push(trust = '{trust.value}')", EVENT_ATTRIBUTES), subject) is True


def test_all_attributes_of_an_event_are_available() -> None:
    told = arrived(view={"repo": "acme/shop"}, subject="main", verified="bearer", trust=Trust.TRUSTED)
    assert seen(event(told=told, depth=2)) == {
        "repo": "acme/shop", "source": "github", "type": "github.push", "subject": "main", "trust": "trusted",
        "verified": "bearer", "depth": 2, "data": {"number": 7},
    }  # fmt: skip
    assert event().type == "github.push"


def test_an_envelope_contains_all_known_attributes() -> None:
    told = arrived(
        view={"actor": "octocat", "actortype": "bot", "repo": "acme/shop"},
        subject="acme/shop@main",
        occurred_at=AT - 1_000_000,
        verified="hmac-sha256",
        trust=Trust.TRUSTED,
        delivery_id="d-1",
    )
    assert envelope(event(told=told, causation_id="run_1", depth=1)) == {
        "specversion": "1.0",
        "id": "evt_1",
        "source": "/sources/github",
        "type": "github.push",
        "subject": "acme/shop@main",
        "time": "2023-11-14T22:13:19.000000Z",
        "datacontenttype": "application/json",
        "deliveryid": "d-1",
        "dedupkey": "github:1",
        "verified": "hmac-sha256",
        "trust": "trusted",
        "actor": "octocat",
        "actortype": "bot",
        "correlationid": "evt_0",
        "causationid": "run_1",
        "depth": 1,
        "receivedat": "2023-11-14T22:13:20.000000Z",
        "data": {"number": 7},
    }


def test_an_envelope_omits_unknown_attributes() -> None:
    absent = {"subject", "deliveryid", "actor", "actortype", "causationid"}
    assert not absent & set(envelope(event()))
    assert envelope(event(told=arrived(data=None))).keys() == envelope(event()).keys() - {"data"}


@pytest.mark.parametrize(
    ("occurred_at", "time"), [(None, "2023-11-14T22:13:20.000000Z"), (0, "1970-01-01T00:00:00.000000Z")]
)
def test_the_envelope_time_defaults_to_the_time_of_receipt(occurred_at: int | None, time: str) -> None:
    assert envelope(event(told=arrived(occurred_at=occurred_at)))["time"] == time
