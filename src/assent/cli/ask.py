"""An agent's commands: ask, and wait for the answer."""

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from assent.cli import output
from assent.cli.output import Json
from assent.cli.session import LONG_PATIENCE, session
from assent.sdk.client import Assent
from assent.sdk.errors import StillWaiting, Unavailable, Unreachable
from assent.sdk.files import FORMATS, ContextFile, snapshot
from assent.sdk.values import Breakpoint, Status, plain

app = typer.Typer()

Patience = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to go on trying while the server cannot be reached.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Stop waiting after this time (exit code 14); the question stays."),
]


@app.command()
def ask(  # noqa: PLR0913  # the options of the command
    question: Annotated[str, typer.Argument(help="What to decide.")],
    *,
    title: Annotated[str | None, typer.Option(help="A short name for it.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="An answer to pick from; repeat it.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeat it.")] = None,
    agent_id: Annotated[str, typer.Option(envvar="ASSENT_AGENT_ID", help="Who asks.")] = "assent-cli",
    run_id: Annotated[str | None, typer.Option(help="The run it belongs to.")] = None,
    gate: Annotated[str | None, typer.Option(help="Its name across runs; made from the title if left out.")] = None,
    expert: Annotated[list[str] | None, typer.Option(help="A person or group to ask; repeat it.")] = None,
    strategy: Annotated[
        Literal["single", "first-response-wins", "collect-all", "quorum"] | None, typer.Option(help="Who must agree.")
    ] = None,
    risk: Annotated[Literal["low", "medium", "high"] | None, typer.Option(help="high asks to type the gate.")] = None,
    ttl: Annotated[int | None, typer.Option(metavar="SECONDS", help="How long people have to answer.")] = None,
    on_timeout: Annotated[
        Literal["expire", "reject"] | None, typer.Option(help="What happens then; never an approval.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH[:FORMAT]", help="A file under this directory to show; repeat it."),
    ] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="An object with anything more to show.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer, or print the id.")] = True,
    timeout: Timeout = None,
    patience: Patience = LONG_PATIENCE,
    as_json: Json = False,
) -> None:
    """Ask people, wait, and print the answer; the exit code tells the decision."""
    files = [_context_file(each) for each in file or ()]
    more = _object(payload)
    with session(patience=patience) as assent:
        raised = assent.create(
            question,
            files=files,
            agent_id=agent_id,
            run_id=run_id,
            title=title,
            tags=tag,
            ttl_seconds=ttl,
            on_timeout=on_timeout,
            breakpoint_id=gate,
            expert=expert[0] if expert and len(expert) == 1 else expert,
            strategy=strategy,
            options=option,
            risk=risk,
            payload=more,
        )
        with _left_open(raised.id):
            _announce(raised)
            if wait:
                raise typer.Exit(_answer(assent, raised.id, timeout=timeout, as_json=as_json))
    if as_json:
        output.emit(plain(raised))
    else:
        output.say(raised.id)


@app.command()
def wait(
    breakpoint_id: Annotated[str, typer.Argument(metavar="ID", help="The breakpoint's id.")],
    *,
    timeout: Timeout = None,
    patience: Patience = LONG_PATIENCE,
    as_json: Json = False,
) -> None:
    """Wait for the answer to a question asked before, and print it."""
    with session(patience=patience) as assent, _left_open(breakpoint_id):
        raise typer.Exit(_answer(assent, breakpoint_id, timeout=timeout, as_json=as_json))


def exit_code(status: Status) -> int:
    """Only an explicit approval is 0."""
    if status.approved:
        return output.APPROVED
    return {"expired": output.EXPIRED, "cancelled": output.CANCELLED}.get(status.status, output.REJECTED)


def _announce(raised: Breakpoint) -> None:
    output.remark(f"Asked as {raised.id} (gate {output.visible(raised.gate)}).")
    for warning in raised.warnings:
        output.remark(output.visible(warning), style="yellow")


@contextlib.contextmanager
def _left_open(breakpoint_id: str) -> Generator[None, None, None]:
    """Whoever stops waiting is told how to go on; typer makes an interrupt exit code 130."""
    go_on = f"Go on with: assent wait {output.visible(breakpoint_id)}"
    try:
        yield
    except KeyboardInterrupt:
        output.remark(go_on)
        raise
    except (StillWaiting, Unreachable, Unavailable) as error:
        code = output.fail(error)
        output.remark(go_on)
        raise typer.Exit(code) from error


def _answer(assent: Assent, breakpoint_id: str, *, timeout: float | None, as_json: bool) -> int:
    status = assent.wait(breakpoint_id, timeout=timeout)
    if as_json:
        output.emit({"breakpointId": breakpoint_id} | plain(status))
    else:
        _print_answer(status)
    return exit_code(status)


def _print_answer(status: Status) -> None:
    result = status.result
    decided = status.decision or status.status
    chosen = result.option if result is not None else None
    if chosen is not None and status.approved:
        output.say(output.visible(chosen))
    else:
        output.say(decided, style="green" if status.approved else "red")
    if result is not None and result.answers:
        output.say(output.visible(output.pretty(result.answers), lines=True))
    if result is not None and result.feedback:
        output.say(output.visible(result.feedback, lines=True))


def _context_file(text: str) -> ContextFile:
    path, colon, chosen = text.rpartition(":")
    if colon and chosen in FORMATS:
        return snapshot(path, root=Path.cwd(), format=chosen)
    return snapshot(text, root=Path.cwd())


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        msg = f"is not JSON: {error}"
        raise typer.BadParameter(msg, param_hint="--payload") from error
    if not isinstance(value, dict):
        msg = "must be a JSON object, such as '{\"cost\": 12}'"
        raise typer.BadParameter(msg, param_hint="--payload")
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON
