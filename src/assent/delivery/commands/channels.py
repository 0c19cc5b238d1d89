"""Commands that manage channels and linked accounts through the API."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.pairs import settings_of
from assent.console.session import session
from assent.contracts.channels import Channel
from assent.contracts.shape import plain
from assent.delivery.channels.slack.channel import manifest
from assent.sdk.client import Assent
from assent.sdk.errors import NotFound

app = typer.Typer()
channel = typer.Typer(no_args_is_help=True, help="Manage notification channels.")
app.add_typer(channel, name="channel")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Channel name or ID")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Setting, parsed as JSON if possible (repeatable)"),
]
Identity = Annotated[str, typer.Argument(metavar="IDENTITY", help="Account ID on the channel, such as T01:U02")]
NOTHING = "No channels. Pending breakpoints appear only in the inbox."
LONGEST_TEST = 60.0
"""Timeout in seconds; the server may need this long to check a slow service and send a message."""


@channel.command("list")
def channel_list(*, as_json: Json = False) -> None:
    """List the project's channels."""
    with session() as assent:
        found = assent.channels()
    if as_json:
        output.emit({"items": plain(found)})
        return
    now = time.time()
    rows = [(each.name, each.type, _state(each), _health(each, now), each.source, each.id) for each in found]
    output.table(("name", "type", "state", "health", "source", "id"), rows, wide=("source",), empty=NOTHING)


def _state(found: Channel) -> str:
    return (
        "enabled" if found.enabled else f"disabled: {found.disabled_because}" if found.disabled_because else "disabled"
    )


def _health(found: Channel, now: float) -> str:
    """Return the problem, the last error if it is newer than the last success, or when it last succeeded."""
    if found.problem:
        return found.problem
    if found.last_error and (found.failed_at or "") > (found.ok_at or ""):
        return found.last_error
    return f"last success {output.ago(found.ok_at, now=now)}" if found.ok_at else ""


@channel.command("show")
def channel_show(name: Name, *, as_json: Json = False) -> None:
    """Show a channel's settings and health. Secrets are shown as references."""
    with session() as assent:
        found = _found(assent, name)
    _print(found, as_json=as_json)


def _found(assent: Assent, name: str) -> Channel:
    # The API finds channels only by ID, but people know their names.
    for each in assent.channels():
        if name in {each.name, each.id}:
            return each
    msg = f"Channel {output.visible(name)} not found. To see all channels, run: assent channel list"
    raise NotFound(msg)


def _print(found: Channel, *, as_json: bool, done: str = "") -> None:
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    output.fields(
        {
            "name": found.name,
            "id": found.id,
            "type": found.type,
            "state": _state(found),
            "problem": found.problem,
            "last success": output.ago(found.ok_at, now=now) if found.ok_at else None,
            "last received": output.ago(found.heard_at, now=now) if found.heard_at else None,
            "last failure": output.ago(found.failed_at, now=now) if found.failed_at else None,
            "last error": found.last_error,
            "callback URL": found.callback_url,
            "source": found.source,
            "created": f"{found.created_at} by {found.created_by}",
        }
    )
    if found.settings:
        output.say("settings", style="dim")
        output.block(output.pretty(found.settings))
    if done:
        output.remark(f"Channel {done}.")


@channel.command("add")
def channel_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Channel name, as used in routes")],
    *,
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="Type of channel: webhook, slack, email, jira or apprise")
    ],
    settings: Sets = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Create the channel without enabling it")] = False,
    as_json: Json = False,
) -> None:
    """Create a channel. Specify secrets as env:NAME or file:PATH references, which the server resolves."""
    read = settings_of(settings)
    with session() as assent:
        made = assent.add_channel(name, kind, read, enabled=not disabled)
    _print(made, as_json=as_json, done="created")


@channel.command("set")
def channel_set(
    name: Name,
    *,
    settings: Sets = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Setting to remove (repeatable)")] = None,
    rename: Annotated[str | None, typer.Option(metavar="NAME", help="New name")] = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Enable or disable the channel")] = None,
    as_json: Json = False,
) -> None:
    """Update only the specified settings of a channel."""
    changes = settings_of(settings) | dict.fromkeys(unset or ())
    if not changes and rename is None and enable is None:
        msg = "No changes specified. To see the options, run: assent channel set --help"
        raise typer.BadParameter(msg)
    with session() as assent:
        found = _found(assent, name)
        changed = assent.change_channel(found.id, name=rename, settings=changes or None, enabled=enable)
    _print(changed, as_json=as_json, done="changed")


@channel.command("remove")
def channel_remove(name: Name, *, as_json: Json = False) -> None:
    """Remove a channel that no route uses."""
    with session() as assent:
        found = _found(assent, name)
        assent.remove_channel(found.id)
    _done({"removed": found.id}, f"Removed {output.visible(found.name)}.", as_json=as_json)


@channel.command("test")
def channel_test(
    name: Name,
    *,
    send: Annotated[bool, typer.Option("--send", help="Send a test message")] = False,
    as_json: Json = False,
) -> None:
    """Test a channel's settings. The exit code is 1 if the test fails."""
    with session(patience=LONGEST_TEST) as assent:
        found = assent.test_channel(_found(assent, name).id, send=send)
    if as_json:
        output.emit(plain(found))
    else:
        output.say(output.visible(found.detail), style="green" if found.ok else "red")
        if found.sent:
            output.say("A test message was sent.")
    if not found.ok:
        raise typer.Exit(output.FAILED)


@channel.command("manifest")
def channel_manifest(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name or ID of a channel of type slack (required with --http)")
    ] = None,
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Have Slack call this server instead of using Socket Mode")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the app manifest to paste into Slack."""
    made: Mapping[str, Any] = manifest("", socket=True)
    if http:
        if name is None:
            msg = "This argument is required with --http. Specify an existing channel of type slack."
            raise typer.BadParameter(msg, param_hint="NAME")
        with session() as assent:
            found = _found(assent, name)
        made = manifest(found.callback_url.removesuffix(f"/callbacks/{found.id}"), socket=False, channel_id=found.id)
    if as_json:
        output.emit(made)
    else:
        output.say(output.pretty(made))


@channel.command("links")
def channel_links(name: Name, *, as_json: Json = False) -> None:
    """List a channel's linked accounts."""
    with session() as assent:
        found = assent.channel_links(_found(assent, name).id)
    if as_json:
        output.emit({"items": plain(found)})
        return
    rows = [(each.identity, each.person, each.linked_by, each.linked_at) for each in found]
    output.table(("identity", "person", "linked by", "at"), rows, empty="No linked accounts on this channel.")


@channel.command("link")
def channel_link(
    name: Name,
    identity: Identity,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Username in Assent")],
    *,
    as_json: Json = False,
) -> None:
    """Link an account on a channel to a person. Answers from the account are attributed to that person."""
    with session() as assent:
        made = assent.link(_found(assent, name).id, identity, person)
    said = f"Linked {output.visible(made.identity)} to {output.visible(made.person)}."
    _done(plain(made), said, as_json=as_json)


@channel.command("unlink")
def channel_unlink(name: Name, identity: Identity, *, as_json: Json = False) -> None:
    """Unlink an account. Its answers no longer count."""
    with session() as assent:
        assent.unlink(_found(assent, name).id, identity)
    _done({"unlinked": identity}, f"Unlinked {output.visible(identity)}.", as_json=as_json)


def _done(answer: object, said: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(answer)
    else:
        output.say(said)
