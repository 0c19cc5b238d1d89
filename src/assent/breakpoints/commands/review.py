"""Commands for reviewers: inbox, show, approve, reject, comment, cancel."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from assent.console import output
from assent.console.output import Json
from assent.console.pairs import pairs, value
from assent.console.renamed import OldAgent
from assent.console.session import gathered, session
from assent.contracts.breakpoints import Breakpoint, BreakpointPage, BreakpointSummary, Event
from assent.contracts.shape import plain
from assent.core.breakpoint import Status as State
from assent.core.headlines import action
from assent.sdk.client import Assent
from assent.sdk.errors import AlreadyEnded
from assent.sdk.protocol import Filters

app = typer.Typer()

NOTHING = "No breakpoints found."
SHORT_DIGEST = 12
Id = Annotated[str, typer.Argument(metavar="ID", help="Breakpoint ID")]
Comment = Annotated[str | None, typer.Option(help="Comment for the agent")]


@app.command()
def inbox(  # noqa: PLR0913  # one parameter per option
    *,
    status: Annotated[list[State] | None, typer.Option(help="Status to include (repeatable; default: waiting)")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag to filter by (repeatable; all must match)")] = None,
    agent_id: Annotated[str | None, typer.Option(help="Agent to filter by")] = None,
    gate: Annotated[str | None, typer.Option(help="Gate to filter by")] = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="List only breakpoints that are assigned to you or your groups")
    ] = False,
    q: Annotated[str | None, typer.Option("--q", metavar="WORDS", help="Words or word prefixes to search for")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results")] = 50,
    sort: Annotated[
        Literal["created", "-created", "deadline", "updated"], typer.Option(help="Sort order")
    ] = "-created",
    everything: Annotated[bool, typer.Option("--all", help="Include all statuses")] = False,
    agent: OldAgent = None,
    as_json: Json = False,
) -> None:
    """List pending breakpoints."""
    filters = Filters(
        status=None if everything else [each.value for each in status or [State.WAITING]],
        tag=tag,
        agent_id=agent_id or agent,
        gate=gate,
        assigned_to="me" if mine else None,
        q=q,
        sort=sort,
    )
    with session() as assent:
        found = _pages(assent, filters, limit)
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    columns = ("id", "status", "risk", "title", "gate", "agent", "asked", "due")
    output.table(columns, [_row(each, now) for each in found.items], wide=("gate", "risk"), empty=NOTHING)
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _pages(assent: Assent, filters: Filters, limit: int) -> BreakpointPage:
    def read(most: int, cursor: str | None) -> tuple[list[BreakpointSummary], str | None]:
        page = assent.list(**(filters | Filters(limit=most, cursor=cursor)))
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return BreakpointPage(items=items, next_cursor=cursor)


def _row(each: BreakpointSummary, now: float) -> Sequence[str]:
    return (
        each.id,
        each.decision or each.status,
        each.risk or "",
        each.title or each.question or "",
        each.gate,
        each.agent_id,
        output.ago(each.created_at, now=now),
        output.until(each.deadline, now=now) if each.status == "waiting" else "",
    )


@app.command()
def show(breakpoint_id: Id, *, as_json: Json = False) -> None:
    """Show a breakpoint with its answers and history."""
    with session() as assent:
        found = assent.get(breakpoint_id)
        if as_json:
            output.emit(plain(found))
            return
        history = assent.events(breakpoint_id)
    _describe(found)
    _print_rest(found)
    _print_history(history)


def _describe(found: Breakpoint, *, console: Console = output.out) -> None:
    """Print the content that a reviewer approves or rejects."""
    payload = found.payload
    does, _ = action(payload)
    output.fields(
        {
            "id": found.id,
            "status": found.decision or found.status,
            "action": does if does != found.title else None,
            "title": found.title,
            "gate": found.gate,
            "agent": found.agent_id,
            "run": found.run_id,
            "risk": found.risk,
            "tags": ", ".join(found.tags),
            "experts": ", ".join(found.experts) and f"{', '.join(found.experts)} ({found.strategy})",
            "deadline": found.deadline,
            "options": " | ".join(map(str, payload.get("options") or ())),
            "content hash": found.digest[:SHORT_DIGEST],
            "content": f"deleted on {found.purged_at[:10]}" if found.purged_at else None,
        },
        console=console,
    )
    if found.question:
        output.block(f"\n{found.question}\n", console=console)
    for file in _files(payload):
        kept = str(file.get("sha256", ""))[:SHORT_DIGEST] or "not provided"
        output.fields({"file": f"{file.get('path')} ({file.get('format')}, {kept})"}, console=console)


def _files(payload: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    context: Mapping[str, Any] = payload.get("context") or {}
    return context.get("files") or ()


_SHOWN = frozenset({"question", "title", "tags", "context", "expert", "strategy", "options", "risk", "breakpointId"})


def _print_rest(found: Breakpoint) -> None:
    more = {name: value for name, value in found.payload.items() if name not in _SHOWN}
    if more:
        output.say("payload", style="dim")
        output.block(output.pretty(more))
    for warning in found.warnings:
        output.fields({"warning": warning})
    for response in found.responses:
        verdict = "approved" if response.get("approved") else "rejected"
        chosen = f": {response['option']}" if response.get("option") else ""
        output.fields({"answer": f"{response.get('respondedBy')} {verdict}{chosen}"})
    for each in found.feedback:
        output.fields({"comment": f"{each.author}, {each.created_at}"})
        output.block(each.comment)


def _print_history(history: Sequence[Event]) -> None:
    output.say("history", style="dim")
    for event in history:
        output.say(f"  {event.timestamp}  {output.visible(event.type)} by {output.visible(event.actor)}")


@app.command()
def approve(  # noqa: PLR0913  # one parameter per option
    breakpoint_id: Id,
    *,
    comment: Comment = None,
    option: Annotated[str | None, typer.Option(help="Option to choose")] = None,
    answer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Answer to a form field (repeatable)")
    ] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="GATE", help="Gate name (required for high-risk breakpoints)")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt")] = False,
    as_json: Json = False,
) -> None:
    """Approve a breakpoint exactly as shown. In a terminal, you are asked for confirmation first."""
    _refuse_unseen(yes=yes)
    with session() as assent:
        shown = assent.get(breakpoint_id)
        # Standard output is reserved for the result.
        _describe(shown, console=output.err)
        if shown.status != "waiting":
            msg = f"{shown.id} has already ended: {shown.decision or shown.status}."
            raise AlreadyEnded(msg)
        if not yes and not typer.confirm("Approve this?", default=False, err=True):
            output.remark("Not approved. Nothing was sent.")
            raise typer.Exit(output.FAILED)
        decided = assent.approve(
            breakpoint_id,
            comment=comment,
            option=option,
            answers=_answers(answer, shown.payload.get("form")),
            confirm=confirm,
            # The server refuses the approval if the content differs from what was displayed.
            digest=shown.digest,
        )
    _print_decided(decided, as_json=as_json)


def _refuse_unseen(*, yes: bool) -> None:
    """Require --yes if there is no terminal, because a script's output may go unread."""
    if not yes and not sys.stdin.isatty():
        output.remark(
            "Not approved: confirmation requires a terminal. Use --yes to skip the confirmation.", style="red"
        )
        raise typer.Exit(output.USAGE)


def _answers(given: Sequence[str] | None, form: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Parse NAME=VALUE pairs. Values of non-string form fields are parsed as JSON if possible."""
    properties: Mapping[str, Any] = (form or {}).get("properties") or {}

    def read(name: str, text: str) -> Any:  # noqa: ANN401  # any JSON value
        field: Mapping[str, Any] = properties.get(name) or {}
        return text if field.get("type", "string") == "string" else value(text)

    return {name: read(name, text) for name, text in pairs(given, "--answer").items()} or None


def _print_decided(decided: Breakpoint, *, as_json: bool) -> None:
    if as_json:
        output.emit(plain(decided))
    elif decided.status == "waiting":
        output.say("Answer recorded. More answers are required.", style="yellow")
    else:
        word = decided.decision or decided.status
        output.say(f"{decided.id} is {word}.", style="green" if word == "approved" else "red")


@app.command()
def reject(breakpoint_id: Id, *, comment: Comment = None, as_json: Json = False) -> None:
    """Reject a breakpoint, optionally with a reason."""
    with session() as assent:
        decided = assent.reject(breakpoint_id, comment=comment)
    _print_decided(decided, as_json=as_json)


@app.command()
def comment(
    breakpoint_id: Id, text: Annotated[str, typer.Argument(help="Comment text")], *, as_json: Json = False
) -> None:
    """Add a comment without approving or rejecting. The waiting agent can see it."""
    with session() as assent:
        said = assent.comment(breakpoint_id, text)
    if as_json:
        output.emit(plain(said))
    else:
        output.say("Comment added.")


@app.command()
def cancel(breakpoint_id: Id, *, as_json: Json = False) -> None:
    """Cancel a breakpoint. Only admins and the agent that created it can do this."""
    with session() as assent:
        ended = assent.cancel(breakpoint_id)
    _print_decided(ended, as_json=as_json)
