"""The pattern parser. Its errors include the position of the problem and what to write instead."""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedToken

from assent.core.errors import PatternError
from assent.core.patterns.expressions import And, Attribute, Attributes, Expression, Kind, Not, Or, Value, predicate

MAX_LENGTH = 2_000
MAX_DEPTH = 32
GRAMMAR = r"""
start: GLOB ["(" _disjunction ")"]

_disjunction: disjunction | _conjunction
disjunction: _conjunction (_OR _conjunction)+
_conjunction: conjunction | _operand
conjunction: _operand (_AND _operand)+
_operand: negation | predicate | "(" _disjunction ")"
negation: NOT _operand
predicate: NAME OPERATOR _value
         | NAME IN "(" _value ("," _value)* ")"
         | NAME EXISTS
_value: TEXT | NUMBER | WORD

GLOB: /[^\s()]+/
NAME: /[^\W\d][\w-]*(\.[\w-]+)*/
NOT.2: /not(?![\w.-])/i
_AND: /and(?![\w.-])/i
_OR: /or(?![\w.-])/i
IN: /in(?![\w.-])/i
EXISTS: /exists(?![\w.-])/i
OPERATOR: /(<=|>=|!=|=|<|>)(?![=<>!~])|(contains|startswith|endswith|matches)(?![\w.-])/i
TEXT: /'([^']|'')*'(?!')|"([^"]|"")*"(?!")/
NUMBER: /-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?(?![\w.])/i
WORD: /(true|false|null)(?![\w.-])/i

%ignore /\s+/
"""
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith", "matches", "in", "exists")
_ORDERS = frozenset({"<", "<=", ">", ">="})
_AFFIXES = frozenset({"startswith", "endswith"})
_BY_KIND: Mapping[Kind, Collection[str]] = {
    Kind.TEXT: OPERATORS,
    Kind.NUMBER: {"=", "!=", "in", "exists", *_ORDERS},
    Kind.FLAG: {"=", "!=", "exists"},
    Kind.LIST: {"contains", "matches", "exists"},
    Kind.OBJECT: OPERATORS,
}
_EQUALITY = frozenset({"=", "!=", "in"})
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None}
# PostgreSQL cannot store NUL, UTF-8 cannot encode lone surrogates, and the other characters are invisible.
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PIECE = re.compile(r"""'[^']*'?|"[^"]*"?|[\w.-]+|[^\s\w()'"]+|.""", re.DOTALL)
QUOTES = "'\""
_SHOWN = 60
_SAID = 300
_SAID_OTHERWISE: Mapping[str, str] = {
    "==": "=", "===": "=", "is": "=", "eq": "=", "equals": "=", ":": "=",
    "<>": "!=", "!==": "!=", "=<": "<=", "=>": ">=",
    "~": "matches", "=~": "matches", "!~": "matches", "like": "matches", "ilike": "matches", "glob": "matches",
    "has": "contains", "include": "contains", "includes": "contains", "having": "contains",
    "&&": "AND", "&": "AND", "||": "OR", "|": "OR", "!": "NOT", ",": "AND", "+": "AND",
}  # fmt: skip


def read(text: str, attributes: Attributes) -> tuple[str, Expression | None]:
    """Return the glob and the expression of a pattern, or raise PatternError."""
    if len(text) > MAX_LENGTH:
        raise _refusal(
            text, MAX_LENGTH, f"a pattern can have at most {MAX_LENGTH:,} characters; this one has {len(text):,}"
        )
    unseen = _UNSEEN.search(text)
    if unseen:
        code = f"U+{ord(unseen.group()):04X}"
        raise _refusal(text, unseen.start(), f"{code} is an invisible character", "Remove it.", found=code)
    glob, *expressions = _tree(text).children
    assert isinstance(glob, Token)
    # Quotes would be matched literally, which the author of the pattern does not expect.
    if glob[0] in QUOTES:
        raise _refusal(text, _at(glob), "the glob must not be in quotes", f"Write {glob.strip(QUOTES) or '*'}.")
    reader = _Reader(text, attributes)
    return str(glob), reader.expression(expressions[0]) if expressions else None


def sayable(text: str) -> bool:
    """Return whether a string literal in a pattern can contain this text."""
    return _UNSEEN.search(text) is None


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=False)


def _tree(text: str) -> "Tree[Token]":
    # Parse token by token, so that excessive nesting is rejected before the whole tree is built.
    parsing: Any = cast("Any", _parser()).parse_interactive(text)
    try:
        for position in _too_deep(parsing.iter_parse()):
            raise _refusal(
                text, position, f"a pattern can be nested at most {MAX_DEPTH} levels deep", "Use fewer parentheses."
            )
        return cast("Tree[Token]", parsing.feed_eof())
    except UnexpectedToken as error:
        unexpected: Any = error
        raise _unexpected(text, unexpected.token, unexpected.expected) from None


def _too_deep(tokens: Iterator[Token]) -> Iterator[int]:
    """Yield positions where parentheses and NOTs are nested too deeply, excluding the outermost parentheses."""
    # One element for each open parenthesis: the number of NOTs before its current operand.
    nots = [0]
    before = ""
    for token in tokens:
        if token.type == "LPAR":
            nots.append(-1 if before == "IN" else 0)  # the parentheses of IN do not count as a level
        elif token.type == "RPAR":
            nots.pop()
        elif token.type == "NOT":
            nots[-1] += 1
        elif token.type in {"_AND", "_OR"}:
            nots[-1] = 0
        if len(nots) - 2 + sum(nots) > MAX_DEPTH:
            yield _at(token)
        before = token.type


class _Reader:
    """Converts the parse tree to an expression and rejects predicates that could never match."""

    def __init__(self, text: str, attributes: Attributes) -> None:
        self._text = text
        self._attributes = attributes

    def expression(self, node: "Tree[Token] | Token") -> Expression:
        # The recursion depth is limited, because the nesting was checked during parsing.
        assert isinstance(node, Tree)
        if node.data == "predicate":
            return self._predicate(cast("list[Token]", node.children))
        if node.data == "negation":
            return Not(self.expression(node.children[1]))
        kind = Or if node.data == "disjunction" else And
        operands: list[Expression] = []
        for child in map(self.expression, node.children):
            operands += child.operands if isinstance(child, kind) else [child]
        return kind(tuple(operands))

    def _predicate(self, tokens: Sequence[Token]) -> Expression:
        name, operator, *values = tokens
        path = tuple(name.split("."))
        attribute = self._attribute(name, path)
        verb = operator.lower()
        if verb not in _BY_KIND[attribute.kind] and not (attribute.equality and verb in _EQUALITY):
            what = f"{path[0]} is {_a(attribute.kind)}; it cannot be used with {verb}"
            raise self._refusal(operator, what, _instead(name, verb, values, attribute.kind))
        if verb in _ORDERS and attribute.choices and not attribute.ranked:
            raise self._refusal(operator, f"{name} cannot be ordered", f"Use {name} in (…).")
        return predicate(path, verb, tuple(self._value(verb, each, attribute, name) for each in values), attribute)

    def _attribute(self, name: Token, path: Sequence[str]) -> Attribute:
        found = self._attributes.get(path[0])
        if found is None:
            raise self._refusal(name, f"{_cut(path[0])} is not an attribute", _nearest(path[0], self._attributes))
        if found.kind is Kind.OBJECT and len(path) == 1:
            raise self._refusal(name, f"{name} is not a single value", f"Specify a field, for example {name}.amount.")
        if found.kind is not Kind.OBJECT and len(path) > 1:
            raise self._refusal(name, f"{path[0]} does not have fields", f"Write only {path[0]}.")
        return found

    def _value(self, verb: str, token: Token, attribute: Attribute, name: Token) -> Value:
        value = self._literal(token)
        wanted = _wanted(verb, attribute.kind)
        if wanted is not None and not _is_a(value, wanted):
            raise self._refusal(token, f"{name} {verb} requires {_a(wanted)}", _better(name, token, value, wanted))
        if verb in _ORDERS and (value is None or isinstance(value, bool)):
            raise self._refusal(token, f"{token} cannot be ordered", "Use = or !=.")
        if attribute.choices and verb in _EQUALITY | _ORDERS and value not in attribute.choices:
            raise self._refusal(token, f"{name} cannot be {token}", f"Use one of {', '.join(attribute.choices)}.")
        return value

    def _literal(self, token: Token) -> Value:
        if token.type == "TEXT":
            quote = token[0]
            return token[1:-1].replace(quote * 2, quote)
        if token.type == "WORD":
            return _WORDS[token.lower()]
        # Parsed as in JSON, so that 0.1 equals 0.1 in a payload.
        value = int(token) if token.lstrip("-").isdigit() else float(token)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refusal(token, "this number is too large", "Use a smaller number.")
        return value

    def _refusal(self, token: Token, message: str, hint: str) -> PatternError:
        return _refusal(self._text, _at(token), message, hint, found=str(token))


def _wanted(verb: str, kind: Kind) -> Kind | None:
    """Return the kind of value that the operator requires, or None if it accepts any kind."""
    if kind is Kind.OBJECT:
        return Kind.TEXT if verb in _AFFIXES or verb == "matches" else None
    return Kind.TEXT if kind is Kind.LIST else kind


def _is_a(value: Value, kind: Kind) -> bool:
    if kind is Kind.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str if kind is Kind.TEXT else bool)


def _a(kind: Kind) -> str:
    return {Kind.TEXT: "text", Kind.FLAG: "true or false", Kind.LIST: "a list of strings"}.get(kind, f"a {kind}")


def _better(name: str, token: str, value: Value, wanted: Kind) -> str:
    if value is None:
        return f"To test for a missing value, use NOT {name} exists."
    return f"Put it in quotes: '{token}'." if wanted is Kind.TEXT else f"Compare it with {_a(wanted)}."


def _instead(name: str, verb: str, values: Sequence[Token], kind: Kind) -> str:
    """Return a hint with an equivalent predicate that is valid for this attribute."""
    written = [str(each) for each in values]
    if kind is not Kind.LIST or verb in _ORDERS:
        return f"Use {', '.join(each for each in OPERATORS if each in _BY_KIND[kind])}."
    if verb in _AFFIXES:
        inner = written[0][1:-1]
        return f"Use {name} matches '{inner}*'." if verb == "startswith" else f"Use {name} matches '*{inner}'."
    if verb == "=":
        return f"Use {name} contains {written[0]}."
    if verb == "!=":
        return f"Use NOT {name} contains {written[0]}."
    return f"Use {' OR '.join(f'{name} contains {each}' for each in written)}."


def _nearest(name: str, known: Attributes) -> str:
    if name.lower() in {"gate", "breakpointid", "id", "type"}:
        return "The glob before the parentheses matches it."
    plain = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name[:_SHOWN].lower().replace("_", ""), plain, n=1, cutoff=0.5)
    listed = ", ".join(f"{each}.…" if known[each].kind is Kind.OBJECT else each for each in known)
    return f"Did you mean {plain[found[0]]}?" if found else f"Attributes: {listed}."


def _unexpected(text: str, token: Token, expected: Collection[str]) -> PatternError:
    """Return an error that describes what was expected at the unexpected token."""
    position = len(text) if token.type == "$END" else _at(token)
    found = _piece(text, position)
    place = next((each for each in _EXPLAINED if each in expected), "END")
    # After the first parenthesis, only IN requires another parenthesis.
    if place == "LPAR" and "(" in text[:position]:
        place = "IN"
    return _refusal(text, position, *_EXPLAINED[place](found), found=found)


def _no_glob(_: str) -> tuple[str, str]:
    return "a pattern must start with a glob", "Write * for everything, and predicates after it: *(tags contains 'a')."


def _no_list(_: str) -> tuple[str, str]:
    return "values after in must be in parentheses", "Write in ('a', 'b')."


def _not_the_end(found: str) -> tuple[str, str]:
    message = f"{_cut(found)} is not allowed after the last parenthesis"
    return message, "Join predicates with AND or OR inside the parentheses."


def _no_operator(found: str) -> tuple[str, str]:
    if found.lower() == "not":
        return "NOT must come before the attribute", "Write NOT tags contains 'a'."
    better = _SAID_OTHERWISE.get(found.lower()) or _closest(found)
    if found in {"", ")"}:
        return "an operator is missing", f"Operators: {', '.join(OPERATORS)}."
    return f"{_cut(found)} is not an operator", f"Use {better}." if better else f"Operators: {', '.join(OPERATORS)}."


def _closest(found: str) -> str | None:
    plain = found[:_SHOWN].lower().replace("_", "")
    return next(iter(difflib.get_close_matches(plain, OPERATORS, n=1)), None)


def _no_value(found: str) -> tuple[str, str]:
    if found in {"", ")", ","}:
        return "a value is missing", "Values are 'text', numbers, true, false and null."
    if found[0] in QUOTES:
        return "this quote is not closed", f"Close it with {found[0]}. To include a quote in the text, double it."
    if found[0] in "’‘“”«»`´":
        return "this is not a valid quotation mark", "Use ' or \"."
    return f"{_cut(found)} is not a value", f"Put text in quotes: '{_cut(found)}'."


def _no_predicate(found: str) -> tuple[str, str]:
    if found == "!":
        return "! is not an operator", "Use NOT."
    what = f"expected a predicate instead of {_cut(found)}" if found else "a predicate is missing"
    return what, "A predicate is an attribute, an operator and a value: tags contains 'a'."


def _no_end(found: str) -> tuple[str, str]:
    if not found:
        return "a parenthesis is not closed", "Close it with )."
    if found in _SAID_OTHERWISE:
        return f"{found} is not an operator", f"Use {_SAID_OTHERWISE[found]}."
    return f"{_cut(found)} is unexpected", "Join predicates with AND or OR, and values with commas."


def _no_parenthesis(found: str) -> tuple[str, str]:
    if found == ")":
        return "a glob cannot contain parentheses", "Use * instead."
    return "a glob cannot contain spaces", "Put predicates in parentheses: confirm.*(tags contains 'a')."


_EXPLAINED: Mapping[str, Callable[[str], tuple[str, str]]] = {
    "GLOB": _no_glob,
    "OPERATOR": _no_operator,
    "TEXT": _no_value,
    "NAME": _no_predicate,
    "RPAR": _no_end,
    "LPAR": _no_parenthesis,
    "IN": _no_list,
    "END": _not_the_end,
}


def _refusal(text: str, position: int, message: str, hint: str = "", *, found: str | None = None) -> PatternError:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    said = f"Line {line}, column {column}: {_cut(message, _SAID)}. {_cut(hint, _SAID)}".rstrip()
    shown = _cut(_piece(text, position) if found is None else found)
    return PatternError(said, line=line, column=column, found=shown, hint=_cut(hint, _SAID))


def _piece(text: str, position: int) -> str:
    """Return the word or sequence of symbols at a position."""
    found = _PIECE.match(text, position)
    return found.group() if found else ""


def _at(token: Token) -> int:
    return token.start_pos or 0


def _cut(text: str, length: int = _SHOWN) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
