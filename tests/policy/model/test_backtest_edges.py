"""Edge cases of back-tests: names in the report, independent results, and unknown values."""

from dataclasses import replace
from typing import Any

import pytest

from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.core.rulebook import Rule, RuleAction, Rulebook
from assent.policy.backtest import Effect, Outcome, Past, Trial, mentions, without
from tests.policy.model.test_backtest import CONTENT, GONE, past, trial

NOW = 1_800_000_000_000_000
NEVER = Rule(id="rule-9", pattern="a.*", action="never-auto-approve")


def test_outcomes_have_the_names_used_in_the_report() -> None:
    assert [each.value for each in Outcome] == [
        "approved", "rejected", "timedOut", "auto", "expired", "cancelled", "waiting",
    ]  # fmt: skip


def test_by_default_a_past_breakpoint_is_fully_read_and_requires_no_person() -> None:
    assert past() == Past(
        subject=Subject("a.b", {}), unread=frozenset(), gone=frozenset(), purged=False, loud=False, hard_stop=False,
        plain=True,
    )  # fmt: skip


def test_evaluating_a_trial_does_not_change_it() -> None:
    judge = trial("a.*(payload.x = 1)")
    other = Trial(judge.pattern, judge.action, judge.book, judge.now)
    judge.effect(past(unread=CONTENT))
    judge.effect(past(gone=GONE, purged=True))
    assert judge == other


def test_evaluations_do_not_affect_each_other() -> None:
    judge = trial("a.*(title = 'x' AND payload.x = 1)")
    one = past(title="x", payload={"x": 1})
    for _ in range(2):
        assert judge.effect(one) is Effect.ACTS
        assert judge.effect(past(title="x", unread=CONTENT)) is Effect.UNREAD
        assert judge.effect(past(title="y", unread=CONTENT)) is Effect.NONE
        assert judge.effect(past(gone=GONE, purged=True)) is Effect.UNKNOWN


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        ({}, Effect.STOPPED),
        ({"expires_at": NOW + 1}, Effect.STOPPED),
        ({"expires_at": NOW}, Effect.ACTS),
        ({"enabled": False}, Effect.ACTS),
        ({"removed_at": NOW}, Effect.ACTS),
        ({"mode": "shadow"}, Effect.ACTS),
        ({"pattern": "b.*"}, Effect.ACTS),
    ],
    ids=str,
)
def test_only_active_never_rules_stop_approvals(change: dict[str, Any], effect: Effect) -> None:
    book = Rulebook.of([replace(NEVER, **change)])
    judge = Trial(parse("a.*"), RuleAction.AUTO, book, NOW)
    assert judge.effect(past(unread=CONTENT)) is judge.effect(past()) is effect


def test_an_expired_never_rule_does_not_require_reading_content() -> None:
    rule = replace(NEVER, pattern="a.*(payload.x exists)", expires_at=NOW)
    for now, effect in ((NOW - 1, Effect.UNREAD), (NOW, Effect.ACTS)):
        judge = Trial(parse("a.*"), RuleAction.AUTO, Rulebook.of([rule]), now)
        assert judge.effect(past(unread=CONTENT)) is effect


def test_never_rules_require_reading_only_the_attributes_they_use() -> None:
    judge = trial("a.*", "a.*(tags contains 'x')", "a.*(agentId = 'stopped')")
    facts: dict[str, Any] = {"tags": [], "agentId": "ci"}
    assert judge.effect(past(**facts, unread=CONTENT)) is Effect.ACTS
    assert judge.effect(past(agentId="ci", unread=frozenset({"tags"}))) is Effect.UNREAD
    other = trial("a.*", "a.*(tags contains 'x')", "a.*(payload.x = 1)")
    assert other.effect(past(**facts, unread=CONTENT)) is Effect.UNREAD, "one unread attribute is sufficient"


def test_never_rules_ignore_the_attributes_of_other_rules() -> None:
    judge = trial("a.*", "a.*(payload.x exists)", action="never-auto-approve")
    assert judge.effect(past(unread=CONTENT)) is Effect.ACTS
    assert judge.effect(past(unread=CONTENT, loud=True, hard_stop=True, plain=False)) is Effect.ACTS


def test_the_most_certain_effect_takes_precedence() -> None:
    judge = trial("a.*")
    gone: dict[str, Any] = {"gone": GONE, "purged": True}
    assert judge.effect(past(**gone, risk="high", loud=True)) is Effect.STOPPED
    assert judge.effect(past(**gone, loud=True)) is Effect.PURGED
    assert judge.effect(past(loud=True)) is Effect.UNREAD
    assert judge.effect(past("b", **gone, risk="high", loud=True)) is Effect.NONE


def test_partly_unread_and_partly_purged_content_is_read_first() -> None:
    some = past(unread=CONTENT, gone=frozenset({"title"}))
    assert trial("a.*(title = 'x' OR payload.x = 1)").effect(some) is Effect.UNREAD
    assert trial("a.*(title = 'x')").effect(replace(some, unread=frozenset())) is Effect.UNKNOWN


def test_a_pattern_with_unknown_parts_still_mentions_the_same_attributes() -> None:
    asked = parse("a(title = 'x' AND NOT (payload.x = 1 OR tags contains 'y'))")
    for unseen in (CONTENT, GONE, mentions(asked)):
        partial = without(asked, unseen)
        assert mentions(partial) == {"title", "payload", "tags"}
        assert (partial.glob, partial.source) == (asked.glob, asked.source)


def test_attributes_can_be_made_unknown_one_at_a_time() -> None:
    asked = parse("a(title = 'x' AND payload.x = 1)")
    known = Subject("a", {"title": "x", "payload": {"x": 1}})
    bit_by_bit = without(without(asked, CONTENT), frozenset({"title", "payload"}))
    assert match(asked, known) is True
    assert match(bit_by_bit, known) is None
    first = without(asked, frozenset({"title"}))
    assert match(first, Subject("a", {"payload": {"x": 2}})) is False, "the known part can still rule it out"


def test_a_pattern_without_the_unknown_attributes_is_unchanged() -> None:
    for text in ("a", "a(tags contains 'x')"):
        pattern = parse(text)
        assert without(pattern, GONE) is pattern
        assert without(pattern, frozenset()) is pattern
