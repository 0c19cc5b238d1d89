"""Helpers that create data through the services."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.access import Kind, Principal, Role
from assent.core.breakpoint import Breakpoint
from assent.core.draft import draft
from assent.core.rulebook import Rule
from assent.core.terms import Answer
from assent.db.transaction import Transaction
from assent.people.usecases.people import PeopleService
from assent.policy.usecases.rules import NewRule, RuleService
from tests.support.nodes import Node

AGENT = Principal(kind=Kind.AGENT, id="tok_maker", name="maker", project="default")
RITA = Principal(kind=Kind.PERSON, id="per_rita", name="rita", project="default", roles=frozenset({Role.RULE_ADMIN}))


async def person(node: Node, name: str, *roles: str, project: str = "default") -> Principal:
    held = frozenset(map(Role, roles))

    def use_case(tx: Transaction) -> str:
        return node.assent[PeopleService].create_person(tx, name, project=project, roles=held).id

    made = await node.assent.database.write(use_case)
    return Principal(kind=Kind.PERSON, id=made, name=name, project=project, roles=held)


def creation(
    node: Node, payload: Mapping[str, Any] | None = None, *, by: Principal = AGENT, once: Once | None = None, **top: Any
) -> "partial[Any]":
    wanted = draft({"agentId": "agent-1", "payload": {"question": "Go?"} | dict(payload or {})} | top)
    return partial(
        node.assent[BreakpointService].create, draft=wanted, by=by, digest=wanted.digest(by.project), once=once
    )


def adding(node: Node, pattern: str, action: str = "auto-approve", **more: Any) -> "partial[Rule]":
    new = NewRule(pattern=pattern, action=action, **more)
    return partial(node.assent[RuleService].add, new=new, by=RITA, source="api", why="To test.")


async def create(node: Node, payload: Mapping[str, Any] | None = None, **options: Any) -> str:
    made = await node.assent.database.write(creation(node, payload, **options))
    return made if isinstance(made, str) else str(made.id)


async def respond(node: Node, breakpoint_id: str, by: Principal, *, approved: bool = True, **answer: Any) -> None:
    given = Answer(approved=approved, **answer)
    use_case = partial(
        node.assent[BreakpointService].respond, breakpoint_id=breakpoint_id, answer=given, by=by, via="api"
    )
    await node.assent.database.write(use_case)


async def stored(node: Node, breakpoint_id: str, project: str = "default") -> Breakpoint:
    return await node.assent.database.write(lambda tx: tx[Breakpoints].get(breakpoint_id, project=project))


async def rows(node: Node, statement: str, **params: Any) -> Sequence[Sequence[Any]]:
    return await node.assent.database.read(lambda tx: [tuple(row) for row in tx.session.all(statement, params)])
