"""Every way a call can fail: the API's own tree of problem codes, and what only a client can meet.

AssentError
├── Unreachable                no answer from the server, for longer than we were patient
├── StillWaiting               the time to wait is over and nobody has decided
├── UnexpectedAnswer           whatever answered does not speak our protocol, or a newer one
├── FileRefused                a context file that may not be, or cannot be, read
├── Unauthenticated            nobody the server knows is asking
├── Forbidden                  known, but not allowed
│   ├── NotEligible            a reviewer, but not for this breakpoint
│   └── OwnBreakpoint          nobody decides what they created
├── NotFound                   no such thing in this project
├── Conflict                   the name is taken
│   ├── AlreadyEnded           somebody, or the deadline, was first
│   └── SeatTaken              the group has been answered for
├── DigestMismatch             the content shown is not the content stored
├── PreconditionFailed         it changed since it was read
├── MalformedJson              not the strict JSON the server reads
├── InvalidRequest             well-formed, but not acceptable
│   ├── PatternError           text that is not a pattern
│   ├── IdempotencyMismatch    the key was used with another body
│   ├── ConfirmationRequired   high risk asks for a typed confirmation
│   └── ExpertsNotDistinct     the experts are too few people
├── TooLarge                   past a limit of size
├── UnsupportedMediaType       a body of a kind the server does not read
├── MethodNotAllowed           the address exists, the verb does not
├── RateLimited                too much, too fast
├── Unavailable                this node cannot serve now
└── Internal                   the server's fault
"""

from collections.abc import Mapping
from typing import Any

from assent.domain.errors import (
    AlreadyEnded,
    AssentError,
    ConfirmationRequired,
    Conflict,
    DigestMismatch,
    ExpertsNotDistinct,
    Forbidden,
    IdempotencyMismatch,
    Internal,
    InvalidRequest,
    MalformedJson,
    MethodNotAllowed,
    NotEligible,
    NotFound,
    OwnBreakpoint,
    PatternError,
    PreconditionFailed,
    RateLimited,
    SeatTaken,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)

__all__ = [
    "AlreadyEnded",
    "AssentError",
    "ConfirmationRequired",
    "Conflict",
    "DigestMismatch",
    "ExpertsNotDistinct",
    "FileRefused",
    "Forbidden",
    "IdempotencyMismatch",
    "Internal",
    "InvalidRequest",
    "MalformedJson",
    "MethodNotAllowed",
    "NotEligible",
    "NotFound",
    "OwnBreakpoint",
    "PatternError",
    "PreconditionFailed",
    "RateLimited",
    "SeatTaken",
    "StillWaiting",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "Unreachable",
    "UnsupportedMediaType",
]


class Unreachable(AssentError):
    code = "unreachable"
    title = "The server cannot be reached"


class StillWaiting(AssentError):
    code = "still_waiting"
    title = "Nobody has decided yet"


class UnexpectedAnswer(AssentError):
    code = "unexpected_answer"
    title = "The server's answer is not one this client understands"


class FileRefused(AssentError):
    code = "file_refused"
    title = "This file may not be sent"


def _below(kind: type[AssentError]) -> dict[str, type[AssentError]]:
    found = {each.code: each for each in kind.__subclasses__() if each.code != AssentError.code}
    for each in kind.__subclasses__():
        found |= _below(each)
    return found


BY_CODE = _below(AssentError) | {Internal.code: Internal}


def from_problem(problem: Mapping[str, Any], *, status: int) -> AssentError:
    """Return the error that a problem document stands for."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail") or problem.get("title") or "")
    error = BY_CODE.get(code, UnexpectedAnswer)(detail)
    error.details = {name: value for name, value in problem.items() if name not in {"type", "title", "detail"}}
    error.details.setdefault("status", status)
    return error
