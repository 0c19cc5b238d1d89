"""Edge cases of routes in files: exact limits, error messages with their locations, and round trips."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.delivery.routes import Escalation, Timeout
from assent.delivery.routes_file import checked, read, written

LEAST: dict[str, Any] = {"pattern": "*", "channels": ["mail"]}
LEVEL: dict[str, Any] = {"after": "1h", "to": ["owner"]}
NONE: list[Any] = []
MANY = [f"c{n}" for n in range(20)]
NAME = (
    "must start with a lowercase letter or a digit, and contain only lowercase letters, digits, dots, "
    "hyphens and underscores; at most 60 characters"
)
TARGET = "must be experts, owner, group:NAME or person:NAME"
CROWD = {"channels": [*MANY, "x"]}
NO_LENGTH = "must be a duration, for example 500ms, 30s, 30m, 2h or 1d"


def refusal(more: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(LEAST | more, route_id="x")
    (found,) = list[Any](refused.value.details["errors"])  # type: ignore[call-overload]
    assert refused.value.message == f"{found['pointer']}: {found['detail']}"
    return refused.value.message


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        ({"pattern": "p" * 4_000}, {"pattern": "p" * 4_001}, "/pattern: must be text of 1 to 4,000 characters"),
        ({"pattern": "p"}, {"pattern": " "}, "/pattern: must be text of 1 to 4,000 characters"),
        ({"note": "n" * 500}, {"note": "n" * 501}, "/note: must be text of 1 to 500 characters"),
        ({"note": None}, {"note": 7}, "/note: must be text of 1 to 500 characters"),
        ({"channels": MANY}, {"channels": [*MANY, "x"]}, "/channels: must be a list of 1 to 20 items"),
        ({"channels": "mail"}, {"channels": []}, "/channels: must be a list of 1 to 20 items"),
        ({"channels": ["mail"]}, {"channels": {"mail": 1}}, "/channels: must be a list of 1 to 20 items"),
        ({"channels": ["a" * 60]}, {"channels": ["a" * 61]}, f"/channels/0: a channel's name {NAME}"),
        ({"channels": ["a._-"]}, {"channels": ["mail", "-a"]}, f"/channels/1: a channel's name {NAME}"),
        ({"channels": ["0"]}, {"channels": [0]}, f"/channels/0: a channel's name {NAME}"),
        ({"channels": ["a", "b"]}, {"channels": ["a", "b", "a"]}, "/channels/2: is listed twice"),
        ({"fallback": []}, {"fallback": [*MANY, "x"]}, "/fallback: must be a list of 0 to 20 items"),
        ({"fallback": "mail"}, {"fallback": None}, "/fallback: must be a list of 0 to 20 items"),
        ({"to": ["person:" + "a" * 100]}, {"to": ["person:" + "a" * 101]}, f"/to/0: {TARGET}"),
        ({"to": ["group:" + "a" * 100]}, {"to": ["group:" + "a" * 101]}, f"/to/0: {TARGET}"),
        ({"to": "group:a b"}, {"to": "group: a"}, f"/to/0: {TARGET}"),
        ({"to": "owner"}, {"to": "owners"}, f"/to/0: {TARGET}"),
        ({"to": "experts"}, {"to": "expert"}, f"/to/0: {TARGET}"),
        ({"to": ["experts", "owner"]}, {"to": []}, "/to: must be a list of 1 to 20 items"),
        ({"remind": ["1s"]}, {"remind": ["0s"]}, "/remind/0: must be between 1s and 366d"),
        ({"remind": ["366d"]}, {"remind": ["366d1s"]}, "/remind/0: must be between 1s and 366d"),
        ({"remind": "2h"}, {"remind": ["2h", 3]}, f"/remind/1: {NO_LENGTH}"),
        ({"remind": []}, {"remind": None}, "/remind: must be a list of 0 to 20 items"),
        ({"remind": ["1h", "61m", "2h"]}, {"remind": ["1h", "2h", "2h1s", "120m1s"]}, "/remind/3: is listed twice"),
        (
            {"remind": ["1h", "3h"]},
            {"remind": ["1h", "3h", "2h"]},
            "/remind/2: must be later than the previous step at 3h",
        ),
        ({"quiet": True}, {"quiet": 1}, "/quiet: must be true or false"),
        ({"quiet": False}, {"quiet": None}, "/quiet: must be true or false"),
        ({"timeout": None}, {"timeout": []}, "/timeout: must be an object with after, then"),
        (
            {"timeout": {"after": "1h", "then": "expire"}},
            {"timeout": {"after": "1h"}},
            "/timeout/then: must be expire or reject; a timeout never approves",
        ),
        (
            {"timeout": {"after": "366d", "then": "reject"}},
            {"timeout": {"after": "367d", "then": "reject"}},
            "/timeout/after: must be between 1s and 366d",
        ),
        (
            {"timeout": {"after": "1s", "then": "reject"}},
            {"timeout": {"after": "1s", "then": "reject", "or": 1}},
            "/timeout/or: is not a known field. Use one of after, then",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_route_field_is_validated_at_its_exact_limit(
    taken: dict[str, Any], refused: dict[str, Any], sentence: str
) -> None:
    route = read(LEAST | taken, route_id="x")
    assert read(written(route), route_id="x") == route
    assert refusal(refused) == sentence


@pytest.mark.parametrize(
    ("taken", "refused", "sentence"),
    [
        (None, 7, "/escalate: must be a list of 0 to 20 items"),
        ([], ["owner"], "/escalate/0: must be an object with after, channels, to"),
        (LEVEL, LEVEL | {"cc": 1}, "/escalate/0/cc: is not a known field. Use one of after, channels, to"),
        ([LEVEL], [LEVEL, LEVEL], "/escalate/1: is listed twice"),
        (
            [LEVEL, {"after": "61m", "to": "owner"}],
            [LEVEL, {"after": "1h", "to": "experts"}],
            "/escalate/1/after: must be later than the previous step at 1h",
        ),
        (LEVEL, {"to": "owner"}, f"/escalate/0/after: {NO_LENGTH}"),
        (LEVEL, LEVEL | {"to": NONE}, "/escalate/0/to: must be a list of 1 to 20 items"),
        (LEVEL, {"after": "1h"}, "/escalate/0/to: must be a list of 1 to 20 items"),
        (LEVEL, LEVEL | {"to": ["owner", "ann"]}, f"/escalate/0/to/1: {TARGET}"),
        (LEVEL | {"channels": NONE}, LEVEL | CROWD, "/escalate/0/channels: must be a list of 0 to 20 items"),
        (LEVEL | {"channels": "sms"}, LEVEL | {"channels": "Sms"}, f"/escalate/0/channels/0: a channel's name {NAME}"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_each_escalation_field_is_validated_at_its_exact_limit(taken: Any, refused: Any, sentence: str) -> None:
    route = read(LEAST | {"escalate": taken}, route_id="x")
    assert read(written(route), route_id="x") == route
    assert refusal({"escalate": refused}) == sentence


def test_a_route_may_have_up_to_20_escalations() -> None:
    levels = [{"after": f"{n}h", "to": ["owner"]} for n in range(1, 22)]
    assert len(read(LEAST | {"escalate": levels[:20]}, route_id="x").escalate) == 20
    assert refusal({"escalate": levels}) == "/escalate: must be a list of 0 to 20 items"


def test_the_error_for_an_unknown_field_lists_the_known_ones() -> None:
    names = "channels, escalate, fallback, note, pattern, quiet, remind, timeout, to"
    assert refusal({"chanels": 1}) == f"/chanels: is not a known field. Use one of {names}"
    assert refusal({"~/": 1}).startswith("/~0~1: is not a known field")


def test_a_single_value_is_parsed_as_a_list() -> None:
    body = {"pattern": " * ", "channels": "mail", "to": "owner", "fallback": "sms", "remind": "1h", "note": " x "}
    route = read(body | {"escalate": LEVEL | {"to": "group:ops", "channels": "sms"}}, route_id="rt_9")
    assert (route.id, route.pattern, route.note) == ("rt_9", "*", "x")
    assert (route.channels, route.to, route.fallback, route.remind) == (("mail",), ("owner",), ("sms",), (3600,))
    assert route.escalate == (Escalation(3600, ("group:ops",), ("sms",)),)


def test_missing_fields_have_defaults() -> None:
    route = read(LEAST, route_id="x")
    assert (route.fallback, route.remind, route.escalate, route.timeout, route.note) == ((), (), (), None, None)
    assert (route.to, route.quiet) == (("experts",), True)


@pytest.mark.parametrize("then", ["expire", "reject"])
def test_a_timeout_can_expire_or_reject(then: str) -> None:
    body = LEAST | {"timeout": {"after": "1h", "then": then}}
    assert read(body, route_id="x").timeout == Timeout(3600, then)


def test_a_route_is_parsed_the_same_way_before_it_is_saved() -> None:
    assert checked(LEAST, route_id="rt_1") == read(LEAST, route_id="rt_1")


CHANNELS = st.lists(st.sampled_from(MANY), min_size=1, max_size=20, unique=True)
TARGETS = st.lists(st.sampled_from(["experts", "owner", "group:ops", "person:ann b"]), min_size=1, unique=True)
MOMENTS = st.lists(st.integers(1, 366 * 86_400), max_size=20, unique=True).map(sorted)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a route with any combination of fields."""
    levels = [
        {"after": f"{after}s", "to": draw(TARGETS)} | draw(st.fixed_dictionaries({}, optional={"channels": CHANNELS}))
        for after in draw(MOMENTS)[:3]
    ]
    optional = {
        "to": TARGETS,
        "fallback": CHANNELS,
        "remind": MOMENTS.map(lambda each: [f"{after}s" for after in each]),
        "escalate": st.just(levels),
        "timeout": st.sampled_from([{"after": "1d", "then": "expire"}, {"after": "1s", "then": "reject"}]),
        "quiet": st.booleans(),
        "note": st.sampled_from(["n", "Ask Ann."]),
    }
    return draw(st.fixed_dictionaries({"pattern": st.just("deploy.*"), "channels": CHANNELS}, optional=optional))


@given(bodies())
def test_any_route_survives_a_round_trip(body: dict[str, Any]) -> None:
    route = read(body, route_id="x")
    assert read(written(route), route_id="x") == route
    assert written(read(written(route), route_id="x")) == written(route)
