"""The contract's test cases in tests/conformance/rules.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.core.gates import slug
from assent.core.patterns.expressions import Subject
from assent.core.rulebook import Rule, Rulebook, checked
from assent.core.rules import recommend

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "conformance" / "rules.json").read_text())
SLUGS = [case for case in CASES if "slug" in case["expect"]]
REFUSED = [case for case in CASES if case["expect"].get("ruleRefused")]
DECIDED = [case for case in CASES if "recommended" in case["expect"]]


def rules(case: dict[str, Any]) -> list[Rule]:
    return [
        Rule(id=f"rule-{n}", pattern=rule["pattern"], action=rule["action"], order=n)
        for n, rule in enumerate(case["rules"])
    ]


def name(case: dict[str, Any]) -> str:
    return str(case["case"])


def test_every_conformance_case_has_a_known_kind() -> None:
    assert len(SLUGS) + len(REFUSED) + len(DECIDED) == len(CASES) == 59


@pytest.mark.parametrize("case", DECIDED, ids=name)
def test_the_recommendation_matches_the_conformance_case(case: dict[str, Any]) -> None:
    for rule in rules(case):
        checked(rule)
    found = recommend(
        Rulebook.of(rules(case), case.get("alwaysBreakOn", ())),
        Subject(case["breakpointId"], {"tags": case["tags"], "expert": case["expert"]}),
        hard_stop=False,
        after_n=case.get("autoApproveAfterN"),
        consecutive=case.get("consecutiveApprovals", 0),
        now=0,
    )
    matched = case["expect"].get("matchedRule")
    assert found.recommended is case["expect"]["recommended"]
    assert found.matched_rule == (None if matched is None else f"rule-{matched}")


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_rules_that_the_contract_rejects_are_rejected(case: dict[str, Any]) -> None:
    (rule,) = rules(case)
    with pytest.raises(InvalidRequest):
        checked(rule)


@pytest.mark.parametrize("case", SLUGS, ids=name)
def test_titles_become_the_gates_in_the_contract(case: dict[str, Any]) -> None:
    assert slug(case["title"]) == case["expect"]["slug"]
