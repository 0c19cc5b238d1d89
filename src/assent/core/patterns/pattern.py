"""The pattern language of rules, routes and triggers: parses, matches and explains `glob` or `glob(expression)`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from assent.core.canonical import Json
from assent.core.patterns.expressions import (
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
from assent.core.patterns.globs import Glob
from assent.core.patterns.grammar import MAX_LENGTH, read

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
    """A parsed pattern. Patterns that differ only in their notation are equal."""

    glob: Glob
    expression: Expression | None
    source: str = field(compare=False)

    def __str__(self) -> str:
        """Return the normalized pattern, or the original text if the normalized one would be too long to parse."""
        text = self.glob.text if self.expression is None else f"{self.glob.text}({self.expression})"
        return text if len(text) <= MAX_LENGTH else self.source


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a pattern, the value that it was tested against, and the result."""

    part: str
    actual: Json
    held: Truth
    claimed: bool = False

    @property
    def note(self) -> str:
        """The reason why the result is unknown, or an empty string if it is known."""
        if self.held is not None:
            return ""
        if self.claimed:
            return "claimed by the agent but not verified"
        return "not given" if self.actual is MISSING else "of a different type"


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate, and whether the pattern negates it."""

    text: str
    predicate: Predicate
    denied: bool

    def met(self, subject: Subject, *, loose: bool = False) -> Finding:
        asked: Expression = Not(self.predicate) if self.denied else self.predicate
        claimed = not loose and self.predicate.path[0] in subject.claimed
        return Finding(self.text, self.predicate.actual(subject), _truth(asked, subject, loose=loose), claimed)


def parse(text: str, attributes: Attributes = BREAKPOINT_ATTRIBUTES) -> Pattern:
    """Parse a pattern, or raise PatternError with the position and a hint."""
    glob, expression = read(text, attributes)
    return Pattern(Glob.of(glob), expression, text.strip())


def match(pattern: Pattern, subject: Subject, *, loose: bool = False) -> Truth:
    """Return whether a pattern matches. None means unknown, which always counts against an approval.

    Auto-approve rules, routes and triggers match exactly and treat unknown as false. Rules that stop an agent match
    with `loose` and treat unknown as true.
    """
    if not (pattern.glob.matches_loosely if loose else pattern.glob.matches)(subject.name):
        return False
    return True if pattern.expression is None else _truth(pattern.expression, subject, loose=loose)


def explain(pattern: Pattern, subject: Subject, *, loose: bool = False) -> list[Finding]:
    """Return the result of the glob, then of every predicate, including those that did not affect the match.

    A negated predicate includes its NOT, so that the result refers to the part as shown.
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
