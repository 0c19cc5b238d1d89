"""Commands that work on the data itself: serve, migrate, token."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from assent.app import Assent, migrate, serve
from assent.services.people import DEFAULT_PROJECT, NewToken
from assent.settings import Settings
from assent.store.transaction import Transaction

Result = TypeVar("Result")


def register(app: typer.Typer) -> None:
    app.command("serve")(serve_command)
    app.command("migrate")(migrate_command)
    app.add_typer(token, name="token")


def _settings(data: Path | None, **changes: object) -> Settings:
    given = {name: value for name, value in changes.items() if value is not None}
    if data is not None:
        given["data_dir"] = data
    return Settings(**given)  # type: ignore[arg-type]


def on_data(settings: Settings, use_case: Callable[[Assent, Transaction], Result]) -> Result:
    """Run a use case directly on the data, beside a running server or without one."""

    async def run() -> Result:
        node = Assent(settings)
        await node.database.start()
        try:
            await node.database.write(node.people.bootstrap)
            return await node.database.write(lambda tx: use_case(node, tx))
        finally:
            await node.database.stop()

    migrate(settings)
    return asyncio.run(run())


Data = Annotated[Path | None, typer.Option("--data", help="Data directory (ASSENT_DATA_DIR).")]


def serve_command(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    data: Data = None,
) -> None:
    """Run a node: API, web pages and worker."""
    settings = _settings(data, host=host, port=port)
    link = on_data(
        settings, lambda node, tx: node.people.create_link(tx, node.people.bootstrap(tx).id, purpose="start")
    )
    typer.echo(f"Assent listens on {settings.base_url}")
    typer.echo(f"Sign in once with {settings.base_url}/sign-in/{link}")
    serve(settings)


def migrate_command(data: Data = None) -> None:
    """Bring the data to the newest schema."""
    migrate(_settings(data))


token = typer.Typer(no_args_is_help=True, help="Tokens of agents, people and services.")


@token.command("create")
def token_create(
    kind: Annotated[str, typer.Option(help="agent, reviewer, admin, viewer, auditor, rule-admin or metrics")],
    name: Annotated[str, typer.Option(help="What to call it.")],
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token, directly on the data."""
    new = NewToken(kind=kind, name=name)
    made, secret = on_data(
        _settings(data), lambda node, tx: node.people.create_token(tx, new, project=DEFAULT_PROJECT, by="system:cli")
    )
    typer.echo(json.dumps({"token": secret, "id": made.id, "kind": kind}) if as_json else secret)
