"""A server as a command reaches it: by ASSENT_URL and ASSENT_TOKEN, telling the person when it has to wait for it."""

from assent.cli import output
from assent.sdk.client import Assent

# A person sits before the screen: a restart is bridged, a server that is not there is told at once.
SHORT_PATIENCE = 1.0
LONG_PATIENCE = 120.0


class _Told:
    """Trouble is mentioned once, not at every attempt."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, because: str) -> None:
        if not self._told and because != "the server answers early":
            self._told = True
            output.remark(f"Trying again: {output.visible(because)} …", style="yellow")


def session(*, patience: float = SHORT_PATIENCE) -> Assent:
    return Assent(patience=patience, on_trouble=_Told() if patience > SHORT_PATIENCE else None)
