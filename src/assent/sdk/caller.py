"""What every group of calls has: how patient it is, and how a request becomes a flow."""

from dataclasses import dataclass
from typing import TypeVar

from assent.sdk import protocol
from assent.sdk.protocol import Flow, Pace, Request

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Caller:
    """`patience` is for how many seconds the server may be out of reach."""

    pace: Pace
    patience: float

    def _perform(self, request: Request, kind: type[Result]) -> Flow[Result]:
        return protocol.performed(request, kind, pace=self.pace, patience=self.patience)
