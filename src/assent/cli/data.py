"""Gives commands access to the data, with or without a running server, and explains errors that prevent it."""

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from assent.audit.store.chains import Audit
from assent.console import output
from assent.core.access import Kind, Principal, Role
from assent.core.errors import AssentError
from assent.db.read_only import at_rest, copied, is_read_only, logs
from assent.db.server_lock import DataInUse, holder_of
from assent.db.sqlite import damage_in
from assent.db.transaction import Transaction
from assent.installation import migrate, missing_tables, schema
from assent.kernel.settings import LOCATING, DataSettings, EnvironmentSettings, Settings
from assent.kernel.yaml_file import Unreadable
from assent.node import Node
from assent.people.usecases.people import DEFAULT_PROJECT, PeopleService
from assent.platform.config_file import NAME

Result = TypeVar("Result")
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data directory (overrides ASSENT_DATA_DIR)")]
ACTOR = "system:cli"


class Misconfigured(AssentError):
    """A setting, or the resource it refers to, is unusable."""

    code = "misconfigured"


class Damaged(AssentError):
    """The database is unreadable or lacks tables."""

    code = "damaged"


def server_settings(data: Path | None = None, **changes: object) -> Settings:
    """Return a server's settings, including all of assent.yaml; command-line options take precedence."""
    try:
        return _settings(Settings, _given(data, changes))
    except (Unreadable, OSError) as error:
        msg = f"{NAME} cannot be read: {_first_line(error)}. Correct or remove the file."
        raise Misconfigured(msg) from error


def settings_with(data: Path | None = None, **changes: object) -> Settings:
    """Return the settings for a command that uses the data, ignoring mistakes in assent.yaml that do not concern it.

    A file that cannot be read at all is ignored, unless it may define the location of the data.
    """
    given = _given(data, changes)
    try:
        return _settings(DataSettings, given)
    except (Unreadable, OSError) as error:
        why = _first_line(error)
        if unknown := [name for name in _locating() if name not in given]:
            msg = (
                f"{NAME} cannot be read ({why}), and it may set {' and '.join(unknown)}. Correct the file, or set"
                f" {' and '.join(f'ASSENT_{name.upper()}' for name in unknown)}."
            )
            raise Misconfigured(msg) from error
        output.remark(f"Ignoring {NAME} because it cannot be read: {why}.", style="yellow")
        return _settings(EnvironmentSettings, given)


def _given(data: Path | None, changes: Mapping[str, object]) -> dict[str, object]:
    given = {name: value for name, value in changes.items() if value is not None}
    return given if data is None else {**given, "data_dir": data}


def _settings(kind: type[Settings], given: Mapping[str, object]) -> Settings:
    try:
        return kind(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise Misconfigured(_refusals(error)) from error
    except SettingsError as error:
        msg = f"A setting cannot be read: {_first_line(error)}. Correct it and try again."
        raise Misconfigured(msg) from error


def _locating() -> list[str]:
    """Return the data location settings that a broken assent.yaml may define and the environment does not."""
    # Settings are read from the environment regardless of case.
    variables = {name.upper() for name in os.environ}
    try:
        text = Path(NAME).read_text("utf-8", "replace")
    except OSError:
        # If even the text is unreadable, the file may set any of them.
        text = "\n".join(LOCATING)
    return [
        name
        for name in LOCATING
        if f"ASSENT_{name.upper()}" not in variables and re.search(rf"^\s*[\"']?{name}\b", text, re.MULTILINE)
    ]


def _refusals(error: ValidationError) -> str:
    found = [f"{_named(each['loc'])}{_lowered(each['msg'])}" for each in error.errors()]
    return f"Invalid settings: {'; '.join(found)}. Correct them and try again."


def _named(location: tuple[int | str, ...]) -> str:
    """Return the name of a setting and its variable, or nothing for an error that concerns several settings."""
    return f"{'.'.join(map(str, location))} (ASSENT_{str(location[0]).upper()}): " if location else ""


def _lowered(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].strip()


@contextlib.contextmanager
def explained(settings: Settings) -> Generator[None, None, None]:
    """Turn an error of the database or the file system into a sentence that says what to do."""
    try:
        with damage_explained(settings):
            yield
    except AssentError:
        # Such errors already say what to do.
        raise
    except Exception as error:  # drivers' exceptions share no base class, and this module must not import them
        raise Misconfigured(_explanation(settings, error)) from error


@contextlib.contextmanager
def damage_explained(settings: Settings) -> Generator[None, None, None]:
    """Raise Damaged for any error that a damaged database file causes, and leave other errors unchanged."""
    try:
        yield
    except Exception as error:
        if (said := damage_in(error)) is None:
            raise
        raise Damaged(damaged(settings, said)) from error


def damaged(settings: Settings, said: str) -> str:
    path = settings.sqlite_path
    return (
        f"The database file {path} is damaged: SQLite reports {said!r}. Stop the server, keep a copy of {path.parent},"
        f" and restore a backup: assent restore FILE --force --data {settings.data_dir}. If you have no backup, recover"
        f' the readable data: sqlite3 {path} ".recover"'
    )


def _explanation(settings: Settings, error: Exception) -> str:
    # SQLAlchemy wraps the driver's error and appends the statement and a link.
    said = _first_line(getattr(error, "orig", None) or error).rstrip(".")
    if settings.database_url:
        return f"PostgreSQL cannot be used: {said}. Check ASSENT_DATABASE_URL and make sure the database is running."
    return f"The data in {settings.data_dir} cannot be used: {said}. Choose a writable directory with --data."


def refuse_missing_tables(settings: Settings, *, engine: bool = True, read_only: bool = False) -> None:
    """Raise if tables of this schema version are missing, including those of the job engine if `engine` is true."""
    missing = missing_tables(settings, read_only=read_only)
    found = missing.own + (missing.engine if engine else [])
    if found:
        raise Damaged(lacking(found))


def refuse_damage(settings: Settings) -> None:
    """Raise if SQLite finds its file damaged. This reads the entire file."""
    if said := looking_at(settings, lambda node: node.database.read(lambda tx: tx[Audit].damage(quickly=True))):
        raise Damaged(damaged(settings, said[0]))


def lacking(tables: Sequence[str]) -> str:
    return (
        f"Tables are missing from the database ({len(tables)}): {', '.join(tables)}. Assent did not remove them."
        " Restore a backup with `assent restore`."
    )


def on_data(settings: Settings, use_case: Callable[[Node, Transaction], Result], *, reads_file: bool = False) -> Result:
    """Migrate the data if necessary, then run a use case in one transaction."""

    async def run() -> Result:
        node = Node(settings, reads_file=reads_file)
        with explained(settings):
            await node.database.start()
        try:
            # New data needs the default project and its owner before any command can use it.
            await node.database.write(node[PeopleService].bootstrap)
            return await node.database.write(partial(_operated, node=node, use_case=use_case))
        finally:
            await node.database.stop()

    with explained(settings):
        migrate(settings)
        refuse_missing_tables(settings)
    with damage_explained(settings):
        return asyncio.run(run())


def _operated(tx: Transaction, *, node: Node, use_case: Callable[[Node, Transaction], Result]) -> Result:
    tx.acting(operator(DEFAULT_PROJECT))
    return use_case(node, tx)


def looking_at(settings: Settings, look: Callable[[Node], Awaitable[Result]]) -> Result:
    """Read the data, with or without a running server, without changing anything.

    If the data is read-only, neither its files nor its folder are touched.
    """
    with explained(settings):
        read_only = not settings.database_url and is_read_only(settings.sqlite_path)
        if read_only:
            _refuse_reading_under_server(settings)
        # SQLite would have to create files beside the database to read a write-ahead log.
        copying = read_only and bool(logs(settings.sqlite_path))
    if copying:
        with _copy_of(settings) as copy:
            return _looked(settings, look, at=copy, read_only=False)
    # Detects a change during the read, because the files cannot be locked without write access.
    with at_rest(settings.sqlite_path) if read_only else contextlib.nullcontext():
        return _looked(settings, look, at=settings, read_only=read_only)


def _looked(settings: Settings, look: Callable[[Node], Awaitable[Result]], *, at: Settings, read_only: bool) -> Result:
    """Read the data at `at`; errors refer to its location in `settings`."""

    async def run() -> Result:
        node = Node(at, reads_file=False, read_only=read_only)
        with explained(settings):
            await node.database.start()
        try:
            return await look(node)
        finally:
            await node.database.stop()

    with explained(settings):
        current, newest = schema(at, read_only=read_only)
        if current != newest:
            raise Misconfigured(_outdated(settings, current, newest, copied=read_only or at is not settings))
        refuse_missing_tables(at, engine=False, read_only=read_only)
    with damage_explained(settings):
        return asyncio.run(run())


def _outdated(settings: Settings, current: str | None, newest: str | None, *, copied: bool) -> str:
    found = f"The schema is at version {current or 'none'}, but the latest is {newest}."
    if not copied:
        return f"{found} Run: assent migrate"
    return (
        f"{found} It must be migrated, but {settings.data_dir} is read-only. Copy the directory to a"
        " writable location and run: assent migrate --data COPY"
    )


def _refuse_reading_under_server(settings: Settings) -> None:
    """Raise if a server is running: without write access, SQLite cannot lock the file and could read partial writes."""
    try:
        holder = holder_of(settings.server_lock_path)
    except PermissionError:
        return  # no permission to read the lock file; a change during the read is still detected
    if holder is not None:
        msg = (
            f"A server ({holder}) is using the data in {settings.data_dir}, and you only have read access. Run this"
            " command as the server's user, or create a backup with `assent backup`, restore it elsewhere and use that"
            " copy."
        )
        raise DataInUse(msg)


@contextlib.contextmanager
def _copy_of(settings: Settings) -> Generator[Settings, None, None]:
    with contextlib.ExitStack() as kept:
        with explained(settings):
            folder = kept.enter_context(copied(settings.sqlite_path))
        output.remark(
            f"{settings.data_dir} is read-only and contains changes that are not in assent.db yet. Reading a temporary"
            f" copy in {folder}.",
            style="yellow",
        )
        yield settings.model_copy(update={"data_dir": folder})


def operator(project: str) -> Principal:
    """Return an admin of all projects: write access to the data directory implies every permission."""
    return Principal(
        kind=Kind.SYSTEM, id=ACTOR, name="cli", project=project, roles=frozenset({Role.ADMIN}), everywhere=True
    )


def sign_in_link(settings: Settings, secret: str) -> str:
    """Return a sign-in link to the server that runs on this data, or to its configured URL."""
    # A running server may listen on a port other than the configured one, for example with --port.
    running = None if settings.database_url or settings.public_url else holder_of(settings.server_lock_path)
    return f"{(running and running.address) or settings.base_url}/sign-in/{secret}"
