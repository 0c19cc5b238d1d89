"""Adding to a request can only make the result stricter, tested with complete requests and arbitrary rulebooks.

`test_rules.py` tests these properties for attributes. Here, complete requests are parsed as if clients had sent them.
"""

from typing import Any, TypeAlias

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from assent.core.counting import Counting
from assent.core.draft import draft
from assent.core.errors import InvalidRequest
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import Recommendation, Source, subject_of
from assent.policy.store.rules import Ground
from assent.policy.usecases.rules import Book, Question, follow
from tests.core.pattern_language import GATES, GLOBS, STRATEGIES, Node, Style, predicates, trees, words, written

NOW = 1_000
RISKS = ("low", "medium", "high")
Body: TypeAlias = dict[str, Any]


def outcome(
    rules: list[Rule], body: Body, *, tags: tuple[str, ...] = (), counts: bool = True, consecutive: int = 0
) -> Recommendation:
    """Return the recommendation that the server would make for a new breakpoint."""
    book = Book(1, Rulebook.of(rules, tags), Counting(allowed=counts, floor=1))
    return follow(book, Question.of(draft(body)), Ground(1, consecutive), now=NOW)


def saying(body: Body, **more: Any) -> Body:
    """Return the same request with additional payload fields."""
    return {**body, "payload": {**body["payload"], **more}}


def without(body: Body, *names: str) -> Body:
    return {**body, "payload": {name: value for name, value in body["payload"].items() if name not in names}}


some_tags = st.lists(words, min_size=1, max_size=3)
bodies: st.SearchStrategy[Body] = st.fixed_dictionaries(
    {
        "agentId": words,
        "payload": st.fixed_dictionaries(
            {"question": st.just("Go on?")},
            optional={
                "breakpointId": st.sampled_from(GATES),
                "tags": some_tags,
                "expert": words | st.lists(words, min_size=1, max_size=2, unique=True),
                "risk": st.sampled_from(RISKS),
                "attempt": st.integers(0, 3),
                "strategy": st.sampled_from(["single", "first-response-wins"]),
                "autoApproveAfterN": st.integers(-1, 3),
                "hardStop": st.booleans(),
                "a": words | st.integers(0, 3) | st.booleans(),
                "b": st.lists(words, max_size=2),
            },
        ),
    },
    optional={"title": words, "tags": some_tags, "runId": words, "priority": st.sampled_from(["low", "urgent"])},
)


def leaf(path: str, operators: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    return st.builds(lambda operator, value: ("is", path, operator, (value,)), st.sampled_from(operators), values)


AGENTS_FIELDS = {
    "tags": leaf("payload.tags", ["contains", "matches"], words),
    "expert": leaf("payload.expert", ["contains", "=", "matches"], words),
    "risk": leaf("payload.risk", ["=", "!=", "<"], st.sampled_from(RISKS)),
    "strategy": leaf("payload.strategy", ["=", "!="], st.sampled_from(STRATEGIES)),
    "autoApproveAfterN": leaf("payload.autoApproveAfterN", ["=", "<", ">="], st.integers(-1, 3)),
    "hardStop": leaf("payload.hardStop", ["=", "!="], st.booleans()),
}
ATTRIBUTES = ("tags", "expert", "agentId", "title", "risk", "attempt", "strategy", "payload")


def leaves(*unnamed: str) -> st.SearchStrategy[Node]:
    """Draw predicates on any attributes except these, which are also excluded within the payload."""
    named = tuple(name for name in ATTRIBUTES if name not in unnamed)
    inside = [field for name, field in AGENTS_FIELDS.items() if name not in unnamed]
    return st.one_of(predicates(only=named), *inside)


def patterns(expressions: st.SearchStrategy[Node]) -> st.SearchStrategy[str]:
    texts = expressions.map(lambda tree: f"({written(tree, Style())})") | st.just("")
    return st.builds("{}{}".format, st.sampled_from(["*"] * len(GLOBS) + list(GLOBS)), texts)


def rules_of(texts: st.SearchStrategy[str], *actions: str, least: int = 0) -> st.SearchStrategy[list[Rule]]:
    chosen = st.sampled_from(actions or ("auto-approve", "never-auto-approve"))
    one = st.builds(Rule, id=st.uuids().map(str), pattern=texts, action=chosen, order=st.integers(0, 3))
    return st.lists(one, min_size=least, max_size=3)


def any_rules(*unnamed: str) -> st.SearchStrategy[list[Rule]]:
    return rules_of(patterns(trees(leaves(*unnamed), size=4)))


breaks = st.lists(words, max_size=2).map(tuple)
counted = st.integers(0, 4)


def test_the_generated_requests_include_approvals_and_prompts() -> None:
    """Without both kinds of requests, the other tests would prove nothing."""
    worlds = st.tuples(any_rules(), bodies).filter(lambda world: bool(world[0]))
    find(worlds, lambda world: outcome(*world).recommended)
    find(worlds, lambda world: not outcome(*world).recommended)


WISHES: dict[str, dict[str, Any]] = {
    "hardStop": {"hardStop": True},
    "high risk": {"risk": "high"},
    "a choice": {"options": ["now", "later"]},
    "a form to fill in": {"form": {"properties": {"why": {"type": "string"}}, "required": ["why"]}},
}


@pytest.mark.parametrize("wish", WISHES)
@given(any_rules(), breaks, bodies, counted)
@settings(max_examples=100)
def test_no_rule_approves_a_request_that_requires_human_approval(
    wish: str, rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int
) -> None:
    """This includes rules that match the field that requires human approval."""
    assert not outcome(rules, saying(body, **WISHES[wish]), tags=tags, consecutive=consecutive).recommended


@given(any_rules("expert", "strategy"), breaks, bodies, counted, st.sampled_from(STRATEGIES), st.data())
@settings(max_examples=100)
def test_experts_and_strategies_that_no_rule_uses_do_not_affect_the_outcome(
    rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int, strategy: str, data: st.DataObject
) -> None:
    plain = without(body, "expert", "strategy")
    experts = data.draw(st.lists(words, min_size=1, max_size=3, unique=True))
    asked = saying(plain, expert=experts, strategy=strategy)
    before = outcome(rules, plain, tags=tags, consecutive=consecutive)
    after = outcome(rules, asked, tags=tags, consecutive=consecutive)
    assert (after.recommended, after.reason) == (before.recommended, before.reason)


@given(any_rules("risk"), breaks, bodies, counted, st.sampled_from(RISKS))
@settings(max_examples=100)
def test_adding_a_risk_that_no_rule_uses_never_causes_an_approval(
    rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int, risk: str
) -> None:
    before = outcome(rules, without(body, "risk"), tags=tags, consecutive=consecutive)
    after = outcome(rules, saying(body, risk=risk), tags=tags, consecutive=consecutive)
    assert after.recommended is (before.recommended and risk != "high")


def one_way(risk: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Draw expressions that restrict the risk in only one direction, and other attributes in both."""
    beside = leaves("risk")
    either = risk | beside | beside.map(lambda node: ("not", node))
    return either | st.tuples(st.sampled_from(["and", "or"]), st.lists(either, min_size=2, max_size=3).map(tuple))


@given(
    rules_of(patterns(one_way(leaf("risk", [">", ">="], st.sampled_from(RISKS)))), "never-auto-approve"),
    rules_of(patterns(one_way(leaf("risk", ["<", "<="], st.sampled_from(RISKS)))), "auto-approve", least=1),
    breaks,
    bodies,
    st.tuples(st.sampled_from(RISKS), st.sampled_from(RISKS)).map(lambda two: sorted(two, key=RISKS.index)),
)
@settings(max_examples=100)
def test_raising_the_risk_never_helps_if_rules_approve_low_and_stop_high_risk(
    never: list[Rule], auto: list[Rule], tags: tuple[str, ...], body: Body, risks: list[str]
) -> None:
    lower, higher = (outcome([*never, *auto], saying(body, risk=risk), tags=tags).recommended for risk in risks)
    assert higher <= lower


def test_raising_the_risk_can_satisfy_a_rule_for_a_single_risk() -> None:
    """The previous property does not cover this case. Use `risk <= 'medium'` instead, which low risk also satisfies."""
    rule = Rule(id="rule-1", pattern="*(risk = 'medium')", action="auto-approve")
    body = {"agentId": "ci", "payload": {"question": "Go on?"}}
    assert [outcome([rule], saying(body, risk=risk)).recommended for risk in RISKS] == [False, True, False]


@given(any_rules("autoApproveAfterN"), breaks, bodies, counted, st.integers(-1, 5))
@settings(max_examples=100)
def test_requesting_a_count_has_no_effect_if_the_policy_ignores_counts(
    rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int, after_n: int
) -> None:
    asked, plain = saying(body, autoApproveAfterN=after_n), without(body, "autoApproveAfterN")
    before = outcome(rules, plain, tags=tags, counts=False, consecutive=consecutive)
    after = outcome(rules, asked, tags=tags, counts=False, consecutive=consecutive)
    assert (after.recommended, after.reason) == (before.recommended, before.reason)


@given(any_rules(), breaks, bodies, counted)
@settings(max_examples=100)
def test_a_policy_that_ignores_counts_is_never_more_permissive(
    rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int
) -> None:
    ignoring, allowing = (
        outcome(rules, body, tags=tags, counts=counts, consecutive=consecutive).recommended for counts in (False, True)
    )
    assert ignoring <= allowing


@given(any_rules("autoApproveAfterN"), breaks, bodies, counted, st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=100)
def test_a_higher_count_never_helps_and_a_count_below_one_is_ignored(
    rules: list[Rule], tags: tuple[str, ...], body: Body, consecutive: int, after_n: int, more: int
) -> None:
    def approved(count: int | None) -> bool:
        return outcome(rules, saying(body, autoApproveAfterN=count), tags=tags, consecutive=consecutive).recommended

    assert approved(after_n + more) <= approved(after_n)
    assert approved(-1) == approved(0) == approved(None) <= approved(after_n + more)


positive_tags = leaf("tags", ["contains", "matches"], words)
beside_tags = leaves("tags")
positively = positive_tags | st.tuples(
    st.sampled_from(["and", "or"]),
    st.tuples(positive_tags, beside_tags | positive_tags | beside_tags.map(lambda node: ("not", node))),
)


@given(
    rules_of(patterns(positively), "never-auto-approve", least=1),
    rules_of(patterns(trees(leaves(), size=3)), "auto-approve"),
    breaks,
    bodies,
    some_tags,
    st.booleans(),
)
@settings(max_examples=150)
def test_adding_a_tag_cannot_hide_another_tag_from_a_never_rule(
    never: list[Rule],
    auto: list[Rule],
    tags: tuple[str, ...],
    body: Body,
    more: list[str],
    inside: bool,  # noqa: FBT001
) -> None:
    """A request that was stopped before the tag was added is still stopped, and no tag is lost."""
    old: Body = body["payload"] if inside else body
    added = {"tags": [*more, *(old.get("tags") or ())]}
    changed = saying(body, **added) if inside else body | added
    assert set(draft(changed).tags) == set(draft(body).tags) | set(more)
    rules = [*never, *auto]
    before, after = outcome(rules, body, tags=tags), outcome(rules, changed, tags=tags)
    if before.source in {Source.NEVER, Source.ALWAYS_BREAK_ON}:
        assert after.source in {Source.NEVER, before.source}


@given(any_rules(), breaks, bodies, some_tags, st.data())
@settings(max_examples=150)
def test_tags_count_equally_inside_and_outside_the_payload(
    rules: list[Rule], tags: tuple[str, ...], body: Body, chosen: list[str], data: st.DataObject
) -> None:
    """Rules on `tags` and `payload.tags` see all tags, even if they are sent in both places or twice."""

    def placed() -> Body:
        places = [data.draw(st.sampled_from(["top", "inside", "both"])) for _ in chosen]
        top = [tag for tag, place in zip(chosen, places, strict=True) if place != "inside"]
        inside = [tag for tag, place in zip(chosen, places, strict=True) if place != "top"]
        return saying(body, tags=inside or None) | {"tags": top or None}

    one, other = outcome(rules, placed(), tags=tags), outcome(rules, placed(), tags=tags)
    assert (one.recommended, one.source, one.matched_rule) == (other.recommended, other.source, other.matched_rule)


@given(st.none() | words, st.none() | words, st.none() | words, st.none() | words)
def test_conflicting_values_for_the_same_field_are_rejected(
    title: str | None, inner_title: str | None, run: str | None, inner_run: str | None
) -> None:
    payload = {"question": "Go on?", "title": inner_title, "context": {"runId": inner_run}}
    body = {"agentId": "ci", "title": title, "runId": run, "payload": payload}
    said = {name: {each for each in both if each is not None} for name, both in
            (("title", (title, inner_title)), ("runId", (run, inner_run)))}  # fmt: skip
    if any(len(each) > 1 for each in said.values()):
        with pytest.raises(InvalidRequest):
            draft(body)
        return
    seen = subject_of(draft(body)).values
    assert {name: {seen[name]} - {None} for name in said} == said


@given(bodies, st.none() | words, st.sampled_from(GATES))
def test_an_explicit_gate_is_used_regardless_of_other_fields(body: Body, title: str | None, gate: str) -> None:
    named = {**saying(body, breakpointId=gate), "title": title}
    assert subject_of(draft(named)).name == draft(named).gate == gate
