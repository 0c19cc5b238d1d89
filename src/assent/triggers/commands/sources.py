"""Commands that manage the sources of trigger events through the API."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.pairs import settings_of
from assent.console.session import session
from assent.contracts.shape import plain
from assent.contracts.triggers import Source

app = typer.Typer()
source = typer.Typer(no_args_is_help=True, help="Manage trigger event sources.")
app.add_typer(source, name="source")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Source name or ID")]
NOTHING = "No sources, so no trigger events are received."


@source.command("list")
def source_list(*, as_json: Json = False) -> None:
    """List the project's sources with the time of each source's last event."""
    with session() as assent:
        found = assent.sources()
    if as_json:
        output.emit({"items": plain(found)})
        return
    now = time.time()
    columns = ("name", "kind", "state", "last event", "rejected", "origin", "id")
    output.table(columns, [_row(each, now) for each in found], wide=("origin", "rejected"), empty=NOTHING)


def _row(each: Source, now: float) -> Sequence[str]:
    heard = output.ago(each.heard_at, now=now) if each.heard_at else "never"
    return (each.name, each.kind, _state(each), heard, str(each.refused or ""), each.origin, each.id)


def _state(each: Source) -> str:
    if not each.enabled:
        return "disabled"
    return each.problem or ("silent" if each.silent else "enabled")


@source.command("show")
def source_show(name: Name, *, as_json: Json = False) -> None:
    """Show a source's settings and status. Secrets are shown as references."""
    with session() as assent:
        found = assent.source(name)
    _print(found, as_json=as_json)


def _print(found: Source, *, as_json: bool, done: str = "") -> None:
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    output.fields(
        {
            "name": found.name,
            "id": found.id,
            "kind": found.kind,
            "state": _state(found),
            "webhook URL": found.address,
            "last event": output.ago(found.heard_at, now=now) if found.heard_at else "never",
            "silent after": found.silent_at,
            "alert": found.alarm_id,
            "rejected": str(found.refused) if found.refused else None,
            "last rejection": found.last_refusal,
            "next event": found.next_at,
            "origin": found.origin,
            "created": f"{found.created_at} by {found.created_by}",
        }
    )
    if found.settings:
        output.say("settings", style="dim")
        output.block(output.pretty(found.settings))
    if done:
        output.remark(f"Source {done}.")


@source.command("add")
def source_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Source name, as used in patterns")],
    *,
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Kind of source: github, gitlab, bitbucket, gitea, forgejo, circleci, jenkins, jira, webhook, files,"
            " git or schedule",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting, parsed as JSON if possible (repeatable)"),
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Create the source without enabling it")] = False,
    as_json: Json = False,
) -> None:
    """Create a source. Specify secrets as env:NAME or file:PATH references, which the server resolves."""
    read = settings_of(settings)
    with session() as assent:
        made = assent.add_source(name, kind, read, enabled=not disabled)
    _print(made, as_json=as_json, done="created")


@source.command("remove")
def source_remove(name: Name, *, as_json: Json = False) -> None:
    """Remove a source. Its events are kept."""
    with session() as assent:
        found = assent.source(name)
        assent.remove_source(found.id)
    if as_json:
        output.emit({"removed": found.id})
    else:
        output.say(f"Removed {output.visible(found.name)}.")
