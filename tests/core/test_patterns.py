"""The pattern language: the meaning of valid patterns, and the errors for invalid ones."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.expressions import MISSING, Attribute, Kind, Subject
from assent.core.patterns.grammar import MAX_DEPTH, MAX_LENGTH
from assent.core.patterns.pattern import BREAKPOINT_ATTRIBUTES, Finding, explain, match, parse
from tests.core.pattern_language import (
    GLOBS,
    UNKNOWN,
    Node,
    Style,
    glob_reference,
    meaning,
    predicates,
    styles,
    subjects,
    trees,
    written,
)


def subject(gate: str = "gate.x", **values: Any) -> Subject:
    return Subject(gate, values)


@pytest.mark.parametrize(
    ("text", "gate", "values", "expected"),
    [
        ("confirm.*", "confirm.star-repo", {}, True),
        ("confirm.*", "confirmation.x", {}, False),
        ("*.review", "ux.review", {}, True),
        ("*.review", "ux.reviews", {}, False),
        ("gate.deploy-production", "gate.deploy-production", {}, True),
        ("gate.deploy-production", "gate.deploy-production-2", {}, False),
        ("*.review(tags contains 'design')", "ux.review", {"tags": ["ui", "design"]}, True),
        ("*.review(tags contains 'design')", "ux.review", {"tags": ["designs"]}, False),
        ("gate.*(tags contains 'prerequisites' AND expert = 'owner')", "gate.x",
         {"tags": ["prerequisites"], "expert": "owner"}, True),
        ("gate.*(tags contains 'prerequisites' AND expert = 'owner')", "gate.x",
         {"tags": ["prerequisites"], "expert": ["lead"]}, False),
    ],
)  # fmt: skip
def test_the_patterns_in_the_guide_match_as_documented(
    text: str,
    gate: str,
    values: dict[str, Any],
    expected: bool,  # noqa: FBT001
) -> None:
    assert match(parse(text), Subject(gate, values)) is expected


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        # Missing tags and experts count as empty lists.
        ("tags contains 'a'", {}, False),
        ("NOT tags contains 'a'", {}, True),
        ("tags contains 'a'", {"tags": None}, False),
        ("tags exists", {}, False),
        ("tags exists", {"tags": ["a"]}, True),
        ("NOT expert = 'x'", {}, True),
        ("expert != 'x'", {}, True),
        ("expert != 'x'", {"expert": ["y", "x"]}, False),
        ("expert in ('x', 'y')", {"expert": ["z", "y"]}, True),
        ("expert matches 'team-*'", {"expert": "team-a"}, True),
        ("tags matches 'env:*'", {"tags": ["x", "env:prod"]}, True),
        # Any other missing value is unknown, even under NOT.
        ("agentId = 'a'", {}, None),
        ("NOT agentId = 'a'", {}, None),
        ("agentId != 'a'", {}, None),
        ("payload.amount < 100", {"payload": {}}, None),
        ("payload.a.b = 1", {"payload": {"a": 3}}, None),
        ("payload.a.b = 1", {"payload": {"a": {"b": 1}}}, True),
        ("payload.a.0 = 1", {"payload": {"a": [1]}}, None),
        ("payload.a.0 = 1", {"payload": {"a": {"0": 1}}}, True),
        ("payload.a exists", {"payload": {}}, False),
        ("NOT payload.a exists", {"payload": {}}, True),
        ("payload.a exists", {"payload": {"a": None}}, True),
        ("runId exists", {"runId": None}, False),
        # A value of a different type is also unknown.
        ("payload.a = '1'", {"payload": {"a": 1}}, None),
        ("payload.a = 1", {"payload": {"a": True}}, None),
        ("payload.a = true", {"payload": {"a": 1}}, None),
        ("payload.a = true", {"payload": {"a": True}}, True),
        ("payload.a != false", {"payload": {"a": True}}, True),
        ("payload.a < 'b'", {"payload": {"a": 1}}, None),
        ("payload.a = 'x'", {"payload": {"a": ["x"]}}, None),
        ("payload.a = 'x'", {"payload": {"a": None}}, None),
        ("payload.a startswith 'x'", {"payload": {"a": ["x"]}}, None),
        ("payload.a contains 'x'", {"payload": {"a": {"x": 1}}}, None),
        ("payload.a = 1", {"payload": {"a": float("nan")}}, None),
        ("payload.a > 1", {"payload": {"a": float("inf")}}, None),
        ("payload.a in (1, 'x')", {"payload": {"a": 1}}, True),
        ("payload.a in (1, 'x')", {"payload": {"a": 2}}, None),
        # One matching list element is enough. An element of a different type makes the result unknown.
        ("payload.a contains 'x'", {"payload": {"a": ["y", "x"]}}, True),
        ("payload.a contains 'x'", {"payload": {"a": ["y"]}}, False),
        ("payload.a contains 'x'", {"payload": {"a": []}}, False),
        ("payload.a contains 'x'", {"payload": {"a": [1, "x"]}}, True),
        ("payload.a contains 'x'", {"payload": {"a": [1]}}, None),
        ("payload.a contains 3", {"payload": {"a": [3.0]}}, True),
        ("payload.a matches '*.env'", {"payload": {"a": ["src/x.py", ".env"]}}, True),
        # Unlike a missing value, null can be compared.
        ("payload.a = null", {"payload": {"a": None}}, True),
        ("payload.a = null", {"payload": {"a": 0}}, False),
        ("payload.a != null", {"payload": {"a": 0}}, True),
        ("payload.a = null", {"payload": {}}, None),
        # Numbers are compared exactly, strings by character, and risks by severity.
        ("payload.a = 9007199254740993", {"payload": {"a": 9007199254740992}}, False),
        ("payload.a < 9007199254740993", {"payload": {"a": 9007199254740992.0}}, True),
        ("payload.a = 0.1", {"payload": {"a": 0.1}}, True),
        ("payload.a = 1e2", {"payload": {"a": 100}}, True),
        ("attempt >= -1", {"attempt": 0}, True),
        ("title < 'b'", {"title": "a"}, True),
        ("title = 'A'", {"title": "a"}, False),
        ("title contains 'b.c'", {"title": "a b.c d"}, True),
        ("title contains 'b.c'", {"title": "a bxc d"}, False),
        ("title startswith 'a' AND title endswith 'd'", {"title": "a d"}, True),
        ("risk < 'high'", {"risk": "low"}, True),
        ("risk >= 'medium'", {"risk": "high"}, True),
        ("priority > 'normal'", {"priority": "urgent"}, True),
        # The result is definite if the unknown operand cannot change it.
        ("agentId = 'a' AND tags contains 'x'", {}, False),
        ("agentId = 'a' OR NOT tags contains 'x'", {}, True),
        ("agentId = 'a' AND NOT tags contains 'x'", {}, None),
        # NOT takes precedence over AND, and AND over OR.
        ("NOT tags contains 'a' AND tags contains 'b'", {"tags": ["b"]}, True),
        ("tags contains 'a' OR tags contains 'b' AND tags contains 'c'", {"tags": ["a"]}, True),
        ("(tags contains 'a' OR tags contains 'b') AND tags contains 'c'", {"tags": ["a"]}, False),
        # Quotes are escaped by doubling; whitespace and the case of keywords do not matter.
        ('tags contains "it\'s"', {"tags": ["it's"]}, True),
        ("tags contains 'it''s'", {"tags": ["it's"]}, True),
        ("tags contains 'C:\\'", {"tags": ["C:\\"]}, True),
        ("tags contains ''", {"tags": [""]}, True),
        ("  tags\n\tCONTAINS   'a'  and  Not expert  Exists ", {"tags": ["a"]}, True),
        ("attempt>=1 and NOT(attempt>2)", {"attempt": 2}, True),
        ("payload.in = 1 OR payload.not-here exists", {"payload": {"in": 1}}, True),
    ],
)
def test_expressions_evaluate_to_true_false_or_unknown(
    expression: str,
    values: dict[str, Any],
    expected: bool | None,  # noqa: FBT001  # an expected value
) -> None:
    assert match(parse(f"*({expression})"), subject(**values)) is expected


@pytest.mark.parametrize(
    "text", [" confirm.* ", "\tconfirm.*\n", "confirm.* (tags exists)", "confirm.*\n(\ntags exists\n)"]
)
def test_whitespace_around_the_glob_is_ignored(text: str) -> None:
    assert match(parse(text), subject("confirm.x", tags=["a"])) is True


def test_a_pattern_whose_glob_does_not_match_is_false_despite_unknown_values() -> None:
    assert match(parse("a(agentId = 'x')"), subject("b")) is False


@pytest.mark.parametrize("value", ["a", 1, True, None, {"a": None}])
def test_contains_null_is_unknown_for_a_value_that_is_not_a_list(value: Any) -> None:
    pattern = parse("*(payload.a contains null)")
    assert match(pattern, subject("x", payload={"a": value})) is None
    assert match(pattern, subject("x", payload={"a": [value, None]})) is True


@given(st.sampled_from(GLOBS), trees(predicates()), styles, subjects())
@settings(max_examples=1_000)
def test_patterns_match_like_the_reference_implementation(
    glob: str, tree: Node, style: Style, given_to: Subject
) -> None:
    pattern = parse(f"{glob}({written(tree, style)})")
    expected = {UNKNOWN: None, Fraction(0): False, Fraction(1): True}[meaning(tree, given_to)]
    assert match(pattern, given_to) is (expected if glob_reference(glob, given_to.name) else False)


@given(st.sampled_from(GLOBS), trees(predicates()), styles)
@settings(max_examples=500)
def test_parsing_a_formatted_pattern_restores_it(glob: str, tree: Node, style: Style) -> None:
    text = f"{glob}({written(tree, style)})"
    assume(len(text) <= MAX_LENGTH)
    assume(len(str(parse(text))) <= MAX_LENGTH)
    pattern = parse(text)
    assert parse(str(pattern)) == pattern
    assert str(parse(str(pattern))) == str(pattern)


@given(trees(predicates()), styles, styles)
def test_differently_written_patterns_parse_to_the_same_pattern(tree: Node, one: Style, other: Style) -> None:
    assert parse(f"*({written(tree, one)})") == parse(f"*({written(tree, other)})")


@pytest.mark.parametrize(
    ("one", "other"),
    [("*(payload.a = 1)", "*(payload.a = true)"), ("*(payload.a = 1)", "*(payload.a = '1')"), ("a", "a*")],
)
def test_different_patterns_are_not_equal(one: str, other: str) -> None:
    assert parse(one) != parse(other)


def test_a_pattern_whose_normal_form_is_too_long_keeps_its_original_text() -> None:
    text = "*(" + "OR ".join(["title='a'"] * 160) + ")"
    assert len(text) <= MAX_LENGTH < len(text.replace("=", " = "))
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "column", "found", "words"),
    [
        ("", 1, "", "must start with a glob"),
        ("  ", 3, "", "must start with a glob"),
        ("(tags contains 'a')", 1, "(", "*(tags contains 'a')"),
        ("gate.*(colour = 'z')", 8, "colour", "Attributes: tags, expert, agentId"),
        ("gate.*(agentid = 'z')", 8, "agentid", "Did you mean agentId?"),
        ("gate.*(agent_id = 'z')", 8, "agent_id", "Did you mean agentId?"),
        ("gate.*(tag contains 'z')", 8, "tag", "Did you mean tags?"),
        ("gate.*(experts = 'z')", 8, "experts", "Did you mean expert?"),
        ("gate.*(Tags contains 'z')", 8, "Tags", "Did you mean tags?"),
        ("gate.*(gate = 'z')", 8, "gate", "The glob before the parentheses"),
        ("gate.*(breakpointId = 'z')", 8, "breakpointId", "The glob before the parentheses"),
        ("gate.*(payload = 'z')", 8, "payload", "payload.amount"),
        ("gate.*(tags.x = 'z')", 8, "tags.x", "does not have fields"),
        ("gate.*(tags = 'a')", 13, "=", "Use tags contains 'a'."),
        ("gate.*(tags != 'a')", 13, "!=", "Use NOT tags contains 'a'."),
        ("gate.*(tags in ('a', 'b'))", 13, "in", "Use tags contains 'a' OR tags contains 'b'."),
        ("gate.*(tags startswith 'a')", 13, "startswith", "Use tags matches 'a*'."),
        ("gate.*(expert endswith 'a')", 15, "endswith", "Use expert matches '*a'."),
        ("gate.*(tags < 'a')", 13, "<", "Use contains, matches, exists."),
        ("gate.*(tags contains 3)", 22, "3", "Put it in quotes: '3'."),
        ("gate.*(attempt = '3')", 18, "'3'", "requires a number"),
        ("gate.*(attempt contains 3)", 16, "contains", "Use =, !=,"),
        ("gate.*(title = 3)", 16, "3", "Put it in quotes: '3'."),
        ("gate.*(title = true)", 16, "true", "Put it in quotes: 'true'."),
        ("gate.*(runId = null)", 16, "null", "NOT runId exists"),
        ("gate.*(risk = 'severe')", 15, "'severe'", "Use one of low, medium, high."),
        ("gate.*(strategy = 'qorum')", 19, "'qorum'", "collect-all, quorum."),
        ("gate.*(strategy > 'single')", 17, ">", "Use strategy in"),
        ("gate.*(payload.a < true)", 20, "true", "Use = or !=."),
        ("gate.*(payload.a >= null)", 21, "null", "Use = or !=."),
        ("gate.*(payload.a matches 3)", 26, "3", "Put it in quotes: '3'."),
        ("gate.*(payload.a = 1e999)", 20, "1e999", "too large"),
        ("gate.*(tags contains 'a')junk", 26, "junk", "is not allowed after"),
        ("gate.*(tags contains 'a'))", 26, ")", "is not allowed after"),
        ("gate.*(tags exists)(expert exists)", 20, "(", "is not allowed after"),
        ("gate.*(tags contains 'a)", 22, "'a)", "quote is not closed"),
        ('gate.*(tags contains "a)', 22, '"a)', "quote is not closed"),
        ("gate.*(tags contains 'a''", 22, "'a'", "quote is not closed"),
        ("gate.*(tags contains ’a’)", 22, "’", "this is not a valid quotation mark"),
        ("gate.*(tags contains design)", 22, "design", "Put text in quotes: 'design'."),
        ("gate.*(tags contains)", 21, ")", "a value is missing"),
        ("gate.*(attempt = 3x)", 18, "3x", "not a value"),
        ("gate.*(tags contains 'a'", 25, "", "not closed"),
        ("gate.*(", 8, "", "a predicate is missing"),
        ("gate.*()", 8, ")", "expected a predicate"),
        ("gate.*(tags)", 12, ")", "an operator is missing"),
        ("gate.*(title == 'a')", 14, "==", "Use =."),
        ("gate.*(title <> 'a')", 14, "<>", "Use !=."),
        ("gate.*(title =~ 'a')", 14, "=~", "Use matches."),
        ("gate.*(title like 'a')", 14, "like", "Use matches."),
        ("gate.*(tags has 'a')", 13, "has", "Use contains."),
        ("gate.*(tags contain 'a')", 13, "contain", "Use contains."),
        ("gate.*(title starts_with 'a')", 14, "starts_with", "Use startswith."),
        ("gate.*(title frobs 'a')", 14, "frobs", "Operators: =, !=,"),
        ("gate.*(expert not in ('a'))", 15, "not", "NOT must come before"),
        ("gate.*(expert in 'a')", 18, "'a'", "Write in ('a', 'b')."),
        ("gate.*(expert in ())", 19, ")", "a value is missing"),
        ("gate.*(expert in ('a',))", 23, ")", "a value is missing"),
        ("gate.*(expert in ('a' 'b'))", 23, "'b'", "values with commas"),
        ("gate.*(! tags exists)", 8, "!", "Use NOT."),
        ("gate.*(tags exists && expert exists)", 20, "&&", "Use AND."),
        ("gate.*(tags exists, expert exists)", 19, ",", "Use AND."),
        ("gate.*(tags exists expert exists)", 20, "expert", "AND or OR"),
        ("gate.*(tags exists AND)", 23, ")", "expected a predicate"),
        ("gate.*(AND tags exists)", 12, "tags", "operator"),
        ("gate.* tags contains 'a'", 8, "tags", "Put predicates in parentheses"),
        ("gate.x)", 7, ")", "Use * instead."),
        ("'gate.*'", 1, "'gate.*'", "Write gate.*."),
        ("gate.\x00", 6, "U+0000", "an invisible character"),
        ("gate.\ud800", 6, "U+D800", "an invisible character"),
        ("a" * 2001, 2001, "a", "at most 2,000 characters"),
    ],
)  # fmt: skip
def test_pattern_errors_include_the_position_and_a_hint(text: str, column: int, found: str, words: str) -> None:
    with pytest.raises(PatternError) as refused:
        parse(text)
    details = refused.value.details
    assert (details["line"], details["column"], details["found"]) == (1, column, found)
    assert words in refused.value.message
    assert refused.value.message.startswith(f"Line 1, column {column}: ")


def test_the_position_in_an_error_includes_the_line() -> None:
    with pytest.raises(PatternError) as refused:
        parse("gate.*(\n  tags contains 'a'\n  AND colour = 'z')")
    assert (refused.value.details["line"], refused.value.details["column"]) == (3, 7)


def test_a_pattern_error_is_an_invalid_request() -> None:
    assert issubclass(PatternError, InvalidRequest)
    assert PatternError.code == "invalid_pattern"


def nested(depth: int) -> Iterator[str]:
    yield f"*({'(' * depth}tags exists{')' * depth})"
    yield f"*({'NOT ' * depth}tags exists)"
    yield f"*({'NOT (' * (depth // 2)}{'NOT ' * (depth % 2)}tags exists{')' * (depth // 2)})"
    yield f"*({'tags exists AND (' * depth}expert in ('a', 'b'){')' * depth})"
    yield f"*(tags exists OR {'NOT ' * depth}tags exists AND NOT tags exists)"


@pytest.mark.parametrize("text", list(nested(MAX_DEPTH)), ids=lambda text: str(text[:12]))
def test_a_pattern_of_the_maximum_depth_is_accepted(text: str) -> None:
    pattern = parse(text)
    assert match(pattern, subject(tags=["a"])) is not None
    assert parse(str(pattern)) == pattern
    assert explain(pattern, subject())


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 300])
def test_a_pattern_over_the_maximum_depth_is_rejected(depth: int) -> None:
    for text in nested(depth):
        if len(text) <= MAX_LENGTH:
            with pytest.raises(PatternError, match="nested at most 32 levels deep"):
                parse(text)


def test_sibling_negations_do_not_add_to_the_depth() -> None:
    parse(f"*({' AND '.join(['NOT (NOT tags exists)'] * 70)})")


def test_a_pattern_of_the_maximum_length_is_accepted() -> None:
    assert match(parse("a" * MAX_LENGTH), subject("a" * MAX_LENGTH)) is True


EVENTS = {
    "repo": Attribute(kind=Kind.TEXT),
    "labels": Attribute(kind=Kind.LIST),
    "verified": Attribute(kind=Kind.FLAG),
    "depth": Attribute(kind=Kind.NUMBER),
    "data": Attribute(kind=Kind.OBJECT),
}


def test_patterns_can_use_custom_attributes() -> None:
    pattern = parse(
        "git.*(repo matches 'acme/*' AND verified = true AND depth < 3 AND data.pull.draft != true)", EVENTS
    )
    event = Subject("git.push", {"repo": "acme/x", "verified": True, "depth": 0, "data": {"pull": {"draft": False}}})
    assert match(pattern, event) is True


@pytest.mark.parametrize(
    "text",
    [
        "*(tags contains 'a')",
        "*(verified = 'yes')",
        "*(verified < true)",
        "*(verified contains true)",
        "*(labels = 'a')",
    ],
)
def test_unknown_attributes_and_unsuitable_operators_are_rejected(text: str) -> None:
    with pytest.raises(PatternError):
        parse(text, EVENTS)


def test_an_explanation_shows_the_value_and_result_of_each_part() -> None:
    pattern = parse("gate.*(tags contains 'a' AND NOT (payload.n < 3 OR expert = 'x' OR title contains 'y'))")
    found = explain(pattern, subject("gate.x", tags=["b"], payload={"n": "2"}, expert="x"))
    assert found == [
        Finding("gate.*", "gate.x", held=True),
        Finding("tags contains 'a'", ["b"], held=False),
        Finding("NOT payload.n < 3", "2", held=None),
        Finding("NOT expert = 'x'", ["x"], held=False),
        Finding("NOT title contains 'y'", MISSING, held=None),
    ]
    assert [each.note for each in found] == ["", "", "of a different type", "", "not given"]


@given(trees(predicates(exists=False)), subjects(), st.data())
@settings(max_examples=500)
def test_omitting_a_value_never_makes_an_unknown_result_definite(
    tree: Node, full: Subject, data: st.DataObject
) -> None:
    """Adding the value either does not change the result or makes an unknown result definite."""
    pattern = parse(f"*({written(tree, Style())})")
    names = sorted(name for name in full.values if name not in {"tags", "expert"})
    left_out = data.draw(st.sampled_from(names)) if names else ""
    values = {name: value for name, value in full.values.items() if name != left_out}
    without = match(pattern, Subject(full.name, values))
    assert without is None or without is match(pattern, full)


class Counted(dict[str, Any]):
    """A mapping that counts its lookups."""

    asked = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(name, default)


@given(trees(predicates(), size=20), subjects())
def test_no_predicate_is_evaluated_twice(tree: Node, given_to: Subject) -> None:
    pattern = parse(f"*({written(tree, Style())})")
    values = Counted(given_to.values)
    match(pattern, Subject(given_to.name, values))
    assert pattern.expression is not None
    assert values.asked <= len(list(pattern.expression.predicates()))


def test_breakpoint_attributes_match_the_contract() -> None:
    named = "tags expert agentId runId title risk priority attempt strategy payload"
    attributes: Mapping[str, Attribute] = BREAKPOINT_ATTRIBUTES
    assert list(attributes) == named.split()
