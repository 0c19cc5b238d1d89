"""Builds Slack messages with Block Kit, truncated to Slack's limits.

Untrusted text is only used as plain text, in which mentions, links and markup have no effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assent.core import headlines
from assent.core.breakpoint import NEVER, Breakpoint, Status
from assent.core.canonical import Json, is_array, is_object
from assent.core.timestamps import SECOND, iso
from assent.delivery.channels.slack.modal import fillable
from assent.delivery.channels.slack.text import DIGEST, ITEM, Block, dated, escaped, link, plain, section, told
from assent.delivery.channels.wording import CONTENT_HASH, ending, lead, short_hash, totals
from assent.delivery.message import Digest, Note, Purpose

APPROVE, APPROVE_FORM, REJECT, REVIEW = "assent_approve", "assent_approve_form", "assent_reject", "assent_review"
SHOWN = 20
"""Maximum number of breakpoints that a digest lists."""

_LONGEST_HEADER, _LONGEST_ELEMENT, _LONGEST_ITEM, _LONGEST_NAME = 140, 300, 600, 80
_MOST_FILES = _MOST_OPTIONS = 10
_FALLBACK = 1000
_DAY = 24 * 3600 * SECOND


def message(note: Note) -> dict[str, Any]:
    """Return the text and blocks of a message that asks for an approval."""
    asked = note.breakpoint
    blocks: list[Block] = [
        section(lead(note)),
        {"type": "header", "text": plain(headline(asked), _LONGEST_HEADER)},
        *_content(asked),
    ]
    if asked.status is Status.WAITING:
        blocks += [section(why) for why in _remarks(asked)]
        blocks.append({"type": "actions", "elements": _buttons(asked, note.id, note.review_url)})
    else:
        blocks.append(section(outcome(asked)))
    first = "Approval needed:" if note.purpose is Purpose.ASK else lead(note)
    return _sent(f"{first} {headline(asked)}", blocks)


def follow_up(note: Note) -> dict[str, Any]:
    """Return a reply in the thread of the first message."""
    asked = note.breakpoint
    due = "" if asked.due_at == NEVER else f" (answer by {moment(asked.due_at)})"
    said = lead(note)
    # The thread of a digest is about several breakpoints, so the reply names its breakpoint.
    shown = f"{headline(asked)}\n{said}" if "digest" in (note.thread or {}) else said
    blocks = [section(shown), {"type": "actions", "elements": [link("Review", note.review_url, REVIEW)]}]
    if due:
        blocks.insert(1, {"type": "context", "elements": [_due(asked)]})
    return _sent(f"{said} {headline(asked)}{due}", blocks)


def closed(note: Note) -> dict[str, Any]:
    """Return the message that replaces the question when the breakpoint has ended."""
    asked = note.breakpoint
    blocks: list[Block] = [
        {"type": "header", "text": plain(headline(asked), _LONGEST_HEADER)},
        section(outcome(asked)),
        *(section(said) for said in _words(asked)),
        _facts(asked),
    ]
    return _sent(f"{outcome(asked)}: {headline(asked)}", blocks)


def listing(digest: Digest) -> dict[str, Any]:
    """Return the message that lists the breakpoints of a digest."""
    named = digest.waiting[:SHOWN]
    blocks: list[Block] = [{"type": "header", "text": plain(totals(digest), _LONGEST_HEADER)}]
    for n, each in enumerate(named):
        blocks += _item(digest, each, n)
    if digest.total > len(named):
        blocks.append(section(f"And {digest.total - len(named)} more in the inbox."))
    blocks.append({"type": "actions", "elements": [link("Open the inbox", digest.inbox_url, REVIEW)]})
    return _sent(totals(digest), blocks)


def _item(digest: Digest, each: Breakpoint, n: int) -> list[Block]:
    """Return a digest item, with buttons if its breakpoint is pending, or with the outcome if it has ended."""
    question = each.payload.get("question")
    more = question if isinstance(question, str) and question and question != headline(each) else ""
    said = f"{headline(each)}\n{more}\n{_summary(each)}" if more else f"{headline(each)}\n{_summary(each)}"
    if each.status is not Status.WAITING:
        return [section(f"{escaped(headline(each), _LONGEST_ELEMENT)}\n{outcome(each)}")]
    rows: list[Block] = [{"type": "section", "text": plain(said, _LONGEST_ITEM)}]
    url, delivery = digest.urls.get(each.id), digest.deliveries.get(each.id)
    if url is None:
        return rows
    elements = _buttons(each, delivery, url) if delivery else [link("Review", url, REVIEW)]
    if escaped(said, _LONGEST_ITEM).endswith("…") or headline(each).endswith("…"):
        # Truncated text cannot be approved here, because the reviewer has not seen all of it.
        elements = [button for button in elements if button["action_id"] not in {APPROVE, APPROVE_FORM}]
    # The block's ID identifies the content that was shown; the number makes it unique among identical items.
    return [*rows, {"type": "actions", "block_id": f"{DIGEST}{each.digest}{ITEM}{n}", "elements": elements}]


def said(text: str, base_url: str) -> dict[str, Any]:
    """Return a text message; if it contains a URL of this server, add a button that opens it."""
    return _sent(text, told(text, base_url))


def headline(asked: Breakpoint) -> str:
    return headlines.headline(asked.title, asked.gate, asked.payload).text


def outcome(asked: Breakpoint) -> str:
    """Return the outcome in one line."""
    at = asked.ended_at or asked.updated_at
    when = moment(at) if at // _DAY != asked.created_at // _DAY else f"{iso(at)[11:16]} UTC"
    if asked.status is Status.WAITING:
        return "Pending."
    return f"{ending(asked, asked.ended_by)}, {when}"


def moment(at: int) -> str:
    text = iso(at)
    return f"{text[:10]} {text[11:16]} UTC"


def _words(asked: Breakpoint) -> Iterable[str]:
    result = asked.result or {}
    if isinstance(result.get("option"), str):
        yield f"Option: {result['option']}"
    if isinstance(result.get("feedback"), str):
        yield f"“{result['feedback']}”"


def _content(asked: Breakpoint) -> list[Block]:
    said = asked.payload.get("question")
    question = said if isinstance(said, str) else ""
    more = question if question not in (asked.title, headline(asked)) else ""
    blocks: list[Block] = []
    if escaped(headline(asked), _LONGEST_HEADER).endswith("…") and headlines.one_line(more) != headline(asked):
        blocks.append(section(headline(asked)))  # the header shows only the beginning
    if more:
        blocks.append(section(more))
    blocks += [section(line) for line in (_options(asked), _files(asked)) if line]
    return [*blocks, _facts(asked)]


def _options(asked: Breakpoint) -> str:
    options = _names(asked.payload.get("options"))
    return _listed("Options", options, _MOST_OPTIONS)


def _files(asked: Breakpoint) -> str:
    context = asked.payload.get("context")
    files = context.get("files") if is_object(context) else None
    paths = [str(each.get("path")) for each in files or () if is_object(each)]
    return _listed("Files", paths, _MOST_FILES)


def _names(given: Json) -> list[str]:
    return [each for each in given if isinstance(each, str)] if is_array(given) else []


def _listed(label: str, names: Sequence[str], most: int) -> str:
    if not names:
        return ""
    more = f"\n… and {len(names) - most} more" if len(names) > most else ""
    return f"{label}:\n" + "\n".join(f"• {_short(name)}" for name in names[:most]) + more


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…"


def _facts(asked: Breakpoint) -> Block:
    facts: Mapping[str, object] = {
        "Title": headlines.headline(asked.title, asked.gate, asked.payload).title,
        "Gate": asked.gate,
        "Agent": asked.agent_id,
        "Project": asked.project,
        "Risk": asked.risk,
        "Tags": ", ".join(asked.tags),
    }
    elements = [plain(f"{name}: {value}", _LONGEST_ELEMENT) for name, value in facts.items() if value]
    if asked.status is not Status.WAITING:
        at = asked.ended_at or asked.updated_at
        elements.append(dated("Ended:", at, moment(at)))
    elif asked.due_at != NEVER:
        elements.append(_due(asked))
    elements.append(plain(f"{CONTENT_HASH}: {short_hash(asked)}", _LONGEST_ELEMENT))
    return {"type": "context", "block_id": DIGEST + asked.digest, "elements": elements}


def _due(asked: Breakpoint) -> dict[str, Any]:
    return dated("Answer by:", asked.due_at, moment(asked.due_at))


def _summary(asked: Breakpoint) -> str:
    due = "" if asked.due_at == NEVER else f" · by {moment(asked.due_at)}"
    return f"{_short(asked.gate)} · {_short(asked.agent_id)}{f' · {asked.risk} risk' if asked.risk else ''}{due}"


def _remarks(asked: Breakpoint) -> list[str]:
    """Explain why a message has fewer buttons than usual."""
    if asked.risk == "high":
        return ["High risk: open Review to approve or reject."]
    if not fillable(asked):
        return ["The form is too large for Slack. Open Review to approve."]
    return []


def _buttons(asked: Breakpoint, delivery_id: str, review_url: str) -> list[Block]:
    review = link("Review", review_url, REVIEW)
    if asked.risk == "high":
        return [review]
    elements: list[Block] = [_button("Reject…", REJECT, delivery_id, style="danger"), review]
    # Omit the approval button, because a truncated form could not be answered completely.
    if not fillable(asked):
        return elements
    if asked.payload.get("options") or asked.payload.get("form"):
        return [_button("Approve…", APPROVE_FORM, delivery_id, style="primary"), *elements]
    return [_approve(asked, delivery_id), *elements]


def _approve(asked: Breakpoint, delivery_id: str) -> Block:
    button = _button("Approve", APPROVE, delivery_id, style="primary")
    if asked.risk != "medium":
        return button
    confirm = {
        "title": plain("Approve this?", 100),
        "text": plain(headline(asked), 290),
        "confirm": plain("Approve", 30),
        "deny": plain("Cancel", 30),
    }
    return button | {"confirm": confirm}


def _button(label: str, action: str, value: str, *, style: str) -> Block:
    return {"type": "button", "text": plain(label, 75), "action_id": action, "value": value, "style": style}


def _sent(text: str, blocks: Sequence[Block]) -> dict[str, Any]:
    return {"text": escaped(text, _FALLBACK), "blocks": list(blocks)}
