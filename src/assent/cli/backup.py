"""Backups of the data and their way back."""

import contextlib
import re
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from assent.app import key_file, keyring_of
from assent.cli import output
from assent.cli.data import Data, explained, on_data, settings_with
from assent.cli.output import Json
from assent.clock import SystemClock
from assent.domain.instants import iso
from assent.settings import Settings
from assent.store import backup as backups
from assent.store.archive import Manifest, Refused
from assent.store.archive import Progress as Told
from assent.store.backup_postgres import PostgresBackup
from assent.store.backup_sqlite import SqliteBackup

app = typer.Typer()


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, or a directory to put one in.")],
    *,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Put the key file of the data into it.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write everything into one verified file; the server may run."""
    settings = settings_with(data)
    made_at = iso(SystemClock().now())
    file = target / f"assent-{_stamp(made_at)}.tar" if target.is_dir() else target
    keys = _keys(settings) if with_keys else None
    with explained(settings), _progress() as progress:
        made = backups.save(
            _kind(settings, made_at), file, made_at=made_at, version=version("assent"), keys=keys, progress=progress
        )
    if as_json:
        output.emit({"file": str(file), "bytes": file.stat().st_size, **_body(made), "withKeys": with_keys})
        return
    output.say(f"{file} holds everything as of {made_at} ({file.stat().st_size:,} bytes), and was verified.")
    if made.key_ids and not with_keys:
        where = "the key file" if _embedded(settings) else "the keys of ASSENT_SECRET_KEYS"
        output.remark(f"Stored secrets are in it encrypted. Keep {where} too, in another place.", style="yellow")


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `assent backup` wrote.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Put data that is there aside; SQLite only.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Put a backup back into an empty place; all of it, or nothing."""
    settings = settings_with(data)
    now = SystemClock().now()
    kind = _kind(settings, iso(now))
    expected = "postgresql" if settings.database_url else "sqlite"
    with explained(settings), _progress() as progress:
        found, aside = backups.restore(kind, source, expected=expected, force=force, progress=progress, epoch=now)
        if _embedded(settings) and (keys := backups.keys_in(source)) is not None:
            key_file(settings).add_older(keys)
    on_data(settings, lambda _, tx: tx.epochs.restored(backup=found.created_at, now=now))
    missing = sorted(set(found.key_ids) - set(keyring_of(settings).load()))
    if as_json:
        put_aside = None if aside is None else str(aside)
        output.emit({"file": str(source), **_body(found), "putAside": put_aside, "missingKeys": missing})
        return
    output.say(f"Everything as of {found.created_at} is back, and was verified. Start it with: assent serve")
    output.remark("Receipts, sessions, sign-in links and undecided answers from before are void: sign in again.")
    if aside is not None:
        output.remark(f"What was there before is in {aside}.")
    if missing:
        place = settings.key_path if _embedded(settings) else "ASSENT_SECRET_KEYS"
        output.remark(f"Stored secrets need {', '.join(missing)}: put your keys back into {place}.", style="yellow")


def _kind(settings: Settings, made_at: str) -> backups.Kind:
    if settings.database_url:
        return PostgresBackup(settings.database_url)
    path = settings.sqlite_path
    return SqliteBackup(path, put_aside=path.with_name(f"assent-before-{_stamp(made_at)}.db"))


def _stamp(moment: str) -> str:
    return re.sub(r"[^0-9TZ]", "", moment)


def _embedded(settings: Settings) -> bool:
    return settings.database_url is None and settings.secret_keys is None


def _keys(settings: Settings) -> bytes:
    if not _embedded(settings):
        msg = "--with-keys is for the key file of SQLite. Keep the keys of ASSENT_SECRET_KEYS where they are kept now."
        raise Refused(msg)
    return "".join(text for _, text in key_file(settings).read()).encode()


def _body(manifest: Manifest) -> dict[str, Any]:
    return {
        "kind": manifest.kind,
        "schema": manifest.schema,
        "createdAt": manifest.created_at,
        "assent": manifest.assent,
        "counts": manifest.counts,
        "keyIds": manifest.key_ids,
    }


@contextlib.contextmanager
def _progress() -> Generator[Told, None, None]:
    """Show on a terminal how far it is; say nothing elsewhere."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        console=output.err,
        transient=True,
        disable=not output.err.is_terminal,
    )
    with bar:
        task: TaskID = bar.add_task("beginning", total=None)

        def told(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield told
