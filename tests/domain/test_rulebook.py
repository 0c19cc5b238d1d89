"""The rulebook: which rules match a gate, their order, and the treatment of invalid rules."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assent.domain.errors import InvalidRequest, PatternError
from assent.domain.expressions import Subject
from assent.domain.globs import glob_matches
from assent.domain.rulebook import Rule, Rulebook, checked
from assent.domain.rules import Recommendation, recommend

NOW = 1_000


def rule(pattern: str, action: str = "auto-approve", **more: object) -> Rule:
    return Rule(id=f"rule-{pattern}", pattern=pattern, action=action, **more)  # type: ignore[arg-type]


def asked(*rules: Rule, gate: str = "gate.x", **values: object) -> Recommendation:
    return recommend(Rulebook.of(rules), Subject(gate, values), hard_stop=False, after_n=None, consecutive=0, now=NOW)


names = st.text("abc.", min_size=1, max_size=9)
globs = st.text("abc.*", min_size=1, max_size=9)


@given(st.lists(globs, max_size=12), names)
@example(["ab*", "abcd*", "*ab", "*cdab"], "ab")
def test_the_index_finds_exactly_the_rules_that_fit_in_their_order(patterns: list[str], name: str) -> None:
    rules = [Rule(id=str(n), pattern=text, action="auto-approve", order=n) for n, text in enumerate(patterns)]
    found = [each.rule.id for each in Rulebook.of(rules).fitting(name, NOW)]
    assert found == [str(n) for n, text in enumerate(patterns) if glob_matches(text, name)]


def test_ten_thousand_rules_are_not_tried_one_by_one() -> None:
    globs = [f"*.x{n}*" if n % 10 == 0 else f"team-{n % 500}.job-{n}.*" for n in range(10_000)]
    book = Rulebook.of(Rule(id=f"rule-{n}", pattern=glob, action="auto-approve") for n, glob in enumerate(globs))
    for name in ("team-1.job-1.step", "team-1.job-501.x10.y", "nothing.like-it", "a" * 200):
        tried = list(book.index.candidates(name))
        assert len(tried) <= 100
        assert [each.rule.pattern for each in book.fitting(name, NOW)] == [
            glob for glob in sorted(globs) if glob_matches(glob, name)
        ]


def test_a_book_reads_again_only_what_is_new() -> None:
    book = Rulebook.of([rule("a.*"), rule("b.*")])
    after = Rulebook.of([rule("b.*"), rule("c.*")], before=book)
    assert after.patterns["b.*"] is book.patterns["b.*"]
    assert set(after.patterns) == {"b.*", "c.*"}


@pytest.mark.parametrize("action", ["auto-approve", "never-auto-approve"])
@pytest.mark.parametrize("idle", [{"enabled": False}, {"expires_at": NOW}, {"expires_at": NOW - 1}])
def test_a_rule_that_is_off_or_over_does_nothing(action: str, idle: dict[str, object]) -> None:
    other = "auto-approve" if action == "never-auto-approve" else "never-auto-approve"
    both = asked(rule("gate.*", action, **idle), rule("*", other))
    assert (both.matched_rule, len(both.trace)) == ("rule-*", 1)
    assert asked(rule("gate.*", action, **idle)).matched is None


def test_a_rule_holds_until_the_moment_it_expires() -> None:
    assert asked(rule("gate.*", expires_at=NOW + 1)).recommended


BAD = ["", "(tags exists)", "gate.*(", "gate.*(colour = 'x')", "gate.*(tags = 'a')", "a b", "x" * 2001, "gate.*(\x00)"]


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_auto_rule_never_approves_and_blocks_nobody(pattern: str) -> None:
    alone, beside = asked(rule(pattern)), asked(rule(pattern), rule("gate.x"))
    assert (alone.recommended, alone.matched) == (False, None)
    assert (beside.recommended, beside.matched_rule) == (True, "rule-gate.x")
    assert [(each.rule.pattern, each.stops) for each in Rulebook.of([rule(pattern)]).faults] == [(pattern, False)]


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_never_rule_still_stops_what_it_may_have_meant(pattern: str) -> None:
    found = asked(rule(pattern, "never-auto-approve"), rule("gate.x"))
    assert (found.recommended, found.matched_rule) == (False, f"rule-{pattern}")
    assert "its pattern is invalid" in found.reason
    assert Rulebook.of([rule(pattern, "never-auto-approve")]).faults[0].stops


@pytest.mark.parametrize(
    ("pattern", "stops"),
    [("gate.*(", False), ("gate.*(colour = 'x')", False), ("(tags exists)", True), ("a b", True), ("", True)],
)
def test_a_bad_never_rule_stops_no_more_than_its_glob_where_that_can_be_read(pattern: str, stops: bool) -> None:  # noqa: FBT001
    found = asked(rule(pattern, "never-auto-approve"), rule("other.*"), gate="other.y")
    assert found.recommended is not stops


def test_an_action_nobody_knows_stops_as_a_never_rule_does() -> None:
    stopped = asked(rule("gate.*", "block"), rule("gate.x"))
    assert (stopped.recommended, stopped.matched_rule) == (False, "rule-gate.*")
    assert asked(rule("gate.*", "block"), rule("other.y"), gate="other.y").recommended


@pytest.mark.parametrize(("action", "recommended"), [("auto-approve", True), ("never-auto-approve", False)])
def test_a_mode_nobody_knows_never_approves_and_never_lets_pass(action: str, recommended: bool) -> None:  # noqa: FBT001
    odd = Rule(id="rule-odd", pattern="gate.*", action=action, mode="dry")
    assert asked(odd, rule("gate.x")).recommended is recommended
    assert not asked(odd).recommended


@pytest.mark.parametrize("idle", [{"enabled": False}, {"expires_at": NOW}])
def test_a_bad_never_rule_that_is_off_or_over_stops_nothing(idle: dict[str, object]) -> None:
    assert asked(rule("gate.*(", "never-auto-approve", **idle), rule("gate.x")).recommended


def test_a_good_rule_may_be_written() -> None:
    assert str(checked(rule("gate.* (tags contains 'a')"))) == "gate.*(tags contains 'a')"


@pytest.mark.parametrize(
    ("bad", "pointer"), [(rule("gate.*", "block"), "/action"), (rule("gate.*", mode="dry"), "/mode")]
)
def test_a_rule_of_no_known_kind_may_not_be_written(bad: Rule, pointer: str) -> None:
    with pytest.raises(InvalidRequest, match=pointer):
        checked(bad)


@pytest.mark.parametrize("pattern", BAD)
def test_a_rule_that_cannot_be_read_may_not_be_written(pattern: str) -> None:
    with pytest.raises(PatternError):
        checked(rule(pattern))


def test_a_rule_shows_its_id_and_enough_of_its_pattern() -> None:
    assert str(Rule(id="rule-1", pattern="gate.*", action="auto-approve")) == "rule-1 (gate.*)"
    assert len(str(Rule(id="rule-1", pattern="x" * 2000, action="auto-approve"))) < 250
