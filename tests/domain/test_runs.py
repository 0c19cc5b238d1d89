"""Defaults of runs and steps, differences in a replay, and the order of steps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.access import Kind, Principal
from assent.domain.runs import (
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


def test_the_words_that_are_stored_and_shown_stay_what_they_are() -> None:
    assert [str(each) for each in RunState] == ["queued", "running", "suspended", "done", "failed", "cancelled"]
    assert [str(each) for each in StepKind] == ["task", "breakpoint", "sleep", "file"]
    assert [str(each) for each in StepState] == ["running", "retrying", "waiting", "answered", "done", "failed"]


def test_a_run_has_ended_when_nobody_will_take_it_up_again() -> None:
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


def test_a_new_run_was_taken_up_by_nobody_and_wrote_nothing() -> None:
    assert (RUN.turn, RUN.starts, RUN.lines) == (0, 0, 0)
    assert (RUN.output, RUN.error, RUN.ended_at, RUN.due_at, RUN.cause) == (None, None, None, None, None)


def test_a_new_step_was_never_tried_and_waits_for_nothing() -> None:
    assert (STEP.attempts, STEP.started_at) == (0, 0)
    assert (STEP.breakpoint_id, STEP.due_at, STEP.heard, STEP.outcome, STEP.error, STEP.ended_at) == (None,) * 6


def test_a_run_is_as_deep_as_the_event_that_started_it() -> None:
    assert RUN.depth == 0
    assert replace(RUN, cause=Cause("evt_1", "nightly", 3)).depth == 3


def test_two_lines_without_data_do_not_share_it() -> None:
    first, second = Line("started"), Line("started", "1")
    assert (first.data, first.path, second.path) == ({}, None, "1")
    assert first.data is not second.data


def test_who_was_overtaken_is_told_that_the_run_goes_on_elsewhere() -> None:
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
def test_a_replay_that_does_the_same_does_not_differ(step: Step, now: tuple[StepKind, str, str | None]) -> None:
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
def test_a_replay_that_does_something_else_is_told_what(
    step: Step, now: tuple[StepKind, str, str | None], said: str
) -> None:
    assert difference(step, *now) == said


def test_two_comes_before_ten_and_what_is_inside_after_what_it_is_in() -> None:
    paths = ["10", "2.10", "2", "1", "2.2", "2.2.1", "3"]
    steps = [replace(STEP, path=path) for path in paths]
    assert [each.path for each in in_order(steps)] == ["1", "2", "2.2", "2.2.1", "2.10", "3", "10"]


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4).map(tuple), unique=True))
def test_steps_are_read_in_the_order_of_their_numbers(places: list[tuple[int, ...]]) -> None:
    steps = [replace(STEP, path=".".join(map(str, place))) for place in places]
    assert [each.path for each in in_order(steps)] == [".".join(map(str, place)) for place in sorted(places)]
