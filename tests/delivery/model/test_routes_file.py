"""Parsing and serializing routes in files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.durations import duration, seconds
from assent.core.errors import InvalidRequest, PatternError
from assent.delivery.routes import Escalation, Route, Timeout
from assent.delivery.routes_file import LONGEST, checked, read, written

WHOLE = {
    "pattern": "deploy.*(risk = high)",
    "channels": ["ops-slack", "mail"],
    "to": ["experts", "group:ops", "person:ann"],
    "fallback": ["mail"],
    "remind": ["30m", "2h"],
    "escalate": [{"after": "1h", "to": ["owner"]}, {"after": "1d", "to": ["group:board"], "channels": ["mail"]}],
    "timeout": {"after": "2d", "then": "reject"},
    "quiet": False,
    "note": "Whatever goes to production.",
}


def test_every_route_field_is_parsed() -> None:
    assert read(WHOLE, route_id="rt_1") == Route(
        id="rt_1",
        pattern="deploy.*(risk = high)",
        channels=("ops-slack", "mail"),
        to=("experts", "group:ops", "person:ann"),
        fallback=("mail",),
        remind=(1800, 7200),
        escalate=(Escalation(3600, ("owner",)), Escalation(86400, ("group:board",), ("mail",))),
        timeout=Timeout(172800, "reject"),
        quiet=False,
        note="Whatever goes to production.",
    )


def test_a_route_survives_a_round_trip() -> None:
    assert written(read(WHOLE, route_id="x")) == WHOLE


def test_a_route_with_only_pattern_and_channels_gets_the_defaults() -> None:
    route = read({"pattern": "*", "channels": "mail"}, route_id="x")
    assert (route.channels, route.to, route.quiet, route.timeout) == (("mail",), ("experts",), True, None)
    assert written(route) == {"pattern": "*", "channels": ["mail"], "to": ["experts"]}


def test_a_single_escalation_does_not_have_to_be_a_list() -> None:
    body = {"pattern": "*", "channels": ["mail"], "escalate": {"after": "1h", "to": "owner"}}
    assert read(body, route_id="x").escalate == (Escalation(3600, ("owner",)),)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"pattern": ""}, "/pattern"),
        ({"pattern": None}, "/pattern"),
        ({"channels": []}, "/channels"),
        ({"channels": None}, "/channels"),
        ({"channels": ["Mail"]}, "/channels/0"),
        ({"channels": ["mail", "mail"]}, "/channels/1"),
        ({"channels": [f"c{n}" for n in range(21)]}, "/channels"),
        ({"to": []}, "/to"),
        ({"to": ["ann"]}, "/to/0"),
        ({"to": ["group:"]}, "/to/0"),
        ({"to": ["experts", 7]}, "/to/1"),
        ({"fallback": [""]}, "/fallback/0"),
        ({"remind": ["soon"]}, "/remind/0"),
        ({"remind": [30]}, "/remind/0"),
        ({"remind": ["0s"]}, "/remind/0"),
        ({"remind": ["400d"]}, "/remind/0"),
        ({"remind": ["2h", "30m"]}, "/remind/1"),
        ({"escalate": "owner"}, "/escalate/0"),
        ({"escalate": [{"after": "1h"}]}, "/escalate/0/to"),
        ({"escalate": [{"to": ["owner"]}]}, "/escalate/0/after"),
        ({"escalate": [{"after": "1h", "to": ["owner"], "cc": ["ann"]}]}, "/escalate/0/cc"),
        ({"escalate": [{"after": "2h", "to": ["owner"]}, {"after": "1h", "to": ["owner"]}]}, "/escalate/1/after"),
        ({"timeout": {"after": "1h", "then": "approve"}}, "/timeout/then"),
        ({"timeout": {"then": "reject"}}, "/timeout/after"),
        ({"timeout": "1h"}, "/timeout"),
        ({"quiet": "no"}, "/quiet"),
        ({"note": ""}, "/note"),
        ({"chanels": ["mail"]}, "/chanels"),
        ({"a/b~": 1}, "/a~1b~0"),
    ],
)
def test_a_validation_error_names_the_invalid_field(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({"pattern": "*", "channels": ["mail"]} | changes, route_id="x")
    assert refused.value.details["errors"][0]["pointer"] == pointer  # type: ignore[index]


def test_a_timeout_never_approves() -> None:
    with pytest.raises(InvalidRequest, match="never approves"):
        read({"pattern": "*", "channels": ["m"], "timeout": {"after": "1h", "then": "approve"}}, route_id="x")


def test_saving_a_route_with_an_invalid_pattern_fails() -> None:
    body = {"pattern": "deploy.*(risk =", "channels": ["mail"]}
    assert read(body, route_id="x").pattern == "deploy.*(risk ="
    with pytest.raises(PatternError):
        checked(body, route_id="x")


@given(st.integers(0, LONGEST))
def test_a_formatted_duration_parses_back_to_the_same_value(length: int) -> None:
    assert seconds(duration(length)) == length


@pytest.mark.parametrize(("text", "length"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1d", 86400), ("0s", 0)])
def test_durations_are_parsed_into_seconds(text: str, length: int) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "30", "m", "1.5h", "30 m", "30m1h", "-1h", "1w", "٣m"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="30m, 2h or 1d"):
        seconds(text)
