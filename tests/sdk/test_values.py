"""The SDK's values and errors match the API, even if the server or the SDK is newer."""

import json

import msgspec
import pytest

from assent.contracts.breakpoints import BreakpointResult, UploadedFile
from assent.core import errors as domain_errors
from assent.http.problems import STATUS
from assent.sdk import errors


def test_unknown_fields_from_a_newer_server_are_ignored() -> None:
    found = msgspec.json.decode(b'{"sha256": "x", "size": 1, "colour": "red"}', type=UploadedFile)

    assert found.size == 1


def test_every_api_problem_has_an_exception() -> None:
    assert {kind.code for kind in STATUS} <= set(errors.BY_CODE)
    assert all(errors.BY_CODE[kind.code] is kind for kind in STATUS)


def test_the_exception_tree_in_the_docstring_is_complete() -> None:
    assert errors.__doc__ is not None
    named = {line.strip("│├└─ ").split()[0] for line in errors.__doc__.splitlines() if "──" in line}

    assert named == {kind.__name__ for kind in _below(errors.AssentError) if kind.__module__ in _SHOWN_MODULES}
    assert named | {"AssentError"} == set(errors.__all__)
    assert all(hasattr(errors, name) for name in named)


_SHOWN_MODULES = {errors.__name__, domain_errors.__name__}


def _below(kind: type[errors.AssentError]) -> set[type[errors.AssentError]]:
    return {kind}.union(*map(_below, kind.__subclasses__())) - {errors.AssentError}


def test_no_two_exceptions_share_a_code() -> None:
    ours = [kind.code for kind in _below(errors.AssentError) if kind.__module__ in _SHOWN_MODULES]

    assert len(set(ours)) == len(ours)


def test_the_server_error_codes_map_exactly_to_the_client_exceptions() -> None:
    tree = {kind.code: kind for kind in _below(domain_errors.AssentError) if kind.__module__ == domain_errors.__name__}

    assert tree == errors.BY_CODE


@pytest.mark.parametrize("code", ["unreachable", "still_waiting", "rejected", "not_approved", "bad_address"])
def test_a_server_cannot_trigger_client_side_error_codes(code: str) -> None:
    assert isinstance(errors.from_problem({"code": code, "detail": "x"}, status=400), errors.UnexpectedAnswer)


def test_a_problem_keeps_its_message_and_details() -> None:
    error = errors.from_problem(
        {"code": "already_ended", "detail": "Too late.", "standing": {"decision": "rejected"}}, status=409
    )

    assert isinstance(error, errors.AlreadyEnded)
    assert error.message == "Too late."
    assert error.details["standing"] == {"decision": "rejected"}


def test_an_unknown_problem_code_becomes_unexpected_answer() -> None:
    error = errors.from_problem({"code": "on_fire", "detail": "Hot."}, status=418)

    assert isinstance(error, errors.UnexpectedAnswer)
    assert error.details["code"] == "on_fire"


RESULT = BreakpointResult(
    approved=True, status="released", auto=False, decision="approved", responded_by="ann", answers={"n": 1}
)


def test_a_result_serializes_with_the_api_field_names() -> None:
    told = json.loads(json.dumps(RESULT.to_dict()))

    assert told == {
        "approved": True, "status": "released", "auto": False, "decision": "approved", "respondedBy": "ann",
        "answers": {"n": 1},
    }  # fmt: skip
    assert msgspec.convert(told, BreakpointResult) == RESULT


def test_the_repr_of_a_result_lists_its_fields() -> None:
    assert repr(RESULT) == (
        "BreakpointResult(approved=True, status='released', auto=False, decision='approved', responded_by='ann',"
        " answers={'n': 1})"
    )
