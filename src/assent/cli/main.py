"""The entry point, which loads only the module of the command that is called."""

import gc
import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from assent.cli.help import show_plain_types
from assent.cli.registry import HOMES, SUMMARY
from assent.console import output
from assent.core.errors import AssentError, Internal

show_plain_types()
SPACED = "breakpoint"
"""The form of the `breakpoint:` commands with a space instead of the colon; hidden, to avoid listing them twice."""


def loaded(name: str) -> TyperCommand | TyperGroup:
    if name == SPACED:
        return get_group(import_module("assent.policy.commands.babysitter").spaced)
    # Imports create almost no garbage, and collecting it would take a sixth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        home: typer.Typer = import_module(HOMES[name].module).app
    finally:
        if collects:
            gc.enable()
    found = get_group(home).commands[name]
    for module in HOMES[name].adds:
        assert isinstance(found, TyperGroup), "only groups have subcommands"
        found.commands.update(get_group(import_module(f"assent.cli.{module}").commands).commands)
    assert isinstance(found, TyperCommand | TyperGroup), "made by typer"
    return found


class Listed(TyperCommand):
    """A command as shown in the list; `resolve_command` replaces it with the real one."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's signature
        del ctx
        msg = f"The command {self.name} was invoked but never loaded."
        raise Internal(msg)


class LazyCommands(TyperGroup):
    """Lists all commands but loads only the one that is called, because admin commands need the entire server."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # Typer's arguments
        super().__init__(**given)
        for name, home in HOMES.items():
            self.add_command(Listed(name, help=home.told, rich_help_panel=home.heading))
        self.add_command(Listed(SPACED, hidden=True))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # Typer's signature
        name, _, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name else None, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's signature
        """Run the command, and turn an error into a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except AssentError as error:
            raise typer.Exit(output.fail(error)) from error


app = typer.Typer(cls=LazyCommands, no_args_is_help=True, pretty_exceptions_enable=False, help=SUMMARY)


def _print_version(asked: bool) -> None:  # noqa: FBT001  # Typer's signature
    if asked:
        output.say(f"assent {version('assent')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit")
    ] = False,
) -> None:
    """Approval gates for AI agents."""


def run() -> None:
    try:
        app()
    except Exception as error:
        if os.environ.get("ASSENT_TRACEBACK"):
            raise
        msg = f"Internal error in Assent ({error!r}). Please report it. Set ASSENT_TRACEBACK=1 to see the traceback."
        sys.exit(output.fail(Internal(msg)))
