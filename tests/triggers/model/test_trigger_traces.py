"""Stored results of evaluating a trigger contain only the useful parts and always agree with the trace."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.triggers.event import Arrived, TriggerEvent, subject_of
from assent.triggers.model import Trigger, TriggerState, told, trace
from assent.triggers.traces import looked

PATTERNS = [
    "*", "github.*", "github.push", "gitlab.push", "*(branch = 'main')", "github.push(branch = 'main')",
    "github.push(NOT branch = 'main')", "github.push(branch = 'main' AND labels contains 'bug')",
    "github.push(branch = 'dev' OR attempt > 1)", "gitlab.*(branch = 'main')", "github.push(data.number = 7)",
    "github.push(", "", "*(colour = 'red')",
]  # fmt: skip


def happened(kind: str = "github.push", data: Any = None, **view: Any) -> TriggerEvent:
    arrived = Arrived(type=kind, key="k", data=data, view=view)
    return TriggerEvent(
        id="evt_1", project="default", source_id="src_1", source="github", arrived=arrived, correlation_id="evt_1",
        received_at=1,
    )  # fmt: skip


def trigger(on: str, **changes: Any) -> Trigger:
    return Trigger(name="fix", on=on, run="fix-ci", **changes)


def kept(on: str, event: TriggerEvent | None = None, **changes: Any) -> dict[str, Any]:
    return looked(trigger(on, **changes), subject_of(event or happened(branch="main")))


def test_a_stored_match_contains_every_part_of_the_pattern() -> None:
    assert kept("github.*(branch = 'main' AND NOT attempt > 1)", happened(branch="main", attempt=1)) == {
        "trigger": "fix",
        "matched": True,
        "findings": [
            {"part": "github.*", "actual": "github.push", "held": True},
            {"part": "branch = 'main'", "actual": "main", "held": True},
            {"part": "NOT attempt > 1", "actual": 1, "held": True},
        ],
    }


def test_a_stored_match_without_conditions_has_one_part() -> None:
    finding = {"part": "github.push", "actual": "github.push", "held": True}
    assert kept("github.push") == {"trigger": "fix", "matched": True, "findings": [finding]}


def test_only_the_type_is_stored_if_it_does_not_match() -> None:
    finding = {"part": "gitlab.*", "actual": "github.push", "held": False}
    assert kept("gitlab.*(branch = 'main')") == {"trigger": "fix", "matched": False, "findings": [finding]}


@pytest.mark.parametrize(
    ("on", "held"), [("*(branch = 'dev')", False), ("*(title = 'x')", None), ("*(NOT title = 'x')", None)]
)
def test_false_and_unknown_conditions_do_not_match(on: str, *, held: bool | None) -> None:
    found = kept(on)
    assert found["matched"] is False
    assert [each["held"] for each in found["findings"]] == [True, held]


def test_a_disabled_trigger_is_not_evaluated() -> None:
    expected: dict[str, Any] = {"trigger": "fix", "matched": False, "findings": [], "note": "disabled: not evaluated"}
    assert kept("*", state=TriggerState.DISABLED) == expected
    assert kept("github.push(", state=TriggerState.DISABLED) == expected


@pytest.mark.parametrize("state", [TriggerState.ENABLED, TriggerState.SUSPENDED])
def test_a_suspended_trigger_is_evaluated_because_its_events_are_queued(state: TriggerState) -> None:
    assert kept("*", state=state)["matched"] is True
    assert "note" not in kept("*", state=state)


def test_the_error_for_an_unreadable_pattern_is_stored() -> None:
    found = kept("github.push(", note="Ask Ann.")
    assert (found["trigger"], found["matched"], found["findings"]) == ("fix", False, [])
    assert found["problem"].startswith("Line 1, column ")


def test_the_note_of_an_invalid_trigger_is_stored_as_its_problem() -> None:
    problem = "The trigger's pattern is no longer valid: process fix-ci not found"
    expected: dict[str, Any] = {"trigger": "fix", "matched": False, "findings": [], "problem": problem}
    assert kept("", note="process fix-ci not found") == expected


def test_changing_a_stored_match_does_not_affect_the_next_one() -> None:
    first = kept("github.push")
    first["note"] = "started"
    assert "note" not in kept("github.push")


@given(
    on=st.sampled_from(PATTERNS),
    kind=st.sampled_from(["github.push", "gitlab.push", "github.release"]),
    view=st.fixed_dictionaries(
        {},
        optional={
            "branch": st.sampled_from(["main", "dev", 7]),
            "labels": st.sampled_from([[], ["bug"], "bug"]),
            "attempt": st.sampled_from([1, 2, "2"]),
        },
    ),
    number=st.sampled_from([None, 7, "7"]),
)
def test_a_stored_match_agrees_with_the_trace(on: str, kind: str, view: dict[str, Any], number: Any) -> None:
    """If the type differs, only the first finding is stored; everything else is the same."""
    event = happened(kind, {"number": number}, **view)
    found, said = kept(on, event), told(trace(trigger(on), event))
    other = bool(said["findings"]) and said["findings"][0]["held"] is False
    expected = said | {"findings": said["findings"][:1]} if other else said
    if on:
        assert found == expected
    else:
        assert (found["matched"], found["findings"]) == (False, [])
