"""Commands that back up and restore the data."""

import contextlib
import re
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from assent.cli.data import Data, explained, on_data, settings_with
from assent.console import output
from assent.console.output import Json
from assent.core.timestamps import iso
from assent.db import backup as backups
from assent.db.backup.archive import Manifest, Refused
from assent.db.backup.archive import Progress as Told
from assent.db.backup.postgres import PostgresBackup
from assent.db.backup.sqlite import SqliteBackup
from assent.installation import key_file, keyring_of
from assent.kernel.clock import SystemClock
from assent.kernel.settings import Settings
from assent.platform.epochs import Epochs

app = typer.Typer()


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, or directory in which to create it")],
    *,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Include the key file in the backup")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Back up all data to a single verified file. The server can keep running."""
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
    output.say(f"Wrote and verified {file} ({file.stat().st_size:,} bytes, as of {made_at}).")
    # Without the keys, the secrets in the backup cannot be decrypted.
    if made.key_ids and not with_keys:
        where = "the key file" if _embedded(settings) else "the keys in ASSENT_SECRET_KEYS"
        output.remark(
            f"The backup contains encrypted secrets. Also back up {where}, in a separate place.", style="yellow"
        )


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Backup file created by `assent backup`")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Move existing data aside first (SQLite only)")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Restore a backup to an empty location. If an error occurs, nothing is restored."""
    settings = settings_with(data)
    now = SystemClock().now()
    kind = _kind(settings, iso(now))
    expected = "postgresql" if settings.database_url else "sqlite"
    with explained(settings), _progress() as progress:
        found, aside = backups.restore(kind, source, expected=expected, force=force, progress=progress, epoch=now)
        if _embedded(settings) and (keys := backups.keys_in(source)) is not None:
            key_file(settings).add_older(keys)
    on_data(settings, lambda _, tx: tx[Epochs].restored(backup=found.created_at, now=now))
    missing = sorted(set(found.key_ids) - set(keyring_of(settings).load()))
    if as_json:
        put_aside = None if aside is None else str(aside)
        output.emit({"file": str(source), **_body(found), "putAside": put_aside, "missingKeys": missing})
        return
    output.say(f"Restored and verified the data as of {found.created_at}. Start the server with: assent serve")
    output.remark(
        "Receipts, sessions and sign-in links from before the restore are no longer valid, and neither are answers that"
        " were still in their undo window. Sign in again."
    )
    if aside is not None:
        output.remark(f"The previous data was moved to {aside}.")
    if missing:
        place = settings.key_path if _embedded(settings) else "ASSENT_SECRET_KEYS"
        output.remark(f"Stored secrets require the keys {', '.join(missing)}. Add them to {place}.", style="yellow")


def _kind(settings: Settings, made_at: str) -> backups.Kind:
    if settings.database_url:
        return PostgresBackup(settings.database_url)
    path = settings.sqlite_path
    return SqliteBackup(path, put_aside=path.with_name(f"assent-before-{_stamp(made_at)}.db"))


def _stamp(moment: str) -> str:
    # Colons are not allowed in file names on all systems.
    return re.sub(r"[^0-9TZ]", "", moment)


def _embedded(settings: Settings) -> bool:
    return settings.database_url is None and settings.secret_keys is None


def _keys(settings: Settings) -> bytes:
    if not _embedded(settings):
        msg = "--with-keys applies only to the SQLite key file. Back up the keys in ASSENT_SECRET_KEYS separately."
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
    """Show a progress bar if standard error is a terminal."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        console=output.err,
        transient=True,
        disable=not output.err.is_terminal,
    )
    with bar:
        task: TaskID = bar.add_task("starting", total=None)

        def told(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield told
