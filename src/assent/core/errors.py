"""Every way a request can fail, as a tree with stable codes, independent of HTTP.

AssentError
├── Unauthenticated            missing, invalid or revoked credentials
├── Forbidden                  the caller lacks the required permission
│   ├── NotEligible            the reviewer is not assigned to this breakpoint
│   └── OwnBreakpoint          the creator of a breakpoint cannot decide it
├── NotFound                   it does not exist in this project
├── Conflict                   the name is taken, or the current state does not allow this
│   ├── AlreadyEnded           another answer or the deadline came first
│   ├── SeatTaken              another member has already answered for the group
│   ├── AnswerStands           the undo window has ended
│   ├── TicketRequired         the project requires a ticket before approval
│   ├── RejectionPending       another reviewer's rejection is in its undo window
│   ├── AlreadyClaimed         another reviewer has claimed it
│   ├── ProjectRemoved         the project was removed and is read-only
│   ├── NoReceipt              the breakpoint is not approved, or it was imported or purged
│   ├── ReceiptExpired         the receipt is too old to be used
│   └── ReceiptUsed            a receipt can be used only once
├── DigestMismatch             the answer is for content that differs from the stored content
├── PreconditionFailed         the version in If-Match is not current
├── MalformedJson              the body is not strict JSON
├── InvalidRequest             a field, parameter or header is not valid
│   ├── PatternError           the text is not a valid pattern
│   ├── IdempotencyMismatch    the key was used with a different request
│   ├── ConfirmationRequired   approving high risk requires typing the gate name
│   ├── ExpertsNotDistinct     the experts cannot all be different people
│   └── InvalidReceipt         modified, signed by an untrusted key, or not a receipt
│       └── ReceiptMismatch    a valid receipt for a different action
├── TooLarge                   a size limit was exceeded
├── UnsupportedMediaType       the content type is not supported
├── MethodNotAllowed           the URL exists, but not with this method
├── RateLimited                too many requests
├── Unavailable                this node cannot serve requests right now; try again
└── Internal                   an error in Assent; see the server log
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

Details: TypeAlias = Mapping[str, object]
NO_SUCH_URL = "This URL does not exist."


class AssentError(Exception):
    """An error with a stable code, a message for people and details for programs."""

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal server error"

    def __init__(self, message: str = "", **details: object) -> None:
        super().__init__(message or self.title)
        self.message = message or self.title
        self.details = details


class Unauthenticated(AssentError):
    code = "unauthenticated"
    title = "Sign in or send a valid token"


class Forbidden(AssentError):
    code = "forbidden"
    title = "You don't have permission to do this"


class NotEligible(Forbidden):
    code = "not_eligible"
    title = "You are not one of the assigned reviewers"


class OwnBreakpoint(Forbidden):
    code = "own_breakpoint"
    title = "You cannot respond to your own breakpoint"


class NotFound(AssentError):
    code = "not_found"
    title = "Not found"


class Conflict(AssentError):
    code = "conflict"
    title = "Conflict with the current state"


class AlreadyEnded(Conflict):
    code = "already_ended"
    title = "This breakpoint has already ended"


class SeatTaken(Conflict):
    code = "seat_taken"
    title = "Someone has already answered for this expert"


class AnswerStands(Conflict):
    code = "answer_stands"
    title = "This answer has already taken effect"


class AlreadyClaimed(Conflict):
    code = "already_claimed"
    title = "Another reviewer has claimed this breakpoint"


class ProjectRemoved(Conflict):
    code = "project_removed"
    title = "This project was removed"


class TicketRequired(Conflict):
    code = "ticket_required"
    title = "A ticket is required before approval"


class RejectionPending(Conflict):
    code = "rejection_pending"
    title = "Another reviewer is rejecting this breakpoint"


class NoReceipt(Conflict):
    code = "no_receipt"
    title = "This breakpoint does not have a receipt"


class ReceiptExpired(Conflict):
    code = "receipt_expired"
    title = "This receipt has expired"


class ReceiptUsed(Conflict):
    code = "receipt_used"
    title = "This receipt has already been used"


class DigestMismatch(AssentError):
    code = "digest_mismatch"
    title = "The content hash does not match the stored content"


class PreconditionFailed(AssentError):
    code = "precondition_failed"
    title = "The resource has changed since you read it"


class MalformedJson(AssentError):
    code = "malformed_json"
    title = "The request body is not valid JSON"


class InvalidRequest(AssentError):
    code = "invalid_request"
    title = "The request is not valid"

    def __init__(self, message: str = "", *, errors: Sequence[Details] = (), **details: object) -> None:
        if errors:
            details["errors"] = list(errors)
        super().__init__(message, **details)

    @classmethod
    def at(cls, pointer: str, message: str) -> "InvalidRequest":
        """Return an error for the value at a JSON pointer into the request body."""
        return cls(f"{pointer}: {message}", errors=[{"pointer": pointer, "detail": message}])


class PatternError(InvalidRequest):
    """An invalid pattern. The details contain the line and column, the text found there, and a hint."""

    code = "invalid_pattern"
    title = "This pattern is not valid"


class IdempotencyMismatch(InvalidRequest):
    code = "idempotency_mismatch"
    title = "This Idempotency-Key was already used with a different request"


class ConfirmationRequired(InvalidRequest):
    code = "confirmation_required"
    title = "High-risk approvals require a typed confirmation"


class ExpertsNotDistinct(InvalidRequest):
    code = "experts_not_distinct"
    title = "Each expert requires a different person"


class InvalidReceipt(InvalidRequest):
    code = "invalid_receipt"
    title = "This receipt is not valid"


class ReceiptMismatch(InvalidReceipt):
    code = "receipt_mismatch"
    title = "This receipt is for a different action"


class TooLarge(AssentError):
    code = "too_large"
    title = "Size limit exceeded"


class UnsupportedMediaType(AssentError):
    code = "unsupported_media_type"
    title = "Unsupported content type; send application/json"


class MethodNotAllowed(AssentError):
    code = "method_not_allowed"
    title = "This URL does not support that method"


class RateLimited(AssentError):
    code = "rate_limited"
    title = "Too many requests"

    def __init__(self, message: str = "", *, retry_after: float = 1.0, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Unavailable(AssentError):
    code = "unavailable"
    title = "This node cannot serve the request right now"


class Internal(AssentError):
    pass
