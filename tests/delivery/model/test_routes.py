"""Routes: which route is chosen, who its recipients are, and when its steps are due."""

from typing import Any

import pytest

from assent.core.seats import Directory, Seat
from assent.core.timestamps import SECOND
from assent.delivery.routes import Escalation, Route, Step, StepKind, Timeout, chosen, named, people, steps
from tests.core.test_lifecycle import NOW, waiting

PROJECT = Directory(
    frozenset({"ann", "bob", "cid"}), {"ops": frozenset({"bob", "ann", "gone"}), "empty": frozenset()}, "cid"
)


def route(**changes: Any) -> Route:
    given: dict[str, Any] = {"id": "rt_1", "pattern": "*", "channels": ("chat",)}
    return Route(**(given | changes))


def test_steps_are_sorted_by_time() -> None:
    made = route(
        remind=(600, 7200),
        escalate=(Escalation(3600, ("owner",)), Escalation(600, ("group:ops",))),
        timeout=Timeout(86_400, "expire"),
    )
    assert [((each.at - NOW) // SECOND, each.kind, each.index) for each in steps(made, NOW)] == [
        (0, StepKind.ASK, 0),
        (600, StepKind.ESCALATE, 1),
        (600, StepKind.REMIND, 0),
        (3600, StepKind.ESCALATE, 0),
        (7200, StepKind.REMIND, 1),
        (86_400, StepKind.TIME_OUT, 0),
    ]


def test_the_only_step_of_a_minimal_route_is_the_question() -> None:
    assert [each.kind for each in steps(route(), NOW)] == [StepKind.ASK]


def test_the_first_matching_route_is_chosen() -> None:
    broken, other = route(id="rt_0", pattern="deploy("), route(id="rt_1", pattern="pay.*")
    first, second = route(id="rt_2", pattern="dep*"), route(id="rt_3", pattern="*")
    assert chosen([broken, other, first, second], waiting()) is first
    assert chosen([broken, other], waiting()) is None


def test_a_route_with_an_unknown_condition_is_not_chosen() -> None:
    assert chosen([route(pattern="*(risk = 'high')")], waiting()) is None
    assert chosen([route(pattern="*(NOT risk = 'high')")], waiting()) is None


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        (["person:ann"], ("ann",)),
        (["person:gone"], ()),
        (["group:ops"], ("ann", "bob")),
        (["group:empty"], ()),
        (["owner"], ("cid",)),
        (["owner", "group:ops", "person:cid"], ("cid", "ann", "bob")),
        (["experts"], ("bob", "ann")),
        ([], ()),
    ],
)
def test_recipients_are_resolved_to_distinct_people(to: list[str], meant: tuple[str, ...]) -> None:
    asked = waiting(seats=(Seat("bob"), Seat("ops", ("nobody",))))
    assert people(to, asked, PROJECT) == meant


def test_the_owner_is_the_recipient_if_there_are_no_experts() -> None:
    assert people(["experts"], waiting(), PROJECT) == ("cid",)
    assert named(["experts"], waiting()) == ("owner",)


def test_names_to_look_up_are_deduplicated() -> None:
    asked = waiting(seats=(Seat("bob"), Seat("ops", ("legal",))))
    found = named(["experts", "group:ops", "person:ann", "owner", "person:ann"], asked)
    assert found == ("bob", "ops", "legal", "ann", "owner")


def test_step_kinds_match_the_names_stored_in_the_database() -> None:
    assert {"ask", "remind", "escalate", "time-out"} <= set(StepKind)


def test_by_default_a_route_asks_the_experts_and_respects_quiet_hours() -> None:
    little = Route(id="rt_1", pattern="*", channels=("chat",))
    assert (little.to, little.quiet) == (("experts",), True)
    assert (little.fallback, little.remind, little.escalate, little.timeout, little.note) == ((), (), (), None, None)
    assert Escalation(60, ("owner",)).channels == ()


def test_step_times_are_relative_to_the_creation_time() -> None:
    made = route(remind=(1,), escalate=(Escalation(2, ("owner",)),), timeout=Timeout(3, "reject"))
    assert steps(made, NOW) == (
        Step(NOW, StepKind.ASK, 0),
        Step(NOW + 1_000_000, StepKind.REMIND, 0),
        Step(NOW + 2_000_000, StepKind.ESCALATE, 0),
        Step(NOW + 3_000_000, StepKind.TIME_OUT, 0),
    )


def test_the_timeout_comes_last_among_simultaneous_steps() -> None:
    made = route(remind=(60,), escalate=(Escalation(60, ("owner",)),), timeout=Timeout(60, "reject"))
    assert [each.kind for each in steps(made, NOW)][-1] is StepKind.TIME_OUT


def test_no_route_is_chosen_from_an_empty_list() -> None:
    assert chosen([], waiting()) is None


@pytest.mark.parametrize("target", ["person:owner", "group:owner", "owner"])
def test_all_spellings_of_the_owner_are_equivalent(target: str) -> None:
    assert named([target], waiting()) == ("owner",)
    assert people([target], waiting(), PROJECT) == ("cid",)
