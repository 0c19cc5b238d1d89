"""Working directly on the data, beside a running server or without one; and saying what stands in the way."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from assent.app import Assent, migrate, schema
from assent.domain.access import Kind, Principal, Role
from assent.domain.errors import AssentError
from assent.domain.yaml_file import Unreadable
from assent.settings import Settings
from assent.store.transaction import Transaction

Result = TypeVar("Result")
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data directory (ASSENT_DATA_DIR).")]
ACTOR = "system:cli"


class Misconfigured(AssentError):
    """A setting, or what it points to, is not usable."""

    code = "misconfigured"


def settings_with(data: Path | None = None, **changes: object) -> Settings:
    """Return the settings with what the command line says on top."""
    given = {name: value for name, value in changes.items() if value is not None}
    if data is not None:
        given["data_dir"] = data
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise Misconfigured(_refusals(error)) from error
    except (SettingsError, Unreadable, OSError) as error:
        msg = f"assent.yaml cannot be read: {_first_line(error)}. Correct it, or move it away."
        raise Misconfigured(msg) from error


def _refusals(error: ValidationError) -> str:
    found = [
        f"{'.'.join(map(str, each['loc']))} (ASSENT_{str(each['loc'][0]).upper()}): {_lowered(each['msg'])}"
        for each in error.errors()
    ]
    return f"These settings cannot be used: {'; '.join(found)}. Correct them and try again."


def _lowered(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].strip()


@contextlib.contextmanager
def explained(settings: Settings) -> Generator[None, None, None]:
    """Turn what a database or a disk says into a sentence that tells what to do."""
    try:
        yield
    except AssentError:
        raise
    except Exception as error:  # drivers share no base class, and their names belong to store
        raise Misconfigured(_explanation(settings, error)) from error


def _explanation(settings: Settings, error: Exception) -> str:
    # SQLAlchemy wraps what the driver said and adds the statement and a link.
    said = _first_line(getattr(error, "orig", None) or error).rstrip(".")
    if settings.database_url:
        return f"PostgreSQL cannot be used: {said}. Check ASSENT_DATABASE_URL, and that the database runs."
    return f"The data in {settings.data_dir} cannot be used: {said}. Choose a writable directory with --data."


def on_data(settings: Settings, use_case: Callable[[Assent, Transaction], Result]) -> Result:
    """Run a use case in one transaction on data that is brought up to date first."""

    async def run() -> Result:
        node = Assent(settings)
        with explained(settings):
            await node.database.start()
        try:
            await node.database.write(node.people.bootstrap)
            return await node.database.write(lambda tx: use_case(node, tx))
        finally:
            await node.database.stop()

    with explained(settings):
        migrate(settings)
    return asyncio.run(run())


def looking_at(settings: Settings, look: Callable[[Assent], Awaitable[Result]]) -> Result:
    """Look at the data, beside a server at work or without one; change nothing."""

    async def run() -> Result:
        node = Assent(settings)
        with explained(settings):
            await node.database.start()
        try:
            return await look(node)
        finally:
            await node.database.stop()

    with explained(settings):
        current, newest = schema(settings)
    if current != newest:
        msg = f"The data is at version {current or 'none'}, the newest is {newest}. Run: assent migrate"
        raise Misconfigured(msg)
    return asyncio.run(run())


def operator(project: str) -> Principal:
    """Whoever can write to the data directory may do everything."""
    return Principal(
        kind=Kind.SYSTEM, id=ACTOR, name="cli", project=project, roles=frozenset({Role.ADMIN}), everywhere=True
    )


def sign_in_link(settings: Settings, secret: str) -> str:
    return f"{settings.base_url}/sign-in/{secret}"
