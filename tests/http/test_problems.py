"""Every error has a status and a code, and is sent in the RFC 9457 format."""

import json
from collections.abc import Iterator

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from assent.contracts.create import CreateBreakpoint
from assent.core import errors
from assent.core.errors import AssentError, RateLimited
from assent.http.problems import STATUS, Problem, from_http_exception, from_validation, problem


def every_error(kind: type[AssentError] = AssentError) -> Iterator[type[AssentError]]:
    # This excludes the SDK's errors.
    for each in (kind for kind in kind.__subclasses__() if kind.__module__ == errors.__name__):
        yield each
        yield from every_error(each)


@pytest.mark.parametrize("kind", list(every_error()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_a_well_formed_problem(kind: type[AssentError]) -> None:
    answer = problem(kind("Do this instead.", extra=1))
    body = json.loads(bytes(answer.body))
    assert answer.status_code == STATUS[kind] == body["status"]
    assert answer.media_type == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert body == {
        "type": f"/problems/{kind.code}",
        "title": kind.title,
        "status": answer.status_code,
        "code": kind.code,
        "detail": "Do this instead.",
        "extra": 1,
    }


def test_error_codes_are_unique_and_consist_of_lowercase_words() -> None:
    codes = [kind.code for kind in every_error()]
    assert len(set(codes)) == len(codes)
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


def test_every_status_belongs_to_an_existing_error() -> None:
    assert set(STATUS) == set(every_error())


def test_an_error_without_a_message_shows_its_title() -> None:
    assert (
        json.loads(bytes(problem(errors.OwnBreakpoint()).body))["detail"] == "You cannot respond to your own breakpoint"
    )


@given(st.floats(min_value=0, max_value=3600))
def test_retry_after_is_never_too_early(wait: float) -> None:
    told = int(problem(RateLimited("Slow down.", retry_after=wait)).headers["retry-after"])
    assert told >= max(1, wait)
    assert told <= wait + 1 or told == 1


def test_401_and_503_responses_have_headers_for_the_next_step() -> None:
    assert problem(errors.Unauthenticated()).headers["www-authenticate"].startswith("Bearer")
    assert problem(errors.Unavailable()).headers["retry-after"] == "1"


def test_a_validation_error_points_to_the_field_without_repeating_the_value() -> None:
    secret = "hunter2-hunter2"
    with pytest.raises(ValidationError) as refused:
        CreateBreakpoint.model_validate({"agentId": [secret], "payload": {"context": {"files": [{"path": secret}]}}})
    found = from_validation(refused.value)
    pointers = [each["pointer"] for each in found.details["errors"]]  # type: ignore[attr-defined]
    assert pointers == ["/agentId", "/payload/context/files/0/format"]
    assert secret not in str(found.details)
    assert secret not in found.message


def test_at_most_twenty_errors_are_listed() -> None:
    with pytest.raises(ValidationError) as refused:
        CreateBreakpoint.model_validate({"agentId": "a", "payload": {}, "tags": [1] * 50})
    assert len(from_validation(refused.value).details["errors"]) == 20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("location", "pointer"),
    [
        (("body", "payload", "tags", 0), "/payload/tags/0"),
        (("query", "limit"), "query limit"),
        (("header", "If-Match"), "header If-Match"),
        (("path", "name"), "path name"),
        (("body",), "/"),
    ],
)
def test_a_pointer_distinguishes_body_query_and_header(location: tuple[str | int, ...], pointer: str) -> None:
    error = RequestValidationError([{"loc": location, "msg": "Value error, is wrong", "type": "x"}])
    assert from_validation(error).details["errors"] == [{"pointer": pointer, "detail": "is wrong"}]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HTTPException(404), errors.NotFound),
        (HTTPException(405), errors.MethodNotAllowed),
        (HTTPException(400, "There was an error parsing the body"), errors.MalformedJson),
        (HTTPException(418), errors.Internal),
        (Problem(errors.TooLarge("Too much.")), errors.TooLarge),
    ],
)
def test_framework_errors_are_converted_to_domain_errors(error: HTTPException, kind: type[AssentError]) -> None:
    assert type(from_http_exception(error)) is kind
