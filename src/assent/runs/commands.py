"""Commands that list processes and manage runs through the API."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.pairs import inputs_of
from assent.console.session import LONG_PATIENCE, gathered, session
from assent.contracts.runs import JournalLine, Run, RunPage, RunSummary
from assent.contracts.shape import plain
from assent.core.plurals import plural
from assent.runs.export import export
from assent.sdk.client import Assent
from assent.sdk.protocol import RunFilters

app = typer.Typer()
process = typer.Typer(no_args_is_help=True, help="Show the processes that the server can run.")
run = typer.Typer(no_args_is_help=True, help="Manage durable process runs.")
app.add_typer(process, name="process")
app.add_typer(run, name="run")

State = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
Id = Annotated[str, typer.Argument(metavar="ID", help="Run ID")]
FAILED = 1
_STYLES = {"done": "green", "failed": "red", "cancelled": "yellow"}
_NO_DATA = frozenset({"name", "breakpointId"})


@process.command("list")
def process_list(*, as_json: Json = False) -> None:
    """List the processes on the server, including those that cannot run."""
    with session() as assent:
        found = assent.processes()
    if as_json:
        output.emit({"items": plain(found)})
        return
    rows = [(each.name, each.file, each.version, each.problem or each.description) for each in found]
    empty = "No processes. Add files that define `async def process(inputs, ctx)` to the server's processes directory."
    output.table(("process", "file", "version", "description"), rows, empty=empty)


@run.command("start")
def run_start(  # noqa: PLR0913  # one parameter for each option
    name: Annotated[str, typer.Argument(metavar="PROCESS", help="Process to run")],
    *,
    inputs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Inputs as JSON, or @FILE to read them from a file")
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="Input, parsed as JSON if possible (repeatable)"),
    ] = None,
    agent_id: Annotated[
        str | None, typer.Option(help="Agent ID for the run's breakpoints (default: the process name)")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key; at most one run is started per key")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the run ends, and show its journal")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a run. With --wait, the exit code is 0 if the run completes, 1 if it fails and 12 if it is cancelled."""
    given = _inputs(inputs, value or [])
    with session(patience=LONG_PATIENCE if wait else 10.0) as assent:
        started = assent.start_run(name, given, agent_id=agent_id, idempotency_key=key)
        if wait:
            output.remark(f"Started {started.id}.")
            ended = _followed(assent, started.id, show=not as_json)
            _print_end(ended, as_json=as_json)
            raise typer.Exit(_exit_code(ended))
    if as_json:
        output.emit(plain(started))
    else:
        output.say(started.id)


def _inputs(text: str | None, values: Sequence[str]) -> Any:  # noqa: ANN401  # any JSON
    given: Any = _read_inputs(text) if text is not None else dict[str, Any]()
    named = inputs_of(values)
    if named and not isinstance(given, dict):
        msg = "This option requires --inputs to be a JSON object."
        raise typer.BadParameter(msg, param_hint="--input")
    return given | named if named else given  # pyright: ignore[reportUnknownVariableType]  # JSON


def _read_inputs(text: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        msg = f"cannot be read as JSON: {error}"
        raise typer.BadParameter(msg, param_hint="--inputs") from error


@run.command("list")
def run_list(
    *,
    state: Annotated[State | None, typer.Option(help="State to filter by")] = None,
    process_name: Annotated[str | None, typer.Option("--process", help="Process to filter by")] = None,
    event_id: Annotated[str | None, typer.Option("--event", metavar="ID", help="Event that started the run")] = None,
    trigger: Annotated[str | None, typer.Option(metavar="NAME", help="Trigger that started the run")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results")] = 50,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    with session() as assent:
        found = _pages(assent, RunFilters(state=state, process=process_name, event_id=event_id, trigger=trigger), limit)
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    rows = [
        (each.id, each.process, each.state, output.ago(each.created_at, now=now), each.started_by, _said(each))
        for each in found.items
    ]
    columns = ("id", "process", "state", "started", "by", "error")
    output.table(columns, rows, wide=("by",), empty="No runs.")
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _pages(assent: Assent, filters: RunFilters, limit: int) -> RunPage:
    def read(most: int, cursor: str | None) -> tuple[list[RunSummary], str | None]:
        page = assent.runs(**(filters | RunFilters(limit=most, cursor=cursor)))
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return RunPage(items=items, next_cursor=cursor)


def _said(each: RunSummary) -> str:
    return f"{each.error.get('type')}: {each.error.get('message')}" if each.error else ""


@run.command("show")
def run_show(run_id: Id, *, as_json: Json = False) -> None:
    """Show a run and its steps."""
    with session() as assent:
        found = assent.run(run_id)
    if as_json:
        output.emit(plain(found))
        return
    output.fields(
        {
            "id": found.id,
            "process": f"{found.process} (version {found.version})",
            "state": found.state,
            "started": f"{found.created_at} by {found.started_by}",
            "cause": f"event {found.cause.event_id}, trigger {found.cause.trigger}" if found.cause else None,
            "ended": found.ended_at,
            "inputs": json.dumps(found.inputs, ensure_ascii=False) if found.inputs else None,
            "output": json.dumps(found.output, ensure_ascii=False) if found.output is not None else None,
            "error": _said(found) or None,
            "files": ", ".join(each.path for each in found.files) or None,
        }
    )
    rows = [
        (each.path, each.kind, each.name, each.state, str(each.attempts or ""), each.breakpoint_id or "")
        for each in found.steps
    ]
    output.table(("step", "kind", "name", "state", "attempts", "breakpoint"), rows, empty="No steps yet.")


@run.command("logs")
def run_logs(
    run_id: Id,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the journal until the run ends")] = False,
    as_json: Json = False,
) -> None:
    """Print a run's journal. With --json, each line is an object."""
    with session(patience=LONG_PATIENCE if follow else 1.0) as assent:
        if follow:
            _followed(assent, run_id, show=True, as_json=as_json)
            return
        seen = 0
        while lines := assent.journal(run_id, after=seen):
            seen = _print_lines(lines, as_json=as_json)


def _followed(assent: Assent, run_id: str, *, show: bool, as_json: bool = False) -> Run:
    seen = 0
    while True:
        # Read the state before the journal, so that the last lines of an ended run are printed.
        found = assent.run(run_id)
        while lines := assent.journal(run_id, after=seen):
            seen = _print_lines(lines, as_json=as_json) if show else lines[-1].seq
        if found.ended:
            return found
        time.sleep(1.0)


def _print_lines(lines: Sequence[JournalLine], *, as_json: bool) -> int:
    for each in lines:
        if as_json:
            output.emit(plain(each))
            continue
        name = str(each.data.get("name") or each.data.get("message") or "")
        more = {key: value for key, value in each.data.items() if key not in _NO_DATA | {"message"}}
        about = each.data.get("breakpointId")
        shown = " ".join(filter(None, [name, str(about or ""), json.dumps(more, ensure_ascii=False) if more else ""]))
        output.say(f"{each.at[11:19]}  {each.path or '':<8} {each.type:<14} {output.visible(shown)}")
    return lines[-1].seq


@run.command("cancel")
def run_cancel(run_id: Id, *, as_json: Json = False) -> None:
    """Cancel a run and its pending breakpoints."""
    with session() as assent:
        _print_end(assent.cancel_run(run_id), as_json=as_json)


@run.command("retry")
def run_retry(run_id: Id, *, as_json: Json = False) -> None:
    """Resume a failed run from the step that failed."""
    with session() as assent:
        revived = assent.retry_run(run_id)
    if as_json:
        output.emit(plain(revived))
    else:
        output.say(f"{revived.id} is {revived.state}. A worker will resume it shortly.")


@run.command("export")
def run_export(
    run_id: Id,
    *,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="New or empty output directory (default: the run ID)"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Export a run, including its journal, its files and a task.json file for each step."""
    folder = to or Path(run_id)
    with session() as assent:
        written = export(assent, run_id, folder)
    if as_json:
        output.emit({"runId": run_id, "folder": str(folder), "files": written})
    else:
        output.say(f"Wrote {plural(len(written), 'file')} to {output.visible(str(folder))}.")


def _print_end(ended: Run, *, as_json: bool) -> None:
    if as_json:
        output.emit(plain(ended))
        return
    output.say(ended.state, style=_STYLES.get(ended.state, ""))
    if ended.error:
        output.say(output.visible(_said(ended), lines=True))
    elif ended.output is not None:
        output.say(output.visible(output.pretty(ended.output), lines=True))


def _exit_code(ended: Run) -> int:
    return {"done": 0, "cancelled": output.CANCELLED}.get(ended.state, FAILED)
