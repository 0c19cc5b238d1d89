"""Tool calls made by a model: arguments that can be read in only one way, and waiting for several answers."""

from typing import Any

import pytest

from assent.contracts.breakpoints import BreakpointResult, Status
from assent.core.tool_calls import ToolCall
from assent.sdk.client import Assent
from assent.sdk.errors import StillWaiting
from assent.sdk.tool_calls import plain_arguments, shown_arguments, verdict, waited
from tests.sdk.scripted import Say, scripted
from tests.sdk.test_client import ID, RELEASED, WAITING

CALL = ToolCall(door="test", tool="deploy", arguments={"target": "a"}, thread="t", call_id="c")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": [1, "é"]}', {"a": [1, "é"]}),
        ({"a": {"b": None}}, {"a": {"b": None}}),
        ("", {}),
        (None, {}),
        ({}, {}),
    ],
)
def test_strict_json_arguments_are_shown_unchanged(given: Any, read: Any) -> None:
    assert plain_arguments(given) == shown_arguments(given) == read


@pytest.mark.parametrize(
    "given", ['{"a": 1, "a": 2}', '{"a": 9007199254740993}', '{"a": NaN}', "[1]", "text", '{"a": "\\ud800"}']
)
def test_ambiguous_json_text_is_shown_as_text(given: str) -> None:
    assert plain_arguments(given) is None
    assert shown_arguments(given) == {"text": given}


@pytest.mark.parametrize("given", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}, {"a": 2**60}, {"a": "\udc00"}])
def test_values_that_are_not_strict_json_are_shown_as_text(given: dict[str, Any]) -> None:
    assert plain_arguments(given) is None
    assert set(shown_arguments(given)) == {"text"}


def test_a_verdict_includes_the_reason_for_a_rejection() -> None:
    result = BreakpointResult(approved=False, status="released", auto=False, responded_by="ann", feedback="Not today.")
    given = verdict(CALL, Status(status="released", updated_at="", decision="rejected", result=result))

    assert not given.approved
    assert given.reason == "Rejected by ann: Not today. The tool was not run."


def test_waiting_for_several_breakpoints_ends_when_all_have_ended() -> None:
    with (
        scripted([Say(body=WAITING), Say(body=RELEASED)]) as server,
        Assent(server.url, "t") as client,
    ):
        found = client.perform(waited(client.calls, [ID, ID]))
    assert [each.status for each in found] == ["released", "released"]


def test_one_timeout_covers_all_awaited_breakpoints() -> None:
    with scripted([Say(body=RELEASED), Say(body=WAITING)]) as server, Assent(server.url, "t") as client:
        with pytest.raises(StillWaiting):
            client.perform(waited(client.calls, [ID, ID], timeout=0))
        assert len(server.heard) == 2
