"""API endpoints for rules."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Path, Query, Response
from msgspec import UNSET

from assent.breakpoints.api.breakpoints import version_of
from assent.contracts import rules as wire
from assent.contracts.create import CreateBreakpoint
from assent.contracts.shape import json_of
from assent.core.access import Kind, Permission, Principal
from assent.core.draft import draft
from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Subject
from assent.core.rule_changes import RuleEvent
from assent.core.rulebook import Rule, expiry, problem_of
from assent.core.rules import Recommendation
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.endpoint import PeopleReader, RuleWriter, Sent, Who, With, checked, router
from assent.policy.rule_warnings import warnings
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import NewRule, Question, RuleService

rules = router("rules")
RuleId = Annotated[str, Path(pattern=r"^rule-[0-9a-z]{1,60}$")]
Why = Annotated[str | None, Query(max_length=1000, description="Reason for the removal, kept in the rule's history.")]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="ETag of the version that you have seen. The request fails if the rule has changed since then.",
    ),
]
_NULLABLE = frozenset({"note", "expires_at"})
"""Fields that can be cleared with null; null is invalid for all other fields."""


@rules.get("/rules", summary="Lists this project's rules in evaluation order")
async def list_rules(who: PeopleReader, services: With) -> wire.Rules:
    def use_case(tx: Transaction) -> wire.Rules:
        # Runs in a reader thread with cached patterns, because parsing thousands of them would block the event loop.
        found = services[RuleService].standing(tx, who.project)
        return wire.Rules(items=[_view(rule, problem) for rule, problem in found])

    return await services.database.read(use_case)


@rules.post("/rules", status_code=201, summary="Creates a rule")
async def create_rule(body: Sent[wire.CreateRule], who: RuleWriter, services: With) -> wire.Rule:
    new = NewRule(
        pattern=body.pattern,
        action=body.action,
        note=body.note,
        mode=body.mode,
        expires_at=expiry(body.expires_at) if body.expires_at is not None else None,
        enabled=body.enabled,
        order=body.order,
    )
    use_case = partial(services[RuleService].add, new=new, by=who, source="api", why=body.why)
    return _one(await services.database.write(use_case))


@rules.post(
    "/rules/check",
    response_model_exclude_none=True,
    summary="Checks whether a breakpoint would be auto-approved (dry run)",
)
async def check_rules(body: Sent[wire.CheckRules], who: Who, services: With) -> wire.RuleCheck:
    who.require(Permission.READ)
    question = _question(body, who)
    who.require_speaks_for(body.agent_id, question.gate)

    def use_case(tx: Transaction) -> Recommendation:
        return services[RuleService].recommend(tx, who.project, question, now=tx.now())

    found = await services.database.read(use_case)
    trace = [step.body() for step in found.trace]
    shadow = [each.body() for each in found.shadow_matches]
    return wire.RuleCheck.of(found.body() | {"trace": trace, "shadow": shadow})


@rules.get(
    "/rules/claimed",
    summary="Lists the live rules that approve based on the agent ID, and the tokens that may claim any agent ID",
)
async def rules_on_claimed_ids(who: PeopleReader, services: With) -> wire.RulesOnClaimedIds:
    def use_case(tx: Transaction) -> wire.RulesOnClaimedIds:
        found, tokens = services[RuleService].on_claimed_ids(tx, who.project, now=tx.now())
        return wire.RulesOnClaimedIds(
            items=[_view(rule, None) for rule in found],
            tokens=[wire.ClaimingToken(id=each.id, name=each.name) for each in tokens],
        )

    return await services.database.read(use_case)


@rules.get("/rules/{rule_id:rule}", summary="Gets a rule, even if it has been removed")
async def show_rule(rule_id: RuleId, who: PeopleReader, services: With, response: Response) -> wire.Rule:
    found = await services.database.read(lambda tx: tx[Rules].get(rule_id, project=who.project))
    response.headers["ETag"] = f'"v{found.version}"'
    return _one(found)


@rules.get("/rules/{rule_id}/events", summary="Lists the changes to a rule, oldest first")
async def rule_events(rule_id: RuleId, who: PeopleReader, services: With) -> wire.RuleEvents:
    def use_case(tx: Transaction) -> list[RuleEvent]:
        return tx[Rules].events(tx[Rules].get(rule_id, project=who.project).id)

    return wire.RuleEvents(items=[_event_view(each) for each in await services.database.read(use_case)])


@rules.patch("/rules/{rule_id:rule}", summary="Updates, enables or disables a rule")
async def change_rule(
    rule_id: RuleId, body: Sent[wire.ChangeRule], who: RuleWriter, services: With, if_match: IfMatch = None
) -> wire.Rule:
    use_case = partial(
        services[RuleService].change,
        rule_id=rule_id,
        changes=_changes(body),
        by=who,
        why=body.why or None,
        if_match=version_of(if_match),
    )
    return _one(await services.database.write(use_case))


@rules.delete(
    "/rules/{rule_id:rule}", status_code=204, summary="Removes a rule; its past decisions remain in the history"
)
async def remove_rule(
    rule_id: RuleId, who: RuleWriter, services: With, why: Why = None, if_match: IfMatch = None
) -> Response:
    use_case = partial(services[RuleService].remove, rule_id=rule_id, by=who, why=why, if_match=version_of(if_match))
    await services.database.write(use_case)
    return Response(status_code=204)


def _changes(body: wire.ChangeRule) -> dict[str, Any]:
    found = {name: getattr(body, name) for name in body.__struct_fields__ if name != "why"}
    changes = {name: value for name, value in found.items() if value is not UNSET}
    for name, value in changes.items():
        if value is None and name not in _NULLABLE:
            raise InvalidRequest.at(f"/{name}", "cannot be null")
    if isinstance(body.expires_at, str):
        changes["expires_at"] = expiry(body.expires_at)
    return changes


def _question(body: wire.CheckRules, who: Principal) -> Question:
    """Build the question exactly as for a new breakpoint, so that checking and creating have the same result.

    If a person asks, the agent ID is trusted, and approvals for all of the agent's tokens count.
    """
    named = json_of(body)
    for other in ("payload", "agentId", "tags", "priority"):
        named.pop(other, None)
    raised: dict[str, Any] = {
        "agentId": body.agent_id or "somebody",
        "tags": body.tags,
        "priority": body.priority,
        "payload": {**(body.payload or {}), **named},
    }
    run_id = raised["payload"].pop("runId", None)
    checked(raised | {"runId": run_id}, CreateBreakpoint)
    question = Question.of(draft(raised | {"runId": run_id}), by=who if who.kind is Kind.AGENT else None)
    if body.agent_id is None:
        # The agent ID is unknown, and rules must not be evaluated against the placeholder.
        values = dict(question.subject.values) | {"agentId": None}
        return replace(question, subject=Subject(question.gate, values), agent_id="")
    return question


def rule_body(rule: Rule, problem: str | None) -> dict[str, Any]:
    return {
        "id": rule.id,
        "pattern": rule.pattern,
        "action": rule.action,
        "mode": rule.mode,
        "enabled": rule.enabled,
        "order": rule.order,
        "note": rule.note,
        "source": rule.source,
        "createdBy": rule.created_by,
        "createdAt": iso(rule.created_at),
        "updatedAt": iso(rule.updated_at),
        "expiresAt": iso(rule.expires_at) if rule.expires_at is not None else None,
        "removedAt": iso(rule.removed_at) if rule.removed_at is not None else None,
        "version": rule.version,
        "problem": problem,
    }


def _view(rule: Rule, problem: str | None) -> wire.Rule:
    told = {"warnings": warnings(rule.pattern, rule.action)}
    return wire.Rule.of(rule_body(rule, problem) | told)


def _one(rule: Rule) -> wire.Rule:
    return _view(rule, problem_of(rule))


def _event_view(event: RuleEvent) -> wire.RuleEvent:
    return wire.RuleEvent.of(
        {
            "ruleId": event.rule_id,
            "seq": event.seq,
            "type": event.type,
            "actor": str(event.actor),
            "timestamp": iso(event.at),
            "metadata": dict(event.metadata),
            "hash": event.hash,
        }
    )
