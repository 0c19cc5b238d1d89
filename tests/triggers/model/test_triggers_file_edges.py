"""Edge cases of triggers in files: exact limits, the location and text of errors, and round trips."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.triggers.file_format import checked, written
from assent.triggers.model import Breaker, Concurrency, Debounce, Hold, TriggerState, WhenFull
from tests.triggers.model.test_triggers_file import ALL, LEAST


def refusal(more: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequest) as refused:
        checked(LEAST | more)
    (found,) = list[Any](refused.value.details["errors"])  # type: ignore[call-overload]
    assert refused.value.message == f"{found['pointer']}: {found['detail']}"
    return refused.value.message


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        ({"id": "a" * 60}, {"id": "a" * 61}, "/id: must start with a lowercase letter"),
        ({"id": "a.b_c-d"}, {"id": ".a"}, "/id: must start with a lowercase letter"),
        ({"id": "0"}, {"id": "a\n"}, "/id: must start with a lowercase letter"),
        ({"once": "x" * 500}, {"once": "x" * 501}, "/once: must be text of 1 to 500 characters"),
        ({"once": "x"}, {"once": " \n"}, "/once: must be text of 1 to 500 characters"),
        ({"once": "x"}, {"once": 7}, "/once: must be text of 1 to 500 characters"),
        ({"note": "x" * 500}, {"note": "x" * 501}, "/note: must be text of at most 500 characters"),
        ({"note": ""}, {"note": 7}, "/note: must be text of at most 500 characters"),
        ({"agent_id": "x" * 200}, {"agent_id": "x" * 201}, "/agent_id: must be an agent name"),
        ({"agent_id": "x"}, {"agent_id": "  "}, "/agent_id: must be an agent name"),
        ({"agent_id": "a b"}, {"agent_id": 7}, "/agent_id: must be an agent name"),
        ({"max_depth": 0}, {"max_depth": -1}, "/max_depth: must be a whole number from 0 to 20"),
        ({"max_depth": 20}, {"max_depth": 21}, "/max_depth: must be a whole number from 0 to 20"),
        ({"max_depth": 1}, {"max_depth": True}, "/max_depth: must be a whole number from 0 to 20"),
        ({"max_depth": 1}, {"max_depth": 1.0}, "/max_depth: must be a whole number from 0 to 20"),
        ({"max_depth": 1}, {"max_depth": "1"}, "/max_depth: must be a whole number from 0 to 20"),
        ({"run": "a" * 100}, {"run": "a" * 101}, "/run: must be a process name"),
        ({"run": "a.b_c-d"}, {"run": "other/a.py"}, "/run: must be a process name"),
        ({"run": "a.py"}, {"run": ".py"}, "/run: must be a process name"),
        ({"run": "A"}, {"run": None}, "/run: must be a process name"),
        ({"inputs": {}}, {"inputs": None}, "/inputs: must be a mapping of names to values"),
        ({"inputs": {"Event": 1}}, {"inputs": {"event": 1}}, "/inputs/event: is a built-in input; choose another name"),
        ({"inputs": {"a": {"events": 1}}}, {"inputs": {"events": 1}}, "/inputs/event: is a built-in input"),
        (
            {"inputs": {"a": ["{{ event.repo }}"]}},
            {"inputs": {"a": ["{{ event }}"]}},
            "/inputs/a/0: {{ event }} is not",
        ),
        ({"inputs": {"a/b": 1}}, {"inputs": {"a/b": "{{ event }}"}}, "/inputs/a~1b: {{ event }} is not"),
        ({"enabled": True}, {"enabled": 1}, "/enabled: must be true, false or suspended"),
        ({"enabled": False}, {"enabled": ""}, "/enabled: must be true, false or suspended"),
        ({"enabled": "suspended"}, {"enabled": []}, "/enabled: must be true, false or suspended"),
        ({"enabled": "suspended"}, {"enabled": {"a": 1}}, "/enabled: must be true, false or suspended"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value)[:40],
)
def test_each_trigger_field_has_an_exact_limit(taken: dict[str, Any], refused: dict[str, Any], sentence: str) -> None:
    checked(LEAST | taken)
    assert refusal(refused).startswith(sentence)


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        ("7d", "7d1s", "/debounce: must be a duration from 1ms to 7d"),
        ("1s", "0s", "/debounce: must be a duration from 1ms to 7d"),
        ("1m", "1 m", "/debounce: must be a duration, for example 500ms, 30s, 30m, 2h or 1d"),
        ({"quiet": "1m"}, 60, "/debounce: must be a mapping with key, max, quiet"),
        ({"quiet": "1m"}, {}, "/debounce/quiet: must be a duration from 1ms to 7d"),
        ({"quiet": "1m"}, {"quiet": 60}, "/debounce/quiet: must be a duration from 1ms to 7d"),
        ({"quiet": "1m"}, {"quiet": "soon"}, "/debounce/quiet: must be a duration, for example"),
        ({"quiet": "1m", "max": "1m"}, {"quiet": "1m", "max": "59s"}, "/debounce/max: must not be shorter than quiet"),
        ({"quiet": "7d", "max": "7d"}, {"quiet": "7d", "max": "8d"}, "/debounce/max: must be a duration from"),
        ({"quiet": "1m", "key": "k"}, {"quiet": "1m", "key": ""}, "/debounce/key: must be text of 1 to 500"),
        ({"quiet": "1m"}, {"quiet": "1m", "least": "1s"}, "/debounce/least: is not a known field. Use one of key, max"),
    ],
    ids=str,
)  # fmt: skip
def test_each_debounce_field_has_an_exact_limit(taken: Any, refused: Any, sentence: str) -> None:
    assert checked(LEAST | {"debounce": taken}).debounce is not None
    assert refusal({"debounce": refused}).startswith(sentence)


@pytest.mark.parametrize(
    ("written_as", "read"),
    [
        ("1m", Debounce(60, 600, "")),
        ({"quiet": "1m"}, Debounce(60, 600, "")),
        ({"quiet": "1m", "max": "2m"}, Debounce(60, 120, "")),
        ({"quiet": "1m", "key": "{{ event.repo }}"}, Debounce(60, 600, "{{ event.repo }}")),
    ],
    ids=str,
)
def test_the_default_maximum_wait_is_ten_times_the_quiet_period(written_as: Any, read: Debounce) -> None:
    assert checked(LEAST | {"debounce": written_as}).debounce == read


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        (1, 0, "/concurrency: must be a whole number from 1 to 1,000"),
        (1000, 1001, "/concurrency: must be a whole number from 1 to 1,000"),
        (1, "1", "/concurrency: must be a whole number from 1 to 1,000"),
        ({"limit": 1}, {"limit": 0}, "/concurrency/limit: must be a whole number from 1 to 1,000"),
        ({"limit": 1000}, {"limit": 1001}, "/concurrency/limit: must be a whole number from 1 to 1,000"),
        ({"when_full": "skip"}, {"when_full": "drop"}, "/concurrency/when_full: must be one of queue, skip, "),
        ({"when_full": "skip"}, {"when_full": []}, "/concurrency/when_full: must be one of queue, "),
        ({"key": "k"}, {"key": " "}, "/concurrency/key: must be text of 1 to 500 characters"),
        ({}, {"room": 1}, "/concurrency/room: is not a known field. Use one of key, limit, when_full"),
    ],
    ids=str,
)  # fmt: skip
def test_each_concurrency_field_has_an_exact_limit(taken: Any, refused: Any, sentence: str) -> None:
    assert checked(LEAST | {"concurrency": taken}).concurrency is not None
    assert refusal({"concurrency": refused}).startswith(sentence)


@pytest.mark.parametrize(
    ("written_as", "read"),
    [
        (2, Concurrency(2, WhenFull.QUEUE, "")),
        ({}, Concurrency(1, WhenFull.QUEUE, "")),
        ({"limit": 2}, Concurrency(2, WhenFull.QUEUE, "")),
        ({"key": "{{ event.repo }}"}, Concurrency(1, WhenFull.QUEUE, "{{ event.repo }}")),
        *(({"when_full": each}, Concurrency(1, WhenFull(each), "")) for each in ("queue", "skip", "replace", "cancel")),
    ],
    ids=str,
)
def test_the_default_concurrency_is_one_run(written_as: Any, read: Concurrency) -> None:
    assert checked(LEAST | {"concurrency": written_as}).concurrency == read


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        ("x" * 200, "x" * 201, "/hold: must be a gate name without spaces"),
        ("gate.x", "", "/hold: must be a gate name without spaces"),
        ("gate.x", "gate\u200bx", "/hold: must be a gate name without spaces"),
        ("gate.x", "gate\x07x", "/hold: must be a gate name without spaces"),
        ({"gate": "x"}, {"gate": 7}, "/hold/gate: must be a gate name without spaces"),
        ({"gate": "x"}, {"gate": None}, "/hold/gate: must be a gate name without spaces"),
        ({}, ["gate.x"], "/hold: must be a mapping with expert, gate, question, when"),
        ({}, {"gates": "x"}, "/hold/gates: is not a known field. Use one of expert, gate, question, when"),
        ({"question": "x" * 500}, {"question": "x" * 501}, "/hold/question: must be text of 1 to 500 characters"),
        (
            {"question": "{{ event.repo }}"},
            {"question": "{{ event.rep }}"},
            "/hold/question: events do not have a field named rep",
        ),
        ({"expert": "x" * 200}, {"expert": "x" * 201}, "/hold/expert: must be a name or a list of names"),
        ({"expert": ["x" * 200]}, {"expert": ["a", "x" * 201]}, "/hold/expert: must be a name or a list of names"),
        ({"expert": "a"}, {"expert": ""}, "/hold/expert: must be a name or a list of names"),
        ({"expert": ["a"]}, {"expert": ["a", ["b"]]}, "/hold/expert: must be a name or a list of names"),
        ({"expert": []}, {"expert": {}}, "/hold/expert: must be a name or a list of names"),
        ({"when": "github.*"}, {"when": "github.*("}, "/hold/when: "),
        ({"when": "depth>1"}, {"when": "depth > 'x'"}, "/hold/when: "),
        ({"when": "notes.*"}, {"when": "not(notes = 1)"}, "/hold/when: "),
        ({"when": "a.not"}, {"when": "NOT"}, "/hold/when: "),
        ({"when": "*"}, {"when": []}, "/hold/when: must be an event pattern"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_each_hold_field_has_an_exact_limit(taken: Any, refused: Any, sentence: str) -> None:
    assert checked(LEAST | {"hold": taken}).hold is not None
    assert refusal({"hold": refused}).startswith(sentence)


@pytest.mark.parametrize(
    ("written_as", "read"),
    [
        (True, Hold("", "", (), "*")),
        ({}, Hold("", "", (), "*")),
        (False, None),
        (None, None),
        ("gate.x", Hold("gate.x", "", (), "*")),
        ({"gate": "gate.x"}, Hold("gate.x", "", (), "*")),
        ({"question": "Go?"}, Hold("", "Go?", (), "*")),
        ({"expert": "ann"}, Hold("", "", ("ann",), "*")),
        ({"expert": ["ann", "b"]}, Hold("", "", ("ann", "b"), "*")),
        ({"expert": []}, Hold("", "", (), "*")),
        ({"when": " depth > 1 "}, Hold("", "", (), "*(depth > 1)")),
        ({"when": " github.* "}, Hold("", "", (), "github.*")),
    ],
    ids=str,
)
def test_a_hold_applies_to_all_events_and_names_no_expert_by_default(written_as: Any, read: Hold | None) -> None:
    assert checked(LEAST | {"hold": written_as}).hold == read


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        ({"limit": 1}, {"limit": 0}, "/breaker/limit: must be a whole number from 1 to 1,000,000"),
        ({"limit": 1_000_000}, {"limit": 1_000_001}, "/breaker/limit: must be a whole number from 1 to 1,000,000"),
        ({"within": "1s"}, {"within": "0s"}, "/breaker/within: must be a duration from 1ms to 7d"),
        ({"within": "7d"}, {"within": "7d1s"}, "/breaker/within: must be a duration from 1ms to 7d"),
        ({"within": "1m"}, {"within": 60}, "/breaker/within: must be a duration from 1ms to 7d"),
        ({}, 100, "/breaker: must be a mapping with echoes, limit, within"),
        ({}, {"most": 5}, "/breaker/most: is not a known field. Use one of echoes, limit, within"),
    ],
    ids=str,
)
def test_each_breaker_field_has_an_exact_limit(taken: Any, refused: Any, sentence: str) -> None:
    checked(LEAST | {"breaker": taken})
    assert refusal({"breaker": refused}).startswith(sentence)


@pytest.mark.parametrize(
    ("written_as", "read"),
    [(None, (100, 60)), ({}, (100, 60)), ({"limit": 5}, (5, 60)), ({"within": "1h"}, (100, 3600))],
    ids=str,
)
def test_the_default_breaker_is_100_events_per_minute(written_as: Any, read: tuple[int, int]) -> None:
    assert checked(LEAST | {"breaker": written_as}).breaker == Breaker(*read)


@pytest.mark.parametrize(
    ("run", "process"),
    [
        ("fix-ci", "fix-ci"),
        ("Fix_CI", "Fix_CI"),
        ("processes/Fix_CI", "Fix_CI"),
        ("Fix_CI.py", "fix-ci"),
        ("processes/Fix_CI.py", "fix-ci"),
        ("a_b_c.py", "a-b-c"),
        ("happy", "happy"),
    ],
)
def test_the_path_of_a_process_file_is_converted_to_the_process_name(run: str, process: str) -> None:
    assert checked(LEAST | {"run": run}).run == process


def test_whitespace_around_names_is_removed() -> None:
    assert checked(LEAST | {"agent_id": " fixer ", "on": " github.push "}) == checked(LEAST | {"agent_id": "fixer"})


def test_the_error_for_an_unknown_field_lists_the_known_ones() -> None:
    names = "agent_id, breaker, concurrency, debounce, enabled, hold, id, inputs, max_depth, note, on, once, run"
    assert refusal({"When": 1}) == f"/When: is not a known field. Use one of {names}"


def test_the_format_of_an_exported_trigger_is_stable() -> None:
    assert written(checked(ALL)) == ALL | {
        "run": "fix-ci",
        "hold": ALL["hold"] | {"expert": ["owner"], "when": "*(trust = 'untrusted')"},
    }


@pytest.mark.parametrize(
    ("more", "back"),
    [
        ({}, {}),
        ({"enabled": "enabled", "inputs": {}, "breaker": {}, "max_depth": 3, "hold": False, "once": None}, {}),
        ({"enabled": "disabled"}, {"enabled": False}),
        ({"enabled": "suspended"}, {"enabled": "suspended"}),
        ({"max_depth": 4}, {"max_depth": 4}),
        ({"max_depth": 2}, {"max_depth": 2}),
        ({"hold": {}}, {"hold": True}),
        ({"hold": {"when": "*"}}, {"hold": True}),
        ({"hold": "gate.x"}, {"hold": {"gate": "gate.x"}}),
        ({"debounce": "90s"}, {"debounce": {"quiet": "1m30s", "max": "15m"}}),
        ({"concurrency": 1}, {"concurrency": {"limit": 1, "when_full": "queue"}}),
        ({"breaker": {"limit": 101}}, {"breaker": {"limit": 101, "within": "1m"}}),
        ({"breaker": {"within": "61s"}}, {"breaker": {"limit": 100, "within": "1m1s"}}),
    ],
    ids=str,
)
def test_defaults_are_omitted_from_an_export(more: dict[str, Any], back: dict[str, Any]) -> None:
    assert written(checked(LEAST | more)) == LEAST | back


def test_a_trigger_is_enabled_by_default() -> None:
    assert checked(LEAST).state is TriggerState.ENABLED


@pytest.mark.parametrize(
    ("quiet", "most"), [("16h47m59s", "6d23h59m50s"), ("16h48m", "7d"), ("16h48m1s", "7d"), ("1d", "7d"), ("7d", "7d")]
)
def test_the_default_maximum_wait_is_capped_at_a_week_so_that_exports_can_be_read(quiet: str, most: str) -> None:
    for debounce in (quiet, {"quiet": quiet}):
        trigger = checked(LEAST | {"debounce": debounce})
        assert written(trigger)["debounce"] == {"quiet": quiet, "max": most}
        assert checked(written(trigger)) == trigger


LENGTHS = st.integers(1, 7 * 86_400).map("{}s".format)
KEYS = st.sampled_from(["k", "{{ event.repo }}", "{{ event.data.a[0] }}@{{ event.sha }}"])


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    nothing: dict[str, st.SearchStrategy[Any]] = {}
    return st.fixed_dictionaries(nothing, optional=optional)


BODIES = some(
    run=st.sampled_from(["a", "A_b", "processes/A_b.py"]),
    inputs=some(a=KEYS, b=st.integers(), c=st.lists(KEYS)),
    once=KEYS,
    debounce=LENGTHS | some(max=st.just("7d"), key=KEYS).map(lambda each: {"quiet": "5s"} | each),
    concurrency=st.integers(1, 1000) | some(limit=st.integers(1, 1000), when_full=st.sampled_from(WhenFull), key=KEYS),
    hold=st.booleans()
    | st.just("gate.x")
    | some(
        gate=st.just("g"),
        question=KEYS,
        expert=st.lists(st.sampled_from(["ann", "ops"])),
        when=st.sampled_from(["*", "depth > 1", "github.*", "github.*(depth > 1)"]),
    ),
    breaker=some(limit=st.integers(1, 1_000_000), within=LENGTHS),
    max_depth=st.integers(0, 20),
    agent_id=st.sampled_from(["fixer", " a b "]),
    enabled=st.booleans() | st.sampled_from(["enabled", "suspended", "disabled"]),
    note=st.none() | st.text(min_size=1, max_size=500),
)


@given(BODIES)
def test_any_trigger_survives_a_round_trip(body: dict[str, Any]) -> None:
    trigger = checked(LEAST | body)
    assert checked(written(trigger)) == trigger
    assert written(checked(written(trigger))) == written(trigger)
