"""Conversion of triggers between assent.yaml and the API."""

import pytest

from assent.domain.errors import InvalidRequest
from assent.domain.triggers_json import respelt, spelt, unspelt

WRITTEN = {"id": "x", "on": "*", "max_depth": 2, "agent_id": "a", "concurrency": {"when_full": "skip", "limit": 1}}
SENT = {"name": "x", "on": "*", "maxDepth": 2, "agentId": "a", "concurrency": {"whenFull": "skip", "limit": 1}}


def test_a_trigger_is_spelt_as_json_and_back() -> None:
    assert spelt(WRITTEN) == SENT
    assert unspelt(SENT) == WRITTEN


def test_what_is_not_known_stays_as_it_is() -> None:
    odd = {"inputs": {"when_full": 1, "id": 2}, "concurrency": 3, "colour": "red"}
    assert spelt(odd) == odd
    assert unspelt(odd) == odd


@pytest.mark.parametrize(
    ("here", "there"),
    [("/id", "/name"), ("/max_depth", "/maxDepth"), ("/concurrency/when_full", "/concurrency/whenFull")],
)
def test_what_is_wrong_is_said_with_the_place_that_was_sent(here: str, there: str) -> None:
    found = respelt(InvalidRequest.at(here, "must be otherwise"))
    assert found.message == f"{there}: must be otherwise"
    assert found.details["errors"] == [{"pointer": there, "detail": "must be otherwise"}]


def test_what_is_spelt_alike_is_left_alone() -> None:
    error = InvalidRequest.at("/on", "must be an event pattern")
    assert respelt(error) is error


@pytest.mark.parametrize(("here", "there"), [("id", "name"), ("max_depth", "maxDepth"), ("agent_id", "agentId")])
def test_each_field_is_spelt_by_itself(here: str, there: str) -> None:
    assert (spelt({here: 1}), unspelt({there: 1})) == ({there: 1}, {here: 1})
    assert (spelt({there: 1}), unspelt({here: 1})) == ({there: 1}, {here: 1})
    assert respelt(InvalidRequest.at(f"/{here}", "no")).message == f"/{there}: no"


def test_what_is_given_is_left_as_it_was() -> None:
    given = {"id": "x", "concurrency": {"when_full": "skip"}}
    spelt(given)
    assert given == {"id": "x", "concurrency": {"when_full": "skip"}}


def test_only_the_place_is_spelt_otherwise_and_not_what_is_said() -> None:
    found = respelt(InvalidRequest.at("/id", "as in /id: x"))
    assert found.message == "/name: as in /id: x"
    assert found.details["errors"] == [{"pointer": "/name", "detail": "as in /id: x"}]


def test_of_several_things_each_is_said_with_its_own_place() -> None:
    errors = [
        {"pointer": "/on", "detail": "a"},
        {"pointer": "/max_depth", "detail": "b"},
        {"pointer": "/id", "detail": "c"},
    ]
    found = respelt(InvalidRequest("/on: a; /max_depth: b; /id: c", errors=errors))
    assert found.message == "/on: a; /maxDepth: b; /name: c"
    assert [each["pointer"] for each in list[dict[str, str]](found.details["errors"])] == ["/on", "/maxDepth", "/name"]  # type: ignore[call-overload]


def test_an_error_without_a_place_is_left_alone() -> None:
    error = InvalidRequest("No.")
    assert respelt(error) is error
