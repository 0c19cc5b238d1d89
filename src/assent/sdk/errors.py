"""Every way a call can fail: the API's own tree of problem codes, and what only a client can meet.

AssentError
├── Unreachable                no answer from the server, for longer than we were patient
├── StillWaiting               the time to wait is over and nobody has decided
├── UnexpectedAnswer           whatever answered does not speak our protocol, or a newer one
├── FileRefused                a context file that may not be, or cannot be, read
├── BadAddress                 an address or a token that cannot be one
├── UnknownArgument            a keyword argument that the function does not have
├── CannotAsk                  no server, and no terminal to ask in
├── NotAwaited                 a call of ctx, or of the async client, without `await`
├── NotApproved                there is no approval, so it must not be done
│   ├── Rejected               somebody said no, or nobody said yes in time
│   ├── Expired                no one responded in time
│   ├── Cancelled              it was taken back
│   └── ArgumentsRefused       approved, but not what it would be run with
├── Unauthenticated            nobody the server knows is asking
├── Forbidden                  known, but not allowed
│   ├── NotEligible            a reviewer, but not for this breakpoint
│   └── OwnBreakpoint          nobody decides what they created
├── NotFound                   no such thing in this project
├── Conflict                   the name is taken
│   ├── AlreadyEnded           somebody, or the deadline, was first
│   ├── SeatTaken              the group has been answered for
│   ├── AnswerStands           too late to take an answer back
│   ├── TicketRequired         it needs a ticket before it can be approved
│   ├── RejectionPending       another reviewer is rejecting it
│   ├── AlreadyClaimed         somebody else has put their name on it
│   ├── ProjectRemoved         the project was removed; it can only be read
│   ├── NoReceipt              only approvals have one, while their content is kept
│   ├── ReceiptExpired         too old to act on
│   └── ReceiptUsed            a receipt is good for one time
├── DigestMismatch             the content shown is not the content stored
├── PreconditionFailed         it changed since it was read
├── MalformedJson              not the strict JSON the server reads
├── InvalidRequest             well-formed, but not acceptable
│   ├── PatternError           text that is not a pattern
│   ├── IdempotencyMismatch    the key was used with another body
│   ├── ConfirmationRequired   high risk asks for a typed confirmation
│   ├── ExpertsNotDistinct     the experts are too few people
│   └── InvalidReceipt         altered, signed by nobody we trust, or no receipt at all
│       └── ReceiptMismatch    a good receipt, for something else
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
    AlreadyClaimed,
    AlreadyEnded,
    AnswerStands,
    AssentError,
    ConfirmationRequired,
    Conflict,
    DigestMismatch,
    ExpertsNotDistinct,
    Forbidden,
    IdempotencyMismatch,
    Internal,
    InvalidReceipt,
    InvalidRequest,
    MalformedJson,
    MethodNotAllowed,
    NoReceipt,
    NotEligible,
    NotFound,
    OwnBreakpoint,
    PatternError,
    PreconditionFailed,
    ProjectRemoved,
    RateLimited,
    ReceiptExpired,
    ReceiptMismatch,
    ReceiptUsed,
    RejectionPending,
    SeatTaken,
    TicketRequired,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from assent.sdk.values import BreakpointResult

__all__ = [
    "AlreadyClaimed",
    "AlreadyEnded",
    "AnswerStands",
    "ArgumentsRefused",
    "AssentError",
    "BadAddress",
    "Cancelled",
    "CannotAsk",
    "ConfirmationRequired",
    "Conflict",
    "DigestMismatch",
    "ExpertsNotDistinct",
    "Expired",
    "FileRefused",
    "Forbidden",
    "IdempotencyMismatch",
    "Internal",
    "InvalidReceipt",
    "InvalidRequest",
    "MalformedJson",
    "MethodNotAllowed",
    "NoReceipt",
    "NotApproved",
    "NotAwaited",
    "NotEligible",
    "NotFound",
    "OwnBreakpoint",
    "PatternError",
    "PreconditionFailed",
    "ProjectRemoved",
    "RateLimited",
    "ReceiptExpired",
    "ReceiptMismatch",
    "ReceiptUsed",
    "Rejected",
    "RejectionPending",
    "SeatTaken",
    "StillWaiting",
    "TicketRequired",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownArgument",
    "Unreachable",
    "UnsupportedMediaType",
]


class Unreachable(AssentError):
    code = "unreachable"
    title = "The server cannot be reached"


class StillWaiting(AssentError):
    code = "still_waiting"
    title = "Still waiting for a decision"


class UnexpectedAnswer(AssentError):
    code = "unexpected_answer"
    title = "The server sent an unexpected response"


class FileRefused(AssentError):
    code = "file_refused"
    title = "This file cannot be sent"


class BadAddress(AssentError):
    """The address or the token cannot be used as they are."""

    code = "bad_address"


class UnknownArgument(AssentError, TypeError):
    """A keyword argument that does not exist; `details` has its name. Nothing was sent."""

    code = "unknown_argument"
    title = "Unknown keyword argument"


class CannotAsk(AssentError):
    """No reviewer can be asked: no server is set and there is no terminal. This is not an answer."""

    code = "cannot_ask"
    title = "Cannot ask a reviewer"


class NotAwaited(AssentError):
    """A call was not awaited; `details` has the file and the line."""

    code = "not_awaited"
    title = "A call was not awaited"


class NotApproved(AssentError):
    """Whatever was asked about must not be done; `result` says how it ended, where it did."""

    code = "not_approved"
    title = "Not approved"

    def __init__(self, message: str = "", *, result: BreakpointResult | None = None, **details: object) -> None:
        super().__init__(message, **details)
        self.result = result


class Rejected(NotApproved):
    code = "rejected"
    title = "Rejected"


class Expired(NotApproved):
    code = "expired"
    title = "Not answered in time"


class Cancelled(NotApproved):
    code = "cancelled"
    title = "Cancelled before a decision was made"


class ArgumentsRefused(NotApproved):
    code = "arguments_refused"
    title = "The arguments differ from those that were approved"


def passed(result: BreakpointResult | None) -> BreakpointResult:
    """Return the result of an approval; raise what anything else stands for."""
    if result is None:
        raise NotApproved
    explicit = result.approved is True and result.status == "released" and result.decision == "approved"
    if explicit:
        return result
    kind = {"released": Rejected, "expired": Expired, "cancelled": Cancelled}.get(result.status, NotApproved)
    said = f"{kind.title}: {result.feedback}" if result.feedback else f"{kind.title}."
    raise kind(said, result=result)


def _below(kind: type[AssentError]) -> dict[str, type[AssentError]]:
    # Only what a server sends: what a client makes of it is none of its business.
    found = {each.code: each for each in kind.__subclasses__() if each.__module__ == AssentError.__module__}
    for each in kind.__subclasses__():
        found |= _below(each)
    return found


BY_CODE = _below(AssentError)


def from_problem(problem: Mapping[str, Any], *, status: int) -> AssentError:
    """Return the error that a problem document stands for."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail") or problem.get("title") or "")
    error = BY_CODE.get(code, UnexpectedAnswer)(detail)
    error.details = {name: value for name, value in problem.items() if name not in {"type", "title", "detail"}}
    error.details.setdefault("status", status)
    return error


def has_no_receipts(error: Unavailable) -> bool:
    """Return whether a server that gives no receipt never does; any other that cannot now is to be asked again."""
    return error.details.get("missing") == "secretKeys"
