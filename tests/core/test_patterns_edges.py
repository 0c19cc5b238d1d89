"""Edge cases of the pattern language: normalization, limits, and hints for the syntax of other languages."""

from typing import Any

import pytest

from assent.core.errors import PatternError
from assent.core.patterns.expressions import MISSING, Attribute, Kind, Literal, Subject, all_of, any_of, inverse, listed
from assent.core.patterns.grammar import sayable
from assent.core.patterns.pattern import Finding, explain, match, parse


def refusal(text: str, **attributes: Attribute) -> PatternError:
    with pytest.raises(PatternError) as refused:
        parse(text, attributes) if attributes else parse(text)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        "a.*",
        "*(tags contains 'a')",
        "*(expert = 'a' OR expert != 'b')",
        "*(expert in ('a', 'b'))",
        "*(NOT runId exists)",
        "*(NOT (tags exists AND expert exists))",
        "*(NOT (tags exists OR expert exists))",
        "*(NOT NOT tags exists)",
        "*((tags exists OR expert exists) AND runId exists)",
        "*(tags exists AND expert exists OR runId exists)",
        "*(payload.a.b < 1.5 AND payload.c = true AND payload.d != null AND payload.e = false)",
        "*(title startswith 'a' AND title endswith 'b' AND title matches '*c*')",
        "*(title = \"it's\" OR title = 'say \"no\"' OR title = '''\"')",
        "*(attempt >= -1 AND attempt <= 2 AND attempt > 0)",
    ],
)
def test_a_pattern_in_normal_form_is_unchanged(text: str) -> None:
    assert str(parse(text)) == text


def test_nested_operators_of_the_same_kind_are_merged() -> None:
    assert str(parse("*((tags exists AND expert exists) AND (runId exists))")) == (
        "*(tags exists AND expert exists AND runId exists)"
    )
    assert str(parse("*(tags exists or (expert exists or runId exists))")) == (
        "*(tags exists OR expert exists OR runId exists)"
    )


@pytest.mark.parametrize(
    ("word", "better"),
    [
        ("==", "="), ("===", "="), ("is", "="), ("eq", "="), ("equals", "="), (":", "="), ("<>", "!="), ("!==", "!="),
        ("=<", "<="), ("=>", ">="), ("~", "matches"), ("=~", "matches"), ("!~", "matches"), ("like", "matches"),
        ("ilike", "matches"), ("glob", "matches"), ("has", "contains"), ("include", "contains"),
        ("includes", "contains"), ("having", "contains"), ("LIKE", "matches"), ("Startwith", "startswith"),
    ],
)  # fmt: skip
def test_operators_from_other_languages_produce_a_hint(word: str, better: str) -> None:
    error = refusal(f"g(title {word} 'a')")
    assert error.details["hint"] == f"Use {better}."
    assert (error.details["found"], error.details["column"]) == (word, 9)


@pytest.mark.parametrize(
    ("word", "better"), [("&&", "AND"), ("&", "AND"), ("||", "OR"), ("|", "OR"), (",", "AND"), ("+", "AND")]
)
def test_conjunctions_from_other_languages_produce_a_hint(word: str, better: str) -> None:
    assert refusal(f"g(tags exists {word} expert exists)").details["hint"] == f"Use {better}."


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("g(tags exists ! expert exists)", 15, "Use NOT."),
        ("g(title not 'a')", 9, "Write NOT tags contains 'a'."),
        ("g(title = `a`)", 11, "Use ' or \"."),
        ("g(title = ‘a’)", 11, "Use ' or \"."),
        ("g(title = “a”)", 11, "Use ' or \"."),
        ("g(title = «a»)", 11, "Use ' or \"."),
        ("g(title = ´a´)", 11, "Use ' or \"."),
        ("g(title = “-a”)", 11, "Use ' or \"."),
        ("g(title = ,)", 11, "Values are 'text', numbers, true, false and null."),
        ("g(title = 'a)", 11, "Close it with '. To include a quote in the text, double it."),
        ('g(title = "a)', 11, 'Close it with ". To include a quote in the text, double it.'),
        ("g(title =)", 10, "Values are 'text', numbers, true, false and null."),
        ("g(title", 8, "Operators: =, !=, <, <=, >, >=, contains, startswith, endswith, matches, in, exists."),
        ("g(attempt matches 'a')", 11, "Use =, !=, <, <=, >, >=, in, exists."),
        ("g(payload.a startswith 1)", 24, "Put it in quotes: '1'."),
        ("g(payload.a endswith true)", 22, "Put it in quotes: 'true'."),
        ("g(attempt = true)", 13, "Compare it with a number."),
        ("g(attempt = null)", 13, "To test for a missing value, use NOT attempt exists."),
        ("g(id = 'a')", 3, "The glob before the parentheses matches it."),
        ("g(TYPE = 'a')", 3, "The glob before the parentheses matches it."),
        ("g(payload = 'a')", 3, "Specify a field, for example payload.amount."),
        ("g(title.a = 'a')", 3, "Write only title."),
        ("g(strategy <= 'single')", 12, "Use strategy in (…)."),
        ("g(risk in ('low', 'none'))", 19, "Use one of low, medium, high."),
        ("g(risk > 'none')", 10, "Use one of low, medium, high."),
        ("g(payload.a < true)", 15, "Use = or !=."),
        ("g(payload.a > null)", 15, "Use = or !=."),
        ("g(tags.a = 'x')", 3, "Write only tags."),
        ("g(payload.a = -1e999)", 15, "Use a smaller number."),
        ('"g"', 1, "Write g."),
        ("''", 1, "Write *."),
        ("g\x7f", 2, "Remove it."),
        ("g(tags exists) x", 16, "Join predicates with AND or OR inside the parentheses."),
    ],
)  # fmt: skip
def test_every_syntax_error_includes_the_column_and_a_hint(text: str, column: int, hint: str) -> None:
    error = refusal(text)
    assert (error.details["column"], error.details["hint"]) == (column, hint)
    assert error.message.endswith(hint)


def test_the_hint_for_an_unknown_attribute_suggests_the_closest_or_lists_all() -> None:
    assert refusal("g(prioritty = 'low')").details["hint"] == "Did you mean priority?"
    assert "tags does not have fields." in refusal("g(tags.of = 'low')").message
    assert "attempt = requires a number." in refusal("g(attempt = 'low')").message
    assert "colour is not an attribute." in refusal("g(colour.of = 'low')").message
    assert refusal("g(zzz = 'a')").details["hint"] == (
        "Attributes: tags, expert, agentId, runId, title, risk, priority, attempt, strategy, payload.…."
    )


def test_errors_about_custom_attributes_include_their_types() -> None:
    flag, number = Attribute(kind=Kind.FLAG), Attribute(kind=Kind.NUMBER)
    assert "sure is true or false; it cannot be used with <" in refusal("g(sure < true)", sure=flag).message
    assert refusal("g(sure < true)", sure=flag).details["hint"] == "Use =, !=, exists."
    assert refusal("g(sure = 1)", sure=flag).details["hint"] == "Compare it with true or false."
    assert "size is a number; it cannot be used with contains" in refusal("g(size contains 1)", size=number).message
    assert match(parse("g(sure = true)", {"sure": flag}), Subject("g", {"sure": True})) is True
    assert match(parse("g(sure != true)", {"sure": flag}), Subject("g", {"sure": True})) is False


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("\n(", 2, 1),
        ("g(\ntags = 'a')", 2, 6),
        ("g(tags exists\n\nAND x = 1)", 3, 5),
        ("\n\n", 3, 1),
        ("g(tags exists)\nx", 2, 1),
    ],
)
def test_lines_and_columns_in_errors_start_at_one(text: str, line: int, column: int) -> None:
    error = refusal(text)
    assert (error.details["line"], error.details["column"]) == (line, column)
    assert error.message.startswith(f"Line {line}, column {column}: ")


def test_long_texts_are_truncated_in_errors() -> None:
    word = "z" * 100
    error = refusal(f"g({word} = 1)")
    assert error.details["found"] == "z" * 59 + "…"
    assert "z" * 59 + "… is not an attribute." in error.message
    assert refusal(f"g({'z' * 60} = 1)").details["found"] == "z" * 60
    hint = refusal(f"g(tags = '{'z' * 400}')").details["hint"]
    assert isinstance(hint, str)
    assert (len(hint), hint[-1]) == (300, "…")


def test_the_error_for_a_long_pattern_points_to_the_first_excess_character() -> None:
    error = refusal("a" * 2100)
    assert error.message == "Line 1, column 2001: a pattern can have at most 2,000 characters; this one has 2,100."
    assert error.details["hint"] == ""
    assert error.details["column"] == 2001


@pytest.mark.parametrize(
    "text",
    ["\x00", "a\x08", "\x0b", "\x0c", "\x0e", "\x1f", "\x7f", "\udfff", "\ue000", "\t", "\n", "\r", " "],
)
def test_invisible_characters_are_rejected_in_patterns(text: str) -> None:
    assert sayable(text) is (text in "\t\n\r \ue000")
    if text not in "\t\n\r \ue000":
        assert "an invisible character" in refusal(f"g(title = '{text}')").message


@pytest.mark.parametrize("depth", [32, 33])
def test_patterns_nested_deeper_than_32_levels_are_rejected(depth: int) -> None:
    for text in (
        f"*({'(' * depth}tags exists{')' * depth})",
        f"*({'NOT ' * depth}tags exists)",
        f"*(tags exists AND {'NOT ' * depth}tags exists)",
        f"*({'(' * (depth - 1)}NOT expert in ('a'){')' * (depth - 1)})",
    ):
        if depth > 32:
            assert "nested at most 32 levels deep" in refusal(text).message
        else:
            parse(text)


def test_the_note_on_an_unknown_part_distinguishes_missing_from_mistyped_values() -> None:
    assert Finding("a", MISSING, None).note == "not given"
    assert Finding("a", 5, None).note == "of a different type"
    assert Finding("a", None, None).note == "of a different type"
    assert Finding("a", 5, held=True).note == Finding("a", MISSING, held=False).note == ""
    assert repr(MISSING) == "MISSING"


def test_an_explanation_includes_parts_that_do_not_affect_the_result() -> None:
    pattern = parse("g*(NOT tags contains 'a' OR (attempt > 1 AND NOT NOT risk exists))")
    assert explain(pattern, Subject("h", {"tags": ["a"], "attempt": 2})) == [
        Finding("g*", "h", held=False),
        Finding("NOT tags contains 'a'", ["a"], held=False),
        Finding("attempt > 1", 2, held=True),
        Finding("risk exists", MISSING, held=False),
    ]
    assert explain(parse("g"), Subject("g", {})) == [Finding("g", "g", held=True)]


@pytest.mark.parametrize(
    ("truths", "both", "either"),
    [
        ((), True, False),
        ((True, None), None, True),
        ((False, None), False, None),
        ((None, False), False, None),
        ((None, True), None, True),
        ((True, True), True, True),
        ((False, False), False, False),
        ((True, False), False, True),
    ],
)
def test_and_and_or_are_definite_only_if_unknown_values_cannot_change_the_result(
    truths: tuple[bool | None, ...],
    both: bool | None,  # noqa: FBT001
    either: bool | None,  # noqa: FBT001
) -> None:
    assert (all_of(truths), any_of(truths)) == (both, either)
    assert (inverse(both), inverse(either)) == (
        None if both is None else not both,
        None if either is None else not either,
    )


def test_missing_lists_are_empty_and_single_values_become_lists() -> None:
    assert (listed(None), listed("a"), listed(["a", "b"]), listed(("a",))) == ([], ["a"], ["a", "b"], ("a",))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"), ("it's", '"it\'s"'), ('say "a"', "'say \"a\"'"), ("'\"", "'''\"'"), ("''\"", '"\'\'"""'),
        (True, "true"), (False, "false"), (None, "null"), (1, "1"), (-1.5, "-1.5"),
    ],
)  # fmt: skip
def test_parsing_a_formatted_literal_restores_the_value(value: Any, text: str) -> None:
    assert Literal.of(value).text == text
    if not isinstance(value, str) or sayable(value):
        assert match(parse(f"*(payload.a = {text})"), Subject("g", {"payload": {"a": value}})) is True


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("< 2", 1, True), ("< 2", 2, False), ("<= 2", 2, True), ("<= 2", 3, False), ("> 2", 3, True), ("> 2", 2, False),
        (">= 2", 2, True), (">= 2", 1, False), ("= 2", 2.0, True), ("!= 2", 3, True), ("!= 2", "2", None),
        ("< 'b'", "a", True), ("< 'b'", "b", False), ("startswith 'ab'", "abc", True), ("startswith 'b'", "abc", False),
        ("endswith 'bc'", "abc", True), ("endswith 'b'", "abc", False), ("matches 'a*c'", "abc", True),
        ("matches 'a*'", "bc", False), ("matches 'a*'", ["bc", "ab"], True), ("matches 'a*'", [1], None),
        ("matches 'a*'", [], False), ("matches 'a*'", 1, None), ("contains 'b'", "abc", True),
        ("contains 1", "a1", None), ("contains null", [None], True), ("contains true", [1], None),
        ("in (1, null)", None, True), ("in (1, 2)", 3, False), ("in ('a', 1)", True, None),
        ("= -1", float("-inf"), None), ("= null", None, True), ("= ''", "", True), ("exists", None, True),
    ],
)  # fmt: skip
def test_every_operator_is_correct_on_both_sides_of_its_boundary(
    expression: str,
    value: Any,
    expected: bool | None,  # noqa: FBT001  # an expected value
) -> None:
    assert match(parse(f"*(payload.a {expression})"), Subject("g", {"payload": {"a": value}})) is expected


def test_risk_and_priority_are_ordered_by_severity() -> None:
    def holds(expression: str, **values: str) -> bool | None:
        return match(parse(f"*({expression})"), Subject("g", values))

    assert [holds("risk >= 'medium'", risk=each) for each in ("low", "medium", "high")] == [False, True, True]
    order = ("low", "normal", "high", "urgent")
    assert [holds("priority < 'high'", priority=each) for each in order] == [True, True, False, False]
    assert holds("risk < 'high'", risk="extreme") is None
    assert [holds(f"strategy = '{each}'", strategy=each) for each in (
        "single", "first-response-wins", "collect-all", "quorum",
    )] == [True] * 4  # fmt: skip


def test_whitespace_around_a_pattern_is_stripped() -> None:
    assert parse("  g  ").source == "g"


def test_the_repr_of_a_pattern_is_readable() -> None:
    shown = repr(parse("*(tags contains 'a')"))
    assert "contains" in shown
    assert "Attribute(" not in shown
    assert "<function" not in shown
