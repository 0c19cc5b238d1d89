"""Sources by command, through the API: where events come from, and what was heard of each."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from assent.cli import output
from assent.cli.output import Json
from assent.cli.pairs import settings_of
from assent.cli.session import session
from assent.sdk.trigger_values import Source
from assent.sdk.values import plain

app = typer.Typer()
source = typer.Typer(no_args_is_help=True, help="Sources: where events come from.")
app.add_typer(source, name="source")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The source's name, or its id.")]
NOTHING = "There are no sources; nothing is heard from outside."


@source.command("list")
def source_list(*, as_json: Json = False) -> None:
    """List the sources of the project, and when each was last heard."""
    with session() as assent:
        found = assent.sources()
    if as_json:
        output.emit({"items": plain(found)})
        return
    now = time.time()
    columns = ("name", "kind", "state", "heard", "refused", "origin", "id")
    output.table(columns, [_row(each, now) for each in found], wide=("origin", "refused"), empty=NOTHING)


def _row(each: Source, now: float) -> Sequence[str]:
    heard = output.ago(each.heard_at, now=now) if each.heard_at else "never"
    return (each.name, each.kind, _state(each), heard, str(each.refused or ""), each.origin, each.id)


def _state(each: Source) -> str:
    if not each.enabled:
        return "disabled"
    return each.problem or ("silent" if each.silent else "enabled")


@source.command("show")
def source_show(name: Name, *, as_json: Json = False) -> None:
    """Show how a source is set up, and what was heard of it; secrets are shown as references."""
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
            "calls": found.address,
            "last heard": output.ago(found.heard_at, now=now) if found.heard_at else "never",
            "silent after": found.silent_at,
            "alarm": found.alarm_id,
            "refused": str(found.refused) if found.refused else None,
            "last refusal": found.last_refusal,
            "next tick": found.next_at,
            "origin": found.origin,
            "set up": f"{found.created_at} by {found.created_by}",
        }
    )
    if found.settings:
        output.say("settings", style="dim")
        output.block(output.pretty(found.settings))
    if done:
        output.remark(f"The source is {done}.")


@source.command("add")
def source_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What patterns call it.")],
    *,
    kind: Annotated[str, typer.Option(metavar="KIND", help="github, gitlab, webhook, files, git, schedule …")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting; JSON is read as such. Repeat it."),
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Set it up, and hear it once enabled.")] = False,
    as_json: Json = False,
) -> None:
    """Set up a source. Secrets are given as env:NAME or file:PATH, which the server reads."""
    read = settings_of(settings)
    with session() as assent:
        made = assent.add_source(name, kind, read, enabled=not disabled)
    _print(made, as_json=as_json, done="set up")


@source.command("remove")
def source_remove(name: Name, *, as_json: Json = False) -> None:
    """Remove a source; its events stay."""
    with session() as assent:
        found = assent.source(name)
        assent.remove_source(found.id)
    if as_json:
        output.emit({"removed": found.id})
    else:
        output.say(f"{output.visible(found.name)} is removed.")
