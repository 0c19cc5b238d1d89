"""`assent gate`: runs a command only if it was approved exactly as shown."""

import hashlib
import os
import shlex
import shutil
import signal
import socket
import stat
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from assent.breakpoints.commands.ask import (
    AgentId,
    Experts,
    Files,
    HardStop,
    Local,
    OnTimeout,
    Patience,
    Payload,
    Risk,
    RunId,
    Strategy,
    Tags,
    Title,
    Ttl,
    announce,
    ask_here,
    context_file,
    exit_code,
    here_code,
    json_object,
    waited,
)
from assent.console import output
from assent.console.output import Json
from assent.console.session import LONG_PATIENCE, Budget, session
from assent.console.signals import raised, stoppable, take_back, taken_back
from assent.contracts.breakpoints import Status
from assent.contracts.shape import plain
from assent.core.canonical import canonical, sha256
from assent.core.gates import slug
from assent.core.headlines import call_headline, cut
from assent.core.tool_calls import LONGEST_TITLE
from assent.sdk import receipts
from assent.sdk.breakpoints import local_body, server_is_set
from assent.sdk.client import Assent
from assent.sdk.errors import AssentError, StillWaiting
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Asking, creation
from assent.sdk.user import user

app = typer.Typer()

CANNOT_RUN, NOT_FOUND = 126, 127
DEADLINE_SECONDS = 24 * 3600
"""The default deadline, so that a killed gate does not leave a breakpoint pending forever."""
_LONGEST_QUESTION = 2000
_CHUNK = 1024 * 1024


class CannotRun(AssentError):
    """The command cannot be started, or has changed since it was shown."""

    code = "cannot_run"


class NoSuchCommand(CannotRun):
    code = "no_such_command"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command and the question about it."""

    command: Sequence[str]
    facts: Mapping[str, Any]
    question: str
    asking: Asking
    paths: Sequence[str]
    files: Sequence[ContextFile]

    @property
    def body(self) -> dict[str, Any]:
        return creation(self.question, self.asking)


@app.command(context_settings={"allow_interspersed_args": False})
def gate(  # noqa: PLR0913  # the options of the command
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="Command to run, with its arguments")],
    *,
    question: Annotated[str | None, typer.Option(help="Question for the reviewers (default: the command)")] = None,
    title: Title = None,
    tag: Tags = None,
    agent_id: AgentId = "assent-cli",
    run_id: RunId = None,
    gate: Annotated[
        str | None, typer.Option(help="Gate name (default: derived from the command and the directory)")
    ] = None,
    expert: Experts = None,
    strategy: Strategy = None,
    risk: Risk = None,
    hard_stop: HardStop = None,
    ttl: Ttl = None,
    on_timeout: OnTimeout = None,
    file: Files = None,
    payload: Payload = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Maximum time to wait; on timeout, cancel the breakpoint and exit with code 14",
        ),
    ] = None,
    patience: Patience = LONG_PATIENCE,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Run a command only if it is approved, and exit with the command's exit code."""
    facts = _facts_or_exit(command)
    asking = Asking(
        agent_id=agent_id,
        run_id=run_id,
        title=title or cut(call_headline("shell", facts), LONGEST_TITLE),
        tags=tag,
        ttl_seconds=ttl or DEADLINE_SECONDS,
        on_timeout=on_timeout,
        breakpoint_id=gate or _gate_of(facts),
        expert=expert[0] if expert and len(expert) == 1 else expert,
        strategy=strategy,
        risk=risk,
        hard_stop=hard_stop,
        payload=_with(facts, json_object(payload)),
    )
    wanted = Wanted(command, facts, question or _question(command), asking, file or (), _read(file or ()))
    if local or not server_is_set():
        receipts.refuse_unchecked(os.environ)
        outcome = ask_here(local_body(wanted.body, wanted.files, timeout=timeout), chosen=local)
        if as_json or not outcome.unseen:
            _tell(outcome.id, outcome.status, as_json=as_json)
        if not outcome.status.approved:
            raise typer.Exit(here_code(outcome, chosen=local))
        _refuse_changed(wanted)
    else:
        with session(patience=patience) as assent, stoppable():
            _approved_or_exit(assent, wanted, timeout=timeout, as_json=as_json)
    _become(facts["program"], command)


def _approved_or_exit(assent: Assent, wanted: Wanted, *, timeout: float | None, as_json: bool) -> None:
    """Ask, wait, and return only if the command was approved and its receipt matches it and is unused."""
    budget = Budget(timeout)
    keys = receipts.pinned(os.environ)  # first, because an invalid key would make the receipt impossible to verify
    budget.perform(assent, assent.calls.receipt_keys())  # also first: do not ask reviewers if the server cannot sign
    asked = raised(assent, wanted.question, wanted.files, wanted.asking, budget=budget)
    with taken_back(asked.id):
        announce(asked, assent.url)
        try:
            status = waited(assent, asked.id, timeout=budget.left)
        except StillWaiting as error:
            output.remark(
                f"No decision within {timeout:g} {'second' if timeout == 1 else 'seconds'}. The command was not run.",
                style="red",
            )
            take_back(asked.id)
            raise typer.Exit(output.STILL_WAITING) from error
    _tell(asked.id, status, as_json=as_json)
    if not status.approved:
        raise typer.Exit(exit_code(status))
    _refuse_changed(wanted)
    _use_receipt(assent, asked.id, wanted, keys)


def _refuse_changed(wanted: Wanted) -> None:
    """Refuse to run if the command, its program or an attached file differs from what was shown."""
    if _facts_or_exit(wanted.command) != wanted.facts:
        msg = "The command has changed since it was reviewed. Run it again to request a new approval."
        raise typer.Exit(_failed(CannotRun(msg)))
    if _read(wanted.paths) != wanted.files:
        msg = "An attached file has changed since it was reviewed. Run the command again to request a new approval."
        raise typer.Exit(_failed(CannotRun(msg)))


def _read(paths: Sequence[str]) -> list[ContextFile]:
    return [context_file(each) for each in paths]


def _use_receipt(assent: Assent, breakpoint_id: str, wanted: Wanted, keys: receipts.Keys | None) -> None:
    """Check the receipt against the command and consume it."""
    pace, patience = assent.calls.pace, assent.calls.patience
    receipt = assent.perform(receipts.fetching(breakpoint_id, pace=pace, patience=patience))
    digest = receipts.content_digest(wanted.body, wanted.files, project=receipt.approval.project)
    accepting = receipts.accepting(
        receipt,
        keys=keys,
        now=time.time(),
        key=uuid.uuid4().hex,
        pace=pace,
        patience=patience,
        digest=digest,
    )
    assent.perform(accepting)


def _tell(breakpoint_id: str, status: Status, *, as_json: bool) -> None:
    """Print to standard error, because standard output belongs to the command."""
    if as_json:
        output.emit_beside({"breakpointId": breakpoint_id} | plain(status))
        return
    said = status.result.feedback if status.result is not None else None
    word = status.decision or status.status
    output.remark(f"{word}: {output.visible(said)}" if said else word, style="green" if status.approved else "red")


def _facts_or_exit(command: Sequence[str]) -> dict[str, Any]:
    try:
        return _facts(command)
    except NoSuchCommand as error:
        output.fail(error)
        raise typer.Exit(NOT_FOUND) from error
    except CannotRun as error:
        raise typer.Exit(_failed(error)) from error


def _failed(error: CannotRun) -> int:
    output.fail(error)
    return CANNOT_RUN


def _facts(command: Sequence[str]) -> dict[str, Any]:
    """Return what would run, where and as which user. Reviewers see these facts, which are later checked again."""
    for word in command:
        if not _sendable(word):
            msg = "The command contains bytes that are not valid text, so reviewers cannot read it."
            raise CannotRun(msg)
    program = _program(command[0])
    facts = {
        "command": list(command),
        "program": str(program),
        "directory": str(Path.cwd()),
        "user": user(),
        "host": socket.gethostname(),
    }
    digest = _digest(program)
    return facts | ({"programSha256": digest} if digest else {})


def _sendable(word: str) -> bool:
    try:
        # Arguments that are not valid UTF-8 contain surrogates, which cannot be encoded.
        return "\x00" not in word and bool(word.encode() or True)
    except UnicodeEncodeError:
        return False


def _program(name: str) -> Path:
    """Find the program as a shell would, before asking a reviewer."""
    # Make the path absolute, so that neither PATH nor the current directory can select another program later.
    found = shutil.which(name)
    if found is not None:
        return Path(found).absolute()
    shown = output.visible(name)
    if os.sep in name and Path(name).exists():
        msg = f"{shown} cannot be run: you do not have permission to execute it."
        raise CannotRun(msg)
    msg = f"Command not found: {shown}. To run a shell built-in, use: -- sh -c '…'"
    raise NoSuchCommand(msg)


def _digest(program: Path) -> str | None:
    """Hash the program, so that it cannot be replaced during the review; return None if it cannot be read."""
    found = hashlib.sha256()
    try:
        # Reading a device or a pipe might never end.
        if not stat.S_ISREG(program.stat().st_mode):
            return None
        with program.open("rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    except OSError:
        return None
    return found.hexdigest()


def _gate_of(facts: Mapping[str, Any]) -> str:
    """Return a gate for this command in this directory: approving `rm a` must not affect `rm b`."""
    name = slug(Path(facts["program"]).name)[:100]
    return f"shell.{name}.{sha256(canonical([facts['command'], facts['directory']]))[:12]}"


def _question(command: Sequence[str]) -> str:
    return cut(shlex.join(command), _LONGEST_QUESTION)


def _with(facts: Mapping[str, Any], more: Mapping[str, Any] | None) -> dict[str, Any]:
    taken = sorted(set(facts) & set(more or {}))
    if taken:
        msg = f"must not contain {', '.join(taken)}, which `assent gate` sets itself"
        raise typer.BadParameter(msg, param_hint="--payload")
    # The facts come last, so that a payload can never replace what would run.
    return {**(more or {}), **facts}


def _become(program: str, command: Sequence[str]) -> NoReturn:
    """Replace this process with the command, so that input, output, signals and exit code are the command's own."""
    # execv would discard what Python has buffered.
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the command would inherit that
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(program, list(command))  # noqa: S606  # no shell: the exact words that were shown
    except OSError as error:
        msg = f"{output.visible(program)} cannot be run: {error.strerror}."
        raise typer.Exit(_failed(CannotRun(msg))) from error
