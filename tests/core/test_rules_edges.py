"""The exact details of recommendations: reasons, displayed values and proposed patterns."""

from typing import Any

import pytest

from assent.core.draft import draft
from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import STOPS, Recommendation, Source, propose, recommend, subject_of

NEVER, AUTO = "never-auto-approve", "auto-approve"


def ask(*rules: Rule, values: dict[str, Any] | None = None, name: str = "g", **more: Any) -> Recommendation:
    given = {"hard_stop": False, "after_n": None, "consecutive": 0, "now": 0} | more
    return recommend(Rulebook.of(rules, ["critical"]), Subject(name, values or {}), **given)


def rule(pattern: str, action: str = AUTO, **more: Any) -> Rule:
    return Rule(id="r", pattern=pattern, action=action, **more)


@pytest.mark.parametrize(
    ("pattern", "action", "said"),
    [
        ("g", NEVER, "Matched never-auto-approve rule: r (g)."),
        ("g", AUTO, "Matched auto-approve rule: r (g)."),
        (
            "g(risk = 'low' AND attempt > 1)",
            NEVER,
            (
                "Matched never-auto-approve rule: r (g(risk = 'low' AND attempt > 1)); risk = 'low' is unknown (not "
                "given) and attempt > 1 is unknown (of a different type), so a match cannot be ruled out."
            ),
        ),
        (
            "g((",
            NEVER,
            "Matched never-auto-approve rule: r (g((); its pattern is invalid, so it blocks every auto-approval.",
        ),
    ],
)
def test_the_reason_names_the_rule_and_its_unknown_values(pattern: str, action: str, said: str) -> None:
    found = ask(rule(pattern, action), values={"attempt": "x"})
    assert (found.reason, found.matched_rule, found.recommended) == (said, "r", action == AUTO)


def test_the_trace_explains_why_a_rule_did_not_match() -> None:
    found = ask(rule("g(risk = 'low')"), rule("g(attempt = 1)", NEVER), values={"attempt": 2}, after_n=3, consecutive=1)
    assert [(step.source.value, step.said) for step in found.trace] == [
        (NEVER, "Did not match never-auto-approve rule: r (g(attempt = 1))."),
        (AUTO, "Did not match auto-approve rule: r (g(risk = 'low')); risk = 'low' is unknown (not given)."),
        ("autoApproveAfterN", "Approved by people 1 time in a row; autoApproveAfterN is 3."),
        ("prompt", "No rule matches g; 1 of 3 approvals in a row."),
    ]
    assert [step.recommended for step in found.trace] == [None, None, None, False]


def test_a_step_shows_the_value_of_each_part_of_its_rule() -> None:
    never, prompt = ask(rule("g(attempt = 1 OR risk = 'low')", NEVER), values={"attempt": 2, "risk": "high"}).trace[:2]
    assert never.body() == {
        "source": NEVER,
        "reason": "Did not match never-auto-approve rule: r (g(attempt = 1 OR risk = 'low')).",
        "held": False,
        "rule": "r",
        "findings": [
            {"part": "g", "held": True, "actual": "g"},
            {"part": "attempt = 1", "held": False, "actual": 2},
            {"part": "risk = 'low'", "held": False, "actual": "high"},
        ],
    }
    assert prompt.body() == {
        "source": "risk", "reason": "High risk: requires human approval.", "held": True,
    }  # fmt: skip
    assert (never.rule, prompt.rule, prompt.findings()) == (never.compiled and never.compiled.rule, None, [])


def test_a_missing_value_is_omitted_from_the_findings() -> None:
    (step, *_) = ask(rule("g(risk = 'low')", NEVER)).trace
    assert step.body()["findings"][1] == {"part": "risk = 'low'", "held": None}


def test_an_invalid_rule_does_not_have_findings() -> None:
    (step, *_) = ask(rule("g((", NEVER)).trace
    assert step.body()["findings"] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        (["a"] * 20, ["a"] * 20),
        (["a"] * 21, ["a"] * 20 + ["…"]),
        ({"a": 1}, "{…}"),
        ([{"a": 1}, "x" * 201, 5], ["{…}", "x" * 200 + "…", 5]),
        (12345, 12345),
        (None, None),
        (True, True),
    ],
)
def test_long_values_in_findings_are_truncated(value: Any, shown: Any) -> None:
    (step, *_) = ask(rule("g(payload.x = 'never')", NEVER), values={"payload": {"x": value}}).trace
    assert step.body()["findings"][1]["actual"] == shown


def test_auto_rules_cannot_override_the_stopping_sources() -> None:
    assert {
        Source.NEVER, Source.ALWAYS_BREAK_ON, Source.HARD_STOP, Source.RISK, Source.QUESTIONS, Source.PROTECTED,
    } == STOPS  # fmt: skip


@pytest.mark.parametrize(
    ("values", "more", "source"),
    [
        ({"tags": ["critical"]}, {}, "alwaysBreakOn"),
        ({}, {"hard_stop": True}, "hardStop"),
        ({"risk": "high"}, {}, "risk"),
        ({}, {"plain": False}, "questions"),
        ({}, {}, "prompt"),
        ({}, {"after_n": 2, "consecutive": 2}, "autoApproveAfterN"),
    ],
)
def test_the_deciding_source_is_marked_as_held_in_the_trace(
    values: dict[str, Any], more: dict[str, Any], source: str
) -> None:
    last = ask(values=values, **more).trace[-1].body()
    assert (last["source"], last["held"]) == (source, True)


@pytest.mark.parametrize(
    ("action", "values", "expected"),
    [
        (AUTO, {"risk": "low"}, [{"rule": "r", "recommended": True}]),
        (AUTO, {"risk": "low", "tags": ["critical"]}, [{"rule": "r", "recommended": False}]),
        (AUTO, {"risk": "medium"}, []),
        (AUTO, {}, []),
        (NEVER, {"risk": "low"}, [{"rule": "r", "recommended": False}]),
        (NEVER, {"risk": "medium"}, []),
        (NEVER, {}, [{"rule": "r", "recommended": False}]),
    ],
)
def test_a_shadow_rule_records_what_it_would_have_recommended(
    action: str, values: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    found = ask(rule("g(risk = 'low')", action, mode="shadow"), values=values)
    assert [each.body() for each in found.shadow_matches] == expected
    assert (found.recommended, found.matched_rule, found.matched) == (False, None, None)


@pytest.mark.parametrize(
    ("after_n", "consecutive", "reason"),
    [
        (1, 1, "Approved by people 1 time in a row; autoApproveAfterN is 1."),
        (1, 0, "No rule matches g; 0 of 1 approvals in a row."),
        (0, 1, "No rule matches g."),
        (None, 1, "No rule matches g."),
    ],
)
def test_a_threshold_of_one_is_valid_and_zero_is_ignored(after_n: int | None, consecutive: int, reason: str) -> None:
    assert ask(after_n=after_n, consecutive=consecutive).reason == reason


def test_rules_can_approve_unless_an_option_or_form_answers_are_required() -> None:
    assert ask(rule("g")).recommended
    assert not ask(rule("g"), plain=False).recommended


def test_the_subject_for_rules_contains_every_breakpoint_attribute() -> None:
    payload = {"expert": ["ann"], "attempt": 2, "risk": "low", "breakpointId": "g.h", "tags": ["x"]}
    asked = draft({"agentId": "bot", "runId": "r", "title": "T", "priority": "high", "payload": payload})
    assert subject_of(asked) == Subject(
        "g.h",
        {
            "tags": ("x",), "expert": ["ann"], "agentId": "bot", "runId": "r", "title": "T", "risk": "low",
            "priority": "high", "attempt": 2, "strategy": "single", "payload": payload,
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "pattern"),
    [
        ("g", {}, "g"),
        ("g", {"agentId": "bot"}, "g(agentId = 'bot')"),
        (
            "g", {"agentId": "bot", "tags": ["a", "b"]},
            "g(agentId = 'bot' AND tags contains 'a' AND tags contains 'b')",
        ),
        ("g", {"tags": "a"}, "g(tags contains 'a')"),
        ("g", {"agentId": 5, "tags": ["\x00"]}, "g"),
        ("a (b)\x01", {"payload": {"breakpointId": "a (b)"}}, "a**b**(payload.breakpointId = 'a (b)')"),
        ("a b", {"payload": None}, "a*b"),
        ("'g'", {}, "*g'"),
        ("g*", {"payload": {"breakpointId": "g*"}}, "g*(payload.breakpointId = 'g*')"),
        ("g", {"payload": {"breakpointId": "g"}}, "g"),
    ],
)  # fmt: skip
def test_the_narrowest_possible_pattern_is_proposed(name: str, values: dict[str, Any], pattern: str) -> None:
    subject = Subject(name, values)
    assert propose(subject) == pattern
    assert match(parse(pattern), subject)


def test_a_proposed_pattern_can_have_the_maximum_length_but_not_exceed_it() -> None:
    """g(agentId = '…') has 15 characters in addition to the agent's name, and the limit is 2,000 characters."""
    fits, too_long = Subject("g", {"agentId": "a" * 1985}), Subject("g", {"agentId": "a" * 1986})
    assert propose(fits) == f"g(agentId = '{'a' * 1985}')"
    assert len(propose(fits)) == 2000
    assert propose(too_long) == "g"
    assert (
        propose(Subject("g", {"agentId": "a", "tags": ["b", "c" * 3000]})) == "g(agentId = 'a' AND tags contains 'b')"
    )
