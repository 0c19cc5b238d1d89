"""Traces as they are kept with every event: many triggers are held against many events, so that each counts."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from assent.domain.errors import PatternError
from assent.domain.expressions import Subject
from assent.domain.patterns import Finding, Part, Pattern, parts
from assent.domain.triggers import Trace, Trigger, TriggerState, read, told


@lru_cache(maxsize=8192)
def _parts(pattern: str) -> tuple[Pattern, Sequence[Part]]:
    found = read(pattern)
    return found, parts(found)


@lru_cache(maxsize=8192)
def _missed(trigger: str, glob: str, kind: str) -> dict[str, Any]:
    """Where the type is another, the rest of the pattern is not worth keeping."""
    return told(Trace(trigger, matched=False, findings=(Finding(glob, kind, held=False),)))


def looked(trigger: Trigger, subject: Subject) -> dict[str, Any]:
    """Hold a trigger against an event, and return the trace as it is kept."""
    if trigger.state is TriggerState.DISABLED:
        return told(Trace(trigger.name, matched=False, findings=())) | {"note": "disabled: not evaluated"}
    try:
        pattern, asked = _parts(trigger.on)
    except PatternError as error:
        problem = error.message if trigger.on else f"Its pattern is no longer valid: {trigger.note}"
        return told(Trace(trigger.name, matched=False, findings=(), problem=problem))
    if not pattern.glob.matches(subject.name):
        return _missed(trigger.name, pattern.glob.text, subject.name)
    findings = [each.met(subject) for each in asked]
    matched = pattern.expression is None or pattern.expression.holds(subject) is True
    return told(Trace(trigger.name, matched, (Finding(pattern.glob.text, subject.name, held=True), *findings)))
