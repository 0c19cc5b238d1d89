"""Verifies and parses Slack's requests for clicks and submitted forms."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from assent.core.canonical import Json, canonical, is_array
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.delivery.channels.slack.api import as_object
from assent.delivery.channels.slack.blocks import APPROVE, APPROVE_FORM, REJECT
from assent.delivery.channels.slack.modal import APPROVING, REJECTING, digest_in, shown_digest
from assent.delivery.ports import Heard, Wish
from assent.kernel.ports import Incoming

TOLERANCE = 5 * 60 * SECOND

_ID = re.compile(r"[A-Z0-9]{2,20}")


def signed(incoming: Incoming, secret: str) -> bool:
    sent = incoming.headers.get("x-slack-request-timestamp", "")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= 12):  # noqa: PLR2004
        return False
    if abs(int(sent) * SECOND - incoming.at) > TOLERANCE:
        return False
    signed = f"v0:{sent}:".encode() + incoming.body
    expected = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return same(expected, incoming.headers.get("x-slack-signature", ""))


def same(expected: str, given: str) -> bool:
    # `compare_digest` raises an error for non-ASCII strings, so compare bytes.
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def form_payload(body: bytes) -> bytes:
    try:
        found = parse_qs(body.decode(), strict_parsing=True, max_num_fields=10).get("payload", [])
    except ValueError as error:
        raise InvalidRequest("The request body is not a form.") from error
    if len(found) != 1:
        raise InvalidRequest("The form must have exactly one payload field.")
    return found[0].encode()


def _identity(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the IDs of the workspace and the user; in a shared channel, the workspace can differ from the app's."""
    user = as_object(payload.get("user"))
    team = user.get("team_id") or as_object(payload.get("team")).get("id")
    found = (str(team), str(user.get("id")))
    if not all(map(_ID.fullmatch, found)):
        raise InvalidRequest("The payload does not identify the user.")
    return found


def _shown_as(payload: Mapping[str, Any]) -> str:
    user = as_object(payload.get("user"))
    name = user.get("username") or user.get("name") or user.get("id")
    domain = as_object(payload.get("team")).get("domain")
    return f"@{name} in {domain}" if domain else f"@{name}"


def clicked(payload: Mapping[str, Any]) -> Sequence[Heard]:
    actions: Json = payload.get("actions")
    first = as_object(actions[0]) if is_array(actions) and actions else {}
    action, delivery, at = first.get("action_id"), first.get("value"), first.get("action_ts")
    if action not in {APPROVE, APPROVE_FORM, REJECT}:
        return ()  # Slack reports clicks on links too
    if not isinstance(delivery, str) or not delivery or not isinstance(at, str):
        raise InvalidRequest("The button does not identify its message.")
    team, user = _identity(payload)
    message = as_object(payload.get("message"))
    said = {
        "action": action,
        "user": user,
        "shownAs": _shown_as(payload),
        "channel": as_object(payload.get("container")).get("channel_id"),
        "trigger": payload.get("trigger_id"),
        "digest": digest_in(first.get("block_id")) or shown_digest(message.get("blocks")),
    }
    # A rejection requires a reason, so it opens a form too.
    wish = Wish.ANSWER if action == APPROVE else Wish.FORM
    # Slack sends the same action_ts again if it repeats a click, over either transport.
    key = f"{delivery}:{team}:{user}:{at}"
    return (Heard(key=key, wish=wish, identity=f"{team}:{user}", delivery_id=delivery, said=said),)


def submitted(payload: Mapping[str, Any]) -> Sequence[Heard]:
    view = as_object(payload.get("view"))
    kind, delivery = view.get("callback_id"), view.get("private_metadata")
    if kind not in {APPROVING, REJECTING}:
        return ()
    if not isinstance(delivery, str) or not delivery:
        raise InvalidRequest("The form does not identify its message.")
    team, user = _identity(payload)
    values = as_object(as_object(view.get("state")).get("values"))
    said = {
        "view": kind,
        "user": user,
        "shownAs": _shown_as(payload),
        "values": values,
        "digest": shown_digest(view.get("blocks")),
    }
    # After a validation error, the same view is submitted again with different values.
    typed = hashlib.sha256(canonical(values)).hexdigest()[:16]
    key = f"{view.get('id')}:{view.get('hash')}:{typed}"
    return (Heard(key=key, wish=Wish.ANSWER, identity=f"{team}:{user}", delivery_id=delivery, said=said),)
