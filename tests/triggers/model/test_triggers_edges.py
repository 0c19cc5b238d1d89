"""Trigger defaults, names and digests that never change, and exact text limits."""

import hashlib
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.triggers.model import (
    Because,
    Breaker,
    Concurrency,
    Debounce,
    FiringState,
    Hold,
    TriggerState,
    WhenFull,
    asked_of,
    holds,
    inputs_of,
    key_of,
    once_of,
    told,
    trace,
)
from tests.triggers.model.test_triggers import AT, happened, trigger

WORDS: dict[type[StrEnum], list[str]] = {
    TriggerState: ["enabled", "suspended", "disabled"],
    WhenFull: ["queue", "skip", "replace", "cancel"],
    FiringState: ["held", "started", "skipped", "dead"],
    Because: [
        "debounce", "suspended", "approval", "room", "retry", "once", "busy", "replaced", "merged", "loop",
        "not-approved", "discarded",
    ],
}  # fmt: skip


def sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def shown(value: Any, asked: str = "title = 'x'") -> Any:
    """Return how a trace displays this value."""
    name = asked.partition(" ")[0]
    return told(trace(trigger(on=f"*({asked})"), happened({name: value})))["findings"][1]["actual"]


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_stored_names_never_change(kind: type[StrEnum]) -> None:
    assert set(WORDS[kind]) <= set(kind)


def test_a_minimal_trigger_is_enabled_and_limits_loops_and_floods() -> None:
    little = trigger()
    assert (little.state, little.max_depth, little.inputs) == (TriggerState.ENABLED, 3, {})
    assert (little.breaker.limit, little.breaker.within) == (100, 60)
    assert (little.once, little.debounce, little.concurrency, little.hold) == (None, None, None, None)
    assert (little.agent_id, little.note) == (None, None)


def test_trigger_options_have_these_defaults() -> None:
    assert Concurrency() == Concurrency(1, WhenFull.QUEUE, "")
    assert Debounce(1, 10) == Debounce(1, 10, "")
    assert Hold() == Hold(gate="", question="", expert=(), when="*")
    assert Breaker() == Breaker(100, 60)


@pytest.mark.parametrize("length", [0, 499, 500])
def test_a_trace_shows_at_most_500_characters(length: int) -> None:
    assert shown("y" * length) == "y" * length
    assert shown("y" * 501) == "y" * 500 + "…"


def test_a_long_list_is_shown_as_truncated_text() -> None:
    names = ["a" * 300, "b" * 300]
    assert shown(names[:1], "labels contains 'x'") == names[:1]
    found = shown(names, "labels contains 'x'")
    assert len(found) == 501
    assert found.startswith(f"['{'a' * 300}', '")
    assert found.endswith("bbb…")


def test_a_trace_omits_missing_problems_and_notes() -> None:
    found = told(trace(trigger(on="github.push"), happened()))
    finding = {"part": "github.push", "actual": "github.push", "held": True}
    assert found == {"trigger": "fix", "matched": True, "findings": [finding]}


def test_the_trace_of_an_unreadable_pattern_has_only_its_problem() -> None:
    found = told(trace(trigger(on="github.push("), happened()))
    assert (found["trigger"], found["matched"], found["findings"]) == ("fix", False, [])
    assert found["problem"].startswith("Line 1, column ")


def test_an_event_time_of_zero_is_kept() -> None:
    assert inputs_of(trigger(), happened(occurred_at=0))["event"]["time"] == 0
    assert inputs_of(trigger(), happened(occurred_at=None))["event"]["time"] == AT


def test_an_input_cannot_replace_the_event() -> None:
    given_ = inputs_of(trigger(inputs={"event": "mine", "events": "mine"}), happened(), [happened(id="evt_0")])
    assert given_["event"]["id"] == "evt_1"
    assert [each["id"] for each in given_["events"]] == ["evt_0", "evt_1"]


def test_a_key_of_500_characters_is_unchanged() -> None:
    assert key_of("{{ event.title }}", happened({"title": "k" * 500})) == "k" * 500


def test_a_longer_key_is_truncated_and_ends_in_a_digest() -> None:
    """Keys are stored, so if their format changed, triggers would fire again for the same events after an update."""
    long = "k" * 501
    assert key_of("{{ event.title }}", happened({"title": long})) == "k" * 435 + "#" + sha(long)
    assert once_of(trigger(once="{{ event.title }}"), happened({"title": long})) == "k" * 435 + "#" + sha(long)


def test_long_keys_with_different_unstorable_characters_differ() -> None:
    titles = ["k" * 600 + end for end in ("\ud800", "\udfff", "?", "\x00", "\ufffd")]
    keys = [key_of("{{ event.title }}", happened({"title": each})) for each in titles]
    assert keys == [f"{'k' * 435}#{sha(each)}" for each in titles]


@given(st.text(st.characters(), max_size=700))
def test_a_key_can_always_be_stored(title: str) -> None:
    key = key_of("{{ event.title }}", happened({"title": title}))
    assert len(key) <= 500
    assert "\x00" not in key
    assert key.encode().decode() == key
    assert (once_of(trigger(once="{{ event.title }}"), happened({"title": title})) or "") == key


def test_an_empty_once_key_is_ignored() -> None:
    assert once_of(trigger(once=""), happened()) is None


def test_the_approval_digest_is_the_same_in_every_release() -> None:
    """A question can be pending during an update; with a different digest, its approval would be ignored."""
    one = trigger(inputs={"b": 1, "a": "{{ event.repo }}"})
    other = trigger(inputs={"a": "{{ event.repo }}", "b": 1})
    text = 'assent-firing/1\n["fix-ci", "1", {"a": "acme/shop", "b": 1}, "fixer", "evt_1", ["evt_0"]]'
    for each in (one, other):
        assert asked_of(each, happened(), version="1", agent_id="fixer", others=("evt_0",)) == sha(text)


@pytest.mark.parametrize("verified", ["hmac-sha256", "standard-webhooks", "bearer", "path", "local"])
def test_only_unverified_events_require_an_approval_by_default(verified: str) -> None:
    assert holds(trigger(), happened(verified=verified)) is False
    assert holds(trigger(), happened(verified="none")) is True


def test_a_hold_with_an_unreadable_condition_requires_an_approval() -> None:
    assert holds(trigger(hold=Hold(when="*((")), happened()) is True
