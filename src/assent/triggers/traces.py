"""Traces that are stored with every event; optimized, because many triggers are evaluated for many events."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from assent.core.errors import PatternError
from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import Finding, Part, Pattern, parts
from assent.triggers.model import Trace, Trigger, TriggerState, read, told


@lru_cache(maxsize=8192)
def _parts(pattern: str) -> tuple[Pattern, Sequence[Part]]:
    found = read(pattern)
    return found, parts(found)


@lru_cache(maxsize=8192)
def _missed(trigger: str, glob: str, kind: str) -> dict[str, Any]:
    """Return the trace for an event of a different type, omitting the rest of the pattern to save space."""
    return told(Trace(trigger, matched=False, findings=(Finding(glob, kind, held=False),)))


def looked(trigger: Trigger, subject: Subject) -> dict[str, Any]:
    """Evaluate a trigger for an event, and return the trace in its stored form."""
    if trigger.state is TriggerState.DISABLED:
        return told(Trace(trigger.name, matched=False, findings=())) | {"note": "disabled: not evaluated"}
    try:
        pattern, asked = _parts(trigger.on)
    except PatternError as error:
        problem = error.message if trigger.on else f"The trigger's pattern is no longer valid: {trigger.note}"
        return told(Trace(trigger.name, matched=False, findings=(), problem=problem))
    if not pattern.glob.matches(subject.name):
        # Most triggers do not match the type of an event, so this result is cached.
        return _missed(trigger.name, pattern.glob.text, subject.name)
    findings = [each.met(subject) for each in asked]
    matched = pattern.expression is None or pattern.expression.holds(subject) is True
    return told(Trace(trigger.name, matched, (Finding(pattern.glob.text, subject.name, held=True), *findings)))
