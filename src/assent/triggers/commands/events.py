"""Commands that test, list and replay trigger events and manage firings through the API."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.session import gathered, session
from assent.contracts.shape import plain
from assent.contracts.triggers import (
    Finding,
    Firing,
    FiringPage,
    Trace,
    Trial,
    TriggerEvent,
    TriggerEventPage,
    TriggerEventSummary,
)
from assent.core.canonical import is_object
from assent.kernel.yaml_file import Unreadable
from assent.kernel.yaml_file import read as read_yaml
from assent.sdk.client import Assent
from assent.sdk.trigger_calls import FiringFilters, TriggerEventFilters

commands = typer.Typer()

EventState = Literal["received", "matched", "unmatched", "failed"]
FiringState = Literal["held", "started", "skipped", "dead"]
EventId = Annotated[str, typer.Argument(metavar="EVENT", help="Event ID")]
FiringId = Annotated[str, typer.Argument(metavar="FIRING", help="Firing ID")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of results")]
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
_AN_EVENT = "evt_"


@commands.command("test")
def trigger_test(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Event ID, or JSON file that contains an event")],
    *,
    name: Annotated[
        str | None, typer.Option("--trigger", metavar="NAME", help="Trigger to test (default: all triggers)")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--draft", metavar="FILE", help="File containing a draft trigger to test")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what an event would start (dry run). The exit code is 1 if it would not start anything."""
    if name is not None and against is not None:
        msg = "This option cannot be used with --draft."
        raise typer.BadParameter(msg, param_hint="--trigger")
    body = draft(against) if against is not None else None
    # Anything that does not look like an event ID is a file.
    supposed = event if event.startswith(_AN_EVENT) else _event(Path(event))
    with session() as assent:
        found = assent.try_triggers(supposed, trigger=name, draft=body)
    if as_json:
        output.emit({"items": plain(found)})
    else:
        for each in found:
            _print_trial(each)
        if not found:
            output.remark("No triggers, so the event would not start any runs.")
    if not any(each.matched and not each.problem for each in found):
        raise typer.Exit(output.FAILED)


def _event(path: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        msg = f"{output.visible(str(path))} cannot be read as JSON: {error}"
        raise typer.BadParameter(msg, param_hint="EVENT") from error
    if not is_object(found):
        msg = "must be a JSON object: a CloudEvents envelope or {type, view, data}"
        raise typer.BadParameter(msg, param_hint="EVENT")
    return dict(found)


def draft(path: Path) -> dict[str, Any]:
    """Read a trigger from a file in assent.yaml format; a list with a single trigger is also accepted."""
    try:
        found: Any = read_yaml(path.read_bytes()).value
    except (OSError, Unreadable) as error:
        msg = f"{output.visible(str(path))} cannot be read: {output.visible(str(error))}"
        raise typer.BadParameter(msg) from error
    if is_object(found) and set(found) == {"triggers"}:
        found = found["triggers"]
    if isinstance(found, list) and len(found) == 1:  # pyright: ignore[reportUnknownArgumentType]
        found = found[0]  # pyright: ignore[reportUnknownVariableType]
    if not is_object(found):
        msg = f"{output.visible(str(path))} must contain one trigger with the keys id, on and run"
        raise typer.BadParameter(msg)
    return dict(found)


def _print_trial(each: Trial) -> None:
    good = each.matched and not each.problem
    output.say(f"{output.visible(each.trigger)}", style="bold")
    _print_findings(each.findings)
    if each.problem:
        output.say(f"  ! {output.visible(each.problem)}", style="red")
    output.say(f"  → {output.visible(each.would)}", style="green" if good else "")
    if good and each.inputs:
        output.say("  inputs", style="dim")
        output.block(output.pretty(_without_event(each.inputs)))


def _without_event(inputs: Any) -> Any:  # noqa: ANN401  # any JSON
    """Shorten the event to an ellipsis, because it is always present and large."""
    if not is_object(inputs):
        return inputs
    return {name: "…" if name in {"event", "events"} else value for name, value in inputs.items()}


def _print_findings(findings: Sequence[Finding]) -> None:
    for each in findings:
        mark, style = _MARKS[each.held]
        told = each.note or f"is {json.dumps(each.actual, ensure_ascii=False)}"
        output.say(f"  {mark} {output.visible(each.part)}  ({output.visible(told)})", style=style)


@commands.command("events")
def trigger_events(
    *,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Source to filter by")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Event type to filter by, such as github.push")
    ] = None,
    state: Annotated[EventState | None, typer.Option(help="State to filter by")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List trigger events, newest first."""
    filters = TriggerEventFilters(source=source, type=kind, state=state)
    with session() as assent:
        found = _event_pages(assent, filters, limit)
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    columns = ("id", "state", "type", "subject", "source", "times", "received")
    rows = [_event_row(each, now) for each in found.items]
    output.table(columns, rows, wide=("source", "times"), empty="No trigger events.")
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _event_pages(assent: Assent, filters: TriggerEventFilters, limit: int) -> TriggerEventPage:
    def read(most: int, cursor: str | None) -> tuple[list[TriggerEventSummary], str | None]:
        page = assent.trigger_events(**(filters | TriggerEventFilters(limit=most, cursor=cursor)))
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return TriggerEventPage(items=items, next_cursor=cursor)


def _event_row(each: TriggerEventSummary, now: float) -> Sequence[str]:
    times = f"×{each.duplicates + 1}" if each.duplicates else ""
    came = output.ago(each.received_at, now=now)
    return (each.id, each.state, each.type, each.subject or "", each.source, times, came)


@commands.command("event")
def trigger_event(event_id: EventId, *, as_json: Json = False) -> None:
    """Show an event, why each trigger did or did not match it, and the runs that it started."""
    with session() as assent:
        found = assent.trigger_event(event_id)
    if as_json:
        output.emit(plain(found))
        return
    _print_event(found)
    for trace in found.trace or ():
        _print_trace(trace)
    if found.firings:
        output.say("firings", style="dim")
        _print_firings(found.firings)
    if len(found.chain) > 1:
        output.say("chain", style="dim")
        for each in found.chain:
            here = " (this one)" if each.id == found.id else ""
            output.say(f"  {each.depth}  {each.id}  {output.visible(each.type)}{here}")


def _print_event(found: TriggerEvent) -> None:
    output.fields(
        {
            "id": found.id,
            "type": found.type,
            "subject": found.subject,
            "source": found.source,
            "state": found.state,
            "error": found.error,
            "received": f"{found.received_at} ({found.duplicates + 1} times)"
            if found.duplicates
            else found.received_at,
            "verified": found.verified,
            "trust": found.trust,
            "depth": str(found.depth) if found.depth else None,
            "replay of": found.replay_of,
            "caused by": found.causation_id,
            "runs": ", ".join(f"{each.id} ({each.state})" for each in found.runs) or None,
        }
    )
    if found.view:
        output.say("view", style="dim")
        output.fields({f"  {name}": _shown(value) for name, value in found.view.items()})


def _shown(value: Any) -> str:  # noqa: ANN401  # any JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_trace(trace: Trace) -> None:
    said = ("matched" if trace.matched else "did not match") + (f": {trace.note}" if trace.note else "")
    output.say(
        f"{output.visible(trace.trigger)} {output.visible(said)}", style="bold green" if trace.matched else "bold"
    )
    if trace.problem:
        output.say(f"  ! {output.visible(trace.problem)}", style="red")
    _print_findings(trace.findings)


@commands.command("replay")
def trigger_replay(
    event_id: EventId,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--trigger", metavar="NAME", help="Trigger to evaluate, ignoring its `once` key (default: all triggers)"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay an event as a new event."""
    with session() as assent:
        made = assent.replay_event(event_id, trigger=name)
    if as_json:
        output.emit(plain(made))
    else:
        output.say(f"Replayed {output.visible(event_id)} as {made.id}. To see it, run: assent trigger event {made.id}")


@commands.command("firings")
def trigger_firings(
    *,
    state: Annotated[
        FiringState | None,
        typer.Option(help="State to filter by; `dead` lists firings whose runs could not be started"),
    ] = None,
    name: Annotated[str | None, typer.Option("--trigger", metavar="NAME", help="Trigger to filter by")] = None,
    event_id: Annotated[str | None, typer.Option("--event", metavar="ID", help="Event to filter by")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List firings (trigger matches) and their outcomes, newest first."""
    filters = FiringFilters(state=state, trigger=name, event_id=event_id)
    with session() as assent:
        found = _firing_pages(assent, filters, limit)
    if as_json:
        output.emit(plain(found))
        return
    _print_firings(found.items)
    waiting = ", ".join(
        f"{each.count} {each.state}" + (f" ({each.because})" if each.because else "") for each in found.counts
    )
    if waiting:
        output.remark(f"Firings in this project: {output.visible(waiting)}.")
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _firing_pages(assent: Assent, filters: FiringFilters, limit: int) -> FiringPage:
    counts: list[Any] = []

    def read(most: int, cursor: str | None) -> tuple[list[Firing], str | None]:
        page = assent.firings(**(filters | FiringFilters(limit=most, cursor=cursor)))
        counts[:] = page.counts
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return FiringPage(items=items, counts=counts, next_cursor=cursor)


def _print_firings(found: Sequence[Firing]) -> None:
    now = time.time()
    columns = ("id", "state", "reason", "trigger", "event", "run", "error", "since")
    output.table(columns, [_firing_row(each, now) for each in found], wide=("error",), empty="No firings.")


def _firing_row(each: Firing, now: float) -> Sequence[str]:
    run = each.run_id or each.breakpoint_id or ""
    since = output.ago(each.created_at, now=now)
    return (each.id, each.state, each.because or "", each.trigger, each.event_id, run, each.error or "", since)


@commands.command("retry")
def trigger_retry(firing_id: FiringId, *, as_json: Json = False) -> None:
    """Retry a dead firing."""
    with session() as assent:
        found = assent.retry_firing(firing_id)
    _moved(found, "will be retried shortly", as_json=as_json)


@commands.command("discard")
def trigger_discard(firing_id: FiringId, *, as_json: Json = False) -> None:
    """Discard a dead or held firing and cancel its breakpoint."""
    with session() as assent:
        found = assent.discard_firing(firing_id)
    _moved(found, "was discarded", as_json=as_json)


def _moved(found: Firing, said: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(plain(found))
    else:
        output.say(f"{found.id} {said}.")
