"""Assent: agents stop and ask, people answer.

`import assent` loads none of the server, and the client only when it is first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.sdk.client import Assent as Assent
    from assent.sdk.errors import AssentError as AssentError
    from assent.sdk.errors import StillWaiting as StillWaiting
    from assent.sdk.errors import Unreachable as Unreachable
    from assent.sdk.values import Breakpoint as Breakpoint
    from assent.sdk.values import BreakpointResult as BreakpointResult
    from assent.sdk.values import Status as Status

_HOMES = {
    "Assent": "assent.sdk.client",
    "AssentError": "assent.sdk.errors",
    "Breakpoint": "assent.sdk.values",
    "BreakpointResult": "assent.sdk.values",
    "Status": "assent.sdk.values",
    "StillWaiting": "assent.sdk.errors",
    "Unreachable": "assent.sdk.errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
