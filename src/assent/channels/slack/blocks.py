"""What people see in Slack: messages of Block Kit, cut to Slack's limits.

What others wrote stands in plain text only, where nothing mentions, links or formats.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assent.channels.slack.modal import fillable
from assent.channels.slack.text import DIGEST, Block, escaped, link, plain, section, told
from assent.domain.access import Kind
from assent.domain.breakpoint import NEVER, Breakpoint, Status
from assent.domain.canonical import Json, is_array, is_object
from assent.domain.instants import SECOND, iso
from assent.domain.notes import Digest, Note, Purpose

APPROVE, APPROVE_FORM, REJECT, REVIEW = "assent_approve", "assent_approve_form", "assent_reject", "assent_review"
SHOWN = 20
"""How many a digest names."""

_LONGEST_HEADER, _LONGEST_ELEMENT, _LONGEST_NAME = 140, 300, 80
_MOST_FILES = _MOST_OPTIONS = 10
_FALLBACK = 1000
_DAY = 24 * 3600 * SECOND
_TURNED = {"approved": "Approved", "rejected": "Rejected"}
_HEADINGS = {
    Purpose.REMIND: "Reminder: this still waits for an answer.",
    Purpose.ESCALATE: "Escalated: nobody has answered this yet.",
}


def message(note: Note) -> dict[str, Any]:
    """Return the text and blocks of a message that asks."""
    asked = note.breakpoint
    heading = _HEADINGS.get(note.purpose)
    blocks: list[Block] = [{"type": "header", "text": plain(headline(asked), _LONGEST_HEADER)}]
    if heading is not None:
        blocks.insert(0, section(heading))
    blocks += _content(asked)
    blocks += _buttons(note) if asked.status is Status.WAITING else [section(outcome(asked))]
    return _sent(f"{heading or 'An approval is asked for:'} {headline(asked)}", blocks)


def follow_up(note: Note) -> dict[str, Any]:
    """Return what is said in the thread of the first message."""
    asked = note.breakpoint
    due = "" if asked.due_at == NEVER else f" It has to be answered by {moment(asked.due_at)}."
    said = f"{_HEADINGS.get(note.purpose, 'This still waits for an answer.')}{due}"
    blocks = [section(said), {"type": "actions", "elements": [link("Review", note.review_url, REVIEW)]}]
    return _sent(f"{said} {headline(asked)}", blocks)


def closed(note: Note) -> dict[str, Any]:
    """Return what stands in place of the question once it has ended."""
    asked = note.breakpoint
    blocks: list[Block] = [
        {"type": "header", "text": plain(headline(asked), _LONGEST_HEADER)},
        section(outcome(asked)),
        *(section(said) for said in _words(asked)),
        _facts(asked),
    ]
    return _sent(f"{outcome(asked)}: {headline(asked)}", blocks)


def listing(digest: Digest) -> dict[str, Any]:
    """Return one message in place of many."""
    waiting = (
        f"{digest.total} approvals wait for an answer." if digest.total != 1 else "1 approval waits for an answer."
    )
    ended = f" {digest.ended} of those you were told of have ended since." if digest.ended else ""
    named = digest.waiting[:SHOWN]
    blocks: list[Block] = [{"type": "header", "text": plain(waiting, _LONGEST_HEADER)}]
    for n, each in enumerate(named):
        row: Block = {"type": "section", "text": plain(f"{headline(each)}\n{_summary(each)}", _LONGEST_ELEMENT)}
        if each.id in digest.urls:
            row["accessory"] = link("Review", digest.urls[each.id], f"{REVIEW}_{n}")
        blocks.append(row)
    if digest.total > len(named):
        blocks.append(section(f"And {digest.total - len(named)} more, in the inbox."))
    if ended:
        blocks.append(section(ended))
    blocks.append({"type": "actions", "elements": [link("Open the inbox", digest.inbox_url, REVIEW)]})
    return _sent(waiting + ended, blocks)


def said(text: str, base_url: str) -> dict[str, Any]:
    """Return a message of a sentence; an address of ours in it is a button too."""
    return _sent(text, told(text, base_url))


def headline(asked: Breakpoint) -> str:
    question = asked.payload.get("question")
    return asked.title or (question if isinstance(question, str) and question else asked.gate)


def outcome(asked: Breakpoint) -> str:
    """Say in a line how it ended."""
    at = asked.ended_at or asked.updated_at
    when = moment(at) if at // _DAY != asked.created_at // _DAY else f"{iso(at)[11:16]} UTC"
    if asked.status is Status.WAITING:
        return "This waits for an answer."
    if asked.status is Status.EXPIRED:
        return f"Expired without an answer, {when}"
    what = _TURNED.get(asked.decision or "", "Ended") if asked.status is Status.RELEASED else "Cancelled"
    via = (asked.result or {}).get("via")
    channel = f" via {via}" if isinstance(via, str) and via and via != Kind.RULE else ""
    return f"{what}{_by(asked)}{channel}, {when}"


def moment(at: int) -> str:
    text = iso(at)
    return f"{text[:10]} {text[11:16]} UTC"


def _by(asked: Breakpoint) -> str:
    actor = asked.ended_by
    if actor is None:
        return ""
    if actor.kind is Kind.SYSTEM:
        return " at the deadline" if actor.name == "timeout" else " by Assent"
    return f" by {actor.name}" if actor.kind is Kind.PERSON else f" by the {actor.kind} {actor.name}"


def _words(asked: Breakpoint) -> Iterable[str]:
    result = asked.result or {}
    if isinstance(result.get("option"), str):
        yield f"Option: {result['option']}"
    if isinstance(result.get("feedback"), str):
        yield f"“{result['feedback']}”"


def _content(asked: Breakpoint) -> list[Block]:
    question = asked.payload.get("question")
    blocks: list[Block] = []
    if asked.title and isinstance(question, str) and question and question != asked.title:
        blocks.append(section(question))
    elif escaped(headline(asked), _LONGEST_HEADER).endswith("…"):
        blocks.append(section(headline(asked)))  # a header holds only the beginning of it
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
        "Gate": asked.gate,
        "Agent": asked.agent_id,
        "Project": asked.project,
        "Risk": asked.risk,
        "Tags": ", ".join(asked.tags),
        "Answer by": moment(asked.due_at) if asked.due_at != NEVER and asked.status is Status.WAITING else None,
        "Content": asked.digest[:12],
    }
    elements = [plain(f"{name}: {value}", _LONGEST_ELEMENT) for name, value in facts.items() if value]
    return {"type": "context", "block_id": DIGEST + asked.digest, "elements": elements}


def _summary(asked: Breakpoint) -> str:
    due = "" if asked.due_at == NEVER else f" · by {moment(asked.due_at)}"
    return f"{_short(asked.gate)} · {_short(asked.agent_id)}{f' · risk {asked.risk}' if asked.risk else ''}{due}"


def _buttons(note: Note) -> list[Block]:
    asked, review = note.breakpoint, link("Review", note.review_url, REVIEW)
    if asked.risk == "high":
        why = "This is high risk: it is decided on the page behind Review, where all of it can be seen, not here."
        return [section(why), {"type": "actions", "elements": [review]}]
    form = asked.payload.get("options") or asked.payload.get("form")
    elements: list[Block] = [_button("Reject…", REJECT, note.id, style="danger"), review]
    blocks: list[Block] = []
    if not fillable(asked):
        blocks.append(
            section("What has to be filled in does not fit into Slack: approve it on the page behind Review.")
        )
    elif form:
        elements.insert(0, _button("Approve…", APPROVE_FORM, note.id, style="primary"))
    else:
        elements.insert(0, _approve(note))
    return [*blocks, {"type": "actions", "elements": elements}]


def _approve(note: Note) -> Block:
    button = _button("Approve", APPROVE, note.id, style="primary")
    if note.breakpoint.risk != "medium":
        return button
    confirm = {
        "title": plain("Approve this?", 100),
        "text": plain(headline(note.breakpoint), 290),
        "confirm": plain("Approve", 30),
        "deny": plain("Back", 30),
    }
    return button | {"confirm": confirm}


def _button(label: str, action: str, value: str, *, style: str) -> Block:
    return {"type": "button", "text": plain(label, 75), "action_id": action, "value": value, "style": style}


def _sent(text: str, blocks: Sequence[Block]) -> dict[str, Any]:
    return {"text": escaped(text, _FALLBACK), "blocks": list(blocks)}
