"""Unread or purged content is unknown: it counts neither as a match nor as its opposite."""

from typing import Any

import pytest
from hypothesis import given

from assent.domain.backtest import Effect, Past, Trial, mentions, without
from assent.domain.expressions import Subject
from assent.domain.patterns import match, parse
from assent.domain.rulebook import Rule, RuleAction, Rulebook
from tests.domain import pattern_language as language

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
    """Return the effects for a breakpoint that is read, one whose content is not read, and one that was purged."""
    return (
        judge.effect(past(**more)),
        judge.effect(past(**more, unread=CONTENT)),
        judge.effect(past(**more, gone=GONE, purged=True)),
    )


def test_a_rule_that_matches_acts_and_of_purged_ones_nobody_knows() -> None:
    assert effects(trial("a.*")) == (Effect.ACTS, Effect.ACTS, Effect.PURGED)
    assert effects(trial("b.*")) == (Effect.NONE, Effect.NONE, Effect.NONE)
    assert effects(trial("a.*", action="never-auto-approve")) == (Effect.ACTS, Effect.ACTS, Effect.ACTS)


def test_what_only_the_content_tells_is_read_and_of_purged_ones_unknown() -> None:
    for pattern in ("a.*(payload.x = 1)", "a.*(NOT payload.x = 1)", "a.*(NOT payload.x exists)"):
        assert effects(trial(pattern))[1:] == (Effect.UNREAD, Effect.UNKNOWN), pattern
        never = trial(pattern, action="never-auto-approve")
        assert effects(never)[1:] == (Effect.UNREAD, Effect.UNSURE), pattern
    assert effects(trial("a.*(NOT title exists)"))[2] is Effect.UNKNOWN
    assert effects(trial("a.*(tags contains 'x' AND payload.x = 1)"))[1:] == (Effect.NONE, Effect.NONE)
    assert effects(trial("a.*(NOT tags contains 'x' OR payload.x = 1)"))[1] is Effect.ACTS


def test_an_unknown_value_in_what_was_read_is_no_approval_and_a_refusal() -> None:
    assert trial("a.*(attempt = 1)").effect(past()) is Effect.UNKNOWN
    assert trial("a.*(attempt = 1)", action="never-auto-approve").effect(past()) is Effect.UNSURE


@pytest.mark.parametrize("more", [{"risk": "high"}, {"tags": ["x"]}, {"agentId": "stopped"}])
def test_what_a_person_is_asked_anyway_is_stopped_read_or_not(more: dict[str, Any]) -> None:
    judge = trial("a.*", "*(agentId = 'stopped')", always_break_on=("x",))
    facts = {"agentId": "ci"} | more
    assert effects(judge, **facts) == (Effect.STOPPED, Effect.STOPPED, Effect.STOPPED)
    assert trial("a.*", action="never-auto-approve").effect(past(**facts)) is Effect.ACTS


def test_a_content_that_may_ask_for_a_person_is_read_unless_it_is_stopped_anyway() -> None:
    assert trial("a.*").effect(past(unread=CONTENT, loud=True)) is Effect.UNREAD
    assert trial("a.*").effect(past(unread=CONTENT, loud=True, risk="high")) is Effect.STOPPED
    assert trial("a.*").effect(past(hard_stop=True)) is Effect.STOPPED
    assert trial("a.*").effect(past(plain=False)) is Effect.STOPPED
    assert trial("a.*", action="never-auto-approve").effect(past(unread=CONTENT, loud=True)) is Effect.ACTS


def test_a_never_rule_that_asks_about_the_content_has_it_read() -> None:
    judge = trial("a.*", "a.b(payload.cost exists)")
    assert effects(judge, payload={}) == (Effect.ACTS, Effect.UNREAD, Effect.PURGED)
    assert judge.effect(past("a.c", unread=CONTENT)) is Effect.ACTS, "it does not match the gate"
    assert effects(trial("a.*", "a.b(payload.cost > 5)"), payload={})[2] is Effect.STOPPED, (
        "a match cannot be ruled out"
    )
    assert effects(trial("a.*", "a.b(("))[:2] == (Effect.STOPPED, Effect.STOPPED), "the pattern is invalid"


def test_the_attributes_a_pattern_asks_about_are_named_once() -> None:
    assert mentions(parse("a.*")) == frozenset()
    asked = parse("*(tags contains 'a' AND (payload.x = 1 OR NOT payload.y.z exists) AND tags matches 'b*')")
    assert mentions(asked) == {"tags", "payload"}


@given(node=language.trees(language.predicates()), subject=language.subjects(), style=language.styles)
def test_what_is_sure_without_an_attribute_is_so_with_it(
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
