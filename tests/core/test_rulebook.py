"""The rulebook: which rules match a gate, in which order, and how invalid rules are handled."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.expressions import Subject
from assent.core.patterns.globs import glob_matches
from assent.core.rulebook import Rule, Rulebook, checked
from assent.core.rules import Recommendation, recommend

NOW = 1_000


def rule(pattern: str, action: str = "auto-approve", **more: object) -> Rule:
    return Rule(id=f"rule-{pattern}", pattern=pattern, action=action, **more)  # type: ignore[arg-type]


def asked(*rules: Rule, gate: str = "gate.x", **values: object) -> Recommendation:
    return recommend(Rulebook.of(rules), Subject(gate, values), hard_stop=False, after_n=None, consecutive=0, now=NOW)


names = st.text("abc.", min_size=1, max_size=9)
globs = st.text("abc.*", min_size=1, max_size=9)


@given(st.lists(globs, max_size=12), names)
@example(["ab*", "abcd*", "*ab", "*cdab"], "ab")
def test_the_index_finds_exactly_the_matching_rules_in_order(patterns: list[str], name: str) -> None:
    rules = [Rule(id=str(n), pattern=text, action="auto-approve", order=n) for n, text in enumerate(patterns)]
    found = [each.rule.id for each in Rulebook.of(rules).fitting(name, NOW)]
    assert found == [str(n) for n, text in enumerate(patterns) if glob_matches(text, name)]


def test_a_lookup_in_ten_thousand_rules_tries_at_most_a_hundred() -> None:
    globs = [f"*.x{n}*" if n % 10 == 0 else f"team-{n % 500}.job-{n}.*" for n in range(10_000)]
    book = Rulebook.of(Rule(id=f"rule-{n}", pattern=glob, action="auto-approve") for n, glob in enumerate(globs))
    for name in ("team-1.job-1.step", "team-1.job-501.x10.y", "nothing.like-it", "a" * 200):
        tried = list(book.index.candidates(name))
        assert len(tried) <= 100
        assert [each.rule.pattern for each in book.fitting(name, NOW)] == [
            glob for glob in sorted(globs) if glob_matches(glob, name)
        ]


def test_a_rulebook_parses_only_new_patterns() -> None:
    book = Rulebook.of([rule("a.*"), rule("b.*")])
    after = Rulebook.of([rule("b.*"), rule("c.*")], before=book)
    assert after.patterns["b.*"] is book.patterns["b.*"]
    assert set(after.patterns) == {"b.*", "c.*"}


@pytest.mark.parametrize("action", ["auto-approve", "never-auto-approve"])
@pytest.mark.parametrize("idle", [{"enabled": False}, {"expires_at": NOW}, {"expires_at": NOW - 1}])
def test_a_disabled_or_expired_rule_has_no_effect(action: str, idle: dict[str, object]) -> None:
    other = "auto-approve" if action == "never-auto-approve" else "never-auto-approve"
    both = asked(rule("gate.*", action, **idle), rule("*", other))
    assert (both.matched_rule, len(both.trace)) == ("rule-*", 1)
    assert asked(rule("gate.*", action, **idle)).matched is None


def test_a_rule_applies_until_it_expires() -> None:
    assert asked(rule("gate.*", expires_at=NOW + 1)).recommended


BAD = ["", "(tags exists)", "gate.*(", "gate.*(colour = 'x')", "gate.*(tags = 'a')", "a b", "x" * 2001, "gate.*(\x00)"]


@pytest.mark.parametrize("pattern", BAD)
def test_an_invalid_auto_rule_neither_approves_nor_blocks(pattern: str) -> None:
    alone, beside = asked(rule(pattern)), asked(rule(pattern), rule("gate.x"))
    assert (alone.recommended, alone.matched) == (False, None)
    assert (beside.recommended, beside.matched_rule) == (True, "rule-gate.x")
    assert [(each.rule.pattern, each.stops) for each in Rulebook.of([rule(pattern)]).faults] == [(pattern, False)]


@pytest.mark.parametrize("pattern", BAD)
def test_an_invalid_never_rule_still_stops_everything_it_might_match(pattern: str) -> None:
    found = asked(rule(pattern, "never-auto-approve"), rule("gate.x"))
    assert (found.recommended, found.matched_rule) == (False, f"rule-{pattern}")
    assert "its pattern is invalid" in found.reason
    assert Rulebook.of([rule(pattern, "never-auto-approve")]).faults[0].stops


@pytest.mark.parametrize(
    ("pattern", "stops"),
    [("gate.*(", False), ("gate.*(colour = 'x')", False), ("(tags exists)", True), ("a b", True), ("", True)],
)
def test_an_invalid_never_rule_with_a_valid_glob_stops_only_matching_gates(pattern: str, stops: bool) -> None:  # noqa: FBT001
    found = asked(rule(pattern, "never-auto-approve"), rule("other.*"), gate="other.y")
    assert found.recommended is not stops


def test_a_rule_with_an_unknown_action_stops_like_a_never_rule() -> None:
    stopped = asked(rule("gate.*", "block"), rule("gate.x"))
    assert (stopped.recommended, stopped.matched_rule) == (False, "rule-gate.*")
    assert asked(rule("gate.*", "block"), rule("other.y"), gate="other.y").recommended


@pytest.mark.parametrize(("action", "recommended"), [("auto-approve", True), ("never-auto-approve", False)])
def test_a_rule_with_an_unknown_mode_can_stop_but_never_approve(action: str, recommended: bool) -> None:  # noqa: FBT001
    odd = Rule(id="rule-odd", pattern="gate.*", action=action, mode="dry")
    assert asked(odd, rule("gate.x")).recommended is recommended
    assert not asked(odd).recommended


@pytest.mark.parametrize("idle", [{"enabled": False}, {"expires_at": NOW}])
def test_a_disabled_or_expired_invalid_never_rule_stops_nothing(idle: dict[str, object]) -> None:
    assert asked(rule("gate.*(", "never-auto-approve", **idle), rule("gate.x")).recommended


def test_checking_a_valid_rule_returns_its_normalized_pattern() -> None:
    assert str(checked(rule("gate.* (tags contains 'a')"))) == "gate.*(tags contains 'a')"


@pytest.mark.parametrize(
    ("bad", "pointer"), [(rule("gate.*", "block"), "/action"), (rule("gate.*", mode="dry"), "/mode")]
)
def test_a_rule_with_an_unknown_action_or_mode_is_rejected(bad: Rule, pointer: str) -> None:
    with pytest.raises(InvalidRequest, match=pointer):
        checked(bad)


@pytest.mark.parametrize("pattern", BAD)
def test_a_rule_with_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(PatternError):
        checked(rule(pattern))


def test_a_rule_is_shown_with_its_id_and_a_truncated_pattern() -> None:
    assert str(Rule(id="rule-1", pattern="gate.*", action="auto-approve")) == "rule-1 (gate.*)"
    assert len(str(Rule(id="rule-1", pattern="x" * 2000, action="auto-approve"))) < 250
