"""A project's rules: as stored, and as a parsed rulebook that looks up rules by parts of their globs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import TypeAlias

from assent.core.canonical import GENESIS
from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.expressions import Subject, Truth
from assent.core.patterns.folding import is_spelled_like, readings
from assent.core.patterns.globs import Glob
from assent.core.patterns.pattern import Pattern, parse
from assent.core.timestamps import from_iso, iso

_SHOWN = 200
_GRAM = 3
_EVERYTHING = Glob.of("*")


class RuleAction(StrEnum):
    AUTO = "auto-approve"
    NEVER = "never-auto-approve"


class RuleMode(StrEnum):
    LIVE = "live"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A stored rule, which may have become invalid since it was saved."""

    id: str
    pattern: str
    action: str
    note: str | None = None
    source: str = "api"
    created_by: str = "system"
    created_at: int = 0
    expires_at: int | None = None
    enabled: bool = True
    mode: str = RuleMode.LIVE.value
    order: int = 0
    project: str = ""
    updated_at: int = 0
    removed_at: int | None = None
    version: int = 0
    head: str = GENESIS

    def __str__(self) -> str:
        pattern = self.pattern if len(self.pattern) <= _SHOWN else f"{self.pattern[: _SHOWN - 1]}…"
        return f"{self.id} ({pattern})"

    def in_force(self, now: int) -> bool:
        return self.enabled and self.removed_at is None and (self.expires_at is None or now < self.expires_at)


def expiry(text: str) -> int:
    """Parse the time at which a rule expires, or raise InvalidRequest."""
    try:
        at = from_iso(text)
        iso(at)  # raises if the offset moves the year out of range in UTC
    except (ValueError, OverflowError) as error:
        raise InvalidRequest.at("/expiresAt", "must be a time, for example 2027-01-31T18:00:00Z") from error
    return at


def checked(rule: Rule) -> Pattern:
    """Validate a rule before it is saved and return its pattern, or raise InvalidRequest."""
    _refuse_unknown(rule)
    return parse(rule.pattern)


def _refuse_unknown(rule: Rule) -> None:
    for name, value, known in (("action", rule.action, RuleAction), ("mode", rule.mode, RuleMode)):
        if value not in tuple(known):
            raise InvalidRequest.at(f"/{name}", f"must be {' or '.join(known)}")


def problem_of(rule: Rule) -> str | None:
    """Return the reason why a stored rule is invalid, or None if it is valid."""
    try:
        checked(rule)
    except InvalidRequest as error:
        return error.message
    return None


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid stored rule, and whether it stops approvals."""

    rule: Rule
    problem: str
    stops: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """A parsed rule. A `never` rule with an invalid pattern has only a glob, and its result is unknown."""

    rule: Rule
    place: int
    glob: Glob
    pattern: Pattern | None
    stops: bool
    live: bool

    def holds(self, subject: Subject) -> Truth:
        """Evaluate the rule for a subject whose name matches its glob. Rules that stop approvals match loosely."""
        expression = self.pattern.expression if self.pattern else None
        if expression is None:
            return True if self.pattern else None
        return expression.holds_loosely(subject) if self.stops else expression.holds(subject)


Placed: TypeAlias = tuple[Glob, Compiled]
"""A glob and the rule that it belongs to."""


@dataclass(frozen=True, slots=True)
class _Index:
    """Indexes rules by a piece of text that all matching names contain, so that not every rule has to be tried."""

    exact: Mapping[str, Sequence[Placed]]
    heads: Mapping[str, Sequence[Placed]]
    tails: Mapping[str, Sequence[Placed]]
    inside: Mapping[str, Sequence[Placed]]
    anywhere: Sequence[Placed]
    head_lengths: tuple[int, ...]
    tail_lengths: tuple[int, ...]

    @classmethod
    def of(cls, rules: Sequence[Placed]) -> "_Index":
        parts: tuple[dict[str, list[Placed]], ...] = ({}, {}, {}, {})
        exact, heads, tails, inside = parts
        common = Counter(gram for glob, _ in rules for gram in _grams(glob.pieces))
        for each in rules:
            pieces = each[0].pieces
            head, tail = pieces[0], pieces[-1]
            if each[0].literal:
                exact.setdefault(head, []).append(each)
            elif head:
                heads.setdefault(head, []).append(each)
            elif tail:
                tails.setdefault(tail, []).append(each)
            else:
                # The rarest trigram excludes the most names.
                rarest = min(_grams(pieces), key=lambda gram: (common[gram], gram), default="")
                inside.setdefault(rarest, []).append(each)
        # Globs without a trigram, such as * or *ab*, have to be tried for every name.
        anywhere = inside.pop("", [])
        lengths = (tuple(sorted(set(map(len, part)))) for part in (heads, tails))
        return cls(exact, heads, tails, inside, anywhere, *lengths)

    def fitting(self, name: str) -> Iterator[Compiled]:
        return (rule for glob, rule in self.candidates(name) if glob.matches(name))

    def candidates(self, name: str) -> Iterator[Placed]:
        yield from self.exact.get(name, ())
        # Look up only prefixes and suffixes of lengths that occur in rules.
        for length in takewhile(len(name).__ge__, self.head_lengths):
            yield from self.heads.get(name[:length], ())
        for length in takewhile(len(name).__ge__, self.tail_lengths):
            yield from self.tails.get(name[-length:], ())
        for gram in _grams([name]):
            yield from self.inside.get(gram, ())
        yield from self.anywhere


def _grams(pieces: Iterable[str]) -> set[str]:
    return {piece[n : n + _GRAM] for piece in pieces for n in range(len(piece) - _GRAM + 1)}


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The parsed rules of a project. It can be cached, because expiration is checked during each lookup."""

    faults: tuple[Fault, ...]
    always_break_on: frozenset[str]
    patterns: Mapping[str, Pattern] = field(repr=False)
    index: _Index = field(repr=False)
    loose_index: _Index = field(repr=False)
    """Index of the rules that stop approvals, by their folded globs."""
    breaking_readings: frozenset[str] = field(repr=False)
    """All folded spellings of the tags in always_break_on."""

    @classmethod
    def of(
        cls, rules: Iterable[Rule], always_break_on: Collection[str] = (), *, before: "Rulebook | None" = None
    ) -> "Rulebook":
        """Parse the rules, reusing patterns from the previous rulebook."""
        ordered = sorted(rules, key=lambda rule: (rule.order, rule.created_at, rule.id))
        known: Mapping[str, Pattern] = before.patterns if before else {}
        patterns: dict[str, Pattern] = {rule.pattern: known[rule.pattern] for rule in ordered if rule.pattern in known}
        faults: list[Fault] = []
        compiled = [each for n, rule in enumerate(ordered) if (each := _compiled(n, rule, patterns, faults))]
        exact = _Index.of([(each.glob, each) for each in compiled])
        loose = _Index.of([(glob, each) for each in compiled if each.stops for glob in each.glob.loosened()])
        breaking = frozenset(reading for tag in always_break_on for reading in readings(tag))
        return cls(tuple(faults), frozenset(always_break_on), patterns, exact, loose, breaking)

    def fitting(self, name: str, now: int) -> list[Compiled]:
        """Return the active rules whose globs match the name, in evaluation order; stopping rules match loosely."""
        found = {each.place: each for each in self.index.fitting(name)}
        # A rule can be found by several readings, so rules are collected by their position.
        for reading in readings(name):
            found.update((each.place, each) for each in self.loose_index.fitting(reading))
        return [found[place] for place in sorted(found) if found[place].rule.in_force(now)]

    def breaks_on(self, tag: str) -> bool:
        """Return whether the project requires a human decision for this tag, regardless of its spelling."""
        return tag in self.always_break_on or is_spelled_like(tag, self.breaking_readings)


def _compiled(place: int, rule: Rule, patterns: dict[str, Pattern], faults: list[Fault]) -> Compiled | None:
    """Compile a rule. An invalid rule never approves and does not affect other rules.

    An invalid rule that may be a `never` rule still stops everything that its glob matches, or everything if the glob
    is also invalid.
    """
    stops = rule.action != RuleAction.AUTO
    # A rule that stops approvals is enforced even if its mode is unknown.
    live = rule.mode == RuleMode.LIVE or (stops and rule.mode != RuleMode.SHADOW)
    pattern: Pattern | None = None
    try:
        pattern = patterns.get(rule.pattern) or patterns.setdefault(rule.pattern, parse(rule.pattern))
        _refuse_unknown(rule)
    except InvalidRequest as error:
        faults.append(Fault(rule, error.message, stops))
        if not stops:
            return None
    glob = pattern.glob if pattern else _glob_of(rule.pattern)
    return Compiled(rule, place, glob, pattern, stops, live)


def _glob_of(text: str) -> Glob:
    """Return the glob of a pattern with invalid predicates."""
    try:
        return parse(text.partition("(")[0]).glob
    except PatternError:
        return _EVERYTHING
