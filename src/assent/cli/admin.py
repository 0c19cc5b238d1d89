"""Commands for a node: serve, worker, migrate, check."""

import contextlib
import difflib
import errno
import os
import re
import socket
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import structlog
import typer

from assent.cli.data import (
    ACTOR,
    Data,
    Misconfigured,
    damage_explained,
    explained,
    on_data,
    operator,
    refuse_damage,
    refuse_missing_tables,
    server_settings,
    settings_with,
    sign_in_link,
)
from assent.console import output
from assent.console.output import Json
from assent.core.access import Kind
from assent.core.canonical import is_object
from assent.core.errors import AssentError
from assent.db.transaction import Transaction
from assent.installation import keyring_of, migrate, schema, serving_alone, setup_of
from assent.kernel.keyring import UnusableKeys
from assent.kernel.settings import FILE, KEYLESS_TEXT, AssentYaml, Secret, Settings, open_to_others
from assent.kernel.telemetry import configure_logging
from assent.node import Node
from assent.people.store.tokens import Tokens
from assent.people.usecases.people import DEFAULT_PROJECT, NewToken, PeopleService
from assent.platform.config_file import NAME
from assent.runs.processes import FolderOfProcesses
from assent.triggers.usecases.config_reload import Reloading, elsewhere, given, read_leniently
from assent.worker import work

app = typer.Typer()
_log = structlog.get_logger()

CLIENT_VARIABLES = frozenset(
    {
        "ASSENT_URL",
        "ASSENT_TOKEN",
        "ASSENT_AGENT_ID",
        "ASSENT_REVIEWER_TOKEN",
        "ASSENT_LOCAL_DIR",
        "ASSENT_RECEIPT_KEY",
        "ASSENT_TRACEBACK",
    }
)


@app.command("serve")
def serve_command(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on (overrides ASSENT_HOST)")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 selects a free port (overrides ASSENT_PORT)")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run a node with the API, the web interface and a worker."""
    # Importing the API and the pages takes about a second, which other commands should not have to wait for.
    from assent.server import serve  # noqa: PLC0415

    settings = server_settings(data, host=host, port=port)
    with contextlib.ExitStack() as held:
        with explained(settings):
            # Acquired before the port is checked, so that a second server on the same data is reported as such.
            lock = held.enter_context(serving_alone(settings))
        settings = listening(settings)
        if lock is not None:
            lock.describe(settings.base_url)
        warn_at_start(settings)
        link, agent_token = on_data(settings, _welcome, reads_file=True)
        welcome = {"url": settings.base_url, "signInLink": sign_in_link(settings, link), "agentToken": agent_token}
        # uvicorn raises KeyboardInterrupt again after it has drained, which is a normal exit.
        with contextlib.suppress(KeyboardInterrupt), damage_explained(settings):
            serve(settings, on_ready=partial(output.emit if as_json else print_welcome, welcome))


def warn_at_start(settings: Settings) -> None:
    """Print the startup warnings, or log them if the log format is JSON."""
    for warning in start_warnings(settings):
        if settings.log_format == "json":
            configure_logging(settings.log_format, settings.log_level)
            _log.warning("start_warning", detail=warning)
        else:
            output.remark(f"Warning: {warning}", style="yellow")


def start_warnings(settings: Settings) -> list[str]:
    """Return warnings to print at startup, because the log scrolls away and /readyz is read only by machines."""
    found = [f"Other users on this machine can access {path}. Run: {_chmod(path)}" for path in settings.exposed]
    if settings.keys_missing:
        found.append(f"{KEYLESS_TEXT} Until then /readyz returns 503.")
    return found


def _chmod(path: Path) -> str:
    return f"chmod {'700' if path.is_dir() else '600'} {path}"


def listening(settings: Settings) -> Settings:
    """Return the settings with an available port, or raise an error that says why it cannot be used."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # Without this, connections of the previous server that are still closing would block a restart.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            return settings.model_copy(update={"port": probe.getsockname()[1]})
    except OSError as error:
        raise Misconfigured(_cannot_listen(settings, error)) from error


def _cannot_listen(settings: Settings, error: OSError) -> str:
    where = f"port {settings.port} on {settings.host}"
    if error.errno == errno.EADDRINUSE:
        return f"Another process is already using {where}. Stop it, or choose another port with --port."
    if error.errno == errno.EACCES:
        return f"You do not have permission to listen on {where}. Choose a port above 1023 with --port."
    return f"Assent cannot listen on {where}: {error.strerror}. Use --host to choose one of this machine's addresses."


def _welcome(node: Node, tx: Transaction) -> tuple[str, str | None]:
    """Create a sign-in link for the owner, and an agent token to try if the project has none."""
    # The server applies assent.yaml again when it starts; applying it here reports its mistakes as plain sentences.
    setup = node[Reloading].setup
    setup.apply(tx, triggers=not setup.unfit(node[FolderOfProcesses]))
    tx.acting(operator(DEFAULT_PROJECT))
    link = node[PeopleService].create_link(tx, node[PeopleService].bootstrap(tx).id, purpose="start")
    if any(token.kind is Kind.AGENT for token in tx[Tokens].every(DEFAULT_PROJECT)):
        return link, None
    new = NewToken(kind="agent", name="first-agent")
    return link, node[PeopleService].create_token(tx, new, project=DEFAULT_PROJECT, by=ACTOR)[1]


def print_welcome(welcome: Mapping[str, str | None]) -> None:
    url, token = welcome["url"], welcome["agentToken"]
    output.say(f"\n  Assent is running at    {url}", style="bold")
    output.say(f"  One-time sign-in link   {welcome['signInLink']}")
    if token is not None:
        body = '{"agentId": "me", "payload": {"question": "Deploy to production?"}}'
        output.say(f"  Agent token             {token}")
        output.say("\n  Ask your first question, then answer it in the browser:", style="dim")
        output.say(f"    curl {url}/api/breakpoints -H 'Authorization: Bearer {token}' \\")
        output.say(f"      -H 'Content-Type: application/json' -d '{body}'")
    output.say("")


@app.command("worker")
def worker_command(*, data: Data = None, as_json: Json = False) -> None:
    """Run a worker without the API and web interface, alongside other nodes (PostgreSQL only)."""
    settings = server_settings(data)
    if not settings.database_url:
        msg = (
            "A separate worker requires PostgreSQL. Set ASSENT_DATABASE_URL. With SQLite, `assent serve` runs the"
            " worker itself, because a separate process could not wake clients that are waiting on the server."
        )
        raise Misconfigured(msg)
    warn_at_start(settings)
    with explained(settings):
        migrate(settings)
        refuse_missing_tables(settings)
    work(settings, on_ready=partial(_worker_ready, as_json=as_json))


def _worker_ready(worker: str, *, as_json: bool) -> None:
    if as_json:
        output.emit({"worker": worker})
    else:
        output.say(f"Worker {worker} is ready.")


@app.command("migrate")
def migrate_command(*, data: Data = None, as_json: Json = False) -> None:
    """Migrate the database to the latest schema."""
    settings = settings_with(data)
    with explained(settings):
        before = schema(settings)[0]
        migrate(settings)
        after = schema(settings)[0]
    if as_json:
        output.emit({"before": before, "after": after})
    else:
        output.say(
            f"The schema is already up to date (version {after})."
            if before == after
            else f"Migrated the schema from version {before or 'none'} to {after}."
        )


@app.command("check")
def check(*, data: Data = None, as_json: Json = False) -> None:
    """Check the settings, the database and its schema without changing anything."""
    settings = server_settings(data)
    listed = [_setting(settings, name, given={"data_dir"} if data else set()) for name in Settings.model_fields]
    checks = [_ok("settings", "All settings are valid."), _data_check(settings), *secret_checks(settings)]
    checks += [_warning("data", f"Other users can access {path}. Run: {_chmod(path)}") for path in settings.exposed]
    checks += _configuration_checks(settings)
    checks += [_warning(name, text) for name, text in strangers(os.environ)]
    good = all(each["ok"] for each in checks)
    if as_json:
        output.emit({"ok": good, "settings": listed, "checks": checks})
    else:
        rows = [[each["name"], each["value"], each["source"], each["description"]] for each in listed]
        output.table(("setting", "value", "source", "description"), rows, empty="")
        for each in checks:
            _print_check(each)
    if not good:
        raise typer.Exit(output.FAILED)


def _ok(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": True, "detail": detail}


def _warning(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": True, "warning": True, "detail": detail}


def _wrong(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": False, "detail": detail}


def _print_check(each: Mapping[str, Any]) -> None:
    mark, style = ("!", "yellow") if each.get("warning") else ("✓", "green") if each["ok"] else ("✗", "red")
    output.say(f"{mark} {output.visible(each['detail'])}", style=style)


def _setting(settings: Settings, name: str, *, given: set[str]) -> dict[str, str]:
    value = getattr(settings, name)
    return {
        "name": name,
        "value": _shown(value),
        "source": "command line" if name in given else _source(name),
        "variable": f"ASSENT_{name.upper()}",
        "description": Settings.model_fields[name].description or "",
    }


def _shown(value: object) -> str:
    """Return a setting as text; for a secret, only its reference."""
    if value is None:
        return ""
    if is_object(value) and any(map(is_object, value.values())):
        return f"{len(value)} defined"
    if isinstance(value, tuple) and any(isinstance(each, dict) for each in cast("tuple[object, ...]", value)):
        return f"{len(cast('tuple[object, ...]', value))} defined"
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value)))
    reference = value.reference if isinstance(value, Secret) else None
    return reference or without_password(str(value))


def _source(name: str) -> str:
    variables = {variable.lower() for variable in os.environ}
    if f"assent_{name}" in variables:
        return f"ASSENT_{name.upper()}"
    return "assent.yaml" if name in AssentYaml(Settings)() else "default"


def without_password(value: str) -> str:
    """Return a URL with its password masked."""
    # Only URLs contain passwords; parsing any other value could change how it is shown.
    if "://" not in value:
        return value
    parts = urlsplit(re.sub(r"(?<=[?&]password=)[^&]*", "***", value))
    if parts.password is None:
        return parts.geturl()
    # The user name may itself contain an @, so split at the last one.
    return parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}").geturl()


def strangers(variables: Iterable[str]) -> list[tuple[str, str]]:
    """Return the ASSENT_ variables that are not settings, with suggestions."""
    # Client variables are not server settings, but setting them is not a mistake.
    known = {f"ASSENT_{name.upper()}" for name in Settings.model_fields} | CLIENT_VARIABLES
    found: list[tuple[str, str]] = []
    for name in sorted(variables):
        if name.upper().startswith("ASSENT_") and name.upper() not in known:
            close = difflib.get_close_matches(name.upper(), known, n=1)
            hint = f". Did you mean {close[0]}?" if close else " and has no effect."
            found.append((name, f"{name} is not a setting{hint}"))
    return found


def secret_checks(settings: Settings) -> list[dict[str, Any]]:
    """Check whether secrets can be stored, and which files with secrets other users can access."""
    found: list[dict[str, Any]] = []
    try:
        keys = keyring_of(settings).load()
    except UnusableKeys as error:
        found.append(_wrong("secrets", error.message))
    else:
        if keys:
            found.append(
                _ok(
                    "secrets",
                    f"Stored secrets are encrypted with the key {keys[0]}. Keys available for decryption: {len(keys)}.",
                )
            )
        elif settings.database_url is None:
            found.append(
                _ok("secrets", f"The key for stored secrets will be created in {settings.key_path} when first needed.")
            )
        else:
            found.append(_wrong("secrets", KEYLESS_TEXT))
    return found + [
        _warning("secrets", f"Other users can access {path}. Run: chmod 600 {path}")
        for path in _secret_files(settings)
        if open_to_others(path)
    ]


def _configuration_checks(settings: Settings) -> list[dict[str, Any]]:
    """Check the contents of assent.yaml as far as possible without the data."""
    path = Path(NAME)
    file = read_leniently(path)
    setup = setup_of(settings, given(settings, file, elsewhere(settings, file)), base=path.absolute().parent)
    problems = setup.problems.told() + setup.unfit(FolderOfProcesses(settings.process_folder))
    found = [{"name": "configuration", "ok": False, "detail": f"Invalid configuration: {each}"} for each in problems]
    if found:
        return found
    told, triggered = setup.told, setup.triggered
    if told.channels or told.routes:
        found.append(_ok("channels", f"All channels ({len(told.channels)}) and routes ({len(told.routes)}) are valid."))
    if triggered.sources or triggered.triggers:
        said = f"All sources ({len(triggered.sources)}) and triggers ({len(triggered.triggers)}) are valid."
        found.append(_ok("triggers", said))
    return found


def _secret_files(settings: Settings) -> list[Path]:
    url = settings.database_url
    references = [*(settings.secret_keys or ()), (url.reference if isinstance(url, Secret) else None) or ""]
    return [Path(each.removeprefix(FILE)) for each in references if each.startswith(FILE)] + [settings.key_path]


def _data_check(settings: Settings) -> dict[str, Any]:
    where = "PostgreSQL" if settings.database_url else str(settings.sqlite_path)
    try:
        with explained(settings):
            current, newest = schema(settings)
            if current == newest:
                refuse_missing_tables(settings)
                refuse_damage(settings)
    except AssentError as error:
        return _wrong("database", error.message)
    if current == newest:
        return _ok("database", f"{where} is reachable and its schema is up to date (version {newest}).")
    # Before the first start there is nothing to migrate, and the server will create the data.
    if current is None and settings.database_url is None and not settings.sqlite_path.exists():
        return _fresh(settings)
    return _wrong(
        "database",
        f"The schema in {where} is at version {current or 'none'}, but the latest is {newest}. Run: assent migrate",
    )


def _fresh(settings: Settings) -> dict[str, Any]:
    folder = settings.data_dir.absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return _ok("database", f"{settings.data_dir} contains no data yet. `assent serve` will create it.")
    detail = (
        f"{settings.data_dir} cannot be created: {existing} is not a writable directory. Choose another directory with"
        " --data."
    )
    return _wrong("database", detail)
