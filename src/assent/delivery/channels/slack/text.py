"""Escapes and truncates untrusted text for Slack, so that it cannot contain mentions, links or markup."""

import re
from typing import Any

from assent.core.safe_text import visible
from assent.core.timestamps import SECOND

Block = dict[str, Any]

LONGEST_SECTION = 2900
DIGEST = "digest-"
"""Prefix of a block ID that contains the digest, with which an answer identifies the content that was shown."""
ITEM = ":"
"""Separates the digest from the item number in messages with several items."""


def escaped(text: object, longest: int) -> str:
    """Return untrusted text with hidden characters visible, mentions and links disabled, and a limited length."""
    given = str(text)
    shown = visible(given[: 2 * longest + 2])  # `visible` shortens text by at most half
    whole = _entities(shown)
    if len(whole) <= longest and len(given) <= 2 * longest + 2:
        return whole
    # Cut the text before it is escaped, so that no entity is cut in half.
    room = longest - 1
    while len(kept := _entities(shown[:room])) >= longest:
        room -= -(-(len(kept) - longest + 1) // 5)  # the longest entity, &amp;, has five characters
    return kept + "…"


def plain(text: object, longest: int = LONGEST_SECTION) -> dict[str, Any]:
    """Return a text object in which Slack does not interpret mentions, links, emoji or formatting."""
    return {"type": "plain_text", "text": escaped(text, longest).strip() or "–", "emoji": False}


def dated(label: str, at: int, shown: str) -> dict[str, Any]:
    """Return a text object with a time that Slack shows in each reader's time zone."""
    return {"type": "mrkdwn", "text": f"{label} <!date^{at // SECOND}^{{date_short_pretty}} {{time}}|{shown}>"}


def section(text: object) -> Block:
    return {"type": "section", "text": plain(text)}


def sections(text: object, *, most: int) -> list[Block]:
    """Split text into sections at word boundaries, and truncate it after `most` sections."""
    left = _entities(visible(text)).strip()
    found: list[Block] = []
    while left:
        end = _section_end(left)
        piece, left = left[:end].rstrip(), left[end:].lstrip()
        if left and len(found) == most - 1:
            piece, left = f"{piece}…", ""
        found.append({"type": "section", "text": {"type": "plain_text", "text": piece, "emoji": False}})
    return found


def _section_end(text: str) -> int:
    if len(text) <= LONGEST_SECTION:
        return len(text)
    blank = max(text.rfind(each, LONGEST_SECTION // 2, LONGEST_SECTION) for each in " \n")
    if blank > 0:
        return blank
    # A word longer than half a section is split, but not inside an entity, which has at most five characters.
    entity = text.rfind("&", LONGEST_SECTION - 5, LONGEST_SECTION)
    return entity if entity > 0 else LONGEST_SECTION


def link(label: str, url: str, action: str) -> Block:
    return {"type": "button", "text": plain(label, 75), "action_id": action, "url": url}


def told(text: str, base_url: str) -> list[Block]:
    """Return text as blocks; plain text cannot contain links, so a URL of this server becomes a button."""
    found = re.search(re.escape(base_url) + r"/[^\s<>\"]{1,500}", text) if base_url else None
    if found is None:
        return [section(text)]
    return [section(text), {"type": "actions", "elements": [link("Open", found.group(), "assent_open")]}]


def fits(text: object, longest: int) -> bool:
    return len(_entities(visible(text))) <= longest


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
