"""Back-tests: the effect of a rule on past breakpoints, determined by the same code that evaluates new breakpoints.

Content that has not been read or that was purged is unknown. If the result depends on it, the effect indicates this.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from assent.core.patterns.expressions import And, Expression, Not, Or, Predicate, Subject, Truth
from assent.core.patterns.pattern import Pattern, match, predicates
from assent.core.rulebook import RuleAction, Rulebook
from assent.core.rules import STOPS, recommend


class Outcome(StrEnum):
    """A breakpoint's actual outcome, without the rule."""

    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timedOut"
    """Rejected automatically at the deadline."""
    AUTO = "auto"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    WAITING = "waiting"


class Effect(StrEnum):
    """The effect that the rule would have had."""

    NONE = "none"
    UNKNOWN = "unknown"
    """It is unknown whether the pattern matches, so the rule does not apply."""
    STOPPED = "stopped"
    """The pattern matches, but a human decision was required anyway."""
    PURGED = "purged"
    """The pattern matches, but it is unknown whether a human decision was required, because the content was purged."""
    ACTS = "acts"
    UNSURE = "unsure"
    """The rule acts because a match cannot be ruled out."""
    UNREAD = "unread"
    """The result depends on the content, which has not been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A past breakpoint, or several breakpoints that agree in all values that were read."""

    subject: Subject
    unread: frozenset[str] = frozenset()
    """Attributes that have not been read and are therefore missing from the subject."""
    gone: frozenset[str] = frozenset()
    """Attributes that were purged."""
    purged: bool = False
    loud: bool = False
    """True if the unread content may require a human decision."""
    hard_stop: bool = False
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Trial:
    """An unsaved rule, and the rules that would have taken precedence over it."""

    pattern: Pattern
    action: RuleAction
    book: Rulebook
    """Contains only live rules that stop approvals; other rules do not affect the result."""
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
        # The rule matches, so only `never` rules that use unread attributes can change the result.
        fitting = self.book.fitting(past.subject.name, self.now)
        return any(each.pattern is not None and mentions(each.pattern) & past.unread for each in fitting)

    def _approval(self, past: Past) -> Effect:
        # Check for a stop first, because it is certain even if the content was purged.
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
    """Return the attributes that a pattern uses, other than the gate."""
    return frozenset(each.path[0] for each in predicates(pattern))


@dataclass(frozen=True, slots=True)
class _Unseen(Expression):
    """A predicate on an attribute whose value and existence are unknown."""

    predicate: Predicate

    def holds(self, subject: Subject) -> Truth:
        del subject
        return None

    holds_loosely = holds_tightly = holds

    def predicates(self) -> Iterator[Predicate]:
        yield self.predicate


def without(pattern: Pattern, unseen: frozenset[str]) -> Pattern:
    """Return the pattern, replacing every predicate on these attributes with one whose result is unknown."""
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
