"""The command itself: knows where each command lives and loads only the one that is called."""

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from assent.cli import output
from assent.domain.errors import AssentError, Internal

HOMES = {
    "ask": "assent.cli.ask",
    "wait": "assent.cli.ask",
    "gate": "assent.cli.gate",
    "inbox": "assent.cli.client",
    "show": "assent.cli.client",
    "approve": "assent.cli.client",
    "reject": "assent.cli.client",
    "comment": "assent.cli.client",
    "cancel": "assent.cli.client",
    "process": "assent.cli.runs",
    "run": "assent.cli.runs",
    "channel": "assent.cli.channels",
    "route": "assent.cli.routes",
    "delivery": "assent.cli.delivery",
    "hook": "assent.cli.hook",
    "hooks": "assent.cli.hooks",
    "mcp": "assent.cli.mcp",
    "source": "assent.cli.sources",
    "trigger": "assent.cli.triggers",
    "receipt": "assent.cli.receipt",
    "rule": "assent.cli.rules",
    "breakpoint:approve-rule": "assent.cli.breakpoint_commands",
    "breakpoint:list-rules": "assent.cli.breakpoint_commands",
    "breakpoint:remove-rule": "assent.cli.breakpoint_commands",
    "breakpoint:should-auto-approve": "assent.cli.breakpoint_commands",
    "breakpoint:history": "assent.cli.breakpoint_commands",
    "serve": "assent.cli.admin",
    "worker": "assent.cli.admin",
    "migrate": "assent.cli.admin",
    "check": "assent.cli.admin",
    "doctor": "assent.cli.doctor",
    "audit": "assent.cli.audit",
    "fsck": "assent.cli.audit",
    "hold": "assent.cli.audit",
    "token": "assent.cli.people",
    "user": "assent.cli.people",
    "group": "assent.cli.people",
    "project": "assent.cli.secrets",
    "secrets": "assent.cli.secrets",
    "backup": "assent.cli.backup",
    "restore": "assent.cli.backup",
    "import": "assent.cli.importing",
}


class LazyCommands(TyperGroup):
    """The administrator's commands need the whole server; nobody else should wait for it to load."""

    def list_commands(self, ctx: object) -> list[str]:
        del ctx
        return list(HOMES)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        del ctx
        if cmd_name == "breakpoint":  # with a blank instead of the colon; not listed a second time
            return get_group(import_module("assent.cli.breakpoint_commands").spaced)
        if cmd_name not in HOMES:
            return None
        home: typer.Typer = import_module(HOMES[cmd_name]).app
        found = get_group(home).commands[cmd_name]
        assert isinstance(found, TyperCommand | TyperGroup), "made by typer"
        return found

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # the shape typer calls
        """Run the command; what goes wrong becomes a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except AssentError as error:
            raise typer.Exit(output.fail(error)) from error


app = typer.Typer(
    cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False, help="Agents stop and ask; people answer."
)


def _print_version(asked: bool) -> None:  # noqa: FBT001  # the shape typer calls
    if asked:
        output.say(f"assent {version('assent')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Agents stop and ask; people answer."""


def run() -> None:
    try:
        app()
    except Exception as error:
        if os.environ.get("ASSENT_TRACEBACK"):
            raise
        msg = f"This is a fault in Assent, please report it; ASSENT_TRACEBACK=1 shows where ({error!r})."
        sys.exit(output.fail(Internal(msg)))
