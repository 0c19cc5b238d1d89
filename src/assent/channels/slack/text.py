"""Text that others wrote, in the forms in which Slack shows it and does nothing else with it."""

import re
from typing import Any

from assent.domain.instants import SECOND
from assent.domain.visible import visible

Block = dict[str, Any]

LONGEST_SECTION = 2900
DIGEST = "digest-"
"""Before the digest in the id of a block: an answer says by it what was seen."""
ITEM = ":"
"""Between the digest and the number of an item, where one message holds several."""


def escaped(text: object, longest: int) -> str:
    """Return untrusted text that shows what is there, neither mentions nor links, and fits."""
    given = str(text)
    shown = visible(given[: 2 * longest + 2])  # nothing gets shorter than half
    whole = _entities(shown)
    if len(whole) <= longest and len(given) <= 2 * longest + 2:
        return whole
    room = longest - 1
    while len(kept := _entities(shown[:room])) >= longest:
        room -= -(-(len(kept) - longest + 1) // 5)  # the longest entity has five characters
    return kept + "…"


def plain(text: object, longest: int = LONGEST_SECTION) -> dict[str, Any]:
    """Return a text object in which Slack reads no markup: no mention, no link, no emoji, no bold."""
    return {"type": "plain_text", "text": escaped(text, longest).strip() or "–", "emoji": False}


def dated(label: str, at: int, shown: str) -> dict[str, Any]:
    """Return a text object with a time that Slack shows in each reader's own time zone."""
    return {"type": "mrkdwn", "text": f"{label} <!date^{at // SECOND}^{{date_short_pretty}} {{time}}|{shown}>"}


def section(text: object) -> Block:
    return {"type": "section", "text": plain(text)}


def sections(text: object, *, most: int) -> list[Block]:
    """Return a text that may be longer than one section in several, cut where words end and only after `most`."""
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
    # A word as long as a section: not inside an entity, whose longest has five characters.
    entity = text.rfind("&", LONGEST_SECTION - 5, LONGEST_SECTION)
    return entity if entity > 0 else LONGEST_SECTION


def link(label: str, url: str, action: str) -> Block:
    return {"type": "button", "text": plain(label, 75), "action_id": action, "url": url}


def told(text: str, base_url: str) -> list[Block]:
    """Return what one person is told; plain text has no links, so an address of ours in it becomes a button."""
    found = re.search(re.escape(base_url) + r"/[^\s<>\"]{1,500}", text) if base_url else None
    if found is None:
        return [section(text)]
    return [section(text), {"type": "actions", "elements": [link("Open", found.group(), "assent_open")]}]


def fits(text: object, longest: int) -> bool:
    return len(_entities(visible(text))) <= longest


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
