"""The permission table, transcribed independently from the specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.access import Actor, Kind, Permission, Principal, Role, permissions
from assent.core.errors import Forbidden

P = Permission
EXPECTED: dict[Role, set[Permission]] = {
    Role.VIEWER: {P.READ, P.READ_PEOPLE},
    Role.REVIEWER: {P.READ, P.READ_PEOPLE, P.CREATE, P.UPLOAD, P.COMMENT, P.DECIDE, P.CANCEL},
    Role.RULE_ADMIN: {P.READ, P.READ_PEOPLE},
    Role.AUDITOR: {P.READ, P.READ_PEOPLE},
    Role.ADMIN: {
        P.READ, P.READ_PEOPLE, P.CREATE, P.UPLOAD, P.COMMENT, P.CANCEL, P.OVERRIDE, P.EXPIRE, P.METRICS, P.MANAGE,
    },
}  # fmt: skip
DECIDING = {P.DECIDE, P.OVERRIDE, P.EXPIRE, P.MANAGE}


def principal(kind: Kind, *roles: Role, gates: tuple[str, ...] = ("*",), agents: tuple[str, ...] = ("*",)) -> Principal:
    return Principal(
        kind=kind, id="x", name="x", project="default", roles=frozenset(roles), gates=gates, agent_ids=agents
    )


@pytest.mark.parametrize("role", Role)
def test_a_role_has_exactly_the_permissions_in_the_table(role: Role) -> None:
    # New permissions can be added, but the ones listed here must not change unnoticed.
    assert (
        permissions(principal(Kind.PERSON, role)) & set(map(Permission, sorted(set().union(*EXPECTED.values()))))
        == (EXPECTED[role])
    )


@given(st.frozensets(st.sampled_from(Role)))
def test_multiple_roles_grant_the_union_of_their_permissions(roles: frozenset[Role]) -> None:
    alone = [permissions(principal(Kind.PERSON, role)) for role in roles]
    assert permissions(principal(Kind.PERSON, *roles)) == frozenset().union(*alone)


@given(st.sampled_from([Kind.AGENT, Kind.SERVICE]), st.frozensets(st.sampled_from(Role)))
def test_roles_grant_no_permissions_to_agents_and_services(kind: Kind, roles: frozenset[Role]) -> None:
    held = permissions(principal(kind, *roles))
    assert held == permissions(principal(kind))
    assert not held & DECIDING


def test_an_agent_can_create_read_comment_and_cancel() -> None:
    assert {P.CREATE, P.READ, P.COMMENT, P.CANCEL} <= permissions(principal(Kind.AGENT))


def test_only_reviewers_decide_and_only_admins_override() -> None:
    assert [role for role in Role if P.DECIDE in permissions(principal(Kind.PERSON, role))] == [Role.REVIEWER]
    assert [role for role in Role if P.OVERRIDE in permissions(principal(Kind.PERSON, role))] == [Role.ADMIN]


@pytest.mark.parametrize("permission", Permission)
@pytest.mark.parametrize("role", Role)
def test_require_raises_only_if_the_permission_is_missing(role: Role, permission: Permission) -> None:
    who = principal(Kind.PERSON, role)
    if who.may(permission):
        who.require(permission)
    else:
        with pytest.raises(Forbidden) as refused:
            who.require(permission)
        assert refused.value.details["permission"] == permission


@pytest.mark.parametrize(
    ("agent_id", "gate", "allowed"),
    [
        ("ci-1", "ci.test", True),
        ("ci-1", "deploy.prod", False),
        ("other", "ci.test", False),
        ("ci-1", "ci", False),
    ],
)
def test_an_agent_token_is_limited_to_its_gate_and_agent_patterns(agent_id: str, gate: str, allowed: bool) -> None:  # noqa: FBT001
    who = principal(Kind.AGENT, gates=("ci.*", "lint"), agents=("ci-*",))
    if allowed:
        who.require_speaks_for(agent_id, gate)
    else:
        with pytest.raises(Forbidden):
            who.require_speaks_for(agent_id, gate)


@given(st.sampled_from(Kind), st.text(max_size=20))
def test_parsing_a_formatted_actor_restores_it(kind: Kind, name: str) -> None:
    assert Actor.parse(str(Actor(kind, name))) == Actor(kind, name)
