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
    claimed: bool = False

    @property
    def note(self) -> str:
        """Say why it is unknown; empty where it is not."""
        if self.held is not None:
            return ""
        if self.claimed:
            return "claimed by the agent but not verified"
        return "not given" if self.actual is MISSING else "of a different type"


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate, and whether the pattern denies it."""

    text: str
    predicate: Predicate
    denied: bool

    def met(self, subject: Subject, *, loose: bool = False) -> Finding:
        asked: Expression = Not(self.predicate) if self.denied else self.predicate
        claimed = not loose and self.predicate.path[0] in subject.claimed
        return Finding(self.text, self.predicate.actual(subject), _truth(asked, subject, loose=loose), claimed)


def parse(text: str, attributes: Attributes = BREAKPOINT_ATTRIBUTES) -> Pattern:
    """Read a pattern, or raise PatternError with the place and a hint."""
    glob, expression = read(text, attributes)
    return Pattern(Glob.of(glob), expression, text.strip())


def match(pattern: Pattern, subject: Subject, *, loose: bool = False) -> Truth:
    """Return whether it matches; None is unknown, which for an approval means no and for a refusal yes.

    Rules that approve, routes and triggers are read exactly; everything that stops an agent is read `loose`.
    """
    if not (pattern.glob.matches_loosely if loose else pattern.glob.matches)(subject.name):
        return False
    return True if pattern.expression is None else _truth(pattern.expression, subject, loose=loose)


def explain(pattern: Pattern, subject: Subject, *, loose: bool = False) -> list[Finding]:
    """Return what each part met: the glob first, then every predicate, also where it did not matter.

    One that is denied is told with its NOT, so that what is said to hold speaks for the whole.
    """
    fits = (pattern.glob.matches_loosely if loose else pattern.glob.matches)(subject.name)
    found = [Finding(pattern.glob.text, subject.name, fits)]
    return found + [each.met(subject, loose=loose) for each in parts(pattern)]


def _truth(expression: Expression, subject: Subject, *, loose: bool) -> Truth:
    return expression.holds_loosely(subject) if loose else expression.holds(subject)


def parts(pattern: Pattern) -> list[Part]:
    return [] if pattern.expression is None else list(_parts(pattern.expression, denied=False))


def _parts(expression: Expression, *, denied: bool) -> Iterator[Part]:
    if isinstance(expression, Not):
        yield from _parts(expression.operand, denied=not denied)
    elif isinstance(expression, And | Or):
        for each in expression.operands:
            yield from _parts(each, denied=denied)
    else:
        assert isinstance(expression, Predicate), "all other kinds of expressions are handled above"
        yield Part(f"NOT {expression}" if denied else str(expression), expression, denied)


def predicates(pattern: Pattern) -> list[Predicate]:
    return [] if pattern.expression is None else list(pattern.expression.predicates())
