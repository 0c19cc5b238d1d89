"""The hook that Claude Code calls, and the commands that install and uninstall it and resume deferred sessions."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.agents.hooks import claude_code
from assent.agents.hooks import claude_settings as claude_code_settings
from assent.agents.hooks.claude_code import BLOCKED, Asked, ClientGone, Wanted, raised, settled, wanted
from assent.agents.hooks.claude_settings import MATCHER, Gate, has_hooks, installed, pinned, read, uninstalled
from assent.agents.hooks.memory import LONGEST_MEMORY, REMEMBER_SECONDS, Memory
from assent.agents.hooks.pins import (
    TOKEN_ENV,
    CaFile,
    Pins,
    Proxy,
    ReceiptKeys,
    TokenEnv,
    TokenFile,
    Url,
    current_keys,
    isolated,
)
from assent.console import output
from assent.console.output import Json
from assent.console.session import LONG_PATIENCE, PATIENCE_HELP, session
from assent.console.signals import LAST_WORDS, Stopped, stoppable, take_back
from assent.core.claude_code import DOOR, LONGEST_TTL, TTL_SECONDS
from assent.core.errors import AssentError, InvalidRequest
from assent.sdk.connection import DEFAULT_URL, Connection
from assent.sdk.errors import Unreachable
from assent.sdk.receipts import read_keys
from assent.sdk.tool_calls import Terms

app = typer.Typer()
hook = typer.Typer(no_args_is_help=True, help="Manage hooks that agents call before acting.")
claude = typer.Typer(
    help="Request approval for the tool call that Claude Code describes on standard input. Exit code 2 blocks the call."
)
app.add_typer(hook, name="hook")
hook.add_typer(claude, name="claude")

PATIENCE = 5.0
"""Seconds to retry an unreachable server before a question is asked; short, to avoid delaying tool calls."""
LONGEST_PATIENCE = 30.0
"""Twice this duration is still shorter than the time for which the client waits beyond the deadline."""

Ttl = Annotated[
    int, typer.Option(min=1, max=LONGEST_TTL, metavar="SECONDS", help="Number of seconds until the deadline")
]
Defer = Annotated[
    bool,
    typer.Option("--defer", help="End a headless session instead of blocking it (see `assent hook claude resume`)"),
]
Editable = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Argument that reviewers can change (repeatable)")
]
AgentId = Annotated[
    str | None, typer.Option(help="ID of the requesting agent (default: ASSENT_AGENT_ID or claude-code)")
]
Tags = Annotated[list[str] | None, typer.Option(help="Tag (repeatable)")]
Experts = Annotated[list[str] | None, typer.Option(help="Person or group to ask (repeatable)")]
Patience = Annotated[
    float,
    typer.Option(min=0, max=LONGEST_PATIENCE, metavar="SECONDS", help=PATIENCE_HELP),
]
Remember = Annotated[
    float,
    typer.Option(
        min=0,
        max=LONGEST_MEMORY,
        metavar="SECONDS",
        help="How long to block calls without contacting a server again after it was unreachable; 0 disables this",
    ),
]
Risk = Annotated[
    str | None,
    typer.Option(help="Risk level: low, medium or high; to approve high risk, reviewers must type the gate name"),
]
User = Annotated[bool, typer.Option("--user", help="Use your user settings, which apply to every project")]
Project = Annotated[bool, typer.Option("--project", help="Use this project's shared settings (default)")]
Local = Annotated[bool, typer.Option("--local", help="Use your personal settings for this project")]
Settings = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings file to use instead")]


@claude.callback(invoke_without_command=True)
def claude_hook(  # noqa: PLR0913  # the options of the command
    context: typer.Context,
    *,
    ttl: Ttl = TTL_SECONDS,
    defer: Defer = False,
    editable: Editable = None,
    agent_id: AgentId = None,
    tag: Tags = None,
    expert: Experts = None,
    risk: Risk = None,
    patience: Patience = PATIENCE,
    remember: Remember = REMEMBER_SECONDS,
    url: Url = None,
    receipt_key: ReceiptKeys = None,
    token_env: TokenEnv = TOKEN_ENV,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    proxy: Proxy = None,
    as_json: Json = False,
) -> None:
    """Request approval for the tool call that Claude Code describes on standard input. Exit code 2 blocks the call."""
    del as_json  # the hook's output is always JSON
    if context.invoked_subcommand is not None:
        return
    terms = Terms(agent_id=agent_id or os.environ.get("ASSENT_AGENT_ID") or DOOR, ttl_seconds=ttl)
    if tag:
        terms["tags"] = tag
    if expert:
        terms["expert"] = expert
    if risk:
        terms["risk"] = risk
    # A session with a user in attendance cannot be deferred, so the hook waits.
    alone = os.environ.get("CLAUDE_CODE_SESSION_ATTENDED") != "1"
    pins = Pins(
        url=url,
        receipt_keys=receipt_key or (),
        token_env=token_env,
        token_file=token_file,
        ca_file=ca_file,
        proxy=proxy,
    )
    server = _Server(pins, patience, Memory(pins.server, remember))
    raise typer.Exit(_hooked(terms, editable or (), defer=defer and alone, server=server))


@dataclass(frozen=True, slots=True)
class _Server:
    """The server to ask, how long to retry, and whether it was recently unreachable."""

    pins: Pins
    patience: float
    memory: Memory


def _hooked(terms: Terms, editable: Sequence[str], *, defer: bool, server: _Server) -> int:
    """Return 0 if the client was given a decision, and 2, which blocks the call, after any failure."""
    try:
        with stoppable():
            asked = wanted(sys.stdin.buffer.read(), terms, editable=editable, defer=defer)
            output.emit(_decided(asked, server))
    except typer.Exit:
        return _blocked("The hook was stopped before the question was answered.")
    except ClientGone:
        return BLOCKED
    except AssentError as error:
        return _blocked(error.message)
    except Exception as error:  # noqa: BLE001  # the last handler: any other exit code would let the call run
        return _blocked(f"The hook failed: {error!r}.")
    return 0


def _blocked(why: str) -> int:
    output.remark(f"Assent: {output.visible(why).rstrip('.')}. The tool was not run.", style="")
    return BLOCKED


def _decided(asking: Wanted, server: _Server) -> dict[str, Any]:
    asked, keys = Asked(asking), server.pins.keys
    # Every tool call starts a new hook, and each of them would otherwise retry until its patience runs out.
    server.memory.refuse_if_dead()
    reader = sys.stdout.fileno()
    # Use a thread, because the main thread is blocked in the request while it waits for an answer.
    threading.Thread(target=_end_with, args=(reader,), daemon=True).start()
    with server.pins.reached(patience=server.patience) as assent:
        try:
            told = assent.perform(
                settled(assent.calls, asked, still_there=lambda: not claude_code.left(reader, within=0), keys=keys)
            )
        except Stopped:
            _take_back(asked, server.pins)
            raise
        except Unreachable:
            server.memory.remember()
            raise
    server.memory.forget()
    return told


def _end_with(reader: int) -> None:
    """Exit silently when the client does; the breakpoint stays pending for when the session is resumed."""
    if claude_code.left(reader, within=None):
        os._exit(BLOCKED)


def _take_back(asked: Asked, pins: Pins) -> None:
    """Cancel the breakpoint; if its ID has not arrived yet, send the request again to get it."""
    try:
        if asked.id is None:
            with pins.reached(patience=0) as again:
                asked.id = again.perform(raised(again.calls, asked.wanted)).id
        take_back(asked.id, reach=partial(pins.reached, patience=LAST_WORDS))
    except AssentError as error:
        output.remark(f"The breakpoint may or may not have been created: {output.visible(error.message)}")


@claude.command("install")
def claude_install(  # noqa: PLR0913  # the options of the command
    *,
    project: Project = False,
    user: User = False,
    local: Local = False,
    settings: Settings = None,
    http: Annotated[
        bool, typer.Option("--http", help="Have Claude Code call the server directly instead of running a command")
    ] = False,
    matcher: Annotated[str, typer.Option(help="Claude Code matcher for the tools that require approval")] = MATCHER,
    program: Annotated[
        str | None, typer.Option(metavar="PATH", help="Program to run as the hook (default: this Assent installation)")
    ] = None,
    url: Url = None,
    receipt_key: ReceiptKeys = None,
    pin_key: Annotated[bool, typer.Option("--pin-key/--no-pin-key", help="Pin the server's receipt key")] = True,
    token_env: TokenEnv = TOKEN_ENV,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    proxy: Proxy = None,
    patience: Patience = PATIENCE,
    remember: Remember = REMEMBER_SECONDS,
    ttl: Ttl = TTL_SECONDS,
    defer: Defer = False,
    editable: Editable = None,
    agent_id: AgentId = None,
    tag: Tags = None,
    expert: Experts = None,
    risk: Risk = None,
    as_json: Json = False,
) -> None:
    """Add the hook to the Claude Code settings, replacing any older Assent hook. Other settings are kept."""
    path = _path(settings, user=user, local=local, project=project)
    lists = {"editable": editable, "tag": tag, "expert": expert}
    options = [(name, value) for name, values in lists.items() for value in values or ()]
    who = agent_id or (None if http else os.environ.get("ASSENT_AGENT_ID") or DOOR)
    options += [(name, value) for name, value in (("agent-id", who), ("risk", risk)) if value]
    before = read(path)
    address = url or os.environ.get("ASSENT_URL") or next(iter(pinned(before, "url")), None) or DEFAULT_URL
    Connection(address, "checked-later")  # raises now if the URL is invalid
    gate = Gate(url=address if http else None, matcher=matcher, ttl=ttl, defer=defer, options=options)
    if not http:
        whole = Path(token_file).expanduser().absolute() if token_file else None
        certificates = Path(ca_file).expanduser().absolute() if ca_file else None
        pins = Pins(url=address, token_env=token_env, token_file=whole, ca_file=certificates, proxy=proxy)
        keys = _keys(pins, receipt_key or (), before) if pin_key else ()
        # A settings file shared by a project cannot contain a path that exists only on one machine.
        shared = not (user or local or settings is not None)
        start, words = (program, ()) if program else ("assent", ()) if shared else isolated()
        trying = [(name, f"{value:g}") for name, value, usual in _times(patience, remember) if value != usual]
        gate = replace(gate, program=start, before=words, pins=[*replace(pins, receipt_keys=keys).words, *trying])
    _save(path, before, installed(before, gate), as_json=as_json)


def _times(patience: float, remember: float) -> list[tuple[str, float, float]]:
    return [("patience", patience, PATIENCE), ("remember", remember, REMEMBER_SECONDS)]


def _keys(pins: Pins, given: Sequence[str], before: Mapping[str, Any]) -> Sequence[str]:
    """Return the receipt keys to pin: the given keys, else the server's, else those of the hook being replaced."""
    named = list(given) or os.environ.get("ASSENT_RECEIPT_KEY", "").replace(",", " ").split()
    if named:
        read_keys(" ".join(named))
        return named
    found, why = current_keys(pins)
    # Keys of another server do not apply to this one, so keep them only if the URL is unchanged.
    kept = pinned(before, "receipt-key") if pinned(before, "url") == [pins.url] else []
    if not found and not kept:
        said = f"No receipt key was pinned: {output.visible(why)} Set ASSENT_TOKEN, start the server and try again."
        output.remark(said, style="yellow")
    return found or kept


@claude.command("uninstall")
def claude_uninstall(
    *,
    project: Project = False,
    user: User = False,
    local: Local = False,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Remove the hook from the Claude Code settings. Other settings are kept."""
    path = _path(settings, user=user, local=local, project=project)
    before = read(path)
    _save(path, before, uninstalled(before), as_json=as_json)


def _path(settings: Path | None, *, user: bool, local: bool, project: bool) -> Path:
    if sum((settings is not None, user, local, project)) > 1:
        msg = "Use only one of --project, --user, --local and --settings."
        raise InvalidRequest(msg)
    if settings is not None:
        return settings
    if user:
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home) if home else Path.home() / ".claude") / "settings.json"
    return Path(".claude") / ("settings.local.json" if local else "settings.json")


def _save(path: Path, before: dict[str, Any], after: dict[str, Any], *, as_json: bool) -> None:
    changed = before != after
    if changed:
        claude_code_settings.write(path, after)
    if as_json:
        output.emit({"settings": str(path), "installed": has_hooks(after), "changed": changed})
        return
    state = "The Assent hook is installed in" if has_hooks(after) else "The Assent hook is not installed in"
    output.say(f"{state} {output.visible(str(path))}{'' if changed else ' (unchanged)'}.")


@claude.command("resume")
def claude_resume(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="ID of the deferred session")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Extra arguments to pass to claude")
    ] = None,
    *,
    program: Annotated[str, typer.Option(metavar="PATH", help="Claude Code executable")] = "claude",
    patience: Annotated[float, typer.Option(min=0, metavar="SECONDS", help=PATIENCE_HELP)] = LONG_PATIENCE,
    as_json: Annotated[bool, typer.Option("--json", help="Have claude output JSON")] = False,
) -> None:
    """Wait for answers to a deferred session's questions, resume the session, and repeat until it ends."""
    printed = ["--output-format", "json"] if as_json else []
    command = [program, "-p", "--resume", session_id, *printed, *(arguments or ())]
    while True:
        _wait_for_answers(session_id, patience=patience)
        code = _run(command)
        # The resumed session may have deferred another call, so check again.
        if code != 0 or not _waiting(session_id, patience=patience):
            raise typer.Exit(code)


def _wait_for_answers(session_id: str, *, patience: float) -> None:
    for breakpoint_id in _waiting(session_id, patience=patience):
        output.remark(f"Waiting for {breakpoint_id}.")
        with session(patience=patience) as assent:
            assent.wait(breakpoint_id)


def _waiting(session_id: str, *, patience: float) -> list[str]:
    with session(patience=patience) as assent:
        return [each.id for each in assent.list(status="waiting", run_id=session_id, limit=200).items]


def _run(command: Sequence[str]) -> int:
    try:
        return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode  # noqa: S603  # as given
    except OSError as error:
        msg = f"{output.visible(command[0])} cannot be run: {error.strerror}."
        raise InvalidRequest(msg) from error
