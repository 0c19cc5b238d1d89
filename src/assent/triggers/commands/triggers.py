"""Commands that manage triggers through the API and show when schedules fire next."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.pairs import inputs_of
from assent.console.session import session
from assent.contracts.shape import plain
from assent.contracts.triggers import Schedule, Trigger
from assent.triggers.commands import events as trigger_events
from assent.triggers.commands import send as trigger_send

app = typer.Typer()
trigger = typer.Typer(no_args_is_help=True, help="Manage triggers, which start runs when matching events arrive.")
app.add_typer(trigger, name="trigger")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Trigger name or ID")]
NOTHING = "No triggers, so no runs are started automatically."


@trigger.command("list")
def trigger_list(*, as_json: Json = False) -> None:
    """List the project's triggers."""
    with session() as assent:
        found = assent.triggers()
    if as_json:
        output.emit({"items": plain(found)})
        return
    now = time.time()
    columns = ("name", "state", "on", "run", "fired", "origin", "id")
    output.table(columns, [_row(each, now) for each in found], wide=("origin", "id"), empty=NOTHING)
    for each in found:
        if each.problem:
            output.remark(f"{output.visible(each.name)} {output.visible(each.problem)}", style="red")


def _row(each: Trigger, now: float) -> Sequence[str]:
    fired = output.ago(each.fired_at, now=now) if each.fired_at else "never"
    return (each.name, each.state, each.on, each.run, fired, each.origin, each.id)


@trigger.command("show")
def trigger_show(name: Name, *, as_json: Json = False) -> None:
    """Show a trigger's definition and status."""
    with session() as assent:
        found = assent.trigger(name)
    _print(found, as_json=as_json)


def _print(found: Trigger, *, as_json: bool, done: str = "") -> None:
    if as_json:
        output.emit(plain(found))
        return
    output.fields(
        {
            "name": found.name,
            "id": found.id,
            "state": found.state,
            "reason": found.because,
            "problem": found.problem,
            "on": found.on,
            "run": found.run,
            "once": found.once,
            "debounce": _said(found.debounce),
            "concurrency": _said(found.concurrency),
            "hold": "yes" if found.hold is True else _said(found.hold or None),
            "breaker": _said(found.breaker),
            "max depth": str(found.max_depth) if found.max_depth is not None else None,
            "agent": found.agent_id,
            "note": found.note,
            "last fired": output.ago(found.fired_at, now=time.time()) if found.fired_at else "never",
            "alert": found.alarm_id,
            "origin": found.origin,
            "created": f"{found.created_at} by {found.created_by}, version {found.version}",
        }
    )
    if found.inputs:
        output.say("inputs", style="dim")
        output.block(output.pretty(found.inputs))
    if done:
        output.remark(f"Trigger {done}.")


def _said(value: Mapping[str, Any] | None) -> str | None:
    return ", ".join(f"{name} {_text(each)}" for name, each in value.items()) if value else None


def _text(value: Any) -> str:  # noqa: ANN401  # any JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@trigger.command("add")
def trigger_add(  # noqa: PLR0913  # one parameter for each option
    *,
    name: Annotated[str | None, typer.Option("--id", metavar="NAME", help="Trigger name")] = None,
    on: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Event pattern, such as github.push(branch = 'main')")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="PROCESS", help="Process to start")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="Input, such as sha={{ event.sha }} (repeatable)"),
    ] = None,
    once: Annotated[
        str | None, typer.Option(metavar="KEY", help="Template for a key; only one run is started per key")
    ] = None,
    debounce: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Quiet period after the last event before the run starts, such as 30s"),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Maximum number of concurrent runs")] = None,
    when_full: Annotated[
        Literal["queue", "skip", "replace", "cancel"] | None,
        typer.Option(help="What to do at the concurrency limit (default: queue)"),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Require approval before the run starts")] = False,
    note: Annotated[str | None, typer.Option(help="Note about the trigger")] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with a trigger in assent.yaml format; options override its values"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a trigger from options or a file. Only rule admins and admins can do this."""
    given: dict[str, Any] = {
        "id": name,
        "on": on,
        "run": run,
        "inputs": inputs_of(inputs) if inputs else None,
        "once": once,
        "debounce": debounce,
        "concurrency": _room(concurrency, when_full),
        "hold": hold or None,
        "note": note,
    }
    body = (draft(file) if file is not None else {}) | {key: value for key, value in given.items() if value is not None}
    for needed in ("id", "on", "run"):
        if needed not in body:
            msg = "This option is required unless the file passed with --file sets it."
            raise typer.BadParameter(msg, param_hint=f"--{needed}")
    with session() as assent:
        made = assent.add_trigger(body)
    _print(made, as_json=as_json, done="added")


def _room(limit: int | None, when_full: str | None) -> dict[str, Any] | None:
    given = {"limit": limit, "when_full": when_full}
    return {name: value for name, value in given.items() if value is not None} or None


draft = trigger_events.draft


@trigger.command("remove")
def trigger_remove(name: Name, *, as_json: Json = False) -> None:
    """Remove a trigger. Runs that it has already started continue."""
    with session() as assent:
        found = assent.trigger(name)
        assent.remove_trigger(found.id)
    if as_json:
        output.emit({"removed": found.id})
    else:
        output.say(f"Removed {output.visible(found.name)}.")


@trigger.command("suspend")
def trigger_suspend(
    name: Name,
    *,
    because: Annotated[str | None, typer.Option(metavar="TEXT", help="Reason to show with the trigger")] = None,
    as_json: Json = False,
) -> None:
    """Suspend a trigger. Matching events are queued until it is resumed."""
    with session() as assent:
        found = assent.suspend_trigger(name, because=because)
    _switched(found, "is suspended. Matching events will be queued", as_json=as_json)


@trigger.command("resume")
def trigger_resume(name: Name, *, as_json: Json = False) -> None:
    """Resume a trigger and process its queued events."""
    with session() as assent:
        found = assent.resume_trigger(name)
    _switched(found, "has been resumed and will process its queued events", as_json=as_json)


def _switched(found: Trigger, said: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(plain(found))
    else:
        output.say(f"{output.visible(found.name)} {said}.")


@trigger.command("next")
def trigger_next(
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="Schedule name or ID (default: all)")] = None,
    *,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=100, help="Number of upcoming times to show for each schedule")
    ] = 5,
    as_json: Json = False,
) -> None:
    """Show when each schedule will next fire, in its time zone."""
    with session() as assent:
        found = [each for each in assent.schedules(count=count) if source in {None, each.source, each.source_id}]
    if source is not None and not found:
        msg = f"Schedule {output.visible(source)} not found. To see all sources, run: assent source list"
        raise typer.BadParameter(msg, param_hint="SOURCE")
    if as_json:
        output.emit({"items": plain(found)})
        return
    now = time.time()
    rows = [row for each in found for row in _ticks(each, now)]
    output.table(("schedule", "next", "in", "cron", "time zone"), rows, wide=("cron",), empty="No schedules.")


def _ticks(each: Schedule, now: float) -> list[Sequence[str]]:
    if not each.next:
        said = each.problem or ("never" if each.enabled else "disabled")
        return [(each.source, said, "", each.cron, each.timezone)]
    return [(each.source, at, output.until(at, now=now), each.cron, each.timezone) for at in each.next]


trigger.add_typer(trigger_events.commands)
trigger.add_typer(trigger_send.commands)
