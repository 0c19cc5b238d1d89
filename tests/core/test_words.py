"""Names that databases, agents and reviewers rely on, repeated here because they must not change."""

from enum import StrEnum

import pytest

from assent.audit import chain_checks as audit
from assent.core import access, chain, rule_changes, rulebook, rules, secrets, strategies
from assent.core import seats as routing
from assent.core.breakpoint import EVENT_OF, Action, Status
from assent.core.patterns import expressions

WORDS: dict[type[StrEnum], list[str]] = {
    access.Role: ["viewer", "reviewer", "rule-admin", "auditor", "admin"],
    access.Permission: [
        "create", "read", "comment", "decide", "override", "cancel", "expire", "upload", "metrics", "read people",
        "audit", "write rules", "manage",
    ],
    access.Kind: ["agent", "person", "service", "system", "rule"],
    chain.Part: ["chain", "ends", "fold", "answers", "content", "people", "rows"],
    Status: ["waiting", "released", "expired", "cancelled"],
    Action: [
        "comment", "claim", "unclaim", "assign", "drop-answer", "respond", "release", "expire", "cancel",
    ],
    expressions.Kind: ["text", "number", "true or false", "list", "object"],
    rulebook.RuleAction: ["auto-approve", "never-auto-approve"],
    rulebook.RuleMode: ["live", "shadow"],
    rules.Source: [
        "never-auto-approve", "alwaysBreakOn", "hardStop", "risk", "questions", "auto-approve", "autoApproveAfterN",
        "prompt",
    ],
    strategies.Decision: ["approved", "rejected"],
}  # fmt: skip


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}")
def test_published_names_never_change(kind: type[StrEnum]) -> None:
    # New names can be added, but existing ones never change.
    assert set(WORDS[kind]) <= set(kind)


def test_strategy_names_never_change() -> None:
    assert set(strategies.STRATEGIES) >= {"single", "first-response-wins", "collect-all", "quorum"}
    assert {"collect-all", "quorum"} <= strategies.NEEDS_EXPERTS


def test_events_are_named_in_the_past_tense() -> None:
    assert chain.PURGED == "purged"
    assert set(audit.SPOKEN) == {"commented", "responded"}
    changes = {rule_changes.CREATED, rule_changes.CHANGED, rule_changes.REMOVED}
    assert changes == {"rule-created", "rule-changed", "rule-removed"}


def test_every_action_has_its_own_event() -> None:
    assert EVENT_OF == {
        Action.COMMENT: "commented",
        Action.CLAIM: "claimed",
        Action.UNCLAIM: "unclaimed",
        Action.ASSIGN: "assigned",
        Action.REMIND: "reminded",
        Action.ESCALATE: "escalated",
        Action.DELEGATE: "delegated",
        Action.DROP_ANSWER: "answer-dropped",
        Action.RESPOND: "responded",
        Action.RELEASE: "released",
        Action.EXPIRE: "expired",
        Action.CANCEL: "cancelled",
    }


def test_owner_and_system_actor_names_never_change() -> None:
    assert routing.OWNER == "owner"
    system = (str(access.TIMEOUT), str(access.RETENTION), str(access.UNDO), str(access.PROJECT_REMOVED))
    assert system == ("system:timeout", "system:retention", "system:undo", "system:project-removed")


def test_token_prefixes_never_change() -> None:
    kinds = {"agent": "asta_", "person": "astp_", "service": "asts_", "link": "astl_", "session": "astw_"}
    assert {kind: secrets.secret(kind, bytes(32))[:5] for kind in kinds} == kinds
