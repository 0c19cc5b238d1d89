"""Random patterns as trees and as text, and a slow reference implementation of their meaning."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from hypothesis import strategies as st

from assent.core.patterns.expressions import Subject

Node: TypeAlias = tuple[Any, ...]
UNKNOWN = Fraction(1, 2)
WORDS = ("a", "b", "ab", "A", "it's", 'say "a"', "a)b", "", "ä", "a*", "high")
RANKS = {"risk": ("low", "medium", "high"), "priority": ("low", "normal", "high", "urgent")}
STRATEGIES = ("single", "first-response-wins", "collect-all", "quorum")
GATES = ("a", "a.b", "gate.a", "gate.deploy", "x.review", "confirm.")
GLOBS = ("*", "a", "a.*", "*.review", "gate.*", "*a*", "**", "gate.deploy", "z", "g*e.*p*y")

words = st.sampled_from(WORDS)
numbers = st.sampled_from([0, 1, -1, 2, 3, 0.1, 1.0, 1.5, -0.5, 2**53, 2**53 + 1, float(2**53), 1e22, 10**400])
scalars = words | numbers | st.booleans() | st.none()
texts_order = ["=", "!=", "<", "<=", ">", ">="]


def glob_reference(pattern: str, text: str) -> bool:
    """Match by computing which prefixes of the text each prefix of the pattern matches."""
    reachable = {0}
    for symbol in pattern:
        if symbol == "*":
            reachable = {end for start in reachable for end in range(start, len(text) + 1)}
        else:
            reachable = {start + 1 for start in reachable if text[start : start + 1] == symbol}
    return len(text) in reachable


@st.composite
def predicates(draw: st.DrawFn, *, exists: bool = True, only: tuple[str, ...] | None = None) -> Node:
    """Draw a valid predicate as (path, operator, values)."""
    name = draw(
        st.sampled_from(only or ("tags", "expert", "agentId", "title", "risk", "attempt", "strategy", "payload"))
    )
    path = f"payload.{draw(st.sampled_from(['a', 'b', 'o.a', 'o.o.b', 'not']))}" if name == "payload" else name
    operator, values = draw(ASKED[name])
    if operator == "exists" and not exists:
        operator, values = ("contains", ("a",)) if name in {"tags", "expert", "title"} else draw(PLAIN[name])
    return ("is", path, operator, tuple(values))


def _one(operators: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.sampled_from(operators), values.map(lambda value: (value,)))


def _several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.just("in"), st.lists(values, min_size=1, max_size=3).map(tuple))


_EXISTS = st.just(("exists", ()))
_PARTS = ["contains", "startswith", "endswith", "matches"]
_COMPARED = ["<", "<=", ">", ">="]
_RANKED = _one([*texts_order], st.sampled_from(RANKS["risk"])) | _several(st.sampled_from(RANKS["risk"]))
_ANY = (
    _one(["=", "!=", "contains"], scalars) | _one(_COMPARED, words | numbers) | _one(_PARTS, words) | _several(scalars)
)
PLAIN: dict[str, st.SearchStrategy[tuple[str, tuple[Any, ...]]]] = {
    "tags": _one(["contains", "matches"], words),
    "expert": _one(["contains", "matches", "=", "!="], words) | _several(words),
    "agentId": _one([*texts_order, *_PARTS], words) | _several(words),
    "title": _one([*texts_order, *_PARTS], words) | _several(words),
    "risk": _RANKED,
    "attempt": _one([*texts_order], numbers) | _several(numbers),
    "strategy": _one(["=", "!="], st.sampled_from(STRATEGIES)),
    "payload": _ANY,
}
ASKED = {name: plain | _EXISTS for name, plain in PLAIN.items()}


def trees(leaves: st.SearchStrategy[Node], *, size: int = 6) -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves,
        lambda inner: (
            inner.map(lambda one: ("not", one))
            | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple))
        ),
        max_leaves=size,
    )


def written(node: Node, style: "Style") -> str:
    """Format a tree, with or without redundant parentheses, and with keywords in either case."""
    kind = node[0]
    if kind == "is":
        return _predicate_text(node, style)
    if kind == "not":
        inner = written(node[1], style)
        text = f"{style.word('NOT')} {inner if node[1][0] in {'is', 'not'} else f'({inner})'}"
    else:
        needs = {"and": {"or", "and"}, "or": {"or"}}[kind]
        parts = [f"({written(each, style)})" if each[0] in needs else written(each, style) for each in node[1]]
        text = f" {style.word(kind.upper())} ".join(parts)
    return f"({text})" if style.generous else text


@dataclass(frozen=True)
class Style:
    upper: bool = True
    generous: bool = False
    double: bool = False
    tight: bool = False

    def word(self, word: str) -> str:
        return word.upper() if self.upper else word.lower()


styles = st.builds(Style, st.booleans(), st.booleans(), st.booleans(), st.booleans())


def literal(value: Any, *, double: bool = False) -> str:
    if isinstance(value, str):
        quote = '"' if double else "'"
        return quote + value.replace(quote, quote * 2) + quote
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _predicate_text(node: Node, style: Style) -> str:
    _, path, operator, values = node
    shown = [literal(each, double=style.double) for each in values]
    gap = "" if style.tight and operator in texts_order else " "
    if operator == "exists":
        return f"{path} {style.word('exists')}"
    if operator == "in":
        return f"{path} {style.word('in')}{gap}({', '.join(shown)})"
    return f"{path}{gap}{style.word(operator)}{gap}{shown[0]}"


payloads = st.dictionaries(
    st.sampled_from(["a", "b", "not"]), scalars | st.lists(scalars, max_size=3) | st.just({"a": 1}), max_size=3
) | st.fixed_dictionaries(
    {"o": st.dictionaries(st.sampled_from(["a", "o"]), scalars | st.just({"b": "a"}), max_size=2)}
)


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    values: dict[str, Any] = {
        "tags": draw(st.lists(words, max_size=3) | st.none()),
        "expert": draw(words | st.lists(words, max_size=3) | st.none()),
        "agentId": draw(words | st.none()),
        "title": draw(words | st.none()),
        "risk": draw(st.sampled_from(["low", "medium", "high", None])),
        "attempt": draw(st.sampled_from([None, 0, 1, 2, 3])),
        "strategy": draw(st.sampled_from([*STRATEGIES, None])),
        "payload": draw(payloads),
    }
    given = {name: value for name, value in values.items() if value is not None or draw(st.booleans())}
    return Subject(draw(st.sampled_from(GATES)), given)


def meaning(node: Node, subject: Subject) -> Fraction:
    """Return 0 for false, 1 for true and 1/2 for unknown, so that NOT, AND and OR are 1 - x, minimum and maximum."""
    if node[0] == "not":
        return 1 - meaning(node[1], subject)
    if node[0] in {"and", "or"}:
        return (min if node[0] == "and" else max)(meaning(each, subject) for each in node[1])
    return _asked(node[1], node[2], node[3], subject)


def _asked(path: str, operator: str, values: tuple[Any, ...], subject: Subject) -> Fraction:
    there, value = _found(path, subject)
    if operator == "exists":
        return Fraction(there and value != [] if path in {"tags", "expert"} else there)
    if not there:
        return UNKNOWN
    if operator == "in":
        return max(_asked(path, "=", (each,), subject) for each in values)
    if operator == "!=":
        return 1 - _asked(path, "=", values, subject)
    if path in {"tags", "expert"} or (isinstance(value, list) and operator in {"contains", "matches"}):
        each_way = "matches" if operator == "matches" else "="
        return max((_compared(each_way, each, values[0], path) for each in value), default=Fraction(0))
    return _compared(operator, value, values[0], path)


def _found(path: str, subject: Subject) -> tuple[bool, Any]:
    name, *keys = path.split(".")
    value: Any = subject.values.get(name)
    if name in {"tags", "expert"}:
        return True, [] if value is None else [value] if isinstance(value, str) else list(value)
    if value is None:
        return False, None
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, value


def _compared(operator: str, actual: Any, value: Any, path: str) -> Fraction:
    if value is None and operator == "=":
        return Fraction(actual is None)
    if _sort(actual) != _sort(value) or _sort(value) is None:
        return UNKNOWN
    if operator in {"<", "<=", ">", ">="} and path in RANKS:
        actual, value = RANKS[path].index(actual), RANKS[path].index(value)
    if isinstance(actual, int | float):
        # Fractions represent every JSON number exactly.
        actual, value = Fraction(actual), Fraction(value)
    answers: dict[str, Callable[[], bool]] = {
        "=": lambda: actual == value,
        "<": lambda: actual < value,
        "<=": lambda: actual <= value,
        ">": lambda: actual > value,
        ">=": lambda: actual >= value,
        "contains": lambda: any(actual[n : n + len(value)] == value for n in range(len(actual) + 1)),
        "startswith": lambda: actual[: len(value)] == value,
        "endswith": lambda: actual[len(actual) - len(value) :] == value if len(value) <= len(actual) else False,
        "matches": lambda: glob_reference(value, actual),
    }
    if operator in _PARTS and not isinstance(actual, str):
        return UNKNOWN
    return Fraction(answers[operator]())


def _sort(value: Any) -> str | None:
    for kind, name in ((bool, "flag"), (str, "text"), ((int, float), "number")):
        if isinstance(value, kind):
            return name
    return None
