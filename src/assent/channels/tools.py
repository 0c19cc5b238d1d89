"""What every channel is made with."""

from collections.abc import Callable
from dataclasses import dataclass

from assent.outbound import Outbound


@dataclass(frozen=True, slots=True)
class Tools:
    outbound: Outbound
    resolve: Callable[[str], str]
    """Turns `env:NAME` or `file:PATH` into the secret it stands for; raises ValueError, whose text may be shown."""
    now: Callable[[], int]
    """Microseconds since 1970."""
    random: Callable[[int], bytes]
    base_url: str
    """Where this server is reached from outside."""
