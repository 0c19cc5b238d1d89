"""Audits of rules: comparing their rows with their events, and checking which approvals they justify."""

from dataclasses import replace
from typing import Any

import pytest

from assent.audit.chain_checks import Stored, findings
from assent.audit.rule_checks import (
    APART,
    Shadow,
    StoredRule,
    approval_findings,
    approving,
    missing_shadows,
    rule_findings,
    shadow_findings,
    shadows_told,
)
from assent.breakpoints.search_words import words_of
from assent.core.access import Actor, Kind
from assent.core.breakpoint import Breakpoint, approve_by_rule, record, terms_of
from assent.core.canonical import content_digest
from assent.core.chain import Part
from assent.core.rule_changes import changed, created, removed
from assent.core.rulebook import Rule

NOW = 1_800_000_000_000_000
AGENT, RITA = Actor(Kind.AGENT, "bot"), Actor(Kind.PERSON, "rita")
RULE = Rule(id="rule-1", pattern="go", action="auto-approve", project="default", note="Fine.", expires_at=NOW + 1)


def history(*changes: dict[str, Any], at: int = NOW - 10 * APART, gone: int | None = None) -> StoredRule:
    """Return a rule that was created long ago, changed in these ways an hour apart, and possibly removed."""
    rule, event = created(RULE, actor=RITA, at=at)
    events = [event]
    for change in changes:
        at += 60 * APART
        rule, event = changed(replace(rule, **change), actor=RITA, at=at, why="Because.")
        events.append(event)
    if gone is not None:
        rule, event = removed(rule, actor=RITA, at=gone)
        events.append(event)
    return StoredRule(rule, events)


def approved(name: str = "rule-1", version: int | None = 1, auto: Any = None, **made: Any) -> Stored:
    """Return an unmodified breakpoint that a rule approved."""
    payload = {"question": "Go?"} | made.pop("payload", {})
    said: dict[str, Any] = {"recommended": True, "reason": "Yes.", "matchedRule": name, "consecutiveApprovals": 0}
    said |= auto or {}
    said = {key: value for key, value in said.items() if value is not None}
    content = {
        "project": "default", "agentId": "bot", "runId": None, "title": None, "gate": made.get("gate", "go"),
        "tags": ["x"], "payload": payload,
    }  # fmt: skip
    new = Breakpoint(
        id="bp_1", project="default", agent_id="bot", run_id=None, title=None, gate=made.get("gate", "go"),
        payload=payload, tags=("x",), seats=(), strategy="single", risk=made.get("risk"), priority="normal",
        on_timeout="expire", ttl_seconds=None, callback_url=None, digest=content_digest(content), created_at=NOW,
        created_by=AGENT, created_by_id="tok_1", due_at=2**62, auto_approval=said, warnings=(),
    )  # fmt: skip
    first: dict[str, Any] = {"digest": new.digest, "terms": terms_of(new), "agentId": "bot", "gate": new.gate}
    first["autoApproval"] = said
    if version is not None:
        first["ruleVersion"] = version
    new, creation = record(new, "created", actor=AGENT, at=NOW, metadata=first)
    new, release = approve_by_rule(new, name, at=NOW)
    return Stored(
        breakpoint=new, question="Go?", attempt=None, search=words_of(new), purged_at=None,
        events=[creation, release], answers=[], comments=[], files=[],
    )  # fmt: skip


def told(stored: Stored, rule: StoredRule | None = None, approvals: int = 0) -> list[str]:
    assert findings(stored) == []
    events = (rule or history()).events
    found = approval_findings(stored, events, approvals=approvals)
    assert {each.part for each in found} <= {Part.PEOPLE}
    return [each.what.removeprefix(f"it was approved by rule:{approving(stored)}, ") for each in found]


def test_a_valid_approval_by_a_rule_yields_no_findings() -> None:
    assert told(approved()) == []


ROW: dict[str, Any] = {
    "project": "other", "pattern": "*", "action": "never-auto-approve", "mode": "shadow", "enabled": False,
    "expires_at": None, "note": None, "order": 7, "source": "file", "created_by": "person:eve", "created_at": 1,
    "updated_at": 1, "removed_at": 1, "version": 9, "head": "x",
}  # fmt: skip


@pytest.mark.parametrize("field", ROW)
@pytest.mark.parametrize(
    "stored", [history(), history({"note": "New."}), history(gone=NOW)], ids=["new", "old", "gone"]
)
def test_a_rule_row_that_differs_from_its_events_is_detected(stored: StoredRule, field: str) -> None:
    assert rule_findings(stored) == []
    found = rule_findings(replace(stored, rule=replace(stored.rule, **{field: ROW[field]})))
    assert found
    assert {each.rule_id for each in found} == {"rule-1"}


EVENT: dict[str, Any] = {
    "rule_id": "rule-2", "seq": 9, "type": "rule-removed", "actor": AGENT, "at": 1, "metadata": {}, "previous": "x",
    "hash": "x",
}  # fmt: skip


@pytest.mark.parametrize("field", EVENT)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_changed_rule_event_is_detected(field: str, n: int) -> None:
    stored = history({"note": "New."}, {"enabled": False})
    events = list(stored.events)
    events[n] = replace(events[n], **{field: EVENT[field]})
    assert rule_findings(replace(stored, events=events))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_missing_or_duplicate_rule_event_is_detected(n: int) -> None:
    stored = history({"note": "New."}, {"enabled": False})
    events = list(stored.events)
    assert rule_findings(replace(stored, events=events[:n] + events[n + 1 :]))
    assert rule_findings(replace(stored, events=events[: n + 1] + events[n:]))


def test_an_event_after_a_rules_removal_is_reported() -> None:
    stored = history(gone=NOW)
    rule, event = changed(stored.rule, actor=RITA, at=NOW + 1)
    found = rule_findings(StoredRule(replace(rule, removed_at=None), [*stored.events, event]))
    assert [(each.seq, each.what) for each in found] == [(2, "'rule-removed' is not a valid rule event here")]


def test_unreadable_data_is_reported_as_a_finding() -> None:
    stored = history()
    nonsense: Any = 5
    events = [replace(stored.events[0], metadata=nonsense)]
    assert [each.part for each in rule_findings(replace(stored, events=events))] == [Part.ROWS]
    broken = approved()
    broken.breakpoint.__dict__["auto_approval"] = nonsense
    assert [each.part for each in approval_findings(broken, (), approvals=0)] == [Part.ROWS]


WRONG: dict[str, tuple[Stored, StoredRule]] = {
    "whose pattern does not match it": (approved(gate="stay"), history()),
    "whose version 1 was not the current one at that time": (approved(), history({"note": "x"}, at=NOW - 100 * APART)),
    "whose version 2 was not the current one at that time": (approved(version=2), history({"note": "x"}, at=NOW)),
    "whose version 2 does not approve anything": (
        approved(version=2),
        history({"enabled": False}, at=NOW - 61 * APART),
    ),
    "whose version 2 had expired or been removed": (approved(version=2), history(gone=NOW - APART)),
    "which has no version 2": (approved(version=2), history()),
    "which has no version None": (approved(version=None), history()),
    "which does not exist": (approved(name="rule-2"), StoredRule(RULE, [])),
    "but its creation event records rule-9": (approved(auto={"matchedRule": "rule-9"}), history()),
    "but its creation event records no rule": (approved(auto={"matchedRule": None}), history()),
    "but its creation event does not recommend an approval": (approved(auto={"recommended": False}), history()),
    "but it is high risk": (approved(risk="high", payload={"risk": "high"}), history()),
    "but its agent required human approval": (approved(payload={"hardStop": True}), history()),
    "but it requires an option or form answers": (approved(payload={"options": ["a"]}), history()),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_approval_that_its_rule_does_not_justify_is_detected(what: str) -> None:
    assert told(*WRONG[what]) == [what]


def test_a_rule_from_another_project_does_not_justify_an_approval() -> None:
    _, event = created(replace(RULE, project="other"), actor=RITA, at=NOW)
    assert told(approved(), StoredRule(RULE, [event])) == ["which belongs to another project"]


@pytest.mark.parametrize(("left", "right"), [(1, True), (0, False), (-1, False)])
def test_a_rule_stops_applying_exactly_when_it_expires(left: int, *, right: bool) -> None:
    _, event = created(replace(RULE, expires_at=NOW + left), actor=RITA, at=NOW - 1)
    assert (told(approved(), StoredRule(RULE, [event])) == []) is right


@pytest.mark.parametrize("off", [0, 1, APART, APART + 1])
def test_node_clocks_can_differ_by_up_to_a_minute(off: int) -> None:
    """Another node may still use the previous version, or already know the next one while its clock is behind."""
    before = history({"enabled": False}, at=NOW - 60 * APART - off)
    early = history(at=NOW + off)
    assert (told(approved(), before) == []) is (off <= APART)
    assert (told(approved(), early) == []) is (off <= APART)


COUNT: dict[str, Any] = {"matchedRule": None, "consecutiveApprovals": 3}


@pytest.mark.parametrize(
    ("asked", "auto", "approvals", "what"),
    [
        (3, COUNT, 3, None),
        (2, COUNT, 2, None),
        (4, COUNT, 4, "but its creation event records 3 consecutive approvals instead of 4"),
        (3, COUNT, 2, "but the number of consecutive approvals was 2 instead of 3"),
        (0, COUNT, 3, "but it does not request auto-approval"),
        (None, COUNT, 3, "but it does not request auto-approval"),
        ("3", COUNT, 3, "but it does not request auto-approval"),
        (3, COUNT | {"matchedRule": "rule-1"}, 3, "but its creation event records a rule"),
    ],
)
def test_an_approval_by_count_requires_a_request_and_enough_approvals(
    asked: Any, auto: dict[str, Any], approvals: int, what: str | None
) -> None:
    stored = approved("autoApproveAfterN", None, auto, payload={"autoApproveAfterN": asked})
    assert told(stored, approvals=approvals) == ([what] if what else [])


def test_an_approval_by_a_rule_must_be_immediate_and_without_other_events() -> None:
    stored = approved()
    new, event = record(stored.breakpoint, "commented", actor=AGENT, at=NOW + 1, metadata={"comment": "x"})
    found = approval_findings(
        replace(stored, breakpoint=new, events=[*stored.events, event]), history().events, approvals=0
    )
    assert [each.part for each in found] == [Part.ENDS]
    late = replace(stored, events=[stored.events[0], replace(stored.events[1], at=NOW + 1)])
    assert [each.part for each in approval_findings(late, history().events, approvals=0)] == [Part.ENDS]


def test_a_recommendation_that_was_not_followed_is_detected() -> None:
    stored = approved()
    open_ = stored.breakpoint.but(status="waiting", decision=None, ended_by=None, ended_at=None, result=None)
    (found,) = approval_findings(replace(stored, breakpoint=open_), (), approvals=0)
    assert found.what == "a rule approved it at creation, but its status is waiting"


def _events_of_shadow(*entries: dict[str, Any]) -> Stored:
    stored = approved()
    first = stored.events[0]
    return replace(stored, events=[replace(first, metadata=dict(first.metadata) | {"shadow": list(entries)})])


ENTRY = {"rule": "rule-7", "recommended": True, "version": 2}
ROW_OF_SHADOW = Shadow("rule-7", "bp_1", 2, 1, NOW, NOW, [ENTRY], {"mode": "shadow"})


def test_a_shadow_result_must_match_its_creation_event() -> None:
    stored = _events_of_shadow(ENTRY)
    assert shadows_told(stored) == ["rule-7"]
    assert list(missing_shadows(stored, ["rule-7"])) == []
    assert [each.breakpoint_id for each in missing_shadows(stored, [])] == ["bp_1"]
    assert shadow_findings(ROW_OF_SHADOW) == []


@pytest.mark.parametrize(
    "change",
    [
        {"rule_id": "rule-8"}, {"rule_version": 1}, {"recommended": 0}, {"recommended": 2}, {"at": NOW + 1},
        {"created_at": None}, {"told": []}, {"said": None}, {"said": {"mode": "live"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_shadow_result_that_differs_from_its_creation_event_is_detected(change: dict[str, Any]) -> None:
    assert len(shadow_findings(replace(ROW_OF_SHADOW, **change))) == 1


def test_an_unreadable_creation_event_yields_no_shadow_results() -> None:
    first: Any = replace(approved().events[0], metadata={"shadow": 5})
    assert shadows_told(replace(approved(), events=[first])) == []
    assert shadows_told(replace(approved(), events=[])) == []
