"""Commands that manage projects, callback secrets and encryption keys directly in the data."""

import contextlib
import sys
from collections.abc import Generator
from functools import partial
from typing import Annotated, Any

import typer

from assent.cli.data import Data, Misconfigured, on_data, operator, settings_with
from assent.console import output
from assent.console.output import Json
from assent.core.errors import Unavailable
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.installation import key_file, keyring_of, migrate
from assent.kernel.settings import Settings
from assent.node import Node
from assent.people.store.secrets import Secrets, StoredSecret
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.people.usecases.secrets import START, Rotated, SecretService
from assent.people.views import callback_body
from assent.triggers.usecases.remove_projects import ProjectService

app = typer.Typer()
project = typer.Typer(no_args_is_help=True, help="Manage projects.")
secrets = typer.Typer(no_args_is_help=True, help="Manage stored secrets and their encryption keys.")
app.add_typer(project, name="project")
app.add_typer(secrets, name="secrets")


@contextlib.contextmanager
def _keys_needed() -> Generator[None, None, None]:
    """Report a missing key as a configuration error, because retrying does not help."""
    try:
        yield
    except Unavailable as error:
        raise Misconfigured(error.message) from error


@project.command("callback-secret")
def callback_secret(
    *,
    name: Annotated[str, typer.Option("--project", help="Project ID")] = DEFAULT_PROJECT,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Create a new secret; the previous secret remains valid for one day")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print the signing secrets for callbacks, newest first. If there is no secret yet, one is created."""

    def use_case(node: Node, tx: Transaction) -> list[dict[str, Any]]:
        ask = node[SecretService].rotate_callback_secret if rotate else node[SecretService].show_callback_secrets
        return [callback_body(each) for each in ask(tx, name, by=operator(name))]

    with _keys_needed():
        found = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"project": name, "items": found})
        return
    for each in found:
        output.say(each["secret"])
        until = f"valid until {each['validUntil']}" if each["validUntil"] else "current"
        output.remark(f"version {each['version']}, {until}")


@project.command("remove")
def remove_project(
    name: Annotated[str, typer.Argument(help="Project ID")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove a project and cancel everything that is pending in it. Only its history is kept."""
    settings = settings_with(data)
    if not yes:
        _confirm_removal(name)

    def use_case(node: Node, tx: Transaction) -> None:
        node[ProjectService].remove(tx, name, by=operator(DEFAULT_PROJECT))

    on_data(settings, use_case)
    if as_json:
        output.emit({"project": name, "removed": True})
        return
    output.say(f"Removed project {output.visible(name)}.")
    output.remark("Its pending breakpoints and runs will be cancelled within seconds, or when a server next starts.")


def _confirm_removal(name: str) -> None:
    # A script could otherwise answer the prompt by accident with its input.
    if not sys.stdin.isatty():
        output.remark("Not removed: confirmation requires a terminal. Use --yes to skip the confirmation.", style="red")
        raise typer.Exit(output.USAGE)
    output.remark(f"This cancels everything pending in {output.visible(name)} and cannot be undone.", style="yellow")
    if typer.prompt("Type the project ID to confirm", err=True) != name:
        output.remark("Not removed: the ID does not match.", style="red")
        raise typer.Exit(output.FAILED)


@secrets.command("list")
def list_secrets(*, data: Data = None, as_json: Json = False) -> None:
    """List stored secrets and the keys that encrypt them, but not the secret values."""
    settings = settings_with(data)

    def use_case(node: Node, tx: Transaction) -> list[dict[str, Any]]:
        keys = node.keyring.load()
        return [_secret_body(each, readable=each.key_id in keys) for each in tx[Secrets].every()]

    with _keys_needed():
        found = on_data(settings, use_case)
        keys = keyring_of(settings).load()
    if as_json:
        output.emit({"keys": keys, "items": found})
        return
    rows = [
        (each["project"], each["name"], str(each["version"]), each["keyId"], each["createdAt"], each["retiredAt"] or "")
        for each in found
    ]
    output.table(("project", "name", "version", "key", "created", "retired"), rows, empty="No stored secrets.")
    missing = {each["keyId"] for each in found if not each["readable"]}
    if missing:
        output.remark(f"Some secrets cannot be decrypted. Missing keys: {', '.join(sorted(missing))}.", style="yellow")


def _secret_body(each: StoredSecret, *, readable: bool) -> dict[str, Any]:
    return {
        "project": each.project,
        "name": each.name,
        "version": each.version,
        "keyId": each.key_id,
        "readable": readable,
        "createdAt": iso(each.created_at),
        "createdBy": each.created_by,
        "retiredAt": iso(each.retired_at) if each.retired_at is not None else None,
    }


@secrets.command("rotate-key")
def rotate_key(
    *,
    new: Annotated[bool, typer.Option("--new", help="Add a new key to the key file first")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Re-encrypt all stored secrets with the newest key. If this is interrupted, you can run it again."""
    settings = settings_with(data)
    with _keys_needed():
        if new:
            _add_key(settings)
        resealed, unreadable = _all_batches(settings)
        newest = keyring_of(settings).newest()
    if as_json:
        output.emit({"keyId": newest, "resealed": resealed, "unreadable": unreadable})
    else:
        output.say(f"Re-encrypted {resealed} secrets. All readable secrets now use the key {newest}.")
    if unreadable:
        output.remark(
            f"{unreadable} secrets could not be decrypted with any available key and were left unchanged.", style="red"
        )
        raise typer.Exit(output.FAILED)


def _add_key(settings: Settings) -> None:
    if settings.secret_keys is not None or settings.database_url:
        msg = "--new applies only to the SQLite key file. Add a new key at the beginning of ASSENT_SECRET_KEYS instead."
        raise Misconfigured(msg)
    migrate(settings)
    key_file(settings).add_newest()


def _all_batches(settings: Settings) -> tuple[int, int]:
    resealed = unreadable = 0
    after: tuple[str, str, int] | None = START
    while after is not None:
        # One transaction per batch, so that a running server can write in between.
        done: Rotated = on_data(settings, partial(_batch, after=after))
        resealed, unreadable, after = resealed + done.resealed, unreadable + done.unreadable, done.after
    return resealed, unreadable


def _batch(node: Node, tx: Transaction, *, after: tuple[str, str, int]) -> Rotated:
    return node[SecretService].rotate_key(tx, after=after)
