"""Routes: which one is chosen, who its recipients are, and when its steps happen."""

from typing import Any

import pytest

from assent.domain.instants import SECOND
from assent.domain.routes import Escalation, Route, Step, StepKind, Timeout, chosen, named, people, steps
from assent.domain.routing import Directory, Seat
from tests.domain.test_lifecycle import NOW, waiting

PROJECT = Directory(
    frozenset({"ann", "bob", "cid"}), {"ops": frozenset({"bob", "ann", "gone"}), "empty": frozenset()}, "cid"
)


def route(**changes: Any) -> Route:
    given: dict[str, Any] = {"id": "rt_1", "pattern": "*", "channels": ("chat",)}
    return Route(**(given | changes))


def test_everything_that_is_to_happen_comes_in_its_order() -> None:
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


def test_a_route_without_more_only_asks() -> None:
    assert [each.kind for each in steps(route(), NOW)] == [StepKind.ASK]


def test_the_first_route_that_matches_is_taken() -> None:
    broken, other = route(id="rt_0", pattern="deploy("), route(id="rt_1", pattern="pay.*")
    first, second = route(id="rt_2", pattern="dep*"), route(id="rt_3", pattern="*")
    assert chosen([broken, other, first, second], waiting()) is first
    assert chosen([broken, other], waiting()) is None


def test_what_is_unknown_about_a_breakpoint_takes_no_route() -> None:
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
def test_a_route_means_people_each_of_them_once(to: list[str], meant: tuple[str, ...]) -> None:
    asked = waiting(seats=(Seat("bob"), Seat("ops", ("nobody",))))
    assert people(to, asked, PROJECT) == meant


def test_without_experts_the_owner_stands_for_them() -> None:
    assert people(["experts"], waiting(), PROJECT) == ("cid",)
    assert named(["experts"], waiting()) == ("owner",)


def test_the_names_that_have_to_be_looked_up_are_told_once() -> None:
    asked = waiting(seats=(Seat("bob"), Seat("ops", ("legal",))))
    found = named(["experts", "group:ops", "person:ann", "owner", "person:ann"], asked)
    assert found == ("bob", "ops", "legal", "ann", "owner")


def test_the_words_of_steps_are_the_ones_that_databases_have() -> None:
    assert {"ask", "remind", "escalate", "time-out"} <= set(StepKind)


def test_a_route_that_says_little_asks_the_experts_and_respects_quiet_hours() -> None:
    little = Route(id="rt_1", pattern="*", channels=("chat",))
    assert (little.to, little.quiet) == (("experts",), True)
    assert (little.fallback, little.remind, little.escalate, little.timeout, little.note) == ((), (), (), None, None)
    assert Escalation(60, ("owner",)).channels == ()


def test_seconds_are_counted_from_when_it_was_raised() -> None:
    made = route(remind=(1,), escalate=(Escalation(2, ("owner",)),), timeout=Timeout(3, "reject"))
    assert steps(made, NOW) == (
        Step(NOW, StepKind.ASK, 0),
        Step(NOW + 1_000_000, StepKind.REMIND, 0),
        Step(NOW + 2_000_000, StepKind.ESCALATE, 0),
        Step(NOW + 3_000_000, StepKind.TIME_OUT, 0),
    )


def test_what_falls_on_the_same_second_as_the_end_comes_before_it() -> None:
    made = route(remind=(60,), escalate=(Escalation(60, ("owner",)),), timeout=Timeout(60, "reject"))
    assert [each.kind for each in steps(made, NOW)][-1] is StepKind.TIME_OUT


def test_without_a_route_none_is_taken() -> None:
    assert chosen([], waiting()) is None


@pytest.mark.parametrize("target", ["person:owner", "group:owner", "owner"])
def test_the_owner_is_meant_however_they_are_named(target: str) -> None:
    assert named([target], waiting()) == ("owner",)
    assert people([target], waiting(), PROJECT) == ("cid",)
