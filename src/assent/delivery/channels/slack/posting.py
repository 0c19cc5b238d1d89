"""Posts messages to Slack without duplicates: retries search for a message from an earlier attempt."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from assent.core.timestamps import SECOND
from assent.delivery.channels.slack.api import CutShort, Refused, SlackApi, as_object
from assent.delivery.ports import Posted

EVENT = "assent_delivery"

_MARGIN = 60 * SECOND
"""Tolerance for differences between our clock and Slack's."""
_PAGE, _MOST_PAGES = 15, 40
_QUIET = {"parse": "none", "mrkdwn": False, "link_names": False, "unfurl_links": False, "unfurl_media": False}


async def post(api: SlackApi, delivery_id: str, place: Mapping[str, str], content: Mapping[str, Any]) -> Posted:
    metadata = {"event_type": EVENT, "event_payload": {"delivery_id": delivery_id}}
    answer = await api.call("chat.postMessage", {**place, **content, "metadata": metadata, **_QUIET})
    return Posted(trace(answer, place["channel"]))


class Unsearchable(Exception):
    """A conversation's messages cannot be searched completely."""


async def find(api: SlackApi, delivery_id: str, place: Mapping[str, str], *, since: int) -> Posted | None:
    """Return the message that an earlier attempt posted; raise Unsearchable if the history cannot be read."""
    if place["channel"].startswith("#"):
        raise Unsearchable  # Slack's history API requires an ID, not a name
    async for each in _messages(api, place, since - _MARGIN):
        if _delivery_of(each) == delivery_id:
            return Posted({"channel": place["channel"], "ts": str(each["ts"]), "team": str(each.get("team", ""))})
    return None


def trace(answer: Mapping[str, Any], channel: str, *, team: str = "") -> dict[str, str]:
    sent = as_object(answer.get("message"))
    return {
        "channel": str(answer.get("channel", channel)),
        "ts": str(answer["ts"]),
        "team": str(sent.get("team") or team),
    }


async def _messages(api: SlackApi, place: Mapping[str, str], since: int) -> AsyncIterator[dict[str, Any]]:
    thread = {"ts": place["thread_ts"]} if "thread_ts" in place else {}
    method = "conversations.replies" if thread else "conversations.history"
    asked: dict[str, Any] = {"channel": place["channel"], "oldest": _ts(since), "include_all_metadata": True, **thread}
    limit = _PAGE
    for _ in range(_MOST_PAGES):
        try:
            answer = await api.call(method, asked | {"limit": limit})
        except CutShort:
            if limit == 1:
                raise Unsearchable from None  # the unreadable message may be the one we are searching for
            # Request the same page again with fewer messages, because long ones can exceed the response limit.
            limit //= 3
            continue
        except Refused as error:
            if error.error == "missing_scope":
                raise Unsearchable from error
            raise
        for each in answer.get("messages", ()):
            yield as_object(each)
        asked["cursor"] = as_object(answer.get("response_metadata")).get("next_cursor")
        if not asked["cursor"]:
            return
    raise Unsearchable


def _delivery_of(message: Mapping[str, Any]) -> str | None:
    metadata = as_object(message.get("metadata"))
    if metadata.get("event_type") != EVENT:
        return None
    found = as_object(metadata.get("event_payload")).get("delivery_id")
    return found if isinstance(found, str) else None


def _ts(at: int) -> str:
    return f"{at // SECOND}.{at % SECOND:06d}"
