"""Conversion of triggers between assent.yaml and the API."""

import pytest

from assent.core.errors import InvalidRequest
from assent.core.triggers_json import respelt, spelt, unspelt

WRITTEN = {"id": "x", "on": "*", "max_depth": 2, "agent_id": "a", "concurrency": {"when_full": "skip", "limit": 1}}
SENT = {"name": "x", "on": "*", "maxDepth": 2, "agentId": "a", "concurrency": {"whenFull": "skip", "limit": 1}}


def test_field_names_are_converted_to_json_and_back() -> None:
    assert spelt(WRITTEN) == SENT
    assert unspelt(SENT) == WRITTEN


def test_unknown_trigger_fields_are_unchanged() -> None:
    odd = {"inputs": {"when_full": 1, "id": 2}, "concurrency": 3, "colour": "red"}
    assert spelt(odd) == odd
    assert unspelt(odd) == odd


@pytest.mark.parametrize(
    ("here", "there"),
    [("/id", "/name"), ("/max_depth", "/maxDepth"), ("/concurrency/when_full", "/concurrency/whenFull")],
)
def test_pointers_in_errors_use_the_requests_field_names(here: str, there: str) -> None:
    found = respelt(InvalidRequest.at(here, "must be otherwise"))
    assert found.message == f"{there}: must be otherwise"
    assert found.details["errors"] == [{"pointer": there, "detail": "must be otherwise"}]


def test_an_error_about_a_field_with_the_same_name_is_unchanged() -> None:
    error = InvalidRequest.at("/on", "must be an event pattern")
    assert respelt(error) is error


@pytest.mark.parametrize(("here", "there"), [("id", "name"), ("max_depth", "maxDepth"), ("agent_id", "agentId")])
def test_each_field_is_converted_separately(here: str, there: str) -> None:
    assert (spelt({here: 1}), unspelt({there: 1})) == ({there: 1}, {here: 1})
    assert (spelt({there: 1}), unspelt({here: 1})) == ({there: 1}, {here: 1})
    assert respelt(InvalidRequest.at(f"/{here}", "no")).message == f"/{there}: no"


def test_converting_a_trigger_does_not_modify_the_argument() -> None:
    given = {"id": "x", "concurrency": {"when_full": "skip"}}
    spelt(given)
    assert given == {"id": "x", "concurrency": {"when_full": "skip"}}


def test_only_the_pointer_of_an_error_message_is_converted() -> None:
    found = respelt(InvalidRequest.at("/id", "as in /id: x"))
    assert found.message == "/name: as in /id: x"
    assert found.details["errors"] == [{"pointer": "/name", "detail": "as in /id: x"}]


def test_all_pointers_in_an_error_are_converted() -> None:
    errors = [
        {"pointer": "/on", "detail": "a"},
        {"pointer": "/max_depth", "detail": "b"},
        {"pointer": "/id", "detail": "c"},
    ]
    found = respelt(InvalidRequest("/on: a; /max_depth: b; /id: c", errors=errors))
    assert found.message == "/on: a; /maxDepth: b; /name: c"
    assert [each["pointer"] for each in list[dict[str, str]](found.details["errors"])] == ["/on", "/maxDepth", "/name"]  # type: ignore[call-overload]


def test_an_error_without_a_pointer_is_unchanged() -> None:
    error = InvalidRequest("No.")
    assert respelt(error) is error
