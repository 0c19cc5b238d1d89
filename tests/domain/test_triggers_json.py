"""A trigger of assent.yaml and one of the API are the same, spelt otherwise."""

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
    error = InvalidRequest.at("/on", "must be a pattern")
    assert respelt(error) is error
