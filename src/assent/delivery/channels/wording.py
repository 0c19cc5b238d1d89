"""The text of messages, shared by all channels."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from assent.core import headlines
from assent.core.access import PROJECT_REMOVED, TIMEOUT, Actor, Kind
from assent.core.breakpoint import NEVER, Breakpoint
from assent.core.canonical import Json, is_array, is_object
from assent.core.plurals import plural
from assent.core.safe_text import visible
from assent.core.timestamps import SECOND
from assent.delivery.message import Digest, Note, Purpose

LONGEST_LINE = 120
LONGEST_VALUE = 300
NAMED = 20
"""Maximum number of breakpoints that a digest lists."""
CONTENT_HASH = "Content hash"
_MAX_AGENT = 60
_CHANNELS = {"api": "API", "email": "email", "jira": "Jira", "slack": "Slack"}
"""Display names for values of `via`; other values are shown as stored."""


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str


def line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return text as a single line with hidden characters made visible, truncated to `longest` characters."""
    return cut(" ".join(visible(text).split()), longest)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def headline(asked: Breakpoint, longest: int = LONGEST_LINE) -> str:
    said = headlines.headline(asked.title, asked.gate, asked.payload)
    return line(said.text, longest) or line(asked.gate, longest)


def question(asked: Breakpoint, longest: int) -> str:
    """Return the agent's question with hidden characters made visible; if it was truncated, it ends with a note."""
    said: Json = asked.payload.get("question")
    shown = visible(said).strip() if isinstance(said, str) else ""
    if len(shown) <= longest:
        return shown
    return f"{shown[:longest].rstrip()}…\n\n(Truncated. Open Review to read the full text.)"


def lead(note: Note) -> str:
    """Return the first sentence of a message; messages to a person say “your approval”, others “approval”."""
    agent = line(note.breakpoint.agent_id, _MAX_AGENT)
    approval = "your approval" if note.to.name else "approval"
    match note.purpose:
        case Purpose.ASK:
            return f"{agent} needs {approval}."
        case Purpose.REMIND:
            return f"Reminder: {agent} is still waiting for {approval}."
        case Purpose.ESCALATE:
            return f"Escalated: {agent} is still waiting for {approval}."
        case Purpose.CLOSE:
            return outcome(note)
        case Purpose.TELL:
            return f"Event: {note.event.type}."


def facts(asked: Breakpoint, zone: str | None = None) -> list[Fact]:
    """Return a summary of the breakpoint, with times in the reader's time zone."""
    found = [
        ("Title", headlines.headline(asked.title, asked.gate, asked.payload).title),
        ("Gate", asked.gate),
        ("Agent", asked.agent_id),
        ("Run", asked.run_id or ""),
        ("Risk", asked.risk or ""),
        ("Tags", ", ".join(asked.tags)),
        ("Options", ", ".join(_texts(asked.payload.get("options")))),
        ("Files", ", ".join(_files(asked))),
        ("Answer by", moment(asked.due_at, zone) if asked.due_at != NEVER else ""),
        (CONTENT_HASH, short_hash(asked)),
    ]
    return [Fact(label, line(value, LONGEST_VALUE)) for label, value in found if value]


def outcome(note: Note) -> str:
    """Return the outcome: the decision or status, the actor, the channel and the time."""
    ended = note.breakpoint
    at = moment(ended.ended_at or note.event.at, note.to.zone)
    return f"{ending(ended, ended.ended_by or note.event.actor)}, {at}."


def ending(ended: Breakpoint, actor: Actor | None) -> str:
    """Return the outcome without the time, such as “Approved by ann (email)”."""
    what = (ended.decision.value if ended.decision else ended.status.value).capitalize()
    if actor is None:
        return what
    if actor.kind is Kind.SYSTEM:
        automatic = f"{what} automatically" if ended.decision else what
        return f"{automatic}: {_REASONS.get(actor.name, actor.name)}"
    via: Json = (ended.result or {}).get("via") if ended.decision else None
    way = f" ({_CHANNELS.get(via, line(via, 20))})" if isinstance(via, str) and via != Kind.RULE else ""
    return f"{what} by {who(actor)}{way}"


def short_hash(asked: Breakpoint) -> str:
    """Return the beginning of the content hash, for people to compare."""
    return asked.digest[:12]


_REASONS = {TIMEOUT.name: "no one responded in time", PROJECT_REMOVED.name: "the project was removed"}


def who(actor: Actor) -> str:
    if actor.kind is Kind.PERSON:
        return line(actor.name)
    if actor.kind is Kind.SYSTEM:
        return f"Assent ({_REASONS[actor.name]})" if actor.name in _REASONS else "Assent"
    return f"{actor.kind} {line(actor.name)}"


def moment(at: int, zone: str | None = None) -> str:
    """Format a time in the given time zone, followed by the zone's name; use UTC if the zone is missing or unknown."""
    try:
        where = ZoneInfo(zone) if zone else UTC
    except (OSError, ValueError, KeyError):
        where = UTC
    return f"{datetime.fromtimestamp(at // SECOND, where):%Y-%m-%d %H:%M %Z}"


def totals(digest: Digest) -> str:
    waiting = f"{plural(digest.total, 'approval')} pending."
    return f"{waiting} {digest.ended} ended since the last message." if digest.ended else waiting


def listed(digest: Digest) -> list[tuple[str, str]]:
    """Return the headline and deadline of each listed breakpoint, with its Review link."""
    found: list[tuple[str, str]] = []
    for each in digest.waiting[:NAMED]:
        due = f" (answer by {moment(each.due_at, digest.to.zone)})" if each.due_at != NEVER else ""
        found.append((f"{headline(each)}{due}", digest.urls.get(each.id, digest.inbox_url)))
    return found


def left_out(digest: Digest) -> str:
    """Return how many breakpoints are not listed, as a sentence; empty if all are listed."""
    more = unlisted(digest)
    return f"And {more} more." if more else ""


def unlisted(digest: Digest) -> int:
    return max(0, digest.total - len(digest.waiting[:NAMED]))


def _texts(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if is_array(value) else []


def _files(asked: Breakpoint) -> list[str]:
    context: Json = asked.payload.get("context")
    files: Json = context.get("files") if is_object(context) else None
    named = [each.get("path") for each in files if is_object(each)] if is_array(files) else []
    return [each for each in named if isinstance(each, str)]
