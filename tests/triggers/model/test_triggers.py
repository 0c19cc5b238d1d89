"""Which triggers match an event and why, the inputs of a run, and keys."""

from typing import Any

import pytest

from assent.triggers.event import VIEW, Arrived, TriggerEvent, Trust, envelope, seen, subject_of
from assent.triggers.model import (
    LONGEST_KEY,
    LONGEST_SHOWN,
    Hold,
    Trigger,
    asked_of,
    holds,
    inputs_of,
    key_of,
    once_of,
    told,
    trace,
)

AT = 1_700_000_000_000_000


def happened(view: dict[str, Any] | None = None, **changes: Any) -> TriggerEvent:
    arrived: dict[str, Any] = {
        "type": "github.push",
        "key": "github:1",
        "data": {"number": 7},
        "view": view if view is not None else {"repo": "acme/shop", "branch": "main", "paths": ["docs/a.md"]},
        "subject": "acme/shop@main",
        "verified": "hmac-sha256",
    }
    arrived |= {name: changes.pop(name) for name in list(changes) if name in {*arrived, "trust", "occurred_at"}}
    given: dict[str, Any] = {
        "id": "evt_1", "project": "default", "source_id": "src_1", "source": "github", "correlation_id": "evt_1",
        "received_at": AT,
    }  # fmt: skip
    return TriggerEvent(arrived=Arrived(**arrived), **(given | changes))


def trigger(**changes: Any) -> Trigger:
    given: dict[str, Any] = {"name": "fix", "on": "github.push", "run": "fix-ci"}
    return Trigger(**(given | changes))


@pytest.mark.parametrize(
    ("on", "matches"),
    [
        ("github.push", True),
        ("github.*", True),
        ("*", True),
        ("gitlab.*", False),
        ("github.push(branch = 'main')", True),
        ("github.push(branch = 'dev')", False),
        ("github.push(branch != 'dev' AND repo startswith 'acme/')", True),
        ("github.push(paths matches 'docs/*')", True),
        ("github.push(labels contains 'bug')", False),
        ("github.push(data.number = 7)", True),
        ("github.push(data.number > 7)", False),
        ("github.push(conclusion = 'failure')", False),
        ("github.push(NOT conclusion = 'failure')", False),
        ("github.push(trust = 'untrusted' AND depth = 0 AND verified = 'hmac-sha256' AND source = 'github')", True),
        ("github.push(type = 'github.push' AND subject exists)", True),
    ],
)
def test_events_match_by_type_and_attributes(on: str, *, matches: bool) -> None:
    assert trace(trigger(on=on), happened()).matched is matches


def test_a_trace_shows_every_condition_with_its_actual_value() -> None:
    on = "github.push(branch = 'dev' AND conclusion = 'failure' AND data.number = 'x')"
    assert told(trace(trigger(on=on), happened())) == {
        "trigger": "fix",
        "matched": False,
        "findings": [
            {"part": "github.push", "actual": "github.push", "held": True},
            {"part": "branch = 'dev'", "actual": "main", "held": False},
            {"part": "conclusion = 'failure'", "actual": None, "held": None, "note": "not given"},
            {"part": "data.number = 'x'", "actual": 7, "held": None, "note": "of a different type"},
        ],
    }


def test_a_trace_truncates_long_values() -> None:
    found = told(trace(trigger(on="*(title = 'x')"), happened({"title": "y" * (LONGEST_SHOWN + 1)})))
    assert found["findings"][1]["actual"] == "y" * LONGEST_SHOWN + "…"
    whole = told(trace(trigger(on="*(title = 'x')"), happened({"title": "y" * LONGEST_SHOWN})))
    assert whole["findings"][1]["actual"] == "y" * LONGEST_SHOWN


def test_an_unreadable_pattern_matches_nothing_and_is_reported_as_a_problem() -> None:
    found = trace(trigger(on="github.push("), happened())
    assert (found.matched, found.findings) == (False, ())
    assert "column" in told(found)["problem"]


def test_a_run_receives_its_inputs_and_the_whole_event() -> None:
    given = inputs_of(trigger(inputs={"repo": "{{ event.repo }}", "fixed": 1}), happened(occurred_at=5))
    assert (given["repo"], given["fixed"]) == ("acme/shop", 1)
    assert given["event"] == {
        "id": "evt_1", "time": 5, "repo": "acme/shop", "branch": "main", "paths": ["docs/a.md"], "source": "github",
        "type": "github.push", "subject": "acme/shop@main", "trust": "untrusted", "verified": "hmac-sha256",
        "depth": 0, "data": {"number": 7},
    }  # fmt: skip
    assert "events" not in given


def test_a_run_receives_all_debounced_events_in_order() -> None:
    given = inputs_of(trigger(), happened(id="evt_3"), [happened(id="evt_1"), happened(id="evt_2")])
    assert [each["id"] for each in given["events"]] == ["evt_1", "evt_2", "evt_3"]
    assert given["event"]["id"] == "evt_3"
    assert given["event"]["time"] == AT


@pytest.mark.parametrize(
    ("template", "key"),
    [
        (None, ""),
        ("", ""),
        ("{{ event.repo }}@{{ event.sha }}", "acme/shop@"),
        ("{{ event.sha }}", ""),
        ("{{ event.data.number }}", "7"),
        ("{{ event.data.zero }}/{{ event.data.number }}", "/7"),
    ],
)
def test_keys_are_filled_from_the_event(template: str | None, key: str) -> None:
    assert key_of(template, happened()) == key


def test_long_keys_differ_if_any_part_differs() -> None:
    one, other = (key_of("{{ event.title }}", happened({"title": "x" * 9_000 + end})) for end in "ab")
    assert one != other
    assert len(one) == len(other) == LONGEST_KEY
    assert key_of("x" * LONGEST_KEY, happened()) == "x" * LONGEST_KEY


def test_characters_that_cannot_be_stored_are_replaced_in_keys() -> None:
    assert key_of("{{ event.title }}", happened({"title": "a\x00\ud800"})) == "a\ufffd?"


@pytest.mark.parametrize(
    ("once", "key"),
    [
        (None, None),
        ("nightly", "nightly"),
        ("{{ event.repo }}@{{ event.branch }}", "acme/shop@main"),
        ("{{ event.repo }}@{{ event.sha }}", None),
        ("{{ event.data.none }}", None),
    ],
)
def test_a_once_key_with_an_empty_part_is_ignored(once: str | None, key: str | None) -> None:
    assert once_of(trigger(once=once), happened()) == key
    assert once_of(trigger(once=once), happened(replay_for="trg_1")) is None


def test_the_approval_digest_changes_with_every_part() -> None:
    def asked(event: TriggerEvent | None = None, **changes: Any) -> str:
        given = {"version": "1", "agent_id": "fixer", "others": ["evt_0"]}
        rest = {name: changes.pop(name) for name in list(changes) if name in given}
        return asked_of(trigger(**changes), event or happened(), **(given | rest))

    filled = {"repo": "{{ event.repo }}"}
    assert asked(inputs=filled) == asked(inputs={"repo": "acme/shop"}, note="x", on="*")
    different = [
        asked(),
        asked(run="destroy"),
        asked(inputs=filled),
        asked(version="2"),
        asked(agent_id="other"),
        asked(others=[]),
        asked(happened(id="evt_2")),
    ]
    assert len(set(different)) == len(different)


def test_unverified_events_always_require_an_approval() -> None:
    assert holds(trigger(), happened(verified="none"))
    assert holds(trigger(hold=Hold(when="gitlab.*")), happened(verified="none"))


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        (None, False),
        (Hold(), True),
        (Hold(when="*(trust = 'untrusted')"), True),
        (Hold(when="*(trust = 'trusted')"), False),
        (Hold(when="*(conclusion = 'failure')"), True),
        (Hold(when="*(("), True),
        (Hold(when="gitlab.*"), False),
    ],
)
def test_a_hold_requires_an_approval_unless_its_condition_is_false(hold: Hold | None, *, held: bool) -> None:
    assert holds(trigger(hold=hold), happened()) is held


def test_the_view_of_an_event_cannot_override_its_origin() -> None:
    forged = happened({"trust": "trusted", "source": "git", "type": "git.pushed", "depth": 0, "verified": "local"})
    assert {name: seen(forged)[name] for name in ("trust", "source", "type", "verified")} == {
        "trust": "untrusted", "source": "github", "type": "github.push", "verified": "hmac-sha256",
    }  # fmt: skip
    assert subject_of(forged).name == "github.push"


def test_an_envelope_is_a_cloudevent_without_absent_attributes() -> None:
    found = envelope(happened({"actor": "octocat"}, trust=Trust.TRUSTED, occurred_at=AT - 1_000_000))
    assert found == {
        "specversion": "1.0", "id": "evt_1", "source": "/sources/github", "type": "github.push",
        "subject": "acme/shop@main", "time": "2023-11-14T22:13:19.000000Z", "datacontenttype": "application/json",
        "dedupkey": "github:1", "verified": "hmac-sha256", "trust": "trusted", "actor": "octocat",
        "correlationid": "evt_1", "depth": 0, "receivedat": "2023-11-14T22:13:20.000000Z", "data": {"number": 7},
    }  # fmt: skip
    assert all(name.isalnum() and name.islower() for name in found), "CloudEvents allows no other names"


def test_all_attributes_of_the_view_can_be_used_in_patterns() -> None:
    for name in VIEW:
        assert trace(trigger(on=f"*({name} exists)"), happened({})).problem is None
