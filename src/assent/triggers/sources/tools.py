"""The dependencies that every source receives."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from assent.core.canonical import is_object
from assent.kernel.ports import Clock
from assent.kernel.settings import Settings, resolve
from assent.triggers.event import Arrived
from assent.triggers.payload_secrets import BUILT_IN, Redactor


@dataclass(frozen=True, slots=True)
class SourceTools:
    resolve: Callable[[str], str]
    """Returns the secret that `env:NAME` or `file:PATH` refers to, or raises ValueError with a message for admins."""
    now: Callable[[], int]
    """Returns the time in microseconds since 1970."""
    base: Path
    """The folder to which paths in assent.yaml are relative."""
    redact: Redactor = BUILT_IN
    """Removes secrets from events."""

    def redacted(self, arrived: Arrived) -> Arrived:
        """Return the event with secrets redacted in every part that is stored, matched or displayed."""
        view = self.redact(dict(arrived.view))
        subject = arrived.subject and self.redact.text(arrived.subject)
        assert is_object(view), "a redacted mapping is still a mapping"
        return replace(arrived, data=self.redact(arrived.data), view=view, subject=subject)


def source_tools(settings: Settings, clock: Clock, base: Path) -> SourceTools:
    return SourceTools(resolve, clock.now, base, Redactor(settings.redact_patterns or ()))
