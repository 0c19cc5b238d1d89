"""The precedence of auto-approval as a table: each row alone, and each row against every row below it.

The rows are those of the requirements, except that hardStop, high risk and open questions have separate rows with
the same rank. A world is a complete request with rules and a policy. Worlds differ only in their active rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest

from assent.core.counting import Counting
from assent.core.draft import draft
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import Recommendation, Source
from assent.policy.store.rules import Ground
from assent.policy.usecases.rules import Book, Question, follow
from tests.docs.pages import read, rows, sections


@dataclass(frozen=True)
class Row:
    """A row with its rank, its source, and what activates it in the rules, the policy and the request."""

    rank: int
    source: Source
    approves: bool
    rules: tuple[tuple[str, str], ...] = ()
    break_on: tuple[str, ...] = ()
    payload: dict[str, Any] = field(default_factory=dict[str, Any])


FORM = {"properties": {"why": {"type": "string"}}, "required": ["why"]}
NEVER, AUTO = "never-auto-approve", "auto-approve"
TABLE = {
    "never rule": Row(1, Source.NEVER, approves=False, rules=(("gate.*", NEVER),)),
    "never rule that is unknown": Row(1, Source.NEVER, approves=False, rules=(("*(payload.cost > 9)", NEVER),)),
    "never rule that cannot be read": Row(1, Source.NEVER, approves=False, rules=(("gate.*(((", NEVER),)),
    "alwaysBreakOn tag": Row(2, Source.ALWAYS_BREAK_ON, approves=False, break_on=("prod",)),
    "hardStop": Row(2, Source.HARD_STOP, approves=False, payload={"hardStop": True}),
    "high risk": Row(2, Source.RISK, approves=False, payload={"risk": "high"}),
    "a choice to make": Row(2, Source.QUESTIONS, approves=False, payload={"options": ["a", "b"]}),
    "a form to fill in": Row(2, Source.QUESTIONS, approves=False, payload={"form": FORM}),
    "auto rule": Row(3, Source.AUTO, approves=True, rules=(("gate.x", AUTO),)),
    "auto rule with predicates": Row(3, Source.AUTO, approves=True, rules=(("*(tags contains 'prod')", AUTO),)),
    "autoApproveAfterN": Row(4, Source.AFTER_N, approves=True, payload={"autoApproveAfterN": 3}),
    "prompt": Row(5, Source.PROMPT, approves=False),
}
IDLE = (("gate.*(runId = 'other')", AUTO), ("other.*", NEVER), ("*(tags contains 'test')", NEVER))
"""Rules that exist in every world but never match."""


def world(speaking: Iterable[str]) -> Recommendation:
    spoken = [TABLE[name] for name in speaking]
    # Start with the last row, because the order of rules with different actions must not matter.
    written = [*IDLE, *(rule for row in reversed(spoken) for rule in row.rules)]
    rules = [Rule(id=f"rule-{n}", pattern=text, action=action, order=n) for n, (text, action) in enumerate(written)]
    payload: dict[str, Any] = {"question": "Go on?", "breakpointId": "gate.x", "tags": ["prod"], "risk": "low"}
    for row in spoken:
        payload |= row.payload
    book = Book(1, Rulebook.of(rules, [tag for row in spoken for tag in row.break_on]), Counting())
    return follow(book, Question.of(draft({"agentId": "ci", "payload": payload})), Ground(1, 3), now=0)


@pytest.mark.parametrize("name", TABLE)
def test_each_row_decides_when_it_alone_is_active(name: str) -> None:
    found = world([name])
    assert (found.source, found.recommended) == (TABLE[name].source, TABLE[name].approves)
    assert (found.matched is not None) == bool(TABLE[name].rules)
    assert found.consecutive_approvals == 3


@pytest.mark.parametrize(("higher", "lower"), list(combinations(TABLE, 2)))
def test_the_higher_ranked_of_two_rows_decides(higher: str, lower: str) -> None:
    for order in ((higher, lower), (lower, higher)):
        found = world(order)
        assert found.recommended is TABLE[higher].approves
        if TABLE[higher].rank < TABLE[lower].rank:
            assert found.source is TABLE[higher].source


def test_the_first_active_row_decides() -> None:
    for n, name in enumerate(TABLE):
        assert world(list(TABLE)[n:]).recommended is TABLE[name].approves, name


def test_a_single_stop_overrides_every_approving_row() -> None:
    approving = [name for name, row in TABLE.items() if row.approves]
    assert world(approving).recommended
    for name, row in TABLE.items():
        if row.rank <= 2:
            assert not world([*approving, name]).recommended, name


def test_the_reference_documentation_has_the_same_table() -> None:
    told = rows(sections(read("reference/patterns.md"), 2)["Evaluation order"])
    ranks = sorted({row.rank for row in TABLE.values()})
    assert [int(each[0]) for each in told] == ranks
    for rank, _, result in told:
        assert {row.approves for row in TABLE.values() if row.rank == int(rank)} == {result == "approve"}
