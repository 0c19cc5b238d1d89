"""Tool results for the model: JSON, with a sentence that says what to do next."""

import json
from typing import Any

from assent.contracts.breakpoints import Breakpoint, Feedback, Status
from assent.contracts.shape import plain
from assent.core.tool_calls import ended
from assent.sdk.arguments import agreed
from assent.sdk.errors import AssentError, NotApproved

WAITING = (
    "No decision yet. Call wait_for_breakpoint with this breakpointId to keep waiting."
    " Do not continue without an approval."
)
REFUSED = "Do not perform this action."
_OUT_OF_REACH = frozenset({"unreachable", "unavailable", "unexpected_answer", "internal", "rate_limited"})


def standing(found: Breakpoint) -> Status:
    """Return the status of a breakpoint."""
    return Status(
        status=found.status,
        updated_at=found.updated_at,
        decision=found.decision,
        feedback=found.feedback,
        result=found.result,
    )


def outcome(breakpoint_id: str, status: Status, *, remark: str = "") -> dict[str, Any]:
    """Return a breakpoint's outcome; `approved` is true only after an explicit approval that can be acted on."""
    approved, message, more = _read(status)
    return {
        "breakpointId": breakpoint_id,
        "status": status.status,
        "approved": approved,
        "message": f"{remark} {message}".strip(),
        **more,
        "comments": [_comment(each) for each in status.feedback or () if not each.author.startswith("agent:")],
    }


def _read(status: Status) -> tuple[bool, str, dict[str, Any]]:
    result = status.result
    if not status.ended:
        return False, WAITING, {}
    by, said = (result.responded_by, result.feedback) if result is not None else (None, None)
    # The option and edits are added only to an approval, so that a model cannot act on those of a rejection.
    more = {"respondedBy": by, "feedback": said}
    if result is None or not status.approved:
        return False, f"{ended(status.status, by=by, said=said)} {REFUSED}", more
    try:
        edits = agreed(result)
    except NotApproved as error:
        return False, f"{error.message} {REFUSED}", more
    chosen = {"option": result.option, "answers": result.answers, "edits": dict(edits) or None, "auto": result.auto}
    message = "Approved with changes: use the values in edits instead of your own." if edits else "Approved."
    return True, message, more | chosen


def _comment(said: Feedback) -> dict[str, str]:
    return {"author": said.author, "comment": said.comment, "createdAt": said.created_at}


def whole(found: Breakpoint) -> dict[str, Any]:
    """Return all fields of a breakpoint and its outcome."""
    return {**plain(found), **outcome(found.id, standing(found))}


def text(value: dict[str, Any]) -> str:
    return json.dumps({name: each for name, each in value.items() if each is not None}, ensure_ascii=False)


def sentence(error: AssentError) -> str:
    """Describe an error so that it cannot be mistaken for an approval."""
    # A model must not read an outage as a reason to continue without an approval.
    if error.code in _OUT_OF_REACH:
        why = error.message.rstrip(".")
        return f"Blocked: Assent is unavailable ({why}). Nothing was approved. Do not continue without an approval."
    return f"{error.message.rstrip('.')}. Nothing was approved."
