"""The errors of a call: one for each of the API's problem codes, and those that only a client can encounter.

AssentError
├── Unreachable                the server did not respond within `patience`
├── StillWaiting               the timeout expired without a decision
├── UnexpectedAnswer           the response is not from Assent, or from a newer version
├── FileRefused                a context file is not allowed or cannot be read
├── BadAddress                 the URL or token is invalid
├── UnknownArgument            a keyword argument does not exist
├── CannotAsk                  there is neither a server nor a terminal
├── NotAwaited                 a call of ctx or of the async client was not awaited
├── NotApproved                not approved, so the action must not be performed
│   ├── Rejected               rejected by a reviewer, or at the deadline
│   ├── Expired                not answered in time
│   ├── Cancelled              cancelled before a decision
│   └── ArgumentsRefused       approved, but with different arguments
├── Unauthenticated            the token is missing or invalid
├── Forbidden                  the caller is known, but not allowed
│   ├── NotEligible            a reviewer, but not for this breakpoint
│   └── OwnBreakpoint          the caller created this breakpoint
├── NotFound                   does not exist in this project
├── Conflict                   the name is already in use
│   ├── AlreadyEnded           another answer, or the deadline, came first
│   ├── SeatTaken              the group has already answered
│   ├── AnswerStands           too late to undo an answer
│   ├── TicketRequired         a ticket is required before it can be approved
│   ├── RejectionPending       another reviewer is rejecting it
│   ├── AlreadyClaimed         another reviewer has claimed it
│   ├── ProjectRemoved         the project was removed and is read-only
│   ├── NoReceipt              only approvals have receipts, while their content is kept
│   ├── ReceiptExpired         too old to use
│   └── ReceiptUsed            already consumed
├── DigestMismatch             the content shown differs from the stored content
├── PreconditionFailed         changed since it was read
├── MalformedJson              not the strict JSON that the server accepts
├── InvalidRequest             well-formed, but not acceptable
│   ├── PatternError           not a valid pattern
│   ├── IdempotencyMismatch    the key was used with a different body
│   ├── ConfirmationRequired   high risk requires a typed confirmation
│   ├── ExpertsNotDistinct     the experts include too few different people
│   └── InvalidReceipt         altered, not signed with a trusted key, or not a receipt
│       └── ReceiptMismatch    a valid receipt, but for something else
├── TooLarge                   exceeds a size limit
├── UnsupportedMediaType       the server does not read bodies of this type
├── MethodNotAllowed           the URL exists, but not with this method
├── RateLimited                too many requests in a short time
├── Unavailable                this node cannot serve requests now
└── Internal                   an error in the server
"""

from collections.abc import Mapping
from typing import Any

from assent.contracts.breakpoints import BreakpointResult
from assent.core.errors import (
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
    """The URL or token is invalid."""

    code = "bad_address"


class UnknownArgument(AssentError, TypeError):
    """A keyword argument does not exist; `details` contains its name. Nothing was sent."""

    code = "unknown_argument"
    title = "Unknown keyword argument"


class CannotAsk(AssentError):
    """No reviewer can be asked, because there is neither a server nor a terminal. This is not an answer."""

    code = "cannot_ask"
    title = "Cannot ask a reviewer"


class NotAwaited(AssentError):
    """A call was not awaited; `details` contains the file and line."""

    code = "not_awaited"
    title = "A call was not awaited"


class NotApproved(AssentError):
    """The action must not be performed; `result` contains the outcome, if there is one."""

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
    """Return the result of an approval, or raise the error for any other result."""
    if result is None:
        raise NotApproved
    explicit = result.approved is True and result.status == "released" and result.decision == "approved"
    if explicit:
        return result
    kind = {"released": Rejected, "expired": Expired, "cancelled": Cancelled}.get(result.status, NotApproved)
    said = f"{kind.title}: {result.feedback}" if result.feedback else f"{kind.title}."
    raise kind(said, result=result)


def _below(kind: type[AssentError]) -> dict[str, type[AssentError]]:
    # Only errors that a server can send, not those that the client defines.
    found = {each.code: each for each in kind.__subclasses__() if each.__module__ == AssentError.__module__}
    for each in kind.__subclasses__():
        found |= _below(each)
    return found


BY_CODE = _below(AssentError)


def from_problem(problem: Mapping[str, Any], *, status: int) -> AssentError:
    """Return the error for a problem document."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail") or problem.get("title") or "")
    error = BY_CODE.get(code, UnexpectedAnswer)(detail)
    error.details = {name: value for name, value in problem.items() if name not in {"type", "title", "detail"}}
    error.details.setdefault("status", status)
    return error


def has_no_receipts(error: Unavailable) -> bool:
    """Return whether the server does not issue receipts at all. After any other error, it is worth retrying."""
    return error.details.get("missing") == "secretKeys"
