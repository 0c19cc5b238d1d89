"""The expressions of patterns: conditions on a subject's attributes that are true, false or unknown.

A predicate is unknown if its value is missing or has a different type from the value that it is compared with. NOT
leaves unknown unchanged. AND and OR are unknown unless the other operands determine the result.

Rules that stop an agent match loosely: they match if any interpretation of a value matches, so that changing its type
or spelling does not bypass them. Under NOT, predicates are exact, because loosening them would make rules match less.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from assent.core.canonical import Json, is_array, is_object
from assent.core.patterns.folding import is_uncertain, readings, solid, spellings
from assent.core.patterns.globs import Glob

Truth: TypeAlias = bool | None
"""None means unknown."""
Value: TypeAlias = str | int | float | bool | None
"""A value in a pattern. None represents `null`."""
Test: TypeAlias = Callable[[Json], Truth]
MAX_ELEMENTS = 10_000
"""For longer lists, loose tests return unknown, because testing every element would take too long."""


class Kind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    FLAG = "true or false"
    LIST = "list"
    OBJECT = "object"
    """Any JSON object. Dots access its members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """The type of an attribute, used to reject predicates that could never match."""

    kind: Kind
    choices: tuple[str, ...] = ()
    """The only possible values, if they are restricted."""
    ranked: bool = False
    """Whether the choices are in ascending order, for operators such as `<`."""
    equality: bool = False
    """Whether `=` can be used with a list, to test whether the list contains the value."""


Attributes: TypeAlias = Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Subject:
    """The name that globs match, and the attribute values that expressions use."""

    name: str
    values: Mapping[str, Json]
    claimed: frozenset[str] = frozenset()
    """Attributes that are unverified claims. Approving rules treat them as unknown; `never` rules trust them."""


class Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Expression(ABC):
    """An immutable syntax tree. Parsing its text returns an equal tree."""

    __slots__ = ()

    @abstractmethod
    def holds(self, subject: Subject) -> Truth: ...

    @abstractmethod
    def holds_loosely(self, subject: Subject) -> Truth:
        """Evaluate loosely and trust claimed attributes. If none are claimed, false only where `holds` is false."""

    @abstractmethod
    def holds_tightly(self, subject: Subject) -> Truth:
        """Evaluate the operand of a NOT in loose matching. True only where exact evaluation is also true."""

    @abstractmethod
    def predicates(self) -> Iterator["Predicate"]: ...


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in a pattern. Literals are compared by their text, because 1 == True in Python."""

    text: str
    value: Value = field(compare=False)

    @classmethod
    def of(cls, value: Value) -> "Literal":
        return cls(_written(value), value)


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    path: tuple[str, ...]
    operator: str
    literals: tuple[Literal, ...]
    attribute: Attribute = field(compare=False, repr=False)
    test: Test = field(compare=False, repr=False)
    loose: Test = field(compare=False, repr=False)
    """For `!=`, the loose test for equality."""

    def __str__(self) -> str:
        path = ".".join(self.path)
        if self.operator == "exists":
            return f"{path} exists"
        values = ", ".join(each.text for each in self.literals)
        return f"{path} in ({values})" if self.operator == "in" else f"{path} {self.operator} {values}"

    def actual(self, subject: Subject) -> Json:
        """Return the subject's value or MISSING. List attributes, such as tags, are empty instead of missing."""
        name, *keys = self.path
        value = subject.values.get(name)
        if self.attribute.kind is Kind.LIST:
            return listed(value)
        # For an attribute, None means that it was omitted; null within a payload is a value that can be compared.
        if value is None:
            return MISSING
        for key in keys:
            if not is_object(value) or key not in value:
                return MISSING
            value = value[key]
        return value

    def holds(self, subject: Subject) -> Truth:
        # A claimed value proves nothing, so it must not lead to an approval.
        return None if self.path[0] in subject.claimed else self._exactly(self.actual(subject))

    def holds_loosely(self, subject: Subject) -> Truth:
        actual = self.actual(subject)
        exactly = self._exactly(actual)
        # Otherwise, sending the parent as a value of a different type would bypass a rule with `exists`.
        if self.operator == "exists" and not exactly and self._is_obstructed(subject):
            return None
        # Loosening `!=` would make the rule match less.
        if exactly or actual is MISSING or self.operator in {"exists", "!="}:
            return exactly
        return any_of((exactly, self.loose(actual)))

    def holds_tightly(self, subject: Subject) -> Truth:
        actual = self.actual(subject)
        exactly = self._exactly(actual)
        if self.operator != "!=" or actual is MISSING:
            return exactly
        return all_of((exactly, inverse(self.loose(actual))))

    def _is_obstructed(self, subject: Subject) -> bool:
        """Return whether the path leads through a value that is not an object."""
        name, *keys = self.path
        value = subject.values.get(name)
        for key in keys:
            if not is_object(value):
                return value is not None
            value = value.get(key)
        return False

    def _exactly(self, actual: Json) -> Truth:
        if self.operator == "exists":
            return bool(actual) if self.attribute.kind is Kind.LIST else actual is not MISSING
        return None if actual is MISSING else self.test(actual)

    def predicates(self) -> Iterator["Predicate"]:
        yield self


@dataclass(frozen=True, slots=True)
class Not(Expression):
    operand: Expression

    def __str__(self) -> str:
        return f"NOT ({self.operand})" if isinstance(self.operand, And | Or) else f"NOT {self.operand}"

    def holds(self, subject: Subject) -> Truth:
        return inverse(self.operand.holds(subject))

    def holds_loosely(self, subject: Subject) -> Truth:
        return inverse(self.operand.holds_tightly(subject))

    def holds_tightly(self, subject: Subject) -> Truth:
        return inverse(self.operand.holds_loosely(subject))

    def predicates(self) -> Iterator[Predicate]:
        return self.operand.predicates()


@dataclass(frozen=True, slots=True)
class And(Expression):
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({each})" if isinstance(each, Or) else str(each) for each in self.operands)

    def holds(self, subject: Subject) -> Truth:
        return all_of(each.holds(subject) for each in self.operands)

    def holds_loosely(self, subject: Subject) -> Truth:
        return all_of(each.holds_loosely(subject) for each in self.operands)

    def holds_tightly(self, subject: Subject) -> Truth:
        return all_of(each.holds_tightly(subject) for each in self.operands)

    def predicates(self) -> Iterator[Predicate]:
        for each in self.operands:
            yield from each.predicates()


@dataclass(frozen=True, slots=True)
class Or(Expression):
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " OR ".join(map(str, self.operands))

    def holds(self, subject: Subject) -> Truth:
        return any_of(each.holds(subject) for each in self.operands)

    def holds_loosely(self, subject: Subject) -> Truth:
        return any_of(each.holds_loosely(subject) for each in self.operands)

    def holds_tightly(self, subject: Subject) -> Truth:
        return any_of(each.holds_tightly(subject) for each in self.operands)

    def predicates(self) -> Iterator[Predicate]:
        for each in self.operands:
            yield from each.predicates()


def listed(value: Json) -> Json:
    """Return the value of a list attribute as a list. None is empty, and a string is a list with one element."""
    return [] if value is None else [value] if isinstance(value, str) else value


def inverse(truth: Truth) -> Truth:
    return None if truth is None else not truth


def any_of(truths: Iterable[Truth]) -> Truth:
    answer: Truth = False
    for truth in truths:
        if truth:
            return True
        if truth is None:
            answer = None
    return answer


def all_of(truths: Iterable[Truth]) -> Truth:
    answer: Truth = True
    for truth in truths:
        if truth is False:
            return False
        if truth is None:
            answer = None
    return answer


def predicate(path: tuple[str, ...], name: str, values: tuple[Value, ...], attribute: Attribute) -> Predicate:
    """Build a predicate. The caller has checked that it fits the attribute."""
    literals = tuple(map(Literal.of, values))
    test, loose = _test(_TESTS, name, values, attribute), _test(_LOOSE_TESTS, name, values, attribute)
    return Predicate(path, name, literals, attribute, test, loose)


def _test(builders: "Builders", name: str, values: tuple[Value, ...], attribute: Attribute) -> Test:
    tests = [builders[name](value, attribute) for value in values]
    return tests[0] if len(tests) == 1 else lambda actual: any_of(test(actual) for test in tests)


def _equality(value: Value, attribute: Attribute) -> Test:
    if attribute.kind is Kind.LIST:
        return lambda actual: _contains(actual, value)
    return lambda actual: _equals(actual, value)


def _inequality(value: Value, attribute: Attribute) -> Test:
    equal = _equality(value, attribute)
    return lambda actual: inverse(equal(actual))


def _containment(value: Value, _: Attribute) -> Test:
    return lambda actual: _contains(actual, value)


def _equals(actual: Json, value: Value) -> Truth:
    if value is None:
        return actual is None
    return bool(actual == value) if _alike(actual, value) else None


def _contains(actual: Json, value: Value) -> Truth:
    if is_array(actual):
        return any_of(_equals(each, value) for each in actual)
    return value in actual if isinstance(actual, str) and isinstance(value, str) else None


def _order(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Attribute], Test]:
    def build(value: Value, attribute: Attribute) -> Test:
        choices = attribute.choices
        if attribute.ranked:
            rank = choices.index(str(value))
            return lambda actual: compare(choices.index(actual), rank) if actual in choices else None
        return lambda actual: compare(actual, value) if _alike(actual, value) else None

    return build


def _beginning(value: Value, _: Attribute) -> Test:
    text = str(value)
    return lambda actual: actual.startswith(text) if isinstance(actual, str) else None


def _ending(value: Value, _: Attribute) -> Test:
    text = str(value)
    return lambda actual: actual.endswith(text) if isinstance(actual, str) else None


def _matching(value: Value, _: Attribute) -> Test:
    glob = Glob.of(str(value))

    def one(actual: Json) -> Truth:
        return glob.matches(actual) if isinstance(actual, str) else None

    return lambda actual: any_of(map(one, actual)) if is_array(actual) else one(actual)


def _alike(actual: Json, value: Value) -> bool:
    """Return whether both are numbers, strings or booleans. Python would compare true with 1."""
    if isinstance(actual, bool) or isinstance(value, bool):
        return isinstance(actual, bool) and isinstance(value, bool)
    if isinstance(actual, str) or isinstance(value, str):
        return isinstance(actual, str) and isinstance(value, str)
    if isinstance(actual, float) and not math.isfinite(actual):
        return False
    return isinstance(actual, int | float) and isinstance(value, int | float)


Builders: TypeAlias = Mapping[str, Callable[[Value, Attribute], Test]]
_TESTS: Builders = {
    "=": _equality,
    "in": _equality,
    "!=": _inequality,
    "<": _order(operator.lt),
    "<=": _order(operator.le),
    ">": _order(operator.gt),
    ">=": _order(operator.ge),
    "contains": _containment,
    "startswith": _beginning,
    "endswith": _ending,
    "matches": _matching,
}


def _loosely(compare: Callable[[str, str], bool], *, without_blanks: bool = True) -> Callable[[Value, Attribute], Test]:
    """Compare text in every spelling. For a list, compare each element, and all elements joined by spaces.

    If text has too many readings to try, compare it without spaces, which covers all readings.
    """

    def build(value: Value, attribute: Attribute) -> Test:
        if not isinstance(value, str):
            return _nothing_known
        wanted, run_together = [each for (each,) in spellings((value,))], solid(value)

        def one(text: str) -> bool:
            if any(compare(reading, each) for reading in readings(text) for each in wanted):
                return True
            return (
                without_blanks
                and is_uncertain(text)
                and any(compare(each, part) for each in solid(text) for part in run_together)
            )

        return _per_member(one) if attribute.kind is Kind.LIST else _per_element(one)

    return build


def _loose_containment(value: Value, attribute: Attribute) -> Test:
    """Compare tags and experts in full, but search within the strings and list elements of a payload."""
    compare = operator.eq if attribute.kind is Kind.LIST else operator.contains
    return _loosely(compare)(value, attribute)


def _loose_matching(value: Value, attribute: Attribute) -> Test:
    one = Glob.of(str(value)).matches_loosely
    return _per_member(one) if attribute.kind is Kind.LIST else _per_element(one)


def _loose_order(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Attribute], Test]:
    def build(value: Value, attribute: Attribute) -> Test:
        # Removing spaces would change how text sorts, so the result for uncertain text stays unknown.
        return _nothing_known if attribute.ranked else _loosely(compare, without_blanks=False)(value, attribute)

    return build


def _per_member(one: Callable[[str], bool]) -> Test:
    return lambda actual: any_of(_read(one, each) if isinstance(each, str) else None for each in actual)


def _read(one: Callable[[str], bool], text: str) -> Truth:
    return one(text) or (None if is_uncertain(text) else False)


def _per_element(one: Callable[[str], bool]) -> Test:
    def test(actual: Json) -> Truth:
        if isinstance(actual, str):
            return _read(one, actual)
        if not is_array(actual) or not actual:
            return None
        # Joined by spaces, ["rm", "-rf", "/"] is the command that a rule is written for.
        in_a_row = list(_texts(actual))
        if len(in_a_row) > MAX_ELEMENTS:
            return None
        return any_of((_read(one, " ".join(in_a_row)), *map(test, actual)))

    return test


def _texts(values: Sequence[Json]) -> Iterator[str]:
    for each in values:
        if isinstance(each, str):
            yield each
        elif is_array(each):
            yield from _texts(each)


def _nothing_known(actual: Json) -> Truth:
    """Return false for a number, boolean or null, which has only one spelling, and unknown for an empty list."""
    return None if is_array(actual) and not actual else False


_LOOSE_TESTS: Builders = {
    "=": _loosely(operator.eq),
    "in": _loosely(operator.eq),
    "!=": _loosely(operator.eq),
    "<": _loose_order(operator.lt),
    "<=": _loose_order(operator.le),
    ">": _loose_order(operator.gt),
    ">=": _loose_order(operator.ge),
    "contains": _loose_containment,
    "startswith": _loosely(str.startswith),
    "endswith": _loosely(str.endswith),
    "matches": _loose_matching,
}


def _written(value: Value) -> str:
    if isinstance(value, str):
        # Use the quotation mark that has to be doubled less often.
        quote = '"' if value.count("'") > value.count('"') else "'"
        return quote + value.replace(quote, quote * 2) + quote
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
