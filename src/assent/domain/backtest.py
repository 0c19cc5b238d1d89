"""What a rule would have done to a past breakpoint, judged by the same code that judges new ones.

What is not read yet or has been purged is unknown; where only the content can tell, the answer says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from assent.domain.expressions import And, Expression, Not, Or, Predicate, Subject, Truth
from assent.domain.patterns import Pattern, match, predicates
from assent.domain.rulebook import RuleAction, Rulebook
from assent.domain.rules import STOPS, recommend


class Outcome(StrEnum):
    """What became of a breakpoint without the rule."""

    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timedOut"
    """Rejected, but by its deadline."""
    AUTO = "auto"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    WAITING = "waiting"


class Effect(StrEnum):
    """What the rule would have done."""

    NONE = "none"
    UNKNOWN = "unknown"
    """It cannot be known whether the pattern matches, so it does not."""
    STOPPED = "stopped"
    """It matches, but a person would have been asked anyway."""
    PURGED = "purged"
    """It matches, but whether a person would have been asked anyway is gone with the content."""
    ACTS = "acts"
    UNSURE = "unsure"
    """It acts because it cannot be ruled out that it matches."""
    UNREAD = "unread"
    """Only the content can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A past breakpoint, or many that are alike in everything that was looked at."""

    subject: Subject
    unread: frozenset[str] = frozenset()
    """Attributes that nobody has looked at yet; their places in the subject are empty."""
    gone: frozenset[str] = frozenset()
    """Attributes that were purged; there is nothing left to look at."""
    purged: bool = False
    loud: bool = False
    """The content is not read, and may ask for a person."""
    hard_stop: bool = False
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Trial:
    """A rule that nobody has saved, and the rules that would have come before it."""

    pattern: Pattern
    action: RuleAction
    book: Rulebook
    """Of the live rules that stop; others have no say in what this one would have done."""
    now: int
    _partial: dict[frozenset[str], Pattern] = field(default_factory=dict[frozenset[str], Pattern], compare=False)

    def effect(self, past: Past) -> Effect:
        loose = self.action is RuleAction.NEVER
        truth = match(self._seen(past.unread | past.gone), past.subject, loose=loose)
        if truth is False:
            return Effect.NONE
        if past.unread and self._has_to_be_read(past, truth):
            return Effect.UNREAD
        if self.action is RuleAction.NEVER:
            return Effect.ACTS if truth else Effect.UNSURE
        return self._approval(past) if truth else Effect.UNKNOWN

    def _has_to_be_read(self, past: Past, truth: Truth) -> bool:
        if truth is None:
            return True
        if self.action is RuleAction.NEVER:
            return False
        fitting = self.book.fitting(past.subject.name, self.now)
        return any(each.pattern is not None and mentions(each.pattern) & past.unread for each in fitting)

    def _approval(self, past: Past) -> Effect:
        if self._stopped(past):
            return Effect.STOPPED
        if past.purged:
            return Effect.PURGED
        return Effect.UNREAD if past.loud else Effect.ACTS

    def _stopped(self, past: Past) -> bool:
        found = recommend(
            self.book,
            past.subject,
            hard_stop=past.hard_stop,
            plain=past.plain,
            after_n=None,
            consecutive=0,
            now=self.now,
        )
        return found.source in STOPS

    def _seen(self, unseen: frozenset[str]) -> Pattern:
        if unseen not in self._partial:
            self._partial[unseen] = without(self.pattern, unseen)
        return self._partial[unseen]


def mentions(pattern: Pattern) -> frozenset[str]:
    """Return the attributes that a pattern asks about, beside the gate."""
    return frozenset(each.path[0] for each in predicates(pattern))


@dataclass(frozen=True, slots=True)
class _Unseen(Expression):
    """A predicate whose attribute is not known, not even whether it exists."""

    predicate: Predicate

    def holds(self, subject: Subject) -> Truth:
        del subject
        return None

    holds_loosely = holds_tightly = holds

    def predicates(self) -> Iterator[Predicate]:
        yield self.predicate


def without(pattern: Pattern, unseen: frozenset[str]) -> Pattern:
    """Return the pattern with every predicate about these attributes unknown."""
    if pattern.expression is None or not mentions(pattern) & unseen:
        return pattern
    return Pattern(pattern.glob, _without(pattern.expression, unseen), pattern.source)


def _without(expression: Expression, unseen: frozenset[str]) -> Expression:
    match expression:
        case Predicate():
            return _Unseen(expression) if expression.path[0] in unseen else expression
        case Not():
            return Not(_without(expression.operand, unseen))
        case And() | Or():
            return type(expression)(tuple(_without(each, unseen) for each in expression.operands))
        case _:
            return expression
