"""Permissions for rules and the audit log, and the errors for tokens that lack permissions."""

from dataclasses import replace

import pytest

from assent.core.access import ANYTHING, EVERY_ROLE, Actor, Kind, Permission, Principal, Role, permissions, roles
from assent.core.errors import Forbidden


def somebody(kind: Kind = Kind.PERSON, *held: Role, **more: tuple[str, ...]) -> Principal:
    gates, agents = more.get("gates", ANYTHING), more.get("agents", ANYTHING)
    return Principal(
        kind=kind, id="per_1", name="ann", project="shop", roles=frozenset(held), gates=gates, agent_ids=agents
    )


@pytest.mark.parametrize(
    ("permission", "holders"),
    [(Permission.RULES, {Role.RULE_ADMIN, Role.ADMIN}), (Permission.AUDIT, {Role.AUDITOR, Role.ADMIN})],
)
def test_only_the_expected_roles_can_write_rules_and_read_the_audit_log(
    permission: Permission, holders: set[Role]
) -> None:
    assert {role for role in Role if somebody(Kind.PERSON, role).may(permission)} == holders


def test_agents_and_services_have_only_the_expected_permissions() -> None:
    agent = {"create", "upload", "read", "comment", "cancel"}
    assert permissions(somebody(Kind.AGENT)) == set(map(Permission, agent))
    assert permissions(somebody(Kind.SERVICE)) == {Permission.METRICS}


def test_a_principal_has_no_roles_or_limits_by_default() -> None:
    who = Principal(kind=Kind.PERSON, id="per_1", name="ann", project="shop")
    assert (who.roles, who.everywhere, who.policy) == (frozenset(), False, {})
    assert (who.gates, who.agent_ids) == (("*",), ("*",))
    assert (who.creates_per_minute, who.token_id, who.expires_at) == (None, None, None)
    assert permissions(who) == frozenset()
    assert who.actor == Actor(Kind.PERSON, "ann")


def test_a_principal_is_hashable_despite_its_policy() -> None:
    who = replace(somebody(), policy={"retentionDays": 1})
    assert {who: 1}[replace(who)] == 1


def test_a_permission_error_names_the_caller_and_the_project() -> None:
    def refusal(who: Principal) -> str:
        with pytest.raises(Forbidden) as refused:
            who.require(Permission.MANAGE)
        return refused.value.message

    assert refusal(somebody(Kind.AGENT)) == "An agent token lacks the “manage” permission in project shop."
    assert refusal(somebody()) == "ann (no roles) lacks the “manage” permission in project shop."
    assert refusal(somebody(Kind.PERSON, Role.VIEWER, Role.AUDITOR)) == (
        "ann (auditor, viewer) lacks the “manage” permission in project shop."
    )


def test_a_token_limited_by_gate_can_use_any_agent_id_and_vice_versa() -> None:
    by_gate, by_agent = somebody(Kind.AGENT, gates=("ci.*", "lint")), somebody(Kind.AGENT, agents=("ci-*", "bot"))
    by_gate.require_speaks_for("anybody", "lint")
    by_agent.require_speaks_for("bot", "anything")
    with pytest.raises(
        Forbidden, match=r"cannot create breakpoints at the gate 'deploy'; it is limited to ci\.\*, lint\."
    ):
        by_gate.require_speaks_for("anybody", "deploy")
    with pytest.raises(Forbidden, match=r"cannot act for agent 'eve'; it is limited to ci-\*, bot\."):
        by_agent.require_speaks_for("eve", "anything")
    somebody(Kind.AGENT).require_speaks_for("anybody", "anything")


def test_roles_are_parsed_from_their_names() -> None:
    assert roles(["viewer", "rule-admin"]) == {Role.VIEWER, Role.RULE_ADMIN}
    assert roles([]) == frozenset()
    assert frozenset(Role) == EVERY_ROLE
    with pytest.raises(ValueError, match="boss"):
        roles(["boss"])


def test_actor_names_can_contain_colons() -> None:
    assert Actor.parse("agent:a:b") == Actor(Kind.AGENT, "a:b")
    assert str(Actor(Kind.AGENT, "a:b")) == "agent:a:b"
