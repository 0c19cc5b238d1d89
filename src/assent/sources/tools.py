"""What every source is made with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SourceTools:
    resolve: Callable[[str], str]
    """Turns `env:NAME` or `file:PATH` into the secret it stands for; raises ValueError, whose text may be shown."""
    now: Callable[[], int]
    """Microseconds since 1970."""
    base: Path
    """The folder that relative paths of assent.yaml start from."""
