"""The error tree: every error has a stable code, documentation and an HTTP status."""

import re
from collections.abc import Iterator

import pytest

from assent.core import errors
from assent.core.errors import AssentError
from assent.http.problems import STATUS, problem


def _below(kind: type[AssentError]) -> Iterator[type[AssentError]]:
    for each in (
        kind for kind in kind.__subclasses__() if kind.__module__ == errors.__name__
    ):  # excludes the SDK's errors
        yield each
        yield from _below(each)


def documented() -> dict[str, int]:
    """Return the names in the documented error tree with their depths."""
    lines = re.findall(r"^([│ ]*)[├└]── (\w+) {2,}\S", errors.__doc__ or "", re.MULTILINE)
    return {name: len(indent) // 4 + 1 for indent, name in lines}


EVERY = sorted(_below(AssentError), key=lambda kind: kind.__name__)
every_error = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)


def test_the_list_of_errors_to_check_is_not_empty() -> None:
    assert len(EVERY) > 15


def test_every_error_code_is_unique() -> None:
    codes = [kind.code for kind in EVERY]
    assert len(codes) == len(set(codes))


@every_error
def test_error_codes_are_lowercase_words(kind: type[AssentError]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)


@every_error
def test_every_error_maps_to_an_http_error_status(kind: type[AssentError]) -> None:
    assert 400 <= STATUS[kind] < 600


@every_error
def test_the_documented_tree_shows_every_error_at_its_depth(kind: type[AssentError]) -> None:
    depth = len(kind.__mro__) - len(AssentError.__mro__)
    assert documented()[kind.__name__] == depth


def test_the_documented_tree_lists_only_existing_errors() -> None:
    assert set(documented()) == {kind.__name__ for kind in EVERY}


@every_error
def test_every_error_has_a_default_message(kind: type[AssentError]) -> None:
    error = kind()
    assert error.message == kind.title
    assert problem(error).status_code == STATUS[kind]


# Clients match on these codes, so changing one would break them.
STABLE = {
    "Unauthenticated": "unauthenticated",
    "Forbidden": "forbidden",
    "NotEligible": "not_eligible",
    "OwnBreakpoint": "own_breakpoint",
    "NotFound": "not_found",
    "Conflict": "conflict",
    "AlreadyEnded": "already_ended",
    "SeatTaken": "seat_taken",
    "DigestMismatch": "digest_mismatch",
    "PreconditionFailed": "precondition_failed",
    "MalformedJson": "malformed_json",
    "InvalidRequest": "invalid_request",
    "PatternError": "invalid_pattern",
    "IdempotencyMismatch": "idempotency_mismatch",
    "ConfirmationRequired": "confirmation_required",
    "ExpertsNotDistinct": "experts_not_distinct",
    "TooLarge": "too_large",
    "UnsupportedMediaType": "unsupported_media_type",
    "MethodNotAllowed": "method_not_allowed",
    "RateLimited": "rate_limited",
    "Unavailable": "unavailable",
    "Internal": "internal",
}


@pytest.mark.parametrize(("name", "code"), STABLE.items(), ids=STABLE)
def test_a_published_code_never_changes(name: str, code: str) -> None:
    assert getattr(errors, name).code == code
