"""What every source is made with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from assent.domain.canonical import is_object
from assent.domain.payload_secrets import BUILT_IN, Redactor
from assent.domain.trigger_events import Arrived


@dataclass(frozen=True, slots=True)
class SourceTools:
    resolve: Callable[[str], str]
    """Turns `env:NAME` or `file:PATH` into the secret it stands for; raises ValueError, whose text may be shown."""
    now: Callable[[], int]
    """Microseconds since 1970."""
    base: Path
    """The folder that relative paths of assent.yaml start from."""
    redact: Redactor = BUILT_IN
    """Takes secrets out of what a source tells."""

    def redacted(self, arrived: Arrived) -> Arrived:
        """Return an event without secrets in anything that is stored, matched or shown."""
        view = self.redact(dict(arrived.view))
        subject = arrived.subject and self.redact.text(arrived.subject)
        assert is_object(view), "a mapping stays one"
        return replace(arrived, data=self.redact(arrived.data), view=view, subject=subject)
