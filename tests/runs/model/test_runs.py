"""Defaults of runs and steps, replay differences and the order of steps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.access import Kind, Principal
from assent.runs.model import (
    ENDED,
    SETTLED,
    Cause,
    Line,
    Run,
    RunState,
    Step,
    StepKind,
    StepState,
    Superseded,
    difference,
    in_order,
)

ANN = Principal(kind=Kind.PERSON, id="per_1", name="ann", project="default")
STEP = Step(path="2.1", kind=StepKind.TASK, name="send", fingerprint="f1", state=StepState.DONE)
QUESTION = replace(STEP, kind=StepKind.BREAKPOINT, name="go")
RUN = Run(
    id="run_1", project="default", process="audit", version="v1", state=RunState.QUEUED, inputs={"a": 1},
    agent_id="bot", started_by="person:ann", principal=ANN, created_at=1, updated_at=2,
)  # fmt: skip


def test_stored_and_displayed_names_of_states_never_change() -> None:
    assert [str(each) for each in RunState] == ["queued", "running", "suspended", "done", "failed", "cancelled"]
    assert [str(each) for each in StepKind] == ["task", "breakpoint", "sleep", "file"]
    assert [str(each) for each in StepState] == ["running", "retrying", "waiting", "answered", "done", "failed"]


def test_a_run_has_ended_if_it_is_done_failed_or_cancelled() -> None:
    assert {state: replace(RUN, state=state).ended for state in RunState} == {
        RunState.QUEUED: False,
        RunState.RUNNING: False,
        RunState.SUSPENDED: False,
        RunState.DONE: True,
        RunState.FAILED: True,
        RunState.CANCELLED: True,
    }
    assert {"done", "failed", "cancelled"} == ENDED
    assert {"done", "failed"} == SETTLED


def test_a_new_run_has_not_started_and_has_no_output() -> None:
    assert (RUN.turn, RUN.starts, RUN.lines) == (0, 0, 0)
    assert (RUN.output, RUN.error, RUN.ended_at, RUN.due_at, RUN.cause) == (None, None, None, None, None)


def test_a_new_step_has_no_attempts_and_no_outcome() -> None:
    assert (STEP.attempts, STEP.started_at) == (0, 0)
    assert (STEP.breakpoint_id, STEP.due_at, STEP.heard, STEP.outcome, STEP.error, STEP.ended_at) == (None,) * 6


def test_a_run_inherits_the_depth_of_its_trigger_event() -> None:
    assert RUN.depth == 0
    assert replace(RUN, cause=Cause("evt_1", "nightly", 3)).depth == 3


def test_log_lines_without_data_do_not_share_a_dictionary() -> None:
    first, second = Line("started"), Line("started", "1")
    assert (first.data, first.path, second.path) == ({}, None, "1")
    assert first.data is not second.data


def test_the_error_for_a_lost_lease_says_that_the_run_continues_elsewhere() -> None:
    error = Superseded()
    assert (error.code, error.message) == ("superseded", "The run continues on another worker")


@pytest.mark.parametrize(
    ("step", "now"),
    [
        (STEP, (StepKind.TASK, "send", "f1")),
        (STEP, (StepKind.TASK, "send", None)),
        (replace(STEP, fingerprint=None), (StepKind.TASK, "send", "f2")),
        (replace(STEP, fingerprint=None), (StepKind.TASK, "send", None)),
        (QUESTION, (StepKind.BREAKPOINT, "go", "f1")),
    ],
)
def test_an_identical_replay_has_no_differences(step: Step, now: tuple[StepKind, str, str | None]) -> None:
    assert difference(step, *now) is None


@pytest.mark.parametrize(
    ("step", "now", "said"),
    [
        (
            STEP,
            (StepKind.TASK, "mail", "f1"),
            "Step 2.1 was recorded as the task 'send', but is now the task 'mail'.",
        ),
        (
            STEP,
            (StepKind.BREAKPOINT, "send", "f1"),
            "Step 2.1 was recorded as the task 'send', but is now the breakpoint 'send'.",
        ),
        (
            replace(STEP, fingerprint=None),
            (StepKind.SLEEP, "nap", None),
            "Step 2.1 was recorded as the task 'send', but is now the sleep 'nap'.",
        ),
        (
            STEP,
            (StepKind.TASK, "send", "f2"),
            "Step 2.1 (the task 'send') is called with different arguments than when it was recorded.",
        ),
        (
            QUESTION,
            (StepKind.BREAKPOINT, "go", "f2"),
            "Step 2.1 (the breakpoint 'go') has changed since it was recorded.",
        ),
    ],
)
def test_a_difference_in_a_replay_is_explained(step: Step, now: tuple[StepKind, str, str | None], said: str) -> None:
    assert difference(step, *now) == said


def test_steps_are_sorted_numerically_with_parents_first() -> None:
    paths = ["10", "2.10", "2", "1", "2.2", "2.2.1", "3"]
    steps = [replace(STEP, path=path) for path in paths]
    assert [each.path for each in in_order(steps)] == ["1", "2", "2.2", "2.2.1", "2.10", "3", "10"]


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4).map(tuple), unique=True))
def test_arbitrary_step_paths_are_sorted_numerically(places: list[tuple[int, ...]]) -> None:
    steps = [replace(STEP, path=".".join(map(str, place))) for place in places]
    assert [each.path for each in in_order(steps)] == [".".join(map(str, place)) for place in sorted(places)]
