"""API endpoints for back-tests, shadow reports and proposed rules."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from starlette.responses import StreamingResponse

from assent.contracts import rules as wire
from assent.contracts.backtest import Backtest, BacktestRule
from assent.contracts.shape import json_of
from assent.core.errors import AssentError
from assent.core.rulebook import RuleAction
from assent.core.timestamps import iso
from assent.http.endpoint import PeopleReader, Sent, With, router
from assent.http.problems import problem
from assent.http.query import known_id
from assent.policy.api.rules import RuleId
from assent.policy.backtest import Effect, Outcome
from assent.policy.store.backtest import Named
from assent.policy.usecases.backtest import BacktestService, Progress, Report, Run, Wanted

backtests = router("rules")
NDJSON = "application/x-ndjson"
_LINES: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}}


@backtests.post(
    "/rules/backtest",
    response_model=Backtest,
    responses=_LINES,
    summary="Back-tests a rule against recent breakpoints",
)
async def backtest(body: Sent[BacktestRule], request: Request, who: PeopleReader, services: With) -> Any:  # noqa: ANN401  # JSON or a stream
    wanted = Wanted(pattern=body.pattern, action=body.action, days=body.days, limit=body.limit)
    # Validate the request before the response starts, so that errors have the correct status code.
    run = await services[BacktestService].prepare(wanted, by=who)
    if NDJSON in request.headers.get("accept", ""):
        # X-Accel-Buffering prevents nginx from buffering the progress reports until the end.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_lines(services[BacktestService], run), headers=headers, media_type=NDJSON)
    return _view(await services[BacktestService].report(run))


@backtests.get("/rules/{rule_id}/shadow", summary="Compares a shadow rule with human decisions")
async def shadow(
    rule_id: RuleId,
    who: PeopleReader,
    services: With,
    days: Annotated[int, Query(ge=1, le=3650, description="Number of days to look back.")] = 30,
    limit: Annotated[int, Query(ge=0, le=1000, description="Maximum number of breakpoints to list.")] = 50,
) -> wire.ShadowReport:
    found = await services[BacktestService].shadow(rule_id, days=days, limit=limit, by=who)
    counts = found.counts
    return wire.ShadowReport.of(
        {
            "ruleId": rule_id,
            "pattern": found.rule.pattern,
            "action": found.rule.action,
            "mode": found.rule.mode,
            "days": days,
            "since": iso(found.since),
            "sinceVersion": found.since_version,
            "matched": counts["would_approve"] + counts["would_stop"] + counts["stopped"],
            "wouldApprove": counts["would_approve"],
            "wouldStop": counts["would_stop"],
            "stopped": counts["stopped"],
            "agreed": counts["agreed"],
            "disagreed": counts["disagreed"],
            "undecided": counts["undecided"],
            "auto": counts["auto"],
            "disagreements": _items(found.disagreements),
            "more": counts["disagreed"] > len(found.disagreements),
        }
    )


@backtests.post(
    "/breakpoints/{breakpoint_id}/always-approve",
    summary="Proposes the narrowest rule that matches similar breakpoints",
)
async def always_approve(
    breakpoint_id: str, who: PeopleReader, services: With, body: Sent[wire.ProposeRule | None] = None
) -> wire.RuleProposal:
    asked = body or wire.ProposeRule()
    found = await services[BacktestService].propose(known_id(breakpoint_id), days=asked.days, limit=asked.limit, by=who)
    report = await services[BacktestService].report(found.run)
    return wire.RuleProposal.of(
        {
            "pattern": report.wanted.pattern,
            "action": report.wanted.action,
            "backtest": _body(report),
            "maySave": found.may_save,
        }
    )


async def _lines(service: BacktestService, run: Run) -> AsyncGenerator[bytes, None]:
    """Yield a line for each progress report, and finally a line with the result or the problem."""
    try:
        async for step in service.walk(run):
            yield msgspec.json.encode(_step(step)) + b"\n"
    except AssentError as error:
        # The status code has already been sent, so report the problem as a line.
        yield b'{"problem":' + bytes(problem(error).body) + b"}\n"


def _step(step: Progress | Report) -> dict[str, Any]:
    if isinstance(step, Progress):
        return {"progress": {"scanned": step.scanned, "total": step.total}}
    return {"result": json_of(_view(step), nulls=True)}


def _view(report: Report) -> Backtest:
    return Backtest.of(_body(report))


def _body(report: Report) -> dict[str, Any]:
    counts, outcomes, acting = report.counts, report.counts.outcomes, report.acting
    approves = report.wanted.action == RuleAction.AUTO
    return {
        "pattern": report.wanted.pattern,
        "action": report.wanted.action,
        "days": report.wanted.days,
        "since": iso(report.window.since),
        "until": iso(report.window.until),
        "scanned": counts.scanned,
        "matched": report.matched,
        "unknown": report.unknown,
        "stopped": counts.effects[Effect.STOPPED],
        "purged": counts.effects[Effect.PURGED],
        "wouldApprove": acting if approves else 0,
        "wouldStop": 0 if approves else acting,
        **{each.value: outcomes[each] for each in Outcome},
        **{name: _items(report.items.get(each, ())) for each, name in _LISTS.items()},
        "more": {
            name: each in report.items and outcomes[each] > len(report.items[each]) for each, name in _LISTS.items()
        },
    }


_LISTS = {Outcome.REJECTED: "rejections", Outcome.WAITING: "waitingItems", Outcome.AUTO: "autoItems"}


def _items(named: Sequence[Named]) -> list[dict[str, Any]]:
    return [
        {
            "id": each.id,
            "gate": each.gate,
            "title": each.title,
            "agentId": each.agent_id,
            "createdAt": iso(each.created_at),
            "decision": each.decision,
            "decidedBy": each.ended_by,
            "at": iso(each.ended_at) if each.ended_at is not None else None,
            "feedback": each.feedback,
        }
        for each in named
    ]
