"""Triggers in files: parsing, errors and their locations, and round trips."""

from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.triggers.file_format import LONGEST_KEY, LONGEST_NAME, LONGEST_NOTE, checked, written
from assent.triggers.model import Breaker, Concurrency, Debounce, Hold, Trigger, TriggerState, WhenFull

LEAST: dict[str, Any] = {"id": "fix", "on": "github.push", "run": "fix-ci"}
ALL: dict[str, Any] = {
    "id": "fix-red-main",
    "on": "github.workflow-run.completed(branch = 'main' AND conclusion in ('failure', 'timed_out'))",
    "run": "processes/fix_ci.py",
    "inputs": {"repo": "{{ event.repo }}", "depth": 1},
    "once": "{{ event.repo }}@{{ event.sha }}",
    "debounce": {"key": "{{ event.branch }}", "quiet": "30s", "max": "5m"},
    "concurrency": {"key": "{{ event.repo }}", "limit": 2, "when_full": "replace"},
    "hold": {"gate": "gate.ci", "question": "Fix {{ event.repo }}?", "expert": "owner", "when": "trust = 'untrusted'"},
    "breaker": {"limit": 5, "within": "1h"},
    "max_depth": 0,
    "agent_id": "fixer",
    "enabled": "suspended",
    "note": "Ask Ann.",
}


def test_all_fields_of_a_trigger_are_parsed() -> None:
    assert checked(ALL) == Trigger(
        name="fix-red-main",
        on=ALL["on"],
        run="fix-ci",
        inputs=ALL["inputs"],
        once=ALL["once"],
        debounce=Debounce(30, 300, "{{ event.branch }}"),
        concurrency=Concurrency(2, WhenFull.REPLACE, "{{ event.repo }}"),
        hold=Hold("gate.ci", "Fix {{ event.repo }}?", ("owner",), "*(trust = 'untrusted')"),
        breaker=Breaker(5, 3600),
        max_depth=0,
        agent_id="fixer",
        state=TriggerState.SUSPENDED,
        note="Ask Ann.",
    )


def test_a_trigger_requires_only_three_fields() -> None:
    assert checked(LEAST) == Trigger(name="fix", on="github.push", run="fix-ci")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"debounce": "10s"},
        {"concurrency": 3},
        {"hold": True},
        {"hold": "gate.x"},
        {"hold": {"when": "github.*(actortype = 'bot')"}},
        {"hold": {"expert": ["ann", "ops"]}},
        {"enabled": False},
        {"inputs": {"a": [1, {"b": "{{ event.data.x[0] }}"}]}},
        {name: value for name, value in ALL.items() if name not in LEAST},
    ],
)
def test_a_trigger_survives_a_round_trip(more: dict[str, Any]) -> None:
    trigger = checked(LEAST | more)
    assert checked(written(trigger)) == trigger


@pytest.mark.parametrize(
    ("more", "trigger"),
    [
        ({"debounce": "10s"}, {"debounce": Debounce(10, 100)}),
        ({"concurrency": 3}, {"concurrency": Concurrency(3)}),
        ({"hold": True}, {"hold": Hold()}),
        ({"hold": False}, {"hold": None}),
        ({"hold": "gate.x"}, {"hold": Hold("gate.x")}),
        ({"enabled": True}, {"state": TriggerState.ENABLED}),
        ({"enabled": False}, {"state": TriggerState.DISABLED}),
        ({"enabled": "enabled"}, {"state": TriggerState.ENABLED}),
        ({"enabled": "disabled"}, {"state": TriggerState.DISABLED}),
        ({"run": "Fix.Ci"}, {"run": "Fix.Ci"}),
        ({"run": "processes/fix-ci"}, {"run": "fix-ci"}),
        ({"once": None, "note": None, "hold": None}, {}),
        ({"breaker": {}}, {"breaker": Breaker()}),
        ({"max_depth": 20}, {"max_depth": 20}),
    ],
)
def test_short_forms_are_equivalent_to_the_long_forms(more: dict[str, Any], trigger: dict[str, Any]) -> None:
    expected: dict[str, Any] = {"name": "fix", "on": "github.push", "run": "fix-ci", **trigger}
    assert checked(LEAST | more) == Trigger(**expected)


@pytest.mark.parametrize(
    ("more", "place", "said"),
    [
        ({"id": "Fix"}, "/id", "must start with a lowercase letter"),
        ({"id": ""}, "/id", "must start with a lowercase letter"),
        ({"id": "x" * 61}, "/id", "must start with a lowercase letter"),
        ({"id": None}, "/id", "must start with a lowercase letter"),
        ({"on": None}, "/on", "must be an event pattern"),
        ({"on": "github.push(brnch = 'main')"}, "/on", "branch"),
        ({"on": "github.push("}, "/on", "column"),
        ({"run": "a b"}, "/run", "must be a process name"),
        ({"run": 5}, "/run", "must be a process name"),
        ({"inputs": []}, "/inputs", "must be a mapping"),
        ({"inputs": {"event": 1}}, "/inputs/event", "is a built-in input"),
        ({"inputs": {"events": 1}}, "/inputs/event", "is a built-in input"),
        ({"inputs": {"a": "{{ event.rep }}"}}, "/inputs/a", "events do not have a field named rep"),
        ({"once": ""}, "/once", "must be text"),
        ({"once": "x" * (LONGEST_KEY + 1)}, "/once", "must be text"),
        ({"once": "{{ event.rep }}"}, "/once", "events do not have a field named rep"),
        ({"debounce": "soon"}, "/debounce", "must be a duration"),
        ({"debounce": "0s"}, "/debounce", "from 1ms"),
        ({"debounce": "8d"}, "/debounce", "to 7d"),
        ({"debounce": 5}, "/debounce", "must be a mapping"),
        ({"debounce": {"quiet": "1m", "max": "10s"}}, "/debounce/max", "must not be shorter"),
        ({"debounce": {"wait": "1m"}}, "/debounce/wait", "is not a known field"),
        ({"debounce": {"quiet": "1m", "key": "{{ x }}"}}, "/debounce/key", "is not a path"),
        ({"concurrency": 0}, "/concurrency", "from 1 to 1,000"),
        ({"concurrency": 1001}, "/concurrency", "from 1 to 1,000"),
        ({"concurrency": True}, "/concurrency", "whole number"),
        ({"concurrency": {"limit": 0}}, "/concurrency/limit", "from 1 to 1,000"),
        ({"concurrency": {"when_full": "wait"}}, "/concurrency/when_full", "queue, skip, replace, cancel"),
        ({"hold": 1}, "/hold", "must be a mapping"),
        ({"hold": " "}, "/hold", "must be a gate name"),
        ({"hold": {"gate": "x" * (LONGEST_NAME + 1)}}, "/hold/gate", "must be a gate name"),
        ({"hold": "a gate"}, "/hold", "without spaces"),
        ({"hold": {"gate": "gate.x "}}, "/hold/gate", "without spaces"),
        ({"hold": {"when": "brnch='dev'"}}, "/hold/when", "brnch"),
        ({"hold": {"when": "NOT (brnch = 'dev')"}}, "/hold/when", "brnch"),
        ({"hold": {"when": "not(brnch = 'dev')"}}, "/hold/when", "brnch"),
        ({"hold": {"when": "attmpt>2"}}, "/hold/when", "attmpt"),
        ({"hold": {"when": "brnch in ('dev')"}}, "/hold/when", "brnch"),
        ({"hold": {"when": 1}}, "/hold/when", "must be an event pattern"),
        ({"hold": {"expert": [""]}}, "/hold/expert", "list of names"),
        ({"hold": {"expert": 3}}, "/hold/expert", "list of names"),
        ({"hold": {"when": "github.*(x = 1)"}}, "/hold/when", "x"),
        ({"breaker": {"limit": 0}}, "/breaker/limit", "from 1"),
        ({"breaker": {"within": "0s"}}, "/breaker/within", "from 1ms"),
        ({"max_depth": -1}, "/max_depth", "from 0 to 20"),
        ({"max_depth": 21}, "/max_depth", "from 0 to 20"),
        ({"agent_id": ""}, "/agent_id", "must be an agent name"),
        ({"agent_id": "a\nb"}, "/agent_id", "must be an agent name"),
        ({"note": "x" * (LONGEST_NOTE + 1)}, "/note", "at most"),
        ({"enabled": "maybe"}, "/enabled", "true, false or suspended"),
        ({"enabled": None}, "/enabled", "true, false or suspended"),
        ({"when": "x"}, "/when", "is not a known field"),
    ],
)
def test_the_error_for_an_invalid_value_points_to_its_field(more: dict[str, Any], place: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        checked(LEAST | more)
    assert refused.value.message.startswith(place)


@pytest.mark.parametrize(
    "more",
    [
        {"id": "x" * 60},
        {"id": "0"},
        {"once": "x" * LONGEST_KEY},
        {"debounce": "1s"},
        {"debounce": "7d"},
        {"debounce": {"quiet": "1m", "max": "1m"}},
        {"concurrency": 1},
        {"concurrency": 1000},
        {"breaker": {"limit": 1, "within": "1s"}},
        {"breaker": {"limit": 1_000_000}},
        {"agent_id": "x" * LONGEST_NAME},
        {"hold": "x" * LONGEST_NAME},
        {"hold": {"expert": "x" * LONGEST_NAME}},
        {"note": "x" * LONGEST_NOTE},
        {"max_depth": 0},
    ],
)
def test_values_at_the_limits_are_accepted(more: dict[str, Any]) -> None:
    assert isinstance(checked(LEAST | more), Trigger)


@pytest.mark.parametrize(
    ("when", "read"),
    [
        ("trust='untrusted'", "*(trust='untrusted')"),
        ("NOT (branch = 'dev')", "*(NOT (branch = 'dev'))"),
        ("not (branch='dev')", "*(not (branch='dev'))"),
        ("(branch = 'dev') OR (depth > 1)", "*((branch = 'dev') OR (depth > 1))"),
        ("branch in ('dev', 'main')", "*(branch in ('dev', 'main'))"),
        ("github.*", "github.*"),
        ("not-found.*", "not-found.*"),
        ("github.*(actortype = 'bot')", "github.*(actortype = 'bot')"),
        ("*(trust = 'untrusted')", "*(trust = 'untrusted')"),
    ],
)
def test_a_hold_condition_can_omit_the_glob(when: str, read: str) -> None:
    assert checked(LEAST | {"hold": {"when": when}}).hold == Hold(when=read)
