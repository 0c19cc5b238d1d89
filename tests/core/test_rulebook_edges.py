"""Edge cases of the rulebook: individual rules, and lookups among similar globs."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from assent.core.canonical import GENESIS
from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.expressions import Subject
from assent.core.patterns.globs import glob_matches
from assent.core.rulebook import Rule, Rulebook, checked, problem_of

RULE = Rule(id="r", pattern="*", action="auto-approve")


def test_a_rule_is_live_and_enabled_by_default() -> None:
    assert (RULE.note, RULE.source, RULE.created_by, RULE.mode) == (None, "api", "system", "live")
    assert (RULE.enabled, RULE.expires_at, RULE.removed_at) == (True, None, None)
    assert (RULE.order, RULE.created_at, RULE.updated_at, RULE.version) == (0, 0, 0, 0)
    assert (RULE.head, RULE.project) == (GENESIS, "")


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"removed_at": 0}, False),
        ({"expires_at": 6}, True),
        ({"expires_at": 5}, False),
        ({"expires_at": 4}, False),
    ],
)
def test_a_rule_applies_until_it_is_disabled_removed_or_expired(changes: dict[str, Any], holds: bool) -> None:  # noqa: FBT001
    assert replace(RULE, **changes).in_force(5) is holds


def test_patterns_are_truncated_to_200_characters_for_display() -> None:
    assert str(replace(RULE, pattern="a" * 200)) == f"r ({'a' * 200})"
    assert str(replace(RULE, pattern="a" * 201)) == f"r ({'a' * 199}…)"


def test_the_error_in_an_invalid_stored_rule_is_explained() -> None:
    assert problem_of(RULE) is None
    assert problem_of(replace(RULE, action="maybe")) == "/action: must be auto-approve or never-auto-approve"
    assert problem_of(replace(RULE, mode="maybe")) == "/mode: must be live or shadow"
    told = problem_of(replace(RULE, pattern="g(("))
    assert told is not None
    assert told.startswith("Line 1, column")
    with pytest.raises(PatternError):
        checked(replace(RULE, pattern="g(("))
    with pytest.raises(InvalidRequest):
        checked(replace(RULE, action="maybe"))


def test_invalid_rules_are_listed_with_their_effect() -> None:
    bad = [
        replace(RULE, id="r1", pattern="g(("),
        replace(RULE, id="r2", pattern="g((", action="never-auto-approve"),
        replace(RULE, id="r3", action="maybe"),
        RULE,
    ]
    book = Rulebook.of(bad)
    assert [(fault.rule.id, fault.stops) for fault in book.faults] == [("r1", False), ("r2", True), ("r3", True)]
    assert all(fault.problem == problem_of(fault.rule) for fault in book.faults)
    assert [each.rule.id for each in book.fitting("g", 0)] == ["r", "r2", "r3"]


@pytest.mark.parametrize(
    ("action", "mode", "live"),
    [
        ("auto-approve", "live", True),
        ("auto-approve", "shadow", False),
        ("never-auto-approve", "live", True),
        ("never-auto-approve", "shadow", False),
        ("never-auto-approve", "maybe", True),
        ("maybe", "shadow", False),
    ],
)
def test_only_rules_in_shadow_mode_are_not_enforced(action: str, mode: str, live: bool) -> None:  # noqa: FBT001
    (compiled,) = Rulebook.of([replace(RULE, action=action, mode=mode)]).fitting("g", 0)
    assert (compiled.live, compiled.stops) == (live, action != "auto-approve")


def test_an_auto_rule_with_an_unknown_mode_is_not_enforced() -> None:
    assert Rulebook.of([replace(RULE, mode="maybe")]).fitting("g", 0) == []


def test_a_rule_has_the_same_result_as_its_pattern() -> None:
    def holds(pattern: str, **values: object) -> bool | None:
        (compiled,) = Rulebook.of([replace(RULE, pattern=pattern, action="never-auto-approve")]).fitting("g", 0)
        return compiled.holds(Subject("g", values))

    assert holds("g") is True
    assert holds("g(attempt = 1)", attempt=1) is True
    assert holds("g(attempt = 1)", attempt=2) is False
    assert holds("g(attempt = 1)") is None
    assert holds("g((") is None


def test_rules_are_sorted_by_order_then_age_then_id() -> None:
    rules = [
        replace(RULE, id="d", order=2),
        replace(RULE, id="c", order=1, created_at=9),
        replace(RULE, id="b", order=1, created_at=8),
        replace(RULE, id="a", order=1, created_at=9),
    ]
    assert [each.rule.id for each in Rulebook.of(rules).fitting("g", 0)] == ["b", "a", "c", "d"]


LETTERS = ["".join(each) for size in range(1, 4) for each in product("ab", repeat=size)]
SHAPES = ("{}", "{}*", "*{}", "*{}*", "*{}*b*", "a*{}", "*a*{}*")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_index_finds_all_matching_globs_among_similar_ones(shape: str) -> None:
    """Look up every name of up to six letters in a rulebook with all globs of the given shape."""
    rules = [Rule(id=shape.format(each), pattern=shape.format(each), action="auto-approve") for each in LETTERS]
    book = Rulebook.of(rules)
    for name in ("".join(each) for size in range(1, 7) for each in product("ab", repeat=size)):
        found = {each.rule.id for each in book.fitting(name, 0)}
        assert found == {rule.id for rule in rules if glob_matches(rule.pattern, name)}, name


def test_the_index_finds_globs_with_short_literal_parts() -> None:
    book = Rulebook.of([replace(RULE, id=each, pattern=each) for each in ("*ab*", "*cd*", "*abcd*", "*wxyz*", "*")])
    assert [each.rule.id for each in book.fitting("xaby", 0)] == ["*", "*ab*"]
    assert [each.rule.id for each in book.fitting("xabcdy", 0)] == ["*", "*ab*", "*abcd*", "*cd*"]
    assert [each.rule.id for each in book.fitting("wxyz", 0)] == ["*", "*wxyz*"]


def test_the_repr_of_a_rulebook_omits_its_rules() -> None:
    shown = repr(Rulebook.of([RULE], ["critical"]))
    assert "critical" in shown
    assert "Compiled" not in shown
