"""Channel pages: a list with their health, and forms to create, change, test, link and remove a channel."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.registry import KINDS
from assent.delivery.channels.slack.channel import manifest
from assent.delivery.pages.channel_forms import OTHERS, Form, asked, form_of, values
from assent.delivery.store.channels import StoredChannel
from assent.delivery.store.links import Link
from assent.delivery.usecases.channel_test import Probed, Prober
from assent.delivery.usecases.channels import FROM_FILE, ChannelService
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.recipients import is_personal
from assent.people.usecases.people import PeopleService
from assent.web import filters as render
from assent.web.admin import Question, admin_page, outdated, question_page, text, words
from assent.web.guards import managing
from assent.web.site import Site, Visit, redirect, route

_ID = re.compile(r"[0-9a-z_]{1,60}", re.ASCII)


def routes(site: Site) -> list[Route]:
    one = "/admin/channels/{channel_id}"
    return [
        route("/admin/channels", managing(channels), site),
        route("/admin/channels", managing(create), site, method="POST"),
        route("/admin/channels/new", managing(new_form), site),
        route(one, managing(channel_page), site),
        route(one, managing(change), site, method="POST"),
        route(one + "/test", managing(test), site, method="POST"),
        route(one + "/switch", managing(switch), site, method="POST"),
        route(one + "/links", managing(link), site, method="POST"),
        route(one + "/unlink", managing(unlink), site, method="POST"),
        route(one + "/remove", managing(remove_form), site),
        route(one + "/remove", managing(remove), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Sign:
    """A fact about a channel's health, with its time."""

    text: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    state: str
    """One of: well, connected, failing, off, lost, new."""
    signs: Sequence[Sign]
    error: str | None = None


def health(stored: StoredChannel, problem: str | None, now: int) -> Health:
    """Return the health of a channel; the worst state takes precedence."""
    sent = [Sign("last success", stored.ok_at)] if stored.ok_at is not None else []
    if not stored.enabled:
        return Health("off", sent, stored.disabled_because or "disabled by an admin")
    if problem is not None:
        return Health("failing", [Sign("invalid settings"), *sent], problem)
    if stored.last_error is not None:
        return Health("failing", [Sign("last attempt", stored.failed_at), *sent], stored.last_error)
    heard = [Sign("last contact", stored.heard_at)] if stored.heard_at is not None else []
    silence = form_of(stored.type).silence(stored.settings)
    # A connection without contact is a problem even if the last message was sent successfully.
    if silence is not None:
        if stored.heard_at is None or now - stored.heard_at > silence * SECOND:
            return Health("lost", heard or [Sign("never connected")])
        return Health("connected", [*heard, *sent])
    return Health("well" if sent else "new", [*sent, *heard] or [Sign("not used yet")])


@dataclass(frozen=True, slots=True)
class Entry:
    channel: StoredChannel
    title: str
    health: Health


async def channels(visit: Visit) -> Response:
    found = await visit.site.database.read(partial(visit.site[ChannelService].listed, by=visit.who))
    now = visit.site.clock.now()
    entries = [Entry(each, form_of(each.type).title, health(each, _problem(visit, each), now)) for each in found]
    return await admin_page(
        "admin_channels.html",
        "channels",
        visit=visit,
        entries=entries,
        kinds={name: form_of(name) for name in sorted(KINDS)},
        from_file=FROM_FILE,
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in a submitted form, and the form control that caused it."""

    text: str
    control: str | None = None


def fault(error: AssentError, form: Form) -> Fault:
    """Return the error with the form control that its JSON pointer refers to."""
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    if not found:
        return Fault(error.message)
    parts = found[0]["pointer"].strip("/").split("/")
    detail = found[0]["detail"]
    if parts[0] == "settings" and len(parts) > 1:
        named = next((each for each in form.fields if each.name == parts[1]), None)
        return Fault(f"{named.label}: {detail}", named.id) if named else Fault(f"{parts[1]}: {detail}", OTHERS)
    return Fault(words(error), parts[0] if parts[0] in {"name", "identity", "person", OTHERS} else None)


def _problem(visit: Visit, stored: StoredChannel) -> str | None:
    """Return the error in a channel's current settings, or None."""
    try:
        visit.site[ChannelService].check(stored.type, stored.settings)
    except InvalidRequest as error:
        return fault(error, form_of(stored.type)).text
    return None


async def new_form(visit: Visit) -> Response:
    return await _new_page(visit, visit.request.query_params.get("type", ""))


async def _new_page(visit: Visit, kind: str, error: AssentError | None = None) -> Response:
    if kind not in KINDS:
        msg = "This type of channel does not exist."
        raise NotFound(msg)
    form = form_of(kind)
    return await admin_page(
        "admin_channel_new.html",
        "channels",
        visit=visit,
        error=error,
        kind=kind,
        form=form,
        values=values(form, {}, visit.form),
        fault=fault(error, form) if error else None,
        manifests=_manifests(visit, kind, None),
    )


def _manifests(visit: Visit, kind: str, channel_id: str | None) -> list[tuple[str, str]]:
    """Return the Slack app manifests with titles; the one for signed HTTP requires the channel's ID."""
    if kind != "slack":
        return []
    base = visit.site.base_url
    found = [("Socket Mode: no public URL needed", render.pretty(manifest(base, socket=True)))]
    if channel_id is not None:
        called = manifest(base, socket=False, channel_id=channel_id)
        found.append(("Signed HTTP: Slack calls this server", render.pretty(called)))
    return found


async def create(visit: Visit) -> Response:
    kind = visit.form.get("type", "")
    try:
        settings = {name: value for name, value in asked(form_of(kind), visit.form, {}).items() if value is not None}
        name = text(visit.form, "name") or ""
        use_case = partial(visit.site[ChannelService].create, name=name, kind=kind, settings=settings, by=visit.who)
        made = await visit.site.database.write(use_case)
    except AssentError as error:
        return await _new_page(visit, kind, error)
    return redirect(f"/admin/channels/{made.id}?done=created")


@dataclass(frozen=True, slots=True)
class Shown:
    channel: StoredChannel
    links: Sequence[Link]
    problem: str | None
    people: Sequence[tuple[str, str]]
    """The names and full names of people to suggest when an account is linked."""


def _known_id(visit: Visit) -> str:
    channel_id: str = visit.request.path_params["channel_id"]
    if not _ID.fullmatch(channel_id):
        msg = f"Channel {channel_id[:60]!r} not found in this project."
        raise NotFound(msg)
    return channel_id


async def channel_page(visit: Visit) -> Response:
    return await _channel_page(visit)


async def _channel_page(
    visit: Visit, error: AssentError | None = None, *, probed: Probed | None = None, editing: bool = False
) -> Response:
    channel_id = _known_id(visit)

    def use_case(tx: Transaction) -> Shown:
        stored = visit.site[ChannelService].known(tx, channel_id, by=visit.who)
        links = visit.site[LinkService].of_channel(tx, channel_id, by=visit.who)
        people = visit.site[PeopleService].suggested(tx, by=visit.who)
        return Shown(stored, links, _problem(visit, stored), people)

    shown = await visit.site.database.read(use_case)
    stored = shown.channel
    form = form_of(stored.type)
    return await admin_page(
        "admin_channel.html",
        "channels",
        visit=visit,
        error=error,
        channel=stored,
        form=form,
        health=health(stored, shown.problem, visit.site.clock.now()),
        links=shown.links,
        people=shown.people,
        values=values(form, stored.settings, visit.form if editing else {}),
        fault=fault(error, form) if error else None,
        fixed=stored.source == FROM_FILE,
        personal=is_personal(stored),
        address=f"{visit.site.base_url}/callbacks/{stored.id}",
        manifests=_manifests(visit, stored.type, stored.id),
        probed=probed,
        dead="/deliveries?" + urlencode({"state": "dead", "channel": stored.id}),
    )


async def change(visit: Visit) -> Response:
    channel_id = _known_id(visit)

    def use_case(tx: Transaction) -> None:
        current = visit.site[ChannelService].known(tx, channel_id, by=visit.who)
        # The form replaces all settings, so it must not overwrite changes that the user has not seen.
        if visit.form.get("shown") != str(current.updated_at):
            raise outdated("channel")
        changes: dict[str, Any] = {
            "name": text(visit.form, "name") or "",
            "settings": asked(form_of(current.type), visit.form, current.settings),
        }
        visit.site[ChannelService].change(tx, channel_id, changes, by=visit.who)

    try:
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _channel_page(visit, error, editing=isinstance(error, InvalidRequest))
    return redirect(f"/admin/channels/{channel_id}?done=saved")


async def test(visit: Visit) -> Response:
    """Test a channel, and show the result in the response."""
    send = visit.form.get("do") == "send"
    probed = await visit.site[Prober].test(_known_id(visit), by=visit.who, send=send)
    return await _channel_page(visit, probed=probed)


async def switch(visit: Visit) -> Response:
    channel_id = _known_id(visit)
    enabled = visit.form.get("enabled") == "yes"
    try:
        use_case = partial(
            visit.site[ChannelService].change, channel_id=channel_id, changes={"enabled": enabled}, by=visit.who
        )
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _channel_page(visit, error)
    return redirect(f"/admin/channels/{channel_id}?done={'on' if enabled else 'off'}")


async def link(visit: Visit) -> Response:
    channel_id = _known_id(visit)
    try:
        identity, person = text(visit.form, "identity") or "", text(visit.form, "person") or ""
        use_case = partial(
            visit.site[LinkService].link, channel_id=channel_id, identity=identity, name=person, by=visit.who
        )
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _channel_page(visit, error)
    return redirect(f"/admin/channels/{channel_id}?done=linked")


async def unlink(visit: Visit) -> Response:
    channel_id = _known_id(visit)
    identity = visit.form.get("identity", "")
    try:
        use_case = partial(visit.site[LinkService].unlink, channel_id=channel_id, identity=identity, by=visit.who)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _channel_page(visit, error)
    return redirect(f"/admin/channels/{channel_id}?done=unlinked")


async def remove_form(visit: Visit) -> Response:
    channel_id = _known_id(visit)
    stored = await visit.site.database.read(
        partial(visit.site[ChannelService].known, channel_id=channel_id, by=visit.who)
    )
    question = Question(
        title=f"Remove channel {stored.name}?",
        consequences=(
            "No more messages are sent through it, and answers from it no longer count.",
            "Pending deliveries move to the next channel in their route, if there is one.",
            "Past deliveries remain in the list.",
        ),
        action=f"/admin/channels/{channel_id}/remove",
        button="Remove channel",
        back=f"/admin/channels/{channel_id}",
        carried={},
    )
    return question_page(visit, question)


async def remove(visit: Visit) -> Response:
    channel_id = _known_id(visit)
    try:
        await visit.site.database.write(partial(visit.site[ChannelService].remove, channel_id=channel_id, by=visit.who))
    except AssentError as error:
        return await _channel_page(visit, error)
    return redirect("/admin/channels?done=removed")
