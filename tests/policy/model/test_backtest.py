"""Unread or purged content is unknown: it counts neither as a match nor as a mismatch."""

from typing import Any

import pytest
from hypothesis import given

from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.core.rulebook import Rule, RuleAction, Rulebook
from assent.policy.backtest import Effect, Past, Trial, mentions, without
from tests.core import pattern_language as language

CONTENT = frozenset({"payload"})
GONE = frozenset({"payload", "title"})


def trial(pattern: str, *never: str, action: str = "auto-approve", always_break_on: tuple[str, ...] = ()) -> Trial:
    rules = [Rule(id=f"rule-{n}", pattern=each, action="never-auto-approve") for n, each in enumerate(never)]
    return Trial(parse(pattern), RuleAction(action), Rulebook.of(rules, always_break_on), 0)


def past(name: str = "a.b", **more: Any) -> Past:
    facts = {
        each: more.pop(each) for each in ("unread", "gone", "purged", "loud", "hard_stop", "plain") if each in more
    }
    return Past(subject=Subject(name, more), **facts)


def effects(judge: Trial, **more: Any) -> tuple[Effect, Effect, Effect]:
    """Return the effects for a breakpoint with known content, with unread content, and after a purge."""
    return (
        judge.effect(past(**more)),
        judge.effect(past(**more, unread=CONTENT)),
        judge.effect(past(**more, gone=GONE, purged=True)),
    )


def test_a_matching_auto_approve_rule_applies_unless_the_breakpoint_was_purged() -> None:
    assert effects(trial("a.*")) == (Effect.ACTS, Effect.ACTS, Effect.PURGED)
    assert effects(trial("b.*")) == (Effect.NONE, Effect.NONE, Effect.NONE)
    assert effects(trial("a.*", action="never-auto-approve")) == (Effect.ACTS, Effect.ACTS, Effect.ACTS)


def test_patterns_on_content_require_reading_it_and_are_unknown_after_a_purge() -> None:
    for pattern in ("a.*(payload.x = 1)", "a.*(NOT payload.x = 1)", "a.*(NOT payload.x exists)"):
        assert effects(trial(pattern))[1:] == (Effect.UNREAD, Effect.UNKNOWN), pattern
        never = trial(pattern, action="never-auto-approve")
        assert effects(never)[1:] == (Effect.UNREAD, Effect.UNSURE), pattern
    assert effects(trial("a.*(NOT title exists)"))[2] is Effect.UNKNOWN
    assert effects(trial("a.*(tags contains 'x' AND payload.x = 1)"))[1:] == (Effect.NONE, Effect.NONE)
    assert effects(trial("a.*(NOT tags contains 'x' OR payload.x = 1)"))[1] is Effect.ACTS


def test_an_unknown_value_prevents_auto_approval_and_triggers_never_rules() -> None:
    assert trial("a.*(attempt = 1)").effect(past()) is Effect.UNKNOWN
    assert trial("a.*(attempt = 1)", action="never-auto-approve").effect(past()) is Effect.UNSURE


@pytest.mark.parametrize("more", [{"risk": "high"}, {"tags": ["x"]}, {"agentId": "stopped"}])
def test_breakpoints_that_require_a_person_are_stopped_without_reading_content(more: dict[str, Any]) -> None:
    judge = trial("a.*", "*(agentId = 'stopped')", always_break_on=("x",))
    facts = {"agentId": "ci"} | more
    assert effects(judge, **facts) == (Effect.STOPPED, Effect.STOPPED, Effect.STOPPED)
    assert trial("a.*", action="never-auto-approve").effect(past(**facts)) is Effect.ACTS


def test_content_that_may_require_a_human_decision_is_not_read_unnecessarily() -> None:
    assert trial("a.*").effect(past(unread=CONTENT, loud=True)) is Effect.UNREAD
    assert trial("a.*").effect(past(unread=CONTENT, loud=True, risk="high")) is Effect.STOPPED
    assert trial("a.*").effect(past(hard_stop=True)) is Effect.STOPPED
    assert trial("a.*").effect(past(plain=False)) is Effect.STOPPED
    assert trial("a.*", action="never-auto-approve").effect(past(unread=CONTENT, loud=True)) is Effect.ACTS


def test_content_is_read_if_a_never_rule_refers_to_it() -> None:
    judge = trial("a.*", "a.b(payload.cost exists)")
    assert effects(judge, payload={}) == (Effect.ACTS, Effect.UNREAD, Effect.PURGED)
    assert judge.effect(past("a.c", unread=CONTENT)) is Effect.ACTS, "it does not match the gate"
    assert effects(trial("a.*", "a.b(payload.cost > 5)"), payload={})[2] is Effect.STOPPED, (
        "a match cannot be ruled out"
    )
    assert effects(trial("a.*", "a.b(("))[:2] == (Effect.STOPPED, Effect.STOPPED), "the pattern is invalid"


def test_each_attribute_in_a_pattern_is_listed_once() -> None:
    assert mentions(parse("a.*")) == frozenset()
    asked = parse("*(tags contains 'a' AND (payload.x = 1 OR NOT payload.y.z exists) AND tags matches 'b*')")
    assert mentions(asked) == {"tags", "payload"}


@given(node=language.trees(language.predicates()), subject=language.subjects(), style=language.styles)
def test_a_definite_result_does_not_change_when_unknown_attributes_become_known(
    node: language.Node, subject: Subject, style: language.Style
) -> None:
    pattern = parse(f"*({language.written(node, style)})")
    asked = sorted(mentions(pattern))
    assert without(pattern, frozenset({"runId"})) is pattern
    for unseen in (frozenset(asked[:1]), frozenset(asked[1:]), frozenset(asked)):
        empty = Subject(subject.name, {name: value for name, value in subject.values.items() if name not in unseen})
        held = match(without(pattern, unseen), empty)
        assert held is None or held is match(pattern, subject)
    assert match(without(pattern, frozenset(asked)), subject) is None
