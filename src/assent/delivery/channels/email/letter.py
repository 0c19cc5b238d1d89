"""The emails that the email channel sends, as text and HTML; no link in them approves or rejects anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape

from assent.core.timestamps import SECOND
from assent.delivery.channels.email.markup import as_markup
from assent.delivery.channels.wording import Fact, facts, headline, lead, line, listed, question, totals, unlisted
from assent.delivery.message import Digest, Note, Purpose

# Some servers accept only 7-bit content, and aiosmtplib does not check for 8BITMIME.
_POLICY = SMTP.clone(cte_type="7bit")
LONGEST_QUESTION = 2_000
LONGEST_TITLE = 100
MARKER = "– – – Your answer goes above this line – – –"
"""Everything below this line in a reply is quoted from our message."""
_FOOT = "Sent by Assent."
_HARMLESS = "Opening this link does not approve anything."


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """The contents of an email, without addresses."""

    subject: str
    lead: str
    headline: str = ""
    question: str = ""
    facts: Sequence[Fact] = ()
    links: Sequence[tuple[str, str]] = ()
    """Labels and URLs: the Review link, or the links of a digest."""
    hint: str = ""
    """How to answer by replying, if replies are enabled."""
    foot: str = _FOOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    id: str
    at: int
    """When the email is sent, in microseconds."""
    sender: Address
    to: Sequence[Address]
    reply_to: str | None = None
    answers: str | None = None
    """The Message-ID that this message replies to."""
    submitted: str = "auto-generated"


def of_note(note: Note, *, hint: str = "") -> Letter:
    ended = note.purpose is Purpose.CLOSE
    asked = note.breakpoint
    subject = f"[Approval] {headline(asked, LONGEST_TITLE)} ({asked.id})"
    if ended:
        links = [("View details", note.review_url)]
        return Letter(subject=subject, lead=lead(note), headline=headline(asked), links=links)
    return Letter(
        subject=subject,
        lead=lead(note),
        headline=headline(asked),
        question=question(asked, LONGEST_QUESTION),
        facts=facts(asked, note.to.zone),
        links=[("Review", note.review_url)],
        hint=hint,
        foot=f"{_FOOT} {_HARMLESS}",
    )


def of_digest(digest: Digest) -> Letter:
    more = unlisted(digest)
    return Letter(
        subject=f"[Approval] {totals(digest)}",
        lead=totals(digest),
        links=[*listed(digest), (f"Open the inbox{f' ({more} more)' if more else ''}", digest.inbox_url)],
        foot=f"{_FOOT} Opening these links does not approve anything.",
    )


def message(letter: Letter, envelope: Envelope) -> EmailMessage:
    made = EmailMessage(policy=_POLICY)
    made["Date"] = format_datetime(datetime.fromtimestamp(envelope.at // SECOND, UTC))
    made["Message-ID"] = envelope.id
    made["From"] = envelope.sender
    made["To"] = envelope.to
    made["Subject"] = line(f"Re: {letter.subject}" if envelope.answers else letter.subject, 250)
    for name, value in _threading(envelope).items():
        made[name] = value
    # These headers prevent out-of-office replies and mark the message as automatic.
    made["Auto-Submitted"] = envelope.submitted
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content(as_text(letter))
    made.add_alternative(as_html(letter), subtype="html")
    return made


def _threading(envelope: Envelope) -> Mapping[str, str]:
    found = {"Reply-To": envelope.reply_to, "In-Reply-To": envelope.answers, "References": envelope.answers}
    return {name: value for name, value in found.items() if value}


def as_text(letter: Letter) -> str:
    quoted = "\n".join(f"    {each}".rstrip() for each in letter.question.split("\n")) if letter.question else ""
    parts = [
        f"{MARKER}\n{letter.hint}" if letter.hint else "",
        letter.lead,
        letter.headline,
        "\n".join(f"{words}: {url}" for words, url in letter.links),
        quoted,
        "\n".join(f"{each.label}: {each.value}" for each in letter.facts),
        f"-- \n{letter.foot}",
    ]
    return "\n\n".join(each for each in parts if each) + "\n"


def as_html(letter: Letter) -> str:
    """Return the email as HTML with inline styles and no images; mail programs support little else consistently."""
    parts = [
        f'<p style="opacity:.75;font-size:13px">{escape(MARKER)}<br>{escape(letter.hint)}</p>' if letter.hint else "",
        f"<p>{escape(letter.lead)}</p>",
        f'<h1 style="font-size:20px;margin:16px 0"><bdi>{escape(letter.headline)}</bdi></h1>'
        if letter.headline
        else "",
        *(_link(words, url, strong=len(letter.links) == 1) for words, url in letter.links),
        _quoted(letter.question),
        _table(letter.facts),
        f'<p style="opacity:.75;font-size:13px">{escape(letter.foot)}</p>',
    ]
    body = "\n".join(each for each in parts if each)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"></head>\n'
        '<body style="font-family:system-ui,sans-serif;font-size:16px;line-height:1.5;max-width:640px;margin:16px">\n'
        f"{body}\n</body></html>\n"
    )


def _quoted(text: str) -> str:
    style = "overflow-wrap:anywhere;border-left:3px solid #8a8a8a;margin:16px 0;padding:0 12px"
    return f'<div style="{style}">{as_markup(text)}</div>' if text else ""


def _table(found: Sequence[Fact]) -> str:
    cell = "padding:2px 16px 2px 0;vertical-align:top;text-align:left"
    rows = "".join(
        f'<tr><th style="{cell};font-weight:normal;opacity:.75;white-space:nowrap">{escape(each.label)}</th>'
        f'<td style="{cell};overflow-wrap:anywhere"><bdi>{escape(each.value)}</bdi></td></tr>'
        for each in found
    )
    return f'<table style="border-collapse:collapse;font-size:14px">{rows}</table>' if rows else ""


def _link(words: str, url: str, *, strong: bool) -> str:
    button = "display:inline-block;background:#1f5fbf;color:#ffffff;padding:10px 20px;border-radius:6px;"
    style = f' style="{button}text-decoration:none"' if strong else ""
    return f'<p style="margin:8px 0"><a href="{escape(url)}"{style}>{escape(words)}</a></p>'
