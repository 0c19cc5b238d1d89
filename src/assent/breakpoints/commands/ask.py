"""Commands for agents: ask, and wait for the answer."""

import contextlib
import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.session import LONG_PATIENCE, PATIENCE_HELP, Budget, session
from assent.console.signals import raised, stoppable, taken_back
from assent.contracts.breakpoints import Breakpoint, Status
from assent.contracts.shape import plain
from assent.core.fields import BY_NAME
from assent.sdk.breakpoints import local_body, server_is_set
from assent.sdk.client import Assent
from assent.sdk.errors import StillWaiting, Unavailable, Unreachable
from assent.sdk.files import FORMATS, ContextFile, snapshot
from assent.sdk.protocol import Asking, creation

if TYPE_CHECKING:
    from assent.sdk.local import Outcome

app = typer.Typer()

Patience = Annotated[float, typer.Option(min=0, metavar="SECONDS", help=PATIENCE_HELP)]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Maximum time to wait; on timeout, exit with 14 and leave the breakpoint pending",
    ),
]
Title = Annotated[str | None, typer.Option(help=BY_NAME["title"].help)]
Tags = Annotated[list[str] | None, typer.Option(help="Tag (repeatable)")]
AgentId = Annotated[str, typer.Option(envvar="ASSENT_AGENT_ID", help=BY_NAME["agent_id"].help)]
RunId = Annotated[str | None, typer.Option(help=BY_NAME["run_id"].help)]
Experts = Annotated[list[str] | None, typer.Option(help="Person or group to ask (repeatable; default: any reviewer)")]
Strategy = Annotated[
    Literal["single", "first-response-wins", "collect-all", "quorum"] | None,
    typer.Option(help=BY_NAME["strategy"].help),
]
Risk = Annotated[Literal["low", "medium", "high"] | None, typer.Option(help=BY_NAME["risk"].help)]
HardStop = Annotated[bool | None, typer.Option("--hard-stop", help=BY_NAME["hard_stop"].help)]
Ttl = Annotated[int | None, typer.Option(min=1, metavar="SECONDS", help=BY_NAME["ttl_seconds"].help)]
OnTimeout = Annotated[Literal["expire", "reject"] | None, typer.Option(help=BY_NAME["on_timeout"].help)]
Files = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH[:FORMAT]", help="File to attach, in or below the current directory (repeatable)"),
]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help=BY_NAME["payload"].help)]
Local = Annotated[bool, typer.Option("--local", help="Ask in this terminal, even if a server is configured")]


@app.command()
def ask(  # noqa: PLR0913  # one parameter per option
    question: Annotated[str, typer.Argument(help=BY_NAME["question"].help)],
    *,
    title: Title = None,
    option: Annotated[list[str] | None, typer.Option(help="Option that reviewers can choose (repeatable)")] = None,
    tag: Tags = None,
    agent_id: AgentId = "assent-cli",
    run_id: RunId = None,
    gate: Annotated[str | None, typer.Option(help="Gate name (default: derived from the title)")] = None,
    expert: Experts = None,
    strategy: Strategy = None,
    risk: Risk = None,
    hard_stop: HardStop = None,
    ttl: Ttl = None,
    on_timeout: OnTimeout = None,
    file: Files = None,
    payload: Payload = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the answer, or print the ID and exit")
    ] = True,
    timeout: Timeout = None,
    patience: Patience = LONG_PATIENCE,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Ask a question, wait for the answer, and print it. The exit code reflects the decision."""
    files = [context_file(each) for each in file or ()]
    asking = Asking(
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
        hard_stop=hard_stop,
        payload=json_object(payload),
    )
    if local or not server_is_set():
        if not wait:
            msg = "This option requires a server. Set ASSENT_URL and ASSENT_TOKEN."
            raise typer.BadParameter(msg, param_hint="--no-wait")
        outcome = ask_here(local_body(creation(question, asking), files, timeout=timeout), chosen=local)
        # A question that could not be asked has no answer to print.
        if as_json or not outcome.unseen:
            print_status(outcome.id, outcome.status, as_json=as_json)
        raise typer.Exit(here_code(outcome, chosen=local))
    budget = Budget(timeout if wait else None)
    with session(patience=patience) as assent, stoppable():
        asked = raised(assent, question, files, asking, budget=budget)
        with left_open(asked.id), taken_back(asked.id):
            announce(asked, assent.url)
            if wait:
                raise typer.Exit(_answer(assent, asked.id, timeout=budget.left, as_json=as_json))
    if as_json:
        output.emit(plain(asked))
    else:
        output.say(asked.id)


def ask_here(body: Mapping[str, Any], *, chosen: bool) -> "Outcome":
    """Ask in the terminal, and print why no server is used."""
    from assent.sdk import local  # noqa: PLC0415  # loads the rule language, which other commands do not need

    desk = local.desk()
    because = "--local is set" if chosen else "no server is configured (ASSENT_URL, ASSENT_TOKEN)"
    output.remark(f"Asking in this terminal because {because}. The answer is recorded in {desk.journal.path}.")
    outcome = local.ask(body, desk)
    if outcome.rule_problem is not None:
        output.remark(output.visible(outcome.rule_problem), style="yellow")
    if outcome.result.auto:
        output.remark(f"Approved automatically: {output.visible(str(outcome.auto_approval['reason']))}")
    return outcome


def here_code(outcome: "Outcome", *, chosen: bool) -> int:
    """Return the exit code; 13 means that the question could not be asked, so there is no answer."""
    if not outcome.unseen:
        return exit_code(outcome.status)
    output.remark(
        f"Error: {output.visible(outcome.result.feedback or 'The question could not be asked.')}", style="red"
    )
    if not chosen:
        output.remark(
            "Set ASSENT_URL and ASSENT_TOKEN (create a token with `assent token create --kind agent`), or run"
            " the command in a terminal."
        )
    return output.UNREACHABLE


@app.command()
def wait(
    breakpoint_id: Annotated[str, typer.Argument(metavar="ID", help="Breakpoint ID")],
    *,
    timeout: Timeout = None,
    patience: Patience = LONG_PATIENCE,
    as_json: Json = False,
) -> None:
    """Wait for the answer to an earlier question and print it."""
    with session(patience=patience) as assent, left_open(breakpoint_id):
        raise typer.Exit(_answer(assent, breakpoint_id, timeout=timeout, as_json=as_json))


def exit_code(status: Status) -> int:
    """Return 0 only for an explicit approval."""
    if status.approved:
        return output.APPROVED
    return {"expired": output.EXPIRED, "cancelled": output.CANCELLED}.get(status.status, output.REJECTED)


def announce(asked: Breakpoint, url: str) -> None:
    output.remark(f"Created breakpoint {asked.id} (gate {output.visible(asked.gate)}).")
    output.remark(f"Answer it at {output.visible(url)}/breakpoints/{asked.id}")
    for warning in asked.warnings:
        output.remark(output.visible(warning), style="yellow")


@contextlib.contextmanager
def left_open(breakpoint_id: str) -> Generator[None, None, None]:
    """Print how to continue waiting if the wait is interrupted. Typer turns an interrupt into exit code 130."""
    resume = f"To continue waiting, run: assent wait {output.visible(breakpoint_id)}"
    try:
        yield
    except KeyboardInterrupt:
        output.remark(resume)
        raise
    except (StillWaiting, Unreachable, Unavailable) as error:
        code = output.fail(error)
        output.remark(resume)
        raise typer.Exit(code) from error


def _answer(assent: Assent, breakpoint_id: str, *, timeout: float | None, as_json: bool) -> int:
    status = waited(assent, breakpoint_id, timeout=timeout)
    print_status(breakpoint_id, status, as_json=as_json)
    return exit_code(status)


def waited(assent: Assent, breakpoint_id: str, *, timeout: float | None) -> Status:
    """Wait for the answer, with a spinner if standard error is a terminal."""
    if not output.err.is_terminal:
        return assent.wait(breakpoint_id, timeout=timeout)
    with output.err.status("Waiting for an answer. Press Ctrl-C to stop."):
        return assent.wait(breakpoint_id, timeout=timeout)


def print_status(breakpoint_id: str, status: Status, *, as_json: bool) -> None:
    if as_json:
        output.emit({"breakpointId": breakpoint_id} | plain(status))
    else:
        _print_answer(status)


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


def context_file(text: str) -> ContextFile:
    path, colon, chosen = text.rpartition(":")
    if colon and chosen in FORMATS:
        return snapshot(path, root=Path.cwd(), format=chosen)
    return snapshot(text, root=Path.cwd())


def json_object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        msg = f"not valid JSON: {error}"
        raise typer.BadParameter(msg, param_hint="--payload") from error
    if not isinstance(value, dict):
        msg = "must be a JSON object, such as '{\"cost\": 12}'"
        raise typer.BadParameter(msg, param_hint="--payload")
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON
