"""Audits of rules: exact messages and exact limits."""

from dataclasses import replace
from typing import Any

import pytest

from assent.audit.chain_checks import Stored, findings, kept_digest, purge
from assent.audit.rule_checks import (
    Shadow,
    StoredRule,
    approval_findings,
    approving,
    missing_shadows,
    rule_findings,
    shadow_findings,
    shadows_told,
    wanted,
)
from assent.core.breakpoint import record
from assent.core.canonical import GENESIS
from assent.core.chain import Finding, Part
from assent.core.rule_changes import RuleEvent, changed, created
from tests.audit.model.test_audit_rules import AGENT, COUNT, NOW, RITA, RULE, approved, history, told

MINUTE = 60_000_000


def rule_said(**said: Any) -> list[RuleEvent]:
    """Return the events of a rule that was created yesterday with this content."""
    return [created(replace(RULE, **said), actor=RITA, at=NOW - 1440 * MINUTE)[1]]


def purged(stored: Stored) -> Stored:
    """Return the same breakpoint a day later, with its content purged."""
    current, at = stored.breakpoint, NOW + 1440 * MINUTE
    event = purge(current, at=at, kept=kept_digest("default", None, ("x",), (), (), ()))
    result = {"approved": True, "status": "released", "decision": "approved", "auto": True}
    left = current.but(payload={}, version=event.seq, head=event.hash, updated_at=at, result=result)
    gone = replace(stored, breakpoint=left, question=None, search="", purged_at=at, events=[*stored.events, event])
    assert findings(gone) == []
    return gone


def whats(stored: Stored, events: list[RuleEvent], approvals: int = 0) -> list[str]:
    found = approval_findings(stored, events, approvals=approvals)
    return [each.what.removeprefix(f"it was approved by rule:{approving(stored)}, ") for each in found]


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("project", "other", "its project is other, but its events say default"),
        ("source", "file", "its source is file, but its events say api"),
        ("created_by", "person:eve", "its created_by is person:eve, but its events say person:rita"),
        ("created_at", 1, f"its created_at is 1, but its events say {NOW}"),
        ("updated_at", 1, f"its updated_at is 1, but its events say {NOW}"),
        ("removed_at", 1, "its removed_at is 1, but its events say None"),
    ],
)
def test_a_finding_shows_the_stored_and_the_recorded_value(field: str, value: Any, what: str) -> None:
    stored = history(at=NOW)
    touched = replace(stored, rule=replace(stored.rule, **{field: value}))
    assert rule_findings(touched) == [Finding(Part.FOLD, None, None, what, "rule-1")]


def test_a_finding_about_a_rules_content_shows_both_versions() -> None:
    stored = history()
    (found,) = rule_findings(replace(stored, rule=replace(stored.rule, note="Touched.")))
    assert found.what.startswith("its content is {'pattern': 'go', ")
    assert found.what.index("Touched.") < found.what.index("but its events say") < found.what.index("Fine.")


def test_a_rule_without_a_creation_event_is_detected_even_if_its_chain_is_valid() -> None:
    stored = StoredRule(replace(RULE, version=0, head=GENESIS), [])
    what = "its first event is not a creation event"
    assert rule_findings(stored) == [Finding(Part.FOLD, None, None, what, "rule-1")]


def test_each_misplaced_event_is_reported() -> None:
    first, again = created(RULE, actor=RITA, at=NOW), changed(RULE, actor=RITA, at=NOW)
    assert [each.what for each in rule_findings(StoredRule(again[0], [again[1]]))][:1] == [
        "'rule-changed' is not a valid rule event here"
    ]
    second = replace(created(first[0], actor=RITA, at=NOW)[1], seq=2)
    found = rule_findings(StoredRule(first[0], [first[1], second]))
    assert (Part.FOLD, 2) in {(each.part, each.seq) for each in found}


@pytest.mark.parametrize(("off", "right"), [(MINUTE, True), (MINUTE + 1, False)])
def test_a_time_difference_of_exactly_one_minute_is_tolerated(off: int, *, right: bool) -> None:
    early = history(at=NOW + off)
    assert (told(approved(), early) == []) is right
    rule, first = created(RULE, actor=RITA, at=NOW - 1440 * MINUTE)
    _, second = changed(replace(rule, enabled=False), actor=RITA, at=NOW - off)
    assert (told(approved(), StoredRule(rule, [first, second])) == []) is right


def test_an_approving_version_is_superseded_only_by_the_next_version() -> None:
    stored = history({"note": "2"}, {"note": "3"}, at=NOW - 60 * MINUTE)
    assert told(approved(), stored) == []
    assert told(approved(version=2), stored) == []
    assert told(approved(version=3), stored) == ["whose version 3 was not the current one at that time"]


@pytest.mark.parametrize("said", [{"action": "never-auto-approve"}, {"mode": "shadow"}, {"enabled": False}], ids=str)
def test_a_rule_that_cannot_approve_does_not_justify_an_approval(said: dict[str, Any]) -> None:
    assert whats(approved(), rule_said(**said)) == ["whose version 1 does not approve anything"]


def test_a_rule_without_an_expiry_does_not_expire() -> None:
    assert whats(approved(), rule_said(expires_at=None)) == []


def test_an_invalid_pattern_does_not_match_anything() -> None:
    for stored in (approved(), purged(approved())):
        assert whats(stored, rule_said(pattern="go((")) == ["whose pattern does not match it"]


@pytest.mark.parametrize("pattern", ["g*", "go(tags contains 'x')", "go(payload.question = 'Go?')"])
def test_after_a_purge_only_the_gate_is_checked_against_the_pattern(pattern: str) -> None:
    events = rule_said(pattern=pattern)
    assert whats(approved(), events) == whats(purged(approved()), events) == []
    elsewhere = approved(gate="stay")
    assert whats(purged(elsewhere), events) == ["whose pattern does not match it"]


def test_before_a_purge_the_whole_pattern_is_checked() -> None:
    events = rule_said(pattern="go(tags contains 'y')")
    assert whats(approved(), events) == ["whose pattern does not match it"]
    assert whats(purged(approved()), events) == []
    unknown = rule_said(pattern="go(attempt = 1)")
    assert whats(approved(), unknown) == ["whose pattern does not match it"], "unknown is not a match"


def counted(asked: Any, reached: int = 1) -> Stored:
    said = COUNT | {"consecutiveApprovals": reached}
    return approved("autoApproveAfterN", None, said, payload={"autoApproveAfterN": asked})


def test_one_approval_suffices_if_the_agent_requested_a_count_of_one() -> None:
    assert whats(counted(1), [], approvals=1) == []
    assert whats(counted(1), [], approvals=0) == ["but the number of consecutive approvals was 0 instead of 1"]
    assert whats(counted(1, 0), [], approvals=1) == [
        "but its creation event records 0 consecutive approvals instead of 1"
    ]


def test_after_a_purge_one_previous_approval_is_required() -> None:
    stored = purged(counted(3, 3))
    assert whats(stored, [], approvals=1) == []
    assert whats(stored, [], approvals=0) == ["but the number of consecutive approvals was 0 instead of 1"]


@pytest.mark.parametrize(("asked", "count"), [(3, 3), (0, 0), (None, 0), ("3", 0), (2.5, 0)])
def test_an_invalid_count_does_not_request_auto_approval(asked: Any, count: int) -> None:
    assert wanted(counted(asked)) == count
    assert wanted(purged(counted(asked))) == 1


def test_an_auto_approval_can_have_a_warning_but_not_a_comment() -> None:
    stored = approved()
    creation, release = stored.events
    for kind, found in (("warned", []), ("commented", [Part.ENDS])):
        _, between = record(stored.breakpoint, kind, actor=AGENT, at=NOW)
        told_of = replace(stored, events=[creation, between, release])
        assert [each.part for each in approval_findings(told_of, rule_said(), approvals=0)] == found


def test_a_missing_creation_or_release_event_is_reported_as_a_wrong_ending() -> None:
    stored = approved()
    for events in (stored.events[:0], stored.events[:1], stored.events[::-1]):
        found = approval_findings(replace(stored, events=events), rule_said(), approvals=0)
        assert found[0].part is Part.ENDS, events
        assert (found[0].breakpoint_id, found[0].seq) == ("bp_1", None)


def test_all_reasons_against_an_approval_are_reported() -> None:
    stored = approved(
        gate="stay", risk="high", payload={"risk": "high", "hardStop": True, "options": ["a"]},
        auto={"recommended": False, "matchedRule": "rule-9"},
    )  # fmt: skip
    assert told(stored) == [
        "but its creation event does not recommend an approval",
        "but it is high risk",
        "but its agent required human approval",
        "but it requires an option or form answers",
        "but its creation event records rule-9",
        "whose pattern does not match it",
    ]


def test_a_reversed_recommendation_is_reported_with_the_decision() -> None:
    stored = approved()
    turned = stored.breakpoint.but(decision="rejected", ended_by=RITA)
    (found,) = approval_findings(replace(stored, breakpoint=turned), (), approvals=0)
    what = "a rule approved it at creation, but its status is rejected"
    assert found == Finding(Part.FOLD, "bp_1", None, what)


def test_a_decision_without_a_rule_is_not_checked_against_rules() -> None:
    stored = approved(auto={"recommended": False})
    by_person = replace(stored, breakpoint=stored.breakpoint.but(ended_by=RITA))
    assert (approving(stored), approving(by_person)) == ("rule-1", None)
    assert approval_findings(by_person, (), approvals=0) == []
    nobody = replace(stored, breakpoint=stored.breakpoint.but(ended_by=None))
    assert approving(nobody) is None


def shadowed(*names: str) -> Stored:
    """Return a breakpoint for which only the creation event lists rules in shadow mode."""
    stored = approved()
    first, *later = stored.events
    entries = [{"rule": name, "recommended": True, "version": 2} for name in names]
    return replace(stored, events=[replace(first, metadata=dict(first.metadata) | {"shadow": entries}), *later])


def test_shadow_results_come_only_from_the_creation_event() -> None:
    assert shadows_told(shadowed("rule-7", "rule-6")) == ["rule-7", "rule-6"]
    assert shadows_told(approved()) == []


def test_each_missing_shadow_result_is_reported_at_the_creation_event() -> None:
    found = list(missing_shadows(shadowed("rule-7", "rule-8", "rule-6", "rule-7"), ["rule-8", "rule-9"]))
    whats = [f"the rule {name} matched it in shadow mode, but the match is not stored" for name in ("rule-6", "rule-7")]
    assert found == [Finding(Part.FOLD, "bp_1", 1, what) for what in whats]


def shadow(**changes: Any) -> Shadow:
    row: dict[str, Any] = {
        "rule_id": "rule-7", "breakpoint_id": "bp_1", "rule_version": 2, "recommended": 0, "at": NOW,
        "created_at": NOW, "told": [{"rule": "rule-7", "recommended": False, "version": 2}], "said": {"mode": "shadow"},
    }  # fmt: skip
    return Shadow(**(row | changes))


def test_a_shadow_result_without_a_recommendation_is_valid() -> None:
    assert shadow_findings(shadow()) == []
    assert shadow_findings(shadow(told=[{"rule": "rule-1"}, *shadow().told])) == [], "one of several shadow results"
    assert len(shadow_findings(shadow(recommended=1))) == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"recommended": -1}, "the stored shadow result of rule rule-7 differs from its creation event"),
        (
            {"said": {"mode": "live"}},
            "the rule rule-7 is recorded as a shadow match, but its version 2 is not in shadow mode",
        ),
    ],
    ids=["row", "rule"],
)
def test_a_wrong_shadow_result_is_reported_at_the_creation_event(change: dict[str, Any], what: str) -> None:
    assert shadow_findings(shadow(**change)) == [Finding(Part.FOLD, "bp_1", 1, what)]
