"""Auto-approval: the precedence of sources, their reasons, and properties that hold for every rulebook."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.core.draft import draft
from assent.core.patterns.expressions import MISSING, Subject
from assent.core.patterns.grammar import MAX_LENGTH
from assent.core.patterns.pattern import match, parse
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import Recommendation, ShadowMatch, Source, propose, recommend, subject_of
from tests.core.pattern_language import GLOBS, WORDS, Node, Style, predicates, subjects, trees, words, written

NOW = 1_000
NEVER = Rule(id="rule-never", pattern="gate.*", action="never-auto-approve")
AUTO = Rule(id="rule-auto", pattern="gate.x", action="auto-approve")


def ask(book: Rulebook, subject: Subject, **more: Any) -> Recommendation:
    given = {"hard_stop": False, "after_n": None, "consecutive": 0, "now": NOW} | more
    return recommend(book, subject, **given)


def world(voices: frozenset[Source]) -> Recommendation:
    """Return the recommendation when only these sources apply."""
    rules = [rule for source, rule in ((Source.AUTO, AUTO), (Source.NEVER, NEVER)) if source in voices]
    return ask(
        Rulebook.of(rules, ["critical"] if Source.ALWAYS_BREAK_ON in voices else []),
        Subject(
            "gate.x",
            {
                "tags": ["critical"],
                "risk": "high" if Source.RISK in voices else "low",
                "payload": {"arguments": {"path": ".git/config" if Source.PROTECTED in voices else "a.py"}},
            },
        ),
        hard_stop=Source.HARD_STOP in voices,
        plain=Source.QUESTIONS not in voices,
        after_n=3 if Source.AFTER_N in voices else -1,
        consecutive=5,
    )


SPEAKERS = [each for each in Source if each is not Source.PROMPT]
REASONS = {
    Source.NEVER: (False, "Matched never-auto-approve rule: rule-never (gate.*)."),
    Source.ALWAYS_BREAK_ON: (False, "The tag 'critical' always requires human approval (alwaysBreakOn)."),
    Source.HARD_STOP: (False, "The agent requires human approval (hardStop)."),
    Source.RISK: (False, "High risk: requires human approval."),
    Source.QUESTIONS: (False, "It requires an option or form answers, which only a person can give."),
    Source.PROTECTED: (
        False,
        "It refers to .git, which configures gates or is executed automatically, so only a person can approve it.",
    ),
    Source.AUTO: (True, "Matched auto-approve rule: rule-auto (gate.x)."),
    Source.AFTER_N: (True, "Approved by people 5 times in a row; autoApproveAfterN is 3."),
    Source.PROMPT: (False, "No rule matches gate.x."),
}


@pytest.mark.parametrize("source", Source)
def test_each_source_decides_alone_and_gives_its_own_reason(source: Source) -> None:
    found = world(frozenset({source}))
    assert (found.source, found.recommended, found.reason) == (source, *REASONS[source])


@pytest.mark.parametrize(("first", "second"), list(combinations(SPEAKERS, 2)))
def test_the_higher_ranked_of_two_sources_decides(first: Source, second: Source) -> None:
    found = world(frozenset({first, second}))
    assert (found.source, found.recommended, found.reason) == (first, *REASONS[first])


def test_the_highest_ranked_active_source_decides() -> None:
    for size in range(len(SPEAKERS) + 1):
        for voices in combinations(SPEAKERS, size):
            assert world(frozenset(voices)).source is (voices[0] if voices else Source.PROMPT)


def test_a_recommendation_names_the_deciding_rule() -> None:
    by_rule = world(frozenset({Source.NEVER, Source.AUTO}))
    by_count = world(frozenset({Source.AFTER_N}))
    assert by_rule.body() == {
        "recommended": False,
        "reason": "Matched never-auto-approve rule: rule-never (gate.*).",
        "matchedRule": "rule-never",
        "consecutiveApprovals": 5,
    }
    assert by_count.body() == {
        "recommended": True,
        "reason": "Approved by people 5 times in a row; autoApproveAfterN is 3.",
        "consecutiveApprovals": 5,
    }


@pytest.mark.parametrize("action", ["auto-approve", "never-auto-approve"])
def test_the_first_matching_rule_in_order_decides(action: str) -> None:
    rules = [
        Rule(id="rule-a", pattern="*", action=action, order=2),
        Rule(id="rule-b", pattern="gate.x", action=action, order=1),
        Rule(id="rule-c", pattern="gate.*", action=action, order=1, created_at=5),
    ]
    assert ask(Rulebook.of(rules), Subject("gate.x", {})).matched_rule == "rule-b"


@pytest.mark.parametrize(
    ("after_n", "consecutive", "recommended"),
    [(3, 2, False), (3, 3, True), (3, 9, True), (1, 1, True), (1, 0, False), (0, 0, False), (0, 9, False),
     (-1, 9, False), (None, 9, False)],
)  # fmt: skip
def test_reaching_the_approval_count_causes_an_auto_approval(
    after_n: int | None,
    consecutive: int,
    recommended: bool,  # noqa: FBT001  # an expected value
) -> None:
    found = ask(Rulebook.of([]), Subject("gate.x", {}), after_n=after_n, consecutive=consecutive)
    assert (found.recommended, found.consecutive_approvals) == (recommended, consecutive)


def test_the_reason_includes_an_approval_count_below_the_threshold() -> None:
    found = ask(Rulebook.of([]), Subject("gate.x", {}), after_n=3, consecutive=2)
    assert found.reason == "No rule matches gate.x; 2 of 3 approvals in a row."


UNKNOWN = {"payload": {"amount": "5"}}


def test_a_never_rule_with_an_unknown_condition_matches() -> None:
    never = Rule(id="rule-1", pattern="*(runId = 'a' OR payload.amount > 9)", action="never-auto-approve")
    found = ask(Rulebook.of([never, AUTO]), Subject("gate.x", UNKNOWN))
    assert (found.recommended, found.matched_rule) == (False, "rule-1")
    assert found.reason == (
        "Matched never-auto-approve rule: rule-1 (*(runId = 'a' OR payload.amount > 9)); runId = 'a' is unknown (not"
        " given) and payload.amount > 9 is unknown (of a different type), so a match cannot be ruled out."
    )


@pytest.mark.parametrize("expression", ["payload.amount < 9", "NOT payload.amount > 9", "NOT runId = 'a'"])
def test_an_auto_rule_with_an_unknown_condition_does_not_match(expression: str) -> None:
    auto = Rule(id="rule-1", pattern=f"*({expression})", action="auto-approve")
    found = ask(Rulebook.of([auto]), Subject("gate.x", UNKNOWN))
    assert (found.recommended, found.matched, found.source) == (False, None, Source.PROMPT)
    assert found.trace[0].said.startswith(f"Did not match auto-approve rule: rule-1 (*({expression})); ")


def test_the_trace_contains_every_step_through_the_decision() -> None:
    rules = [
        Rule(id="rule-1", pattern="gate.*(tags contains 'prod')", action="never-auto-approve"),
        Rule(id="rule-2", pattern="gate.*(agentId = 'ci')", action="auto-approve", order=1),
        Rule(id="rule-3", pattern="gate.*", action="auto-approve", order=2),
        Rule(id="rule-4", pattern="gate.*", action="auto-approve", order=3),
        Rule(id="rule-5", pattern="other.*", action="never-auto-approve"),
    ]
    found = ask(Rulebook.of(rules), Subject("gate.x", {"tags": ["x"]}))
    assert [each.body() for each in found.trace] == [
        {
            "source": "never-auto-approve",
            "reason": "Did not match never-auto-approve rule: rule-1 (gate.*(tags contains 'prod')).",
            "held": False,
            "rule": "rule-1",
            "findings": [
                {"part": "gate.*", "held": True, "actual": "gate.x"},
                {"part": "tags contains 'prod'", "held": False, "actual": ["x"]},
            ],
        },
        {
            "source": "auto-approve",
            "reason": (
                "Did not match auto-approve rule: rule-2 (gate.*(agentId = 'ci')); agentId = 'ci' is unknown "
                "(not given)."
            ),
            "held": None,
            "rule": "rule-2",
            "findings": [
                {"part": "gate.*", "held": True, "actual": "gate.x"},
                {"part": "agentId = 'ci'", "held": None},
            ],
        },
        {
            "source": "auto-approve",
            "reason": "Matched auto-approve rule: rule-3 (gate.*).",
            "held": True,
            "rule": "rule-3",
            "findings": [{"part": "gate.*", "held": True, "actual": "gate.x"}],
        },
    ]


def test_large_values_are_truncated_in_the_trace() -> None:
    rule = Rule(id="rule-1", pattern="*(payload.a = 1 OR payload.b = 1 OR payload.c = 1)", action="auto-approve")
    payload = {"a": "x" * 10_000, "b": ["y" * 10_000] * 1_000, "c": {"z": ["z"] * 1_000}}
    found = ask(Rulebook.of([rule]), Subject("gate.x", {"payload": payload}))
    assert len(str(found.trace[0].body())) < 10_000


def test_shadow_rules_are_reported_but_not_enforced() -> None:
    rules = [
        Rule(id="rule-1", pattern="gate.*", action="auto-approve", mode="shadow"),
        Rule(id="rule-2", pattern="gate.*(runId = 'a')", action="never-auto-approve", mode="shadow"),
        Rule(id="rule-3", pattern="gate.*(runId = 'a')", action="auto-approve", mode="shadow"),
        Rule(id="rule-4", pattern="other.*", action="auto-approve", mode="shadow"),
    ]
    subject = Subject("gate.x", {})
    alone, approved = ask(Rulebook.of(rules), subject), ask(Rulebook.of([*rules, AUTO]), subject)
    stopped = ask(Rulebook.of(rules), subject, hard_stop=True)
    assert (alone.recommended, alone.matched) == (False, None)
    assert approved.matched_rule == "rule-auto"
    assert alone.shadow_matches == approved.shadow_matches
    assert alone.shadow_matches == (ShadowMatch(rules[0], recommended=True), ShadowMatch(rules[1], recommended=False))
    assert not any(each.recommended for each in stopped.shadow_matches)


def texts(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[str]:
    expressions = trees(leaves, size=4).map(lambda tree: f"({written(tree, Style())})") | st.just("")
    # Most of these rules match, because a rule that does not match would prove nothing.
    return st.builds("{}{}".format, st.sampled_from(["*"] * len(GLOBS) + list(GLOBS)), expressions)


def some_rules(patterns: st.SearchStrategy[str], *, actions: tuple[str, ...] = ("auto-approve", "never-auto-approve")
               ) -> st.SearchStrategy[list[Rule]]:  # fmt: skip
    one = st.builds(
        Rule,
        id=st.uuids().map(str),
        pattern=patterns,
        action=st.sampled_from(actions),
        order=st.integers(0, 3),
        enabled=st.sampled_from([True] * 9 + [False]),
        expires_at=st.sampled_from([None] * 8 + [NOW - 1, NOW + 1]),
        mode=st.sampled_from(["live"] * 9 + ["shadow"]),
    )
    return st.lists(one, max_size=3)


breaks: st.SearchStrategy[list[str]] = st.just([]) | st.lists(words, max_size=2)
counts = st.tuples(st.sampled_from([None, None, None, -1, 0, 3]), st.integers(0, 4))
every_rule = some_rules(texts(predicates()))
never_rules = some_rules(texts(predicates()), actions=("never-auto-approve",))
auto_rules = some_rules(texts(predicates()), actions=("auto-approve",))


def answer(rules: list[Rule], tags: list[str], count: tuple[int | None, int], subject: Subject, **more: Any) -> bool:
    return ask(Rulebook.of(rules, tags), subject, after_n=count[0], consecutive=count[1], **more).recommended


@given(every_rule, breaks, counts, subjects(), st.sampled_from(["hardStop", "risk"]))
@settings(max_examples=200)
def test_hard_stop_and_high_risk_always_require_human_approval(
    rules: list[Rule], tags: list[str], count: tuple[int | None, int], subject: Subject, wish: str
) -> None:
    if wish == "risk":
        subject = Subject(subject.name, {**subject.values, "risk": "high"})
    assert not answer(rules, tags, count, subject, hard_stop=wish == "hardStop")


@given(every_rule, never_rules, breaks, breaks, counts, subjects())
@settings(max_examples=200)
def test_adding_never_rules_or_break_tags_never_causes_an_approval(
    rules: list[Rule],
    more: list[Rule],
    tags: list[str],
    more_tags: list[str],
    count: tuple[int | None, int],
    subject: Subject,
) -> None:
    assert answer(rules, tags, count, subject) >= answer([*rules, *more], [*tags, *more_tags], count, subject)


@given(every_rule, auto_rules, breaks, counts, subjects())
@settings(max_examples=200)
def test_adding_auto_rules_never_prevents_an_approval(
    rules: list[Rule], more: list[Rule], tags: list[str], count: tuple[int | None, int], subject: Subject
) -> None:
    assert answer(rules, tags, count, subject) <= answer([*rules, *more], tags, count, subject)


@given(every_rule, every_rule, breaks, counts, subjects())
@settings(max_examples=200)
def test_disabled_expired_and_shadow_rules_do_not_affect_the_recommendation(
    rules: list[Rule], idle: list[Rule], tags: list[str], count: tuple[int | None, int], subject: Subject
) -> None:
    ways: list[dict[str, Any]] = [{"enabled": False}, {"expires_at": NOW}, {"mode": "shadow"}]
    added = [replace(rule, **ways[n % 3]) for n, rule in enumerate(idle)]
    before = ask(Rulebook.of(rules, tags), subject, after_n=count[0], consecutive=count[1])
    after = ask(Rulebook.of([*rules, *added], tags), subject, after_n=count[0], consecutive=count[1])
    assert (before.recommended, before.matched, before.reason) == (after.recommended, after.matched, after.reason)


few = predicates(exists=False, only=("tags", "agentId", "attempt", "payload"))


@given(some_rules(texts(few)), st.just([]), st.just((None, 0)), subjects(), st.data())
@settings(max_examples=200)
def test_omitting_a_value_never_causes_an_approval(
    rules: list[Rule], tags: list[str], count: tuple[int | None, int], full: Subject, data: st.DataObject
) -> None:
    """Every request that is approved without a value is also approved with it, except for high risk.

    Excluded are `exists`, which tests for missing values, and tags and experts, whose default is an empty list.
    """
    left_out = data.draw(st.sets(st.sampled_from(["agentId", "risk", "attempt", "payload"]), min_size=1))
    low = {**full.values, "risk": "low"} if full.values.get("risk") == "high" else full.values
    without = Subject(full.name, {name: value for name, value in low.items() if name not in left_out})
    assert answer(rules, tags, count, without) <= answer(rules, tags, count, Subject(full.name, low))


AGENTS_OWN = ("tags", "expert", "risk", "strategy", "title", "attempt")


@given(st.data(), breaks, counts, subjects(), subjects())
@settings(max_examples=200)
def test_attributes_that_no_rule_uses_never_cause_an_approval(
    data: st.DataObject, tags: list[str], count: tuple[int | None, int], before: Subject, other: Subject
) -> None:
    """An agent cannot gain an approval by setting or changing an attribute that no rule uses."""
    changed = data.draw(st.sets(st.sampled_from(AGENTS_OWN), min_size=1))
    named = tuple({"tags", "expert", "agentId", "title", "risk", "attempt", "strategy", "payload"} - changed)
    rules = data.draw(some_rules(texts(predicates(only=named))))
    values = {**before.values, **{name: other.values.get(name) for name in changed}}
    if "tags" in changed:
        values["tags"] = [*(before.values.get("tags") or ()), *(other.values.get("tags") or ())]
    if before.values.get("risk") == "high":
        values["risk"] = "high"
    assert answer(rules, tags, count, Subject(before.name, values)) <= answer(rules, tags, count, before)


def lists(*, positive: bool) -> st.SearchStrategy[Node]:
    """Draw expressions that restrict tags and experts in only one direction, and other attributes in both."""
    inside = predicates(only=("tags", "expert")).filter(lambda node: node[2] != "!=")
    one_way = inside if positive else inside.map(lambda node: ("not", node))
    beside = predicates(only=("agentId", "attempt", "payload"))
    return trees_without_not(one_way | beside | beside.map(lambda node: ("not", node)))


def trees_without_not(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return leaves | st.tuples(st.sampled_from(["and", "or"]), st.lists(leaves, min_size=2, max_size=3).map(tuple))


def pattern_of(tree: Node) -> str:
    return f"*({written(tree, Style())})"


@given(
    some_rules(lists(positive=True).map(pattern_of), actions=("never-auto-approve",)),
    some_rules(lists(positive=False).map(pattern_of), actions=("auto-approve",)),
    breaks,
    counts,
    subjects(),
    st.lists(words, max_size=2),
    st.lists(words, max_size=2),
)
@settings(max_examples=200)
def test_adding_tags_or_experts_never_helps_if_rules_approve_only_without_them(
    never: list[Rule],
    auto: list[Rule],
    tags: list[str],
    count: tuple[int | None, int],
    subject: Subject,
    more_tags: list[str],
    more_experts: list[str],
) -> None:
    """If rules approve only `NOT tags contains 'x'` and stop only `tags contains 'x'`, adding tags never helps."""
    expert = subject.values.get("expert") or []
    values = {
        **subject.values,
        "tags": [*(subject.values.get("tags") or []), *more_tags],
        "expert": [*([expert] if isinstance(expert, str) else expert), *more_experts],
    }
    rules = [*never, *auto]
    assert answer(rules, tags, count, Subject(subject.name, values)) <= answer(rules, tags, count, subject)


def test_an_agent_can_satisfy_a_rule_by_requesting_the_expert_that_it_requires() -> None:
    """The previous property does not cover this. Limit such rules to an agent, and the agent's token to its gates."""
    rule = Rule(id="rule-1", pattern="*(expert = 'owner')", action="auto-approve")
    assert not ask(Rulebook.of([rule]), Subject("gate.x", {})).recommended
    assert ask(Rulebook.of([rule]), Subject("gate.x", {"expert": "owner"})).recommended


def test_rules_can_match_every_attribute_of_a_request() -> None:
    made = draft(
        {
            "agentId": "ci",
            "runId": "run-1",
            "title": "Deploy",
            "tags": ["prod"],
            "priority": "high",
            "payload": {"expert": ["ann", "ops"], "tags": ["eu"], "strategy": "quorum", "risk": "low", "attempt": 2,
                        "breakpointId": "gate.deploy", "amount": 5},
        }
    )  # fmt: skip
    subject = subject_of(made)
    pattern = parse(
        "gate.deploy(tags contains 'prod' AND tags contains 'eu' AND expert = 'ops' AND agentId = 'ci'"
        " AND runId = 'run-1' AND title = 'Deploy' AND risk = 'low' AND priority = 'high' AND attempt = 2"
        " AND strategy = 'quorum' AND payload.amount = 5)"
    )
    assert match(pattern, subject) is True


def test_attributes_that_a_request_omits_are_missing_for_rules() -> None:
    subject = subject_of(draft({"agentId": "ci", "payload": {"question": "Go on?"}}))
    assert subject.name == "go-on"
    for name in ("runId", "title", "risk", "attempt"):
        (found,) = parse(f"*({name} exists)").expression.predicates()  # type: ignore[union-attr]
        assert found.actual(subject) is MISSING


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Subject("gate.x", {}), "gate.x"),
        (Subject("gate.x", {"agentId": "ci"}), "gate.x(agentId = 'ci')"),
        (Subject("gate.x", {"agentId": "ci", "tags": ["a", "it's"]}),
         "gate.x(agentId = 'ci' AND tags contains 'a' AND tags contains \"it's\")"),
        (Subject("gate.(x)", {"payload": {"breakpointId": "gate.(x)"}}), "gate.*x*(payload.breakpointId = 'gate.(x)')"),
        (Subject("gate.*", {"agentId": "ci", "payload": {"breakpointId": "gate.*"}}),
         "gate.*(payload.breakpointId = 'gate.*' AND agentId = 'ci')"),
    ],
)  # fmt: skip
def test_a_proposed_pattern_is_as_narrow_as_possible(subject: Subject, expected: str) -> None:
    assert propose(subject) == expected


gates = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=200)
anything = st.text(max_size=100)


@given(gates | anything.filter(bool), anything, st.lists(anything | st.sampled_from(WORDS), max_size=50), st.booleans())
@settings(max_examples=200)
def test_a_proposed_pattern_is_valid_and_matches_its_breakpoint(
    gate: str, agent: str, tags: list[str], explicit: bool  # noqa: FBT001
) -> None:  # fmt: skip
    values = {"agentId": agent, "tags": tags, "payload": {"breakpointId": gate} if explicit else {}}
    subject = Subject(gate, values)
    pattern = parse(propose(subject))
    assert match(pattern, subject) is True


@given(
    st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True), st.sampled_from(WORDS), st.lists(words, max_size=3), subjects()
)
def test_a_proposed_pattern_matches_only_the_same_gate_and_agent_with_all_tags(
    gate: str, agent: str, tags: list[str], other: Subject
) -> None:
    pattern = parse(propose(Subject(gate, {"agentId": agent, "tags": tags})))
    assert pattern.glob.literal
    if match(pattern, Subject(gate, other.values)):
        assert other.values.get("agentId") == agent
        assert set(tags) <= set(other.values.get("tags") or ())


def test_a_proposed_pattern_includes_as_many_tags_as_fit() -> None:
    tags = [f"{n:0>100}" for n in range(50)]
    text = propose(Subject("gate.x", {"agentId": "ci", "tags": tags}))
    assert text.startswith(f"gate.x(agentId = 'ci' AND tags contains '{tags[0]}'")
    assert MAX_LENGTH - 130 < len(text) <= MAX_LENGTH
