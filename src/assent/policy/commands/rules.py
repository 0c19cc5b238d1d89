"""Commands that manage, test, import and export rules through the API."""

import contextlib
import json
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.cells import cell_len

from assent.console import output
from assent.console.output import Json
from assent.console.renamed import OldAgent
from assent.console.session import session
from assent.contracts.rules import Rule, RuleCheck, RuleEvent
from assent.contracts.rules_file import RulesImported
from assent.contracts.shape import plain
from assent.core.canonical import is_object, strict_loads
from assent.policy.commands.backtests import print_backtest, print_shadow, progress_bar
from assent.policy.commands.local_rules import Local, rules_session
from assent.sdk.errors import InvalidRequest, MalformedJson, PatternError
from assent.sdk.protocol import RuleChanges

app = typer.Typer()
rule = typer.Typer(no_args_is_help=True, help="Manage auto-approval rules.")
app.add_typer(rule, name="rule")

Action: TypeAlias = Literal["auto-approve", "never-auto-approve"]
Mode: TypeAlias = Literal["live", "shadow"]
Id = Annotated[str, typer.Argument(metavar="ID", help="Rule ID")]
Gate = Annotated[str, typer.Argument(metavar="GATE", help="Gate of the breakpoint")]
PatternArgument = Annotated[str, typer.Argument(metavar="PATTERN", help="Breakpoint pattern, such as confirm.*")]
ActionOption = Annotated[Action, typer.Option(help="Action for matching breakpoints")]
Note = Annotated[str | None, typer.Option(help="Note about the rule")]
Why = Annotated[str | None, typer.Option(help="Reason for the change, kept in the rule's history")]
ModeOption = Annotated[
    Mode | None, typer.Option(help="Mode: live rules are enforced, and shadow rules are only logged")
]
Expires = Annotated[str | None, typer.Option(metavar="TIME", help="Expiry time, such as 2027-01-31T18:00:00Z")]
Order = Annotated[int | None, typer.Option(min=0, help="Position in the evaluation order (default: last)")]
Days = Annotated[int, typer.Option(min=1, max=3650, help="Number of days to look back")]
Limit = Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of breakpoints to list for each outcome")]

NOTHING = "No rules. Every breakpoint requires human approval."


@contextlib.contextmanager
def pointing_at(pattern: str) -> Generator[None, None, None]:
    """Show the position of an error in a pattern below the error message."""
    try:
        yield
    except PatternError as error:
        code = output.fail(error)
        _print_place(pattern, error.details)
        raise typer.Exit(code) from error


def _print_place(pattern: str, place: Mapping[str, object]) -> None:
    line, column = place.get("line"), place.get("column")
    lines = pattern.splitlines()
    if not isinstance(line, int) or not isinstance(column, int) or not 0 < line <= len(lines):
        return
    before = output.visible(lines[line - 1][: column - 1])
    output.remark(f"    {output.visible(lines[line - 1])}", style="")
    # Some characters take up two columns.
    output.remark(f"    {' ' * cell_len(before)}^", style="bold red")


@rule.command("add")
def rule_add(  # noqa: PLR0913  # one parameter per option
    pattern: PatternArgument,
    *,
    action: ActionOption = "auto-approve",
    note: Note = None,
    mode: ModeOption = None,
    expires: Expires = None,
    order: Order = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Create the rule without enabling it")] = False,
    why: Why = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Add a rule."""
    fields = _given(note=note, mode=mode, expires_at=expires, order=order, why=why)
    fields |= {"enabled": False} if disabled else {}
    pattern = pattern.strip()
    with pointing_at(pattern), rules_session(local=local) as assent:
        made = assent.add_rule(pattern, action, **fields)
    _print_rule(made, as_json=as_json, done="added")


@rule.command("list")
def rule_list(*, local: Local = False, as_json: Json = False) -> None:
    """List the rules in evaluation order."""
    with rules_session(local=local) as assent:
        found = assent.rules()
    if as_json:
        output.emit({"items": plain(found)})
    else:
        print_rules(found)


def print_rules(found: Sequence[Rule]) -> None:
    now = time.time()
    columns = ("id", "action", "state", "pattern", "note", "created by")
    rows = [(each.id, each.action, _state(each, now), each.pattern, each.note or "", each.created_by) for each in found]
    output.table(columns, rows, wide=("created by",), empty=NOTHING)
    for each in found:
        if each.problem:
            output.remark(f"{each.id} is invalid: {output.visible(each.problem)}", style="red")
        for said in each.warnings or ():
            output.remark(output.visible(said), style="yellow")


def _state(found: Rule, now: float) -> str:
    if found.removed_at:
        return "removed"
    if not found.enabled:
        return "disabled"
    return "expired" if output.until(found.expires_at, now=now) == "passed" else found.mode


@rule.command("show")
def rule_show(rule_id: Id, *, local: Local = False, as_json: Json = False) -> None:
    """Show a rule, even if it has been removed."""
    with rules_session(local=local) as assent:
        found = assent.rule(rule_id)
    _print_rule(found, as_json=as_json)


def _print_rule(found: Rule, *, as_json: bool, done: str = "") -> None:
    if as_json:
        output.emit(plain(found))
        return
    output.fields(
        {
            "id": found.id,
            "pattern": found.pattern,
            "action": found.action,
            "state": _state(found, time.time()),
            "note": found.note,
            "expires": found.expires_at,
            "order": str(found.order),
            "source": found.source,
            "created": f"{found.created_at} by {found.created_by}",
            "changed": found.updated_at if found.version > 1 else None,
            "removed": found.removed_at,
            "problem": found.problem,
        }
    )
    warn(found)
    if done:
        output.remark(f"Rule {done}.")


def warn(found: Rule) -> None:
    for each in found.warnings or ():
        output.remark(f"Warning: {output.visible(each)}", style="yellow")


@rule.command("change")
def rule_change(  # noqa: PLR0913  # one parameter per option
    rule_id: Id,
    *,
    pattern: Annotated[str | None, typer.Option(metavar="PATTERN", help="New pattern")] = None,
    action: Annotated[Action | None, typer.Option(help="New action")] = None,
    note: Note = None,
    no_note: Annotated[bool, typer.Option("--no-note", help="Remove the note")] = False,
    mode: ModeOption = None,
    expires: Expires = None,
    no_expiry: Annotated[bool, typer.Option("--no-expiry", help="Remove the expiry time")] = False,
    order: Order = None,
    why: Why = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Update only the specified fields of a rule."""
    stripped = pattern.strip() if pattern is not None else None
    changes = _given(pattern=stripped, action=action, note=note, mode=mode, expires_at=expires, order=order)
    changes |= {"note": None} if no_note else {}
    changes |= {"expires_at": None} if no_expiry else {}
    if not changes:
        msg = "No changes specified. To see the options, run: assent rule change --help"
        raise typer.BadParameter(msg)
    _change(rule_id, changes | _given(why=why), local=local, as_json=as_json, done="changed", pattern=stripped or "")


@rule.command("enable")
def rule_enable(rule_id: Id, *, why: Why = None, local: Local = False, as_json: Json = False) -> None:
    """Enable a rule."""
    _change(rule_id, {"enabled": True} | _given(why=why), local=local, as_json=as_json, done="enabled")


@rule.command("disable")
def rule_disable(rule_id: Id, *, why: Why = None, local: Local = False, as_json: Json = False) -> None:
    """Disable a rule without removing it."""
    _change(rule_id, {"enabled": False} | _given(why=why), local=local, as_json=as_json, done="disabled")


def _change(
    rule_id: str, changes: Mapping[str, Any], *, local: bool, as_json: bool, done: str, pattern: str = ""
) -> None:
    wanted: RuleChanges = dict(changes)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    with pointing_at(pattern), rules_session(local=local) as assent:
        changed = assent.change_rule(rule_id, **wanted)
    _print_rule(changed, as_json=as_json, done=done)


def _given(**options: object) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@rule.command("remove")
def rule_remove(rule_id: Id, *, why: Why = None, local: Local = False, as_json: Json = False) -> None:
    """Remove a rule. Its past decisions stay in the history."""
    with rules_session(local=local) as assent:
        assent.remove_rule(rule_id, why=why)
    if as_json:
        output.emit({"removed": rule_id})
    else:
        output.say(f"Removed {rule_id}.")


@rule.command("check")
def rule_check(  # noqa: PLR0913  # one parameter per option
    gate: Gate,
    *,
    title: Annotated[str | None, typer.Option(help="Title")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag (repeatable)")] = None,
    expert: Annotated[list[str] | None, typer.Option(help="Expert assigned to the breakpoint (repeatable)")] = None,
    agent_id: Annotated[str | None, typer.Option(help="ID of the requesting agent")] = None,
    run_id: Annotated[str | None, typer.Option(help="Run ID")] = None,
    risk: Annotated[Literal["low", "medium", "high"] | None, typer.Option(help="Risk level")] = None,
    priority: Annotated[Literal["low", "normal", "high", "urgent"] | None, typer.Option(help="Priority")] = None,
    strategy: Annotated[
        Literal["single", "first-response-wins", "collect-all", "quorum"] | None, typer.Option(help="Strategy")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=0, help="Attempt number")] = None,
    hard_stop: Annotated[
        bool, typer.Option("--hard-stop", help="Assume that the agent requires human approval")
    ] = False,
    after_n: Annotated[int | None, typer.Option(min=-1, help="Value of autoApproveAfterN")] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="Payload, as a JSON object")] = None,
    agent: OldAgent = None,
    as_json: Json = False,
) -> None:
    """Check whether a breakpoint would be auto-approved, and explain why (dry run)."""
    with session() as assent:
        found = assent.check_rules(
            gate,
            title=title,
            tags=tag,
            expert=expert[0] if expert and len(expert) == 1 else expert,
            agent_id=agent_id or agent,
            run_id=run_id,
            risk=risk,
            priority=priority,
            strategy=strategy,
            attempt=attempt,
            hard_stop=hard_stop or None,
            auto_approve_after_n=after_n,
            payload=_object(payload, "--payload") if payload is not None else None,
        )
    if as_json:
        output.emit(plain(found))
    else:
        print_verdict(found)
        _print_trace(found)


def print_verdict(found: RuleCheck) -> None:
    if found.recommended:
        output.say(f"Would be auto-approved. {output.visible(found.reason)}", style="green")
    else:
        output.say(f"Requires human approval. {output.visible(found.reason)}", style="yellow")


def _print_trace(found: RuleCheck) -> None:
    """Print each evaluation step and, for rules, the value that each part of the pattern was compared with."""
    output.fields({"consecutive approvals": str(found.consecutive_approvals)})
    for step in found.trace:
        output.say(f"{_word(step.get('held')):<8} {output.visible(str(step.get('reason')))}")
        findings: Sequence[Mapping[str, Any]] = step.get("findings") or ()
        for each in findings:
            actual = _compact(each["actual"]) if "actual" in each else "not set"
            met = f"{output.visible(str(each.get('part')))}  ←  {output.visible(actual)}"
            output.say(f"         {_word(each.get('held')):<8} {met}", style="dim")
    for each in found.shadow:
        would = (
            "would have approved the breakpoint" if each.get("recommended") else "would have required human approval"
        )
        output.say(f"shadow   {output.visible(str(each.get('rule')))} {would}.", style="dim")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _word(held: object) -> str:
    return "unknown" if held is None else "yes" if held else "no"


@rule.command("backtest")
def rule_backtest(
    pattern: PatternArgument,
    *,
    action: ActionOption = "auto-approve",
    days: Days = 30,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """Back-test a rule against recent breakpoints without saving it."""
    pattern = pattern.strip()
    with pointing_at(pattern), session() as assent, progress_bar() as told:
        found = assent.backtest(pattern, action, days=days, limit=limit, on_progress=told)
    if as_json:
        output.emit(plain(found))
    else:
        print_backtest(found)


@rule.command("shadow")
def rule_shadow(rule_id: Id, *, days: Days = 30, limit: Limit = 20, as_json: Json = False) -> None:
    """Compare the results of a rule in shadow mode with human decisions."""
    with session() as assent:
        found = assent.shadow(rule_id, days=days, limit=limit)
    if as_json:
        output.emit(plain(found))
    else:
        print_shadow(found)


@rule.command("events")
def rule_events(rule_id: Id, *, as_json: Json = False) -> None:
    """List the changes to a rule with their authors, times and reasons."""
    with session() as assent:
        found = assent.rule_events(rule_id)
    if as_json:
        output.emit({"items": plain(found)})
        return
    rows: list[Sequence[str]] = []
    before: Mapping[str, Any] = {}
    for event in found:
        rows.append(_event_row(event, before))
        before = event.metadata.get("rule") or {}
    output.table(("seq", "event", "actor", "time", "change", "reason"), rows, wide=("time",), empty="No history.")


def _event_row(event: RuleEvent, before: Mapping[str, Any]) -> Sequence[str]:
    now: Mapping[str, Any] = event.metadata.get("rule") or {}
    changes = [f"{name}: {_compact(value)}" for name, value in now.items() if value != before.get(name)]
    why = str(event.metadata.get("why") or "")
    return (str(event.seq), event.type.removeprefix("rule-"), event.actor, event.timestamp, ", ".join(changes), why)


@rule.command("export")
def rule_export(*, as_json: Json = False) -> None:
    """Print the rules in rules.json format."""
    with session() as assent:
        document = assent.export_rules()
    if as_json:
        output.emit(document)
    else:
        output.say(json.dumps(document, indent=2))


@rule.command("import")
def rule_import(
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(metavar="FILE", help="rules.json file, or - for standard input")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without applying them")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Remove rules that are not in the file")] = False,
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Import all rules in a file, or none of them."""
    document = _object(file.read(), "FILE")
    with _naming_rules(document), session() as assent:
        done = assent.import_rules(document, dry_run=dry_run, replace=replace, why=why)
    if as_json:
        output.emit(plain(done))
    else:
        _print_imported(done)
        for each in done.items:
            for said in each.warnings or ():
                output.remark(f"Warning: {output.visible(said)}", style="yellow")


def _object(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        value = strict_loads(text.encode() if isinstance(text, str) else text)
    except MalformedJson as error:
        msg = f"not valid JSON: {error.message}"
        raise typer.BadParameter(msg, param_hint=where) from error
    if not is_object(value):
        msg = "must be a JSON object"
        raise typer.BadParameter(msg, param_hint=where)
    return value


@contextlib.contextmanager
def _naming_rules(document: Mapping[str, Any]) -> Generator[None, None, None]:
    """If the file is rejected, print every rule that has an error."""
    try:
        yield
    except InvalidRequest as error:
        code = output.fail(error)
        named: Any = error.details.get("errors") or ()
        for each in named:
            output.remark(f"  {output.visible(str(each.get('pointer')))}: {output.visible(str(each.get('detail')))}")
            if "column" in each:
                _print_place(str(document["rules"][each["index"]]["pattern"]).strip(), each)
        output.remark("No rules were imported.")
        raise typer.Exit(code) from error


def _print_imported(done: RulesImported) -> None:
    told = [each for each in done.items if each.outcome != "unchanged"]
    rows = [(each.outcome, each.id or "", each.action, each.pattern) for each in told]
    output.table(("outcome", "id", "action", "pattern"), rows, empty="The rules already match the file.")
    counts = f"{done.added} added, {done.changed} changed, {done.unchanged} unchanged, {done.removed} removed"
    would = "Dry run: nothing was changed. Result: " if done.dry_run else ""
    output.say(f"{would}{counts}; {done.total_rules} in total.")
