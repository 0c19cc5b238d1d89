"""Every way a request can fail, as a tree with stable codes that knows nothing of HTTP.

AssentError
├── Unauthenticated            nobody we know is asking
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
├── PreconditionFailed         the version in If-Match is not the current one
├── MalformedJson              not the strict JSON we read
├── InvalidRequest             well-formed, but not acceptable
│   ├── PatternError           text that is not a pattern of ours
│   ├── IdempotencyMismatch    the key was used with another body
│   ├── ConfirmationRequired   high risk asks for a typed confirmation
│   ├── ExpertsNotDistinct     the experts are too few people
│   └── InvalidReceipt         altered, signed by nobody we trust, or no receipt at all
│       └── ReceiptMismatch    a good receipt, for something else
├── TooLarge                   past a limit of size
├── UnsupportedMediaType       a body of a kind we do not read
├── MethodNotAllowed           the address exists, the verb does not
├── RateLimited                too much, too fast
├── Unavailable                this node cannot serve now; try again
└── Internal                   our fault
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

Details: TypeAlias = Mapping[str, object]


class AssentError(Exception):
    """A failure with a stable code, a sentence for the person, and details for the program."""

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong on our side"

    def __init__(self, message: str = "", **details: object) -> None:
        super().__init__(message or self.title)
        self.message = message or self.title
        self.details = details


class Unauthenticated(AssentError):
    code = "unauthenticated"
    title = "Sign in or send a valid token"


class Forbidden(AssentError):
    code = "forbidden"
    title = "You may not do this"


class NotEligible(Forbidden):
    code = "not_eligible"
    title = "You are not among the people asked"


class OwnBreakpoint(Forbidden):
    code = "own_breakpoint"
    title = "Nobody decides what they created"


class NotFound(AssentError):
    code = "not_found"
    title = "There is no such thing here"


class Conflict(AssentError):
    code = "conflict"
    title = "This exists already"


class AlreadyEnded(Conflict):
    code = "already_ended"
    title = "This breakpoint has ended already"


class SeatTaken(Conflict):
    code = "seat_taken"
    title = "This expert has been answered for already"


class AnswerStands(Conflict):
    code = "answer_stands"
    title = "This answer was given already"


class AlreadyClaimed(Conflict):
    code = "already_claimed"
    title = "Somebody else has claimed this"


class ProjectRemoved(Conflict):
    code = "project_removed"
    title = "This project was removed"


class TicketRequired(Conflict):
    code = "ticket_required"
    title = "This needs a ticket before it can be approved"


class RejectionPending(Conflict):
    code = "rejection_pending"
    title = "Another reviewer is rejecting this"


class NoReceipt(Conflict):
    code = "no_receipt"
    title = "There is no receipt for this breakpoint"


class ReceiptExpired(Conflict):
    code = "receipt_expired"
    title = "This receipt has expired"


class ReceiptUsed(Conflict):
    code = "receipt_used"
    title = "This receipt was used already"


class DigestMismatch(AssentError):
    code = "digest_mismatch"
    title = "What you were shown is not what is stored"


class PreconditionFailed(AssentError):
    code = "precondition_failed"
    title = "It changed since you read it"


class MalformedJson(AssentError):
    code = "malformed_json"
    title = "The body is not acceptable JSON"


class InvalidRequest(AssentError):
    code = "invalid_request"
    title = "The request is not acceptable"

    def __init__(self, message: str = "", *, errors: Sequence[Details] = (), **details: object) -> None:
        if errors:
            details["errors"] = list(errors)
        super().__init__(message, **details)

    @classmethod
    def at(cls, pointer: str, message: str) -> "InvalidRequest":
        """Say what is wrong and where, as a JSON pointer into the body."""
        return cls(f"{pointer}: {message}", errors=[{"pointer": pointer, "detail": message}])


class PatternError(InvalidRequest):
    """Its details are the line and column where a pattern goes wrong, what was found there, and a hint."""

    code = "invalid_pattern"
    title = "This pattern is not acceptable"


class IdempotencyMismatch(InvalidRequest):
    code = "idempotency_mismatch"
    title = "This Idempotency-Key was used with another request"


class ConfirmationRequired(InvalidRequest):
    code = "confirmation_required"
    title = "High risk asks for a typed confirmation"


class ExpertsNotDistinct(InvalidRequest):
    code = "experts_not_distinct"
    title = "These experts cannot be answered by different people"


class InvalidReceipt(InvalidRequest):
    code = "invalid_receipt"
    title = "This receipt cannot be trusted"


class ReceiptMismatch(InvalidReceipt):
    code = "receipt_mismatch"
    title = "This receipt is for something else"


class TooLarge(AssentError):
    code = "too_large"
    title = "This is too large"


class UnsupportedMediaType(AssentError):
    code = "unsupported_media_type"
    title = "Send application/json"


class MethodNotAllowed(AssentError):
    code = "method_not_allowed"
    title = "This address does not take that method"


class RateLimited(AssentError):
    code = "rate_limited"
    title = "Too many requests"

    def __init__(self, message: str = "", *, retry_after: float = 1.0, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Unavailable(AssentError):
    code = "unavailable"
    title = "This node cannot serve the request now"


class Internal(AssentError):
    pass
