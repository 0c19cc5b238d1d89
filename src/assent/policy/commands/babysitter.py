"""The `breakpoint:` commands from babysitter, with the same JSON output, implemented on top of the API."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.renamed import OldAgent, OldTags
from assent.console.session import gathered, session
from assent.contracts.history import GateSummary, HistoryEntry, HistoryPage
from assent.contracts.rules import Rule
from assent.contracts.shape import plain
from assent.core.plurals import plural
from assent.policy.commands.local_rules import Local, LocalRulebook, rules_session
from assent.policy.commands.rules import (
    ActionOption,
    Gate,
    Id,
    Note,
    PatternArgument,
    pointing_at,
    print_rules,
    print_verdict,
    warn,
)
from assent.sdk.client import Assent
from assent.sdk.errors import NotFound
from assent.sdk.protocol import HistoryFilters

app = typer.Typer()
spaced = typer.Typer(name="breakpoint", no_args_is_help=True, help="The `breakpoint:` commands, written with a space.")


def approve_rule(
    pattern: PatternArgument,
    *,
    action: ActionOption = "auto-approve",
    note: Note = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Add a rule. If an identical active rule exists, only its note is updated."""
    pattern = pattern.strip()
    with pointing_at(pattern), rules_session(local=local) as assent:
        standing = assent.rules()
        same = [each for each in standing if (each.pattern, each.action) == (pattern, action) and _plain_live(each)]
        made = _noted(assent, same[0], note) if same else assent.add_rule(pattern, action, note=note)
    total = len(standing) + (0 if same else 1)
    if as_json:
        output.emit({"success": True, "rule": plain(made), "totalRules": total})
    else:
        output.say(f"{made.id}: {made.action} {output.visible(made.pattern)} ({total} in total)")
        warn(made)


def _plain_live(found: Rule) -> bool:
    """Return whether a rule has the same effect as a new one: enabled, live and without an expiry."""
    return found.enabled and found.mode == "live" and found.expires_at is None


def _noted(assent: Assent | LocalRulebook, same: Rule, note: str | None) -> Rule:
    return same if note is None or note == same.note else assent.change_rule(same.id, note=note)


def list_rules(*, local: Local = False, as_json: Json = False) -> None:
    """List the rules in evaluation order."""
    with rules_session(local=local) as assent:
        found = assent.rules()
    if as_json:
        output.emit({"rules": plain(found), "count": len(found)})
    else:
        print_rules(found)


def remove_rule(rule_id: Id, *, local: Local = False, as_json: Json = False) -> None:
    """Remove a rule. Its past decisions stay in the history."""
    with rules_session(local=local) as assent:
        try:
            assent.remove_rule(rule_id)
        except NotFound as error:
            if as_json:
                output.emit({"success": False, "ruleId": rule_id, "error": error.message})
            raise typer.Exit(output.fail(error)) from error
        total = len(assent.rules())
    if as_json:
        output.emit({"success": True, "ruleId": rule_id, "totalRules": total})
    else:
        output.say(f"Removed {rule_id} ({total} remaining).")


def should_auto_approve(  # noqa: PLR0913  # one parameter per option
    gate: Gate,
    *,
    tag: Annotated[list[str] | None, typer.Option(help="Tag (repeatable)")] = None,
    expert: Annotated[list[str] | None, typer.Option(help="Expert assigned to the breakpoint (repeatable)")] = None,
    agent_id: Annotated[str | None, typer.Option(help="ID of the requesting agent")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 10 if human approval is required")] = False,
    tags: OldTags = None,
    agent: OldAgent = None,
    as_json: Json = False,
) -> None:
    """Check whether a breakpoint would be auto-approved. For a full explanation, run `assent rule check`."""
    with session() as assent:
        found = assent.check_rules(
            gate,
            tags=[*(tag or ()), *(part for each in (tags or "").split(",") if (part := each.strip()))],
            expert=expert[0] if expert and len(expert) == 1 else expert,
            agent_id=agent_id or agent,
        )
    if as_json:
        told = plain(found)
        output.emit({name: value for name, value in told.items() if name not in {"trace", "shadow"}})
    else:
        print_verdict(found)
    if exit_code and not found.recommended:
        raise typer.Exit(output.REJECTED)


def history(
    *,
    gate: Annotated[
        str | None,
        typer.Option(
            "--gate",
            "--breakpoint-id",
            metavar="NAME",
            help="Gate to filter by; also shows the gate's approval statistics",
        ),
    ] = None,
    agent_id: Annotated[str | None, typer.Option(help="Agent to filter by")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results")] = 20,
    agent: OldAgent = None,
    as_json: Json = False,
) -> None:
    """List past breakpoints and their outcomes, newest first."""
    with session() as assent:
        found = _pages(assent, HistoryFilters(gate=gate, agent_id=agent_id or agent), limit)
    if as_json:
        told = {"entries": plain(found.items), "count": len(found.items)}
        output.emit(told | ({"summary": plain(found.summary)} if found.summary else {}))
        return
    now = time.time()
    columns = ("id", "status", "gate", "agent", "by", "asked", "took", "comment")
    rows = [_row(each, now) for each in found.items]
    output.table(columns, rows, wide=("agent", "comment"), empty="No breakpoints yet.")
    if found.summary:
        _print_summary(found.summary)
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _pages(assent: Assent, filters: HistoryFilters, limit: int) -> HistoryPage:
    summaries: list[GateSummary | None] = []

    def read(most: int, cursor: str | None) -> tuple[list[HistoryEntry], str | None]:
        page = assent.history(**(filters | HistoryFilters(limit=most, cursor=cursor)))
        summaries.append(page.summary)
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return HistoryPage(items=items, next_cursor=cursor, summary=summaries[0])


def _row(each: HistoryEntry, now: float) -> Sequence[str]:
    return (
        each.id,
        each.decision or each.status,
        each.gate,
        each.agent_id,
        each.decided_by or "",
        output.ago(each.created_at, now=now),
        _seconds(each.response_seconds),
        each.feedback or "",
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"


def _print_summary(summary: GateSummary) -> None:
    outcomes = ("approved", "rejected", "auto", "expired", "cancelled", "waiting")
    counts = plain(summary)
    told = ", ".join(f"{counts[name]} {name}" for name in outcomes if counts[name])
    older = (
        "" if summary.complete else f" since {summary.since} (only the latest {summary.counted_at_most} are counted)"
    )
    output.fields(
        {
            "gate": summary.gate,
            "asked": f"{plural(summary.asked, 'time')}{older}: {told}" if told else "never",
            "median decision time": _seconds(summary.median_response_seconds),
            "consecutive approvals": ", ".join(f"{each.agent_id}: {each.streak}" for each in summary.streaks),
        }
    )


# Each command can be written with a colon, as in babysitter, or with a space.
for _command in (approve_rule, list_rules, remove_rule, should_auto_approve, history):
    _name = _command.__name__.replace("_", "-")
    app.command(f"breakpoint:{_name}")(_command)
    spaced.command(_name)(_command)
