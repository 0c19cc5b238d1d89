"""The command itself: gathers the groups."""

import typer

from assent.cli import admin

app = typer.Typer(no_args_is_help=True, help="Agents stop and ask; people answer.", pretty_exceptions_enable=False)
admin.register(app)


def run() -> None:
    app()
