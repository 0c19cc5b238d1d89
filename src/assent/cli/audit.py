"""Commands that verify data and manage legal holds: audit, fsck, hold."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.audit.store.event_log import ADMIN, BREAKPOINT, EventLog, Logged, LogQuery
from assent.audit.usecases.event_log import event_body, subject_of
from assent.audit.usecases.retention import RetentionService
from assent.audit.usecases.verify import Audited, AuditService, Check
from assent.audit.views import hold_body
from assent.cli import checkpoints
from assent.cli.checkpoints import trusted
from assent.cli.data import Data, looking_at, on_data, operator, settings_with
from assent.cli.people import checked
from assent.console import output
from assent.console.output import Json
from assent.contracts import retention as wire
from assent.core.canonical import is_object
from assent.core.chain import Finding
from assent.core.errors import InvalidRequest
from assent.core.plurals import plural
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.node import Node
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT

app = typer.Typer()
audit = typer.Typer(no_args_is_help=True, help="Verify, sign and export the audit log.")
hold = typer.Typer(no_args_is_help=True, help="Manage legal holds, which exempt content from retention.")
app.add_typer(audit, name="audit")
checkpoints.add_to(audit)
app.add_typer(hold, name="hold")

Project = Annotated[str, typer.Option(help="Project ID")]


class Progress:
    """A progress line on standard error, shown only in a terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = sys.stderr.isatty()

    def __call__(self, audited: Audited) -> None:
        if self._shown:
            # The first report can arrive before the clock has advanced.
            rate = audited.events / max(time.monotonic() - self._started, 0.001)
            line = (
                f"{plural(audited.breakpoints, 'breakpoint')}, {plural(audited.events, 'event')}, {rate:,.0f} events/s"
            )
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")


@audit.command("verify")
def verify(
    *,
    project: Annotated[str | None, typer.Option(help="Project to verify (default: all projects)")] = None,
    breakpoint_id: Annotated[
        str | None, typer.Option("--breakpoint", metavar="ID", help="Breakpoint to verify (default: all breakpoints)")
    ] = None,
    anchors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Anchor file to compare with (default: ASSENT_CHECKPOINT_FILE)")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Public key to trust for checkpoints; all other keys are rejected (repeatable)"
        ),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Recompute all hash chains and the audit log, and check that breakpoints and rules match their history."""
    progress, keys = Progress(), trusted(key or ())

    async def look(node: Node) -> Audited:
        # An unknown project has no events, which would otherwise look like a successful audit.
        if project is not None:
            await node.database.read(partial(_known, project=project))
        return await node[AuditService].verify(
            project=project, breakpoint_id=breakpoint_id, anchors=anchors, keys=keys, progress=progress
        )

    audited = looking_at(settings_with(data), look)
    progress.end()
    if as_json:
        output.emit(_counts(audited) | {"findings": [_finding(each) for each in audited.findings]})
    else:
        for each in audited.findings:
            output.say(output.visible(_sentence(each)), style="red")
        _say_outcome(audited)
    if audited.findings:
        raise typer.Exit(output.FAILED)


@audit.command("events")
def events(  # noqa: PLR0913  # the options of the command
    *,
    kind: Annotated[str, typer.Option(help="Kind of event: admin, breakpoint or all")] = ADMIN,
    type_: Annotated[str | None, typer.Option("--type", help="Event type to filter by")] = None,
    actor: Annotated[str | None, typer.Option(help="Actor to filter by, such as person:ann")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of events")] = 50,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List admin events and breakpoint events, newest first."""
    if kind not in (ADMIN, BREAKPOINT, "all"):
        msg = f"must be {ADMIN}, {BREAKPOINT} or all"
        raise typer.BadParameter(msg, param_hint="--kind")
    query = LogQuery(
        project=project, everywhere=True, kind=None if kind == "all" else kind, type=type_, actor=actor
    )  # fmt: skip
    read = partial(_events, query=query, limit=limit)
    found = looking_at(settings_with(data), lambda node: node.database.read(read))
    if as_json:
        output.emit({"items": [event_body(each) for each in found]})
        return
    rows = [(iso(each.at), each.actor, each.type, subject_of(each) or each.breakpoint_id) for each in found]
    output.table(("at", "actor", "type", "subject"), rows, empty="No events found.")


def _events(tx: Transaction, *, query: LogQuery, limit: int) -> list[Logged]:
    return tx[EventLog].page(query, before=None, limit=limit)


def _known(tx: Transaction, *, project: str) -> None:
    tx[Projects].get(project)


def _counts(audited: Audited) -> dict[str, Any]:
    return {
        "ok": not audited.findings,
        "breakpoints": audited.breakpoints,
        "events": audited.events,
        "purged": audited.purged,
        "files": audited.files,
        "rules": audited.rules,
        "ruleEvents": audited.rule_events,
        "adminEvents": audited.admin_events,
        "logEntries": audited.entries,
        "checkpoints": audited.checkpoints,
    }


def _say_outcome(audited: Audited) -> None:
    events = plural(audited.events, "event")
    looked_at = f"{plural(audited.breakpoints, 'breakpoint')} with {events} and {plural(audited.files, 'file')}"
    if audited.rules:
        looked_at += f", {plural(audited.rules, 'rule')} with {plural(audited.rule_events, 'event')}"
    if audited.admin_events:
        looked_at += f", {plural(audited.admin_events, 'admin event')}"
    if audited.checkpoints:
        looked_at += f", {plural(audited.checkpoints, 'checkpoint')} over {plural(audited.entries, 'event')}"
    purged = ""
    if audited.purged:
        one, many = "breakpoint was purged and has a valid hash", "breakpoints were purged and have valid hashes"
        purged = f"; {plural(audited.purged, one, many)}"
    if audited.findings:
        output.remark(f"{plural(len(audited.findings), 'finding')} in {looked_at}{purged}.", style="bold red")
    else:
        output.say(f"✓ No problems found in {looked_at}{purged}.", style="green")


def _finding(each: Finding) -> dict[str, Any]:
    about = {"breakpointId": each.breakpoint_id} | ({"ruleId": each.rule_id} if each.rule_id else {})
    about |= {"adminChain": each.admin_chain} if each.admin_chain else {}
    return about | {"seq": each.seq, "part": each.part.value, "what": each.what}


def _sentence(each: Finding) -> str:
    where = each.breakpoint_id or each.rule_id or each.admin_chain or ""
    if each.seq is not None:
        where += f" event {each.seq}"
    return f"{where}: {each.what}." if where else f"{each.what}."


@app.command("fsck")
def fsck(
    *,
    expect: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='JSON Lines file with expected breakpoints as {"id", "status"?, "decision"?}'
        ),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check all data invariants without changing anything."""
    # Read the whole file first, so that a mistake in it is reported before the long check.
    acknowledged = list(_acknowledged(expect)) if expect is not None else []
    progress = Progress()
    checks = looking_at(settings_with(data), lambda node: node[AuditService].check(acknowledged, progress=progress))
    progress.end()
    good = all(each.holds for each in checks)
    if as_json:
        output.emit({"ok": good, "checks": [_check(each) for each in checks]})
    else:
        for each in checks:
            _print_check(each)
    if not good:
        raise typer.Exit(output.FAILED)


def _acknowledged(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}."
        raise InvalidRequest(msg) from error
    for number, line in enumerate(lines, start=1):
        value = _line(line)
        if value is None:
            msg = f'{path}, line {number}: expected {{"id": …, "status": …, "decision": …}}.'
            raise InvalidRequest(msg)
        yield value


def _line(text: str) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    # Reject unknown keys, because a misspelled expectation would silently not be checked.
    known = is_object(value) and isinstance(value.get("id"), str) and value.keys() <= {"id", "status", "decision"}
    return value if known else None


def _check(each: Check) -> dict[str, Any]:
    return {
        "name": each.name,
        "promise": each.promise,
        "state": "nothing to check" if each.nothing else "holds" if each.holds else "broken",
        "why": each.nothing,
        "lookedAt": each.looked_at,
        "findings": [_finding(found) for found in each.findings],
    }


def _print_check(each: Check) -> None:
    if each.nothing:
        output.say(f"– {each.name:<5} {each.promise} Nothing to check: {each.nothing}.", style="dim")
        return
    mark, style = ("✓", "green") if each.holds else ("✗", "red")
    output.say(f"{mark} {each.name:<5} {each.promise} ({each.looked_at:,} checked)", style=style)
    for found in each.findings:
        output.say(f"    {output.visible(_sentence(found))}")


@hold.command("place")
def hold_place(
    *,
    reason: Annotated[str, typer.Option(help="Reason that is recorded for auditors")],
    breakpoint_id: Annotated[
        str | None,
        typer.Option("--breakpoint", metavar="ID", help="Breakpoint to protect (default: the entire project)"),
    ] = None,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Place a legal hold on a breakpoint or an entire project."""
    asked = checked(wire.PlaceHold, reason=reason, breakpointId=breakpoint_id)

    def use_case(node: Node, tx: Transaction) -> dict[str, Any]:
        placed = node[RetentionService].place(
            tx, by=operator(project), reason=asked.reason, breakpoint_id=asked.breakpoint_id
        )
        return hold_body(placed)

    placed = on_data(settings_with(data), use_case)
    covered = placed["breakpointId"] or f"everything in {project}"
    _done(placed, f"{placed['id']} protects {covered}.", as_json=as_json)


@hold.command("list")
def hold_list(*, project: Project = DEFAULT_PROJECT, data: Data = None, as_json: Json = False) -> None:
    """List a project's legal holds, including lifted holds."""

    def use_case(node: Node, tx: Transaction) -> list[dict[str, Any]]:
        return [hold_body(each) for each in node[RetentionService].every(tx, by=operator(project))]

    found = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"items": found})
        return
    columns = ("id", "scope", "reason", "placed", "by", "lifted")
    output.table(columns, [_hold_row(each) for each in found], empty="No legal holds.")


def _hold_row(each: Mapping[str, Any]) -> Sequence[str]:
    lifted = f"{each['liftedAt'][:10]} by {each['liftedBy']}" if each["liftedAt"] else ""
    what = each["breakpointId"] or "entire project"
    return (each["id"], what, each["reason"], each["placedAt"][:10], each["placedBy"], lifted)


@hold.command("lift")
def hold_lift(
    hold_id: Annotated[str, typer.Argument(metavar="ID", help="Legal hold ID (hold_…)")],
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Lift a legal hold, so that retention applies to the content again."""

    def use_case(node: Node, tx: Transaction) -> None:
        node[RetentionService].lift(tx, hold_id, by=operator(project))

    on_data(settings_with(data), use_case)
    _done({"id": hold_id, "lifted": True}, f"Lifted {output.visible(hold_id)}.", as_json=as_json)


def _done(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(value)
    else:
        output.say(sentence)
