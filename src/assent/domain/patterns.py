"""The one pattern language of rules, routes and triggers: `glob` or `glob(expression)`; parse, match, explain."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from assent.domain.canonical import Json
from assent.domain.expressions import (
    MISSING,
    And,
    Attribute,
    Attributes,
    Expression,
    Kind,
    Not,
    Or,
    Predicate,
    Subject,
    Truth,
    inverse,
)
from assent.domain.globs import Glob
from assent.domain.grammar import MAX_LENGTH, read

BREAKPOINT_ATTRIBUTES: Final[Attributes] = {
    "tags": Attribute(kind=Kind.LIST),
    "expert": Attribute(kind=Kind.LIST, equality=True),
    "agentId": Attribute(kind=Kind.TEXT),
    "runId": Attribute(kind=Kind.TEXT),
    "title": Attribute(kind=Kind.TEXT),
    "risk": Attribute(kind=Kind.TEXT, choices=("low", "medium", "high"), ranked=True),
    "priority": Attribute(kind=Kind.TEXT, choices=("low", "normal", "high", "urgent"), ranked=True),
    "attempt": Attribute(kind=Kind.NUMBER),
    "strategy": Attribute(kind=Kind.TEXT, choices=("single", "first-response-wins", "collect-all", "quorum")),
    "payload": Attribute(kind=Kind.OBJECT),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that has been read; equal to every other writing of the same."""

    glob: Glob
    expression: Expression | None
    source: str = field(compare=False)

    def __str__(self) -> str:
        """Return one way to write it, or the way it was written where that would be too long to be read again."""
        text = self.glob.text if self.expression is None else f"{self.glob.text}({self.expression})"
        return text if len(text) <= MAX_LENGTH else self.source


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a pattern, what it met, and whether it held."""

    part: str
    actual: Json
    held: Truth

    @property
    def note(self) -> str:
        """Say why it is unknown; empty where it is not."""
        if self.held is not None:
            return ""
        return "not given" if self.actual is MISSING else "of another kind"


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate, and whether the pattern denies it."""

    text: str
    predicate: Predicate
    denied: bool

    def met(self, subject: Subject) -> Finding:
        held = self.predicate.holds(subject)
        return Finding(self.text, self.predicate.actual(subject), inverse(held) if self.denied else held)


def parse(text: str, attributes: Attributes = BREAKPOINT_ATTRIBUTES) -> Pattern:
    """Read a pattern, or raise PatternError with the place and a hint."""
    glob, expression = read(text, attributes)
    return Pattern(Glob.of(glob), expression, text.strip())


def match(pattern: Pattern, subject: Subject) -> Truth:
    """Return whether it matches; None is unknown, which for an approval means no and for a refusal yes."""
    if not pattern.glob.matches(subject.name):
        return False
    return True if pattern.expression is None else pattern.expression.holds(subject)


def explain(pattern: Pattern, subject: Subject) -> list[Finding]:
    """Return what each part met: the glob first, then every predicate, also where it did not matter.

    One that is denied is told with its NOT, so that what is said to hold speaks for the whole.
    """
    found = [Finding(pattern.glob.text, subject.name, pattern.glob.matches(subject.name))]
    return found + [each.met(subject) for each in parts(pattern)]


def parts(pattern: Pattern) -> list[Part]:
    return [] if pattern.expression is None else list(_parts(pattern.expression, denied=False))


def _parts(expression: Expression, *, denied: bool) -> Iterator[Part]:
    if isinstance(expression, Not):
        yield from _parts(expression.operand, denied=not denied)
    elif isinstance(expression, And | Or):
        for each in expression.operands:
            yield from _parts(each, denied=denied)
    else:
        assert isinstance(expression, Predicate), "there is nothing else"
        yield Part(f"NOT {expression}" if denied else str(expression), expression, denied)


def predicates(pattern: Pattern) -> list[Predicate]:
    return [] if pattern.expression is None else list(pattern.expression.predicates())
