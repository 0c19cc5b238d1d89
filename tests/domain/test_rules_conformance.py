"""The cases of the contract in tests/conformance/rules.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from assent.domain.errors import InvalidRequest
from assent.domain.expressions import Subject
from assent.domain.gates import slug
from assent.domain.rulebook import Rule, Rulebook, checked
from assent.domain.rules import recommend

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


def test_every_case_is_of_a_known_kind() -> None:
    assert len(SLUGS) + len(REFUSED) + len(DECIDED) == len(CASES) == 59


@pytest.mark.parametrize("case", DECIDED, ids=name)
def test_the_recommendation_is_as_expected(case: dict[str, Any]) -> None:
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
def test_the_rule_is_rejected(case: dict[str, Any]) -> None:
    (rule,) = rules(case)
    with pytest.raises(InvalidRequest):
        checked(rule)


@pytest.mark.parametrize("case", SLUGS, ids=name)
def test_the_title_becomes_the_expected_gate(case: dict[str, Any]) -> None:
    assert slug(case["title"]) == case["expect"]["slug"]
