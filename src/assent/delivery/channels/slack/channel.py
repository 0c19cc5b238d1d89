"""The Slack channel: messages with buttons, and answers over Socket Mode or signed HTTP requests."""

import contextlib
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import structlog

from assent.core.breakpoint import TERMINAL, Breakpoint, Status
from assent.core.canonical import is_object, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson, RejectionPending, TicketRequired, Unauthenticated
from assent.core.terms import Answer
from assent.delivery.channels.slack import blocks, modal
from assent.delivery.channels.slack.api import API, APP, Failed, Refused, SlackApi
from assent.delivery.channels.slack.blocks import APPROVE, REJECT
from assent.delivery.channels.slack.hearing import clicked, form_payload, same, signed, submitted
from assent.delivery.channels.slack.manifest import SCOPES
from assent.delivery.channels.slack.manifest import manifest as manifest  # noqa: PLC0414  # pages and commands import it from here
from assent.delivery.channels.slack.posting import Unsearchable, find, post, trace
from assent.delivery.channels.slack.socket import Pace, Socket
from assent.delivery.channels.tools import Tools
from assent.delivery.message import Addressee, Digest, Note, Notice, Purpose
from assent.delivery.ports import Heard, Posted, Told, Wish
from assent.kernel.outbound import BadUrl, Permanent, Undelivered, before_sending
from assent.kernel.ports import Incoming

SETTINGS = frozenset({"token", "signingSecret", "appToken", "room", "apiUrl"})
SECRETS = frozenset({"token", "signingSecret", "appToken"})
PROOFS = frozenset({"signingSecret", "appToken", "apiUrl"})
SOCKET = "assent-slack-socket"
"""The header that marks messages from our own connection: a MAC with the app token, which callers cannot forge."""

_ROOM = re.compile(r"[CGD][A-Z0-9]{2,20}|#[^\s#<>&]{1,80}")
_MOST_REMEMBERED = 10_000
_GONE = frozenset({"message_not_found"})
_FIXED = frozenset({"cant_update_message", "edit_window_closed"})
_log = structlog.get_logger()


def personal(settings: Mapping[str, Any]) -> bool:
    return not settings.get("room")


class SlackChannel:
    def __init__(self, settings: Mapping[str, Any], tools: Tools, *, pace: Pace | None = None) -> None:
        self._settings = _checked(settings, tools)
        self._tools = tools
        url = str(settings.get("apiUrl") or API)
        self._api = SlackApi(tools.outbound, url if url.endswith("/") else f"{url}/", self._secret)
        self._socket = Socket(self._api, tools.random, pace=pace)
        self._conversations: dict[str, str] = {}

    async def send(self, note: Note) -> Posted:
        thread = note.thread if note.purpose in {Purpose.REMIND, Purpose.ESCALATE} else None
        if thread and thread.get("channel") and thread.get("ts"):
            place = {"channel": thread["channel"], "thread_ts": thread["ts"]}
            content = blocks.follow_up(note)
            if note.purpose is Purpose.ESCALATE:
                # Show the escalation in the conversation too, not only in the thread.
                content["reply_broadcast"] = True
        else:
            with before_sending():
                place = {"channel": await self._conversation(note.to)}
            content = blocks.message(note)
        return await self._post(note, place, content, since=note.breakpoint.created_at)

    async def close(self, note: Note) -> Posted | None:
        before = note.thread or {}
        posted = None
        if before.get("channel") and before.get("ts"):
            posted = await self._change(note, before, blocks.listing(note.digest) if note.digest else None)
        if not note.unconfirmed:
            return posted
        place = {"channel": await self._conversation(note.to)}
        try:
            found = [await find(self._api, each, place, since=note.breakpoint.created_at) for each in note.unconfirmed]
        except Unsearchable:
            if not note.may_be_told:
                return posted
            # Unconfirmed messages cannot be found and edited, so post the outcome.
            return posted or await self._post(note, place, blocks.closed(note), since=note.event.at)
        for each in filter(None, found):
            posted = await self._change(note, each.trace) or posted
        return posted

    async def _change(
        self, note: Note, before: Mapping[str, str], content: Mapping[str, Any] | None = None
    ) -> Posted | None:
        """Update a message to show the outcome, or post the outcome in its thread if it cannot be edited.

        Return None if the message was deleted, or if it cannot be edited and its recipient has lost access.
        """
        channel, ts, content = before["channel"], before["ts"], content or blocks.closed(note)
        try:
            answer = await self._api.call("chat.update", {"channel": channel, "ts": ts, "parse": "none", **content})
        except (Refused, Failed) as error:
            if error.error in _GONE:
                return None
            if error.error not in _FIXED:
                raise
            if not note.may_be_told:
                return None
            place = {"channel": channel, "thread_ts": ts}
            return await self._post(note, place, content, since=note.event.at)
        return Posted(trace(answer, channel, team=before.get("team", "")))

    async def digest(self, digest: Digest) -> Posted:
        place = {"channel": await self._conversation(digest.to)}
        since = min((each.created_at for each in digest.waiting), default=digest.at)
        return await self._post(digest, place, blocks.listing(digest), since=since)

    async def notify(self, notice: Notice) -> Posted:
        """Send a direct message, even if the channel's messages go to a room."""
        user = (notice.to.identity or "").rpartition(":")[2]
        if not user:
            raise Permanent(f"{notice.to.name} has not linked a Slack account.")
        opened = await self._api.call("conversations.open", {"users": user})
        content = blocks.said(f"{notice.text} {notice.link_label}: {notice.link}", self._tools.base_url)
        return await post(self._api, notice.id, {"channel": str(opened["channel"]["id"])}, content)

    async def check(self) -> str:
        me, scopes = await self._api.test()
        missing = sorted(set(SCOPES) - scopes) if scopes is not None else []
        if "chat:write" in missing:
            raise Permanent("The app is missing the chat:write scope. Paste the manifest again and reinstall the app.")
        room = self._settings.get("room")
        # Slack's history API requires an ID, so it cannot be tested for a room that is configured by name.
        if room and not room.startswith("#") and "channels:history" not in missing:
            await self._api.call("conversations.history", {"channel": room, "limit": 1})
        if "appToken" in self._settings:
            await self._api.call("apps.connections.open", using=APP)
        team, user = me.get("team", "Slack"), me.get("user", "an app")
        how = "Socket Mode" if "appToken" in self._settings else "signed HTTP requests"
        lacks = f" Missing scopes: {', '.join(missing)}." if missing else ""
        return (
            f"Connected to {team} as {user} using {how}. Messages are sent to {room or 'each person directly'}.{lacks}"
        )

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        payload = self._verified(incoming)
        if payload.get("type") == "block_actions":
            return clicked(payload)
        if payload.get("type") == "view_submission":
            return submitted(payload)
        return ()

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        digest = heard.said.get("digest")
        if not digest:
            raise InvalidRequest("This message does not include the content hash. Open Review to respond.")
        if "view" not in heard.said:
            needs = heard.said.get("action") != APPROVE or _needs_form(current)
            return None if needs else Answer(approved=True, digest=digest)
        approve = heard.said["view"] == modal.APPROVING
        return modal.filled(current, heard.said["values"], approve=approve, digest=digest)

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        if "view" in heard.said:
            return self._view_reply(heard, told)
        current = told.breakpoint
        if not told.done:
            await self._whisper(heard, told.message)
        elif current is not None and current.status is Status.WAITING and told.error is None:
            if heard.wish is Wish.FORM:
                await self._open(heard, current, approve=heard.said.get("action") != REJECT)
            else:
                await self._whisper(heard, told.message)
        return None

    async def listen(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        if "appToken" not in self._settings:
            return

        async def handle(body: bytes) -> Mapping[str, Any] | None:
            return await take(Incoming({SOCKET: self._mark(body)}, body, self._tools.now()))

        await self._socket.listen(handle)

    def heard_at(self) -> int | None:
        return self._socket.heard_at()

    def _view_reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        problems = told.problems
        if isinstance(told.error, (RejectionPending, TicketRequired)):
            # A retry may succeed soon, so keep the form open with its text.
            kept = "Nothing was sent. Your text is still in the form, so you can try again later."
            problems = {"/comment": f"{told.message} {kept}"}
        if problems and not told.done:
            return {"response_action": "errors", "errors": modal.errors(told.breakpoint, problems)}
        taken = told.done and told.error is None
        if taken and (told.breakpoint is None or told.breakpoint.status in TERMINAL):
            return None
        typed = "" if taken else modal.typed(told.breakpoint, heard.said["values"])
        return {"response_action": "update", "view": modal.notice(told.message, self._tools.base_url, typed=typed)}

    def _secret(self, name: str) -> str:
        reference = self._settings.get(name)
        try:
            found = self._tools.resolve(reference) if reference else ""
        except ValueError as error:
            why = f"Cannot read the {name} setting of the Slack channel: {error}"
            raise Permanent(why, unsent=True) from error
        if not found:
            raise Permanent(f"The Slack channel is missing the {name} setting.", unsent=True)
        return found

    def _mark(self, body: bytes) -> str:
        return hmac.new(self._secret(APP).encode(), b"socket:" + body, hashlib.sha256).hexdigest()

    def _verified(self, incoming: Incoming) -> dict[str, Any]:
        marked = incoming.headers.get(SOCKET)
        try:
            # Slack does not sign messages on our own connection, so we add our own MAC to them.
            if marked is not None:
                genuine = same(self._mark(incoming.body), marked)
            else:
                genuine = signed(incoming, self._secret("signingSecret"))
        except Permanent as error:
            raise Unauthenticated(error.message) from error
        if not genuine:
            raise Unauthenticated("The Slack signature is invalid, or the request is older than five minutes.")
        body = incoming.body if marked is not None else form_payload(incoming.body)
        try:
            payload = strict_loads(body)
        except MalformedJson as error:
            raise InvalidRequest(error.message) from error
        if not is_object(payload):
            raise InvalidRequest("The payload is not an object.")
        return payload

    async def _conversation(self, to: Addressee) -> str:
        room: str | None = self._settings.get("room")
        if room:
            return self._conversations.get(room, room)
        user = to.identity.rpartition(":")[2] if to.identity else await self._user(to)
        if user not in self._conversations:
            opened = await self._api.call("conversations.open", {"users": user})
            self._remember(user, str(opened["channel"]["id"]))
        return self._conversations[user]

    async def _user(self, to: Addressee) -> str:
        """Find a person's Slack account by email, for sending messages only; answers require a linked account."""
        if not to.email:
            raise Permanent(f"{to.name} has not linked a Slack account and does not have an email address.")
        found = await self._api.call("users.lookupByEmail", {"email": to.email})
        return str(found["user"]["id"])

    def _remember(self, name: str, conversation: str) -> None:
        # The IDs can be requested again, so the cache can simply be cleared.
        if len(self._conversations) >= _MOST_REMEMBERED:
            self._conversations.clear()
        self._conversations[name] = conversation

    async def _post(
        self, note: Note | Digest, place: Mapping[str, str], content: Mapping[str, Any], *, since: int
    ) -> Posted:
        """Post a message unless an earlier attempt has already posted it."""
        if note.attempt > 1:
            found = None
            with contextlib.suppress(Unsearchable), before_sending():
                found = await find(self._api, note.id, place, since=since)
            if found is not None:
                return found
        posted = await post(self._api, note.id, place, content)
        if place["channel"].startswith("#"):
            # The response contains the room's ID, which is required to search the room's history.
            self._remember(place["channel"], posted.trace["channel"])
        return posted

    async def _open(self, heard: Heard, current: Breakpoint, *, approve: bool) -> None:
        if current.risk == "high" or (approve and not modal.fillable(current)):
            await self._whisper(heard, "Open Review to respond.")
            return
        view = modal.modal(current, heard.delivery_id or "", approve=approve)
        try:
            await self._api.call("views.open", {"trigger_id": heard.said["trigger"], "view": view})
        except Undelivered as error:
            if isinstance(error, Failed) and error.error == "exchanged_trigger_id":
                return  # Slack sent the same click twice, and the form is already open
            _log.warning("slack_form_not_opened", error=error.message)
            await self._whisper(heard, "The form could not be opened in time. Click again, or open Review to respond.")

    async def _whisper(self, heard: Heard, text: str) -> None:
        """Show a message only to the person who clicked; a failure does not affect their answer."""
        place = {"channel": heard.said.get("channel"), "user": heard.said.get("user"), "parse": "none"}
        try:
            await self._api.call("chat.postEphemeral", place | blocks.said(text, self._tools.base_url))
        except Undelivered as error:
            _log.warning("slack_reply_not_shown", error=error.message)


def _checked(settings: Mapping[str, Any], tools: Tools) -> dict[str, str]:
    for name in settings:
        if name not in SETTINGS:
            raise InvalidRequest.at(f"/settings/{name}", f"is not one of {', '.join(sorted(SETTINGS))}")
        if not isinstance(settings[name], str) or not settings[name]:
            raise InvalidRequest.at(f"/settings/{name}", "must be a non-empty string")
    if "token" not in settings:
        raise InvalidRequest.at("/settings/token", "is required: a reference to the bot token, which begins with xoxb-")
    if "room" in settings and not _ROOM.fullmatch(settings["room"]):
        raise InvalidRequest.at("/settings/room", "must be the ID of a Slack channel, such as C0123456789, or #name")
    url = settings.get("apiUrl", API)
    try:
        tools.outbound.check_url(url)
    except BadUrl as error:
        raise InvalidRequest.at("/settings/apiUrl", str(error)) from error
    if not url.lower().startswith("https:") and not _nearby(url):
        raise InvalidRequest.at("/settings/apiUrl", "must begin with https:// unless the host is on a private network")
    return dict(settings)


def _nearby(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"


def _needs_form(current: Breakpoint) -> bool:
    return bool(current.payload.get("options") or current.payload.get("form")) or current.risk == "high"
