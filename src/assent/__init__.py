"""Assent pauses AI agents until a human decides.

`import assent` does not load the server, and loads the client only when one of its names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.contracts.breakpoints import Breakpoint as Breakpoint
    from assent.contracts.breakpoints import BreakpointResult as BreakpointResult
    from assent.contracts.breakpoints import Event as Event
    from assent.contracts.breakpoints import Feedback as Feedback
    from assent.contracts.breakpoints import Status as Status
    from assent.sdk.aio import AsyncAssent as AsyncAssent
    from assent.sdk.breakpoints import abreakpoint as abreakpoint
    from assent.sdk.breakpoints import breakpoint as breakpoint  # noqa: A004  # the product's own term
    from assent.sdk.client import Assent as Assent
    from assent.sdk.context import Context as Context
    from assent.sdk.context import ProcessChanged as ProcessChanged
    from assent.sdk.context import TaskFailed as TaskFailed
    from assent.sdk.context import process as process
    from assent.sdk.context import task as task
    from assent.sdk.errors import AssentError as AssentError
    from assent.sdk.errors import Cancelled as Cancelled
    from assent.sdk.errors import Expired as Expired
    from assent.sdk.errors import NotApproved as NotApproved
    from assent.sdk.errors import Rejected as Rejected
    from assent.sdk.errors import StillWaiting as StillWaiting
    from assent.sdk.errors import Unreachable as Unreachable
    from assent.sdk.files import ContextFile as ContextFile
    from assent.sdk.gating import approve as approve
    from assent.sdk.gating import require_approval as require_approval

_HOMES = {
    "Assent": "assent.sdk.client",
    "AssentError": "assent.sdk.errors",
    "AsyncAssent": "assent.sdk.aio",
    "Breakpoint": "assent.contracts.breakpoints",
    "BreakpointResult": "assent.contracts.breakpoints",
    "Cancelled": "assent.sdk.errors",
    "Context": "assent.sdk.context",
    "ContextFile": "assent.sdk.files",
    "Event": "assent.contracts.breakpoints",
    "Expired": "assent.sdk.errors",
    "Feedback": "assent.contracts.breakpoints",
    "NotApproved": "assent.sdk.errors",
    "ProcessChanged": "assent.sdk.context",
    "Rejected": "assent.sdk.errors",
    "Status": "assent.contracts.breakpoints",
    "StillWaiting": "assent.sdk.errors",
    "TaskFailed": "assent.sdk.context",
    "Unreachable": "assent.sdk.errors",
    "abreakpoint": "assent.sdk.breakpoints",
    "approve": "assent.sdk.gating",
    "breakpoint": "assent.sdk.breakpoints",
    "process": "assent.sdk.context",
    "require_approval": "assent.sdk.gating",
    "task": "assent.sdk.context",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
