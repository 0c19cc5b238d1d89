"""The dependencies that every channel receives."""

from collections.abc import Callable
from dataclasses import dataclass

from assent.kernel.outbound import Outbound


@dataclass(frozen=True, slots=True)
class Tools:
    outbound: Outbound
    resolve: Callable[[str], str]
    """Returns the secret that `env:NAME` or `file:PATH` refers to; raises ValueError with a message for admins."""
    now: Callable[[], int]
    """Returns the time in microseconds since 1970."""
    random: Callable[[int], bytes]
    base_url: str
    """The server's public URL."""
