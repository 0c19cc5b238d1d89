"""Maps errors to HTTP statuses and RFC 9457 responses; no other module knows these statuses."""

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assent.core import errors
from assent.core.errors import AssentError, InvalidRequest, RateLimited
from assent.core.fields import PAYLOAD_FIELDS, did_you_mean
from assent.http.validation import plain

STATUS: dict[type[AssentError], HTTPStatus] = {
    errors.MalformedJson: HTTPStatus.BAD_REQUEST,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.NotEligible: HTTPStatus.FORBIDDEN,
    errors.OwnBreakpoint: HTTPStatus.FORBIDDEN,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.AlreadyEnded: HTTPStatus.CONFLICT,
    errors.SeatTaken: HTTPStatus.CONFLICT,
    errors.AnswerStands: HTTPStatus.CONFLICT,
    errors.TicketRequired: HTTPStatus.CONFLICT,
    errors.RejectionPending: HTTPStatus.CONFLICT,
    errors.AlreadyClaimed: HTTPStatus.CONFLICT,
    errors.ProjectRemoved: HTTPStatus.CONFLICT,
    errors.NoReceipt: HTTPStatus.CONFLICT,
    errors.ReceiptExpired: HTTPStatus.CONFLICT,
    errors.ReceiptUsed: HTTPStatus.CONFLICT,
    errors.DigestMismatch: HTTPStatus.PRECONDITION_FAILED,
    errors.PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.InvalidRequest: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.PatternError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.IdempotencyMismatch: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ConfirmationRequired: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ExpertsNotDistinct: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidReceipt: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ReceiptMismatch: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.RateLimited: HTTPStatus.TOO_MANY_REQUESTS,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Internal: HTTPStatus.INTERNAL_SERVER_ERROR,
}
MEDIA_TYPE = "application/problem+json"
DOCS = "/problems/"


class Problem(HTTPException):
    """Wraps a domain error while a body is read, where FastAPI lets only its own exceptions through."""

    def __init__(self, error: AssentError) -> None:
        super().__init__(STATUS[type(error)])
        self.error = error


def problem(error: AssentError, headers: Mapping[str, str] | None = None) -> Response:
    status = STATUS[type(error)]
    body: dict[str, Any] = {
        "type": DOCS + error.code,
        "title": error.title,
        "status": status.value,
        "code": error.code,
        "detail": error.message,
        **error.details,
    }
    sent: dict[str, str] = {"Cache-Control": "no-store", **(headers or {})}
    if isinstance(error, RateLimited):
        # Rounded up, so that a client that waits this long is not throttled again.
        sent["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if status is HTTPStatus.UNAUTHORIZED:
        sent["WWW-Authenticate"] = 'Bearer realm="assent"'
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        sent["Retry-After"] = "1"
    return Response(msgspec.json.encode(body), status.value, sent, MEDIA_TYPE)


def internal_error(request_id: str) -> errors.Internal:
    return errors.Internal(f"Internal error. See the server log for request ID {request_id}.")


def from_validation(error: ValidationError | RequestValidationError, known: Sequence[str] = ()) -> InvalidRequest:
    """Return an error with each problem and its location, but no values; `known` are the fields of the body."""
    found = [{"pointer": _pointer(each["loc"]), "detail": _detail(each, known)} for each in error.errors()]
    first = found[0] if found else {"pointer": "", "detail": "The request body is missing."}
    return InvalidRequest(f"{first['pointer']}: {first['detail']}", errors=found[:20])


def _detail(each: Mapping[str, Any], known: Sequence[str]) -> str:
    location: tuple[int | str, ...] = each["loc"]
    if each["type"] != "extra_forbidden" or len(location) != 1 or not known:
        return plain(each["type"], each["msg"], each.get("ctx") or {})
    key = str(location[0])
    if "payload" in known and key in PAYLOAD_FIELDS:
        return f"is not a top-level field. Set {key!r} in the payload."
    if "payload" in known and key == "gate":
        return "is not a known field. To name the gate, set 'breakpointId' in the payload."
    return f"is not a known field. {did_you_mean(key, known)}".rstrip()


def _pointer(location: tuple[int | str, ...]) -> str:
    parts = [str(part) for part in location]
    if parts and parts[0] in {"query", "path", "header"}:
        return " ".join(parts)
    return "/" + "/".join(parts[1:] if parts[:1] == ["body"] else parts)


def from_http_exception(error: HTTPException) -> AssentError:
    if isinstance(error, Problem):
        return error.error
    by_status: Mapping[int, AssentError] = {
        HTTPStatus.NOT_FOUND: errors.NotFound(errors.NO_SUCH_URL),
        HTTPStatus.METHOD_NOT_ALLOWED: errors.MethodNotAllowed(),
        HTTPStatus.BAD_REQUEST: errors.MalformedJson(str(error.detail)),
    }
    return by_status.get(error.status_code, errors.Internal())
