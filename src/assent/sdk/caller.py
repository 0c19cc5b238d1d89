"""The base class of all groups of calls."""

from dataclasses import dataclass
from typing import TypeVar

from assent.sdk import protocol
from assent.sdk.protocol import Flow, Pace, Request

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Caller:
    """Performs requests, and retries for `patience` seconds while the server is unreachable."""

    pace: Pace
    patience: float

    def _perform(self, request: Request, kind: type[Result]) -> Flow[Result]:
        return protocol.performed(request, kind, pace=self.pace, patience=self.patience)
