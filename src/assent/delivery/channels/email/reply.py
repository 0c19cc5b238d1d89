"""Parses email replies: the sender, whether the sender is verified, and the answer."""

import re
from collections.abc import Iterator, Sequence
from email.message import Message
from html.parser import HTMLParser
from typing import cast

from assent.delivery.channels.email.letter import MARKER

APPROVES = frozenset({"approve", "approved", "yes", "lgtm"})
LONGEST_HEADER, LONGEST_BODY = 2_000, 100_000
"""Maximum lengths in characters and bytes, because parsing longer input would take too long."""
REJECTS = frozenset({"reject", "rejected", "no"})
_CASUAL = frozenset({"no"})
"""Words that also begin other sentences, such as “no problem”."""
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+"
_FROM = re.compile(rf"(?:(?P<name>[^<>]*)<(?P<inside>{_ADDRESS})>|(?P<bare>{_ADDRESS}))", re.ASCII)
_QUOTED_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|\(|[^"()\\]+', re.DOTALL)
_INSIDE = re.compile(r"[()]|(?:[^()\\]|\\.)+", re.DOTALL)
"""Match the next piece of a header outside and inside comments."""
_FIRST_WORD = re.compile(r"[^\w]*(?P<word>\w+)(?P<rest>.*)", re.DOTALL)
_END = re.compile(
    r"-- ?|_{10,}|-{2,} ?(original message|forwarded message|ursprüngliche nachricht).*|from: .+@.+", re.IGNORECASE
)
_ATTRIBUTION = re.compile(r"on\b.{5,300}\bwrote:|.{5,300}:", re.IGNORECASE | re.DOTALL)


def sender(message: Message) -> str | None:
    """Return the sender's address in lowercase; None if there is not exactly one, or if it is ambiguous."""
    given = message.get_all("from") or []
    only = " ".join(str(given[0]).split()) if len(given) == 1 else ""
    found = _FROM.fullmatch(only) if len(only) <= LONGEST_HEADER else None
    if found is None or re.search(r"[,;:@]", _QUOTED_STRING.sub("", found["name"] or "")):
        return None
    return (found["inside"] or found["bare"]).lower()


def tokens(message: Message, domain: str) -> list[tuple[str, str]]:
    """Return the delivery IDs in the recipient addresses, each with its MAC."""
    ours = re.compile(rf"\bbp\+([a-z0-9_]{{1,40}})\.([a-z2-7]{{24}})@{re.escape(domain.lower())}(?![a-z0-9.-])")
    names = ("delivered-to", "x-original-to", "to", "cc")
    given = [str(value).lower() for name in names for value in message.get_all(name) or []]
    return list(dict.fromkeys((found[1], found[2]) for value in given for found in ours.finditer(value)))


def proven(message: Message, *, authserv: str, domain: str) -> bool:
    """Return whether our own mail server reported that DMARC passed for the sender's domain."""
    for value in message.get_all("authentication-results") or []:
        found = _bare(str(value))
        if found is None:
            return False
        server, *results = ([word.lower() for word in each.split()] for each in found.split(";"))
        if server[:1] == [authserv.lower()]:
            # Only our server's topmost header is trusted: lower ones may have been in the message when it arrived.
            return _passes(results, domain)
    return False


def _passes(results: Sequence[Sequence[str]], domain: str) -> bool:
    dmarc = [each for each in results if each and re.match(r"dmarc(?![\w-])", each[0])]
    about = [[word for word in each if word.startswith("header.from=")] for each in dmarc]
    passed = all(re.fullmatch(r"dmarc(/1)?=pass", each[0]) for each in dmarc)
    return bool(dmarc) and passed and all(each == [f"header.from={domain}"] for each in about)


def _bare(text: str) -> str | None:
    """Remove a header's comments and quoted strings; return None if one is unterminated or the header is too long."""
    kept, depth, place = "", 0, 0
    while place < len(text) <= LONGEST_HEADER:
        found = (_INSIDE if depth else _OUTSIDE).match(text, place)
        if found is None:
            return None
        piece, place = found[0], found.end()
        if depth == 0 and piece != "(":
            # Senders control quoted strings, so omit them; the quotation mark separates the text around them.
            kept += '"' if piece.startswith('"') else piece
        depth += (piece == "(") - (piece == ")")
        kept += " " if piece == ")" and depth == 0 else ""
    return re.sub(r"\s*([=/])\s*", r"\1", kept) if depth == 0 and place == len(text) else None


def automatic(message: Message) -> bool:
    """Return whether a program wrote the message: an out-of-office reply, a mailing list or a bounce."""

    def header(name: str) -> str:
        return str(message.get(name, "")).strip().lower()

    return (
        header("auto-submitted") not in {"", "no"}
        or header("precedence") in {"bulk", "junk", "list", "auto_reply"}
        or any(header(name) for name in ("x-autoreply", "x-autorespond", "x-auto-reply", "list-id"))
        or header("return-path") == "<>"
        or message.get_content_type() == "multipart/report"
    )


def words(message: Message) -> str:
    """Return the sender's own text, without quoted text."""
    return _unquoted(_body(message))


def verdict(said: str) -> tuple[bool | None, str]:
    """Return whether the first word approves (True), rejects (False) or neither (None), and the comment after it.

    An approving word that begins a sentence does not approve: “approve only once…” is a comment.
    """
    first = said.strip().split("\n", 1)[0]
    found = _FIRST_WORD.match(said.strip())
    word = found["word"].lower() if found else ""
    if found is None or word not in APPROVES | REJECTS or first.rstrip().endswith("?"):
        return None, said.strip()
    rest = found["rest"]
    if word in APPROVES | _CASUAL and (re.match(r"[^\S\n]*\w", rest) or "?" in first):
        return None, said.strip()
    return word in APPROVES, rest.lstrip(" \t\n.,:;!*_–—-").strip()


def _body(message: Message) -> str:
    part = _own_text(message)
    if part is None:
        return ""
    text = _decoded(part)
    return text if part.get_content_type() == "text/plain" else _from_html(text)


def _own_text(part: Message) -> Message | None:
    """Return the first text part that the sender wrote; skip attached files and messages."""
    kind = part.get_content_type()
    if part.get_content_disposition() not in {None, "inline"} or part.get_filename() is not None:
        return None
    if kind in {"text/plain", "text/html"}:
        return part
    if not kind.startswith("multipart/") or not part.is_multipart():
        return None
    inside = cast("list[Message]", part.get_payload())
    texts = [found for each in inside if (found := _own_text(each)) is not None]
    if kind == "multipart/alternative":
        texts.sort(key=lambda each: each.get_content_type() != "text/plain")
    return texts[0] if texts else None


def _decoded(part: Message) -> str:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return ""
    raw = raw[:LONGEST_BODY]
    try:
        text = raw.decode(part.get_content_charset("utf-8"), errors="replace")
    except LookupError:
        text = raw.decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n")


def _unquoted(text: str) -> str:
    kept: list[str] = []
    for each in text.split("\n"):
        if each.lstrip().startswith(">"):
            _drop_attribution(kept)
        elif MARKER in each or _END.fullmatch(each.strip() or "x"):
            break
        else:
            kept.append(each.rstrip())
    _drop_attribution(kept, only_english=True)
    return "\n".join(kept).strip()


def _drop_attribution(kept: list[str], *, only_english: bool = False) -> None:
    """Remove a line such as “On Monday, Ann wrote:” before quoted text; mail programs may wrap it into two lines."""
    while kept and not kept[-1].strip():
        kept.pop()
    for count in (1, 2):
        last = " ".join(kept[-count:]).strip()
        english = bool(re.fullmatch(r"on\b.{5,300}\bwrote:", last, re.IGNORECASE))
        if len(kept) >= count and (english or (count == 1 and not only_english and _is_attribution(last))):
            del kept[-count:]
            return


def _is_attribution(text: str) -> bool:
    return "@" in text and _ATTRIBUTION.fullmatch(text) is not None


class _Text(HTMLParser):
    """Extracts the text of an HTML message; lines in a block quotation begin with “>”."""

    _BREAKS = frozenset({"p", "div", "br", "li", "tr", "h1", "h2", "h3", "blockquote"})
    _SILENT = frozenset({"style", "script", "head", "title"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines = [""]
        self._quoted = self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._quoted += tag == "blockquote"
        self._silent += tag in self._SILENT
        self._turn(tag)

    def handle_endtag(self, tag: str) -> None:
        self._quoted -= tag == "blockquote" and self._quoted > 0
        self._silent -= tag in self._SILENT and self._silent > 0
        self._turn(tag)

    def handle_data(self, data: str) -> None:
        if self._silent == 0:
            self.lines[-1] += re.sub(r"\s+", " ", data)

    def _turn(self, tag: str) -> None:
        if tag in self._BREAKS:
            self.lines.append("> " if self._quoted else "")


def _from_html(text: str) -> str:
    parser = _Text()
    parser.feed(text)
    parser.close()
    return "\n".join(_trimmed(parser.lines))


def _trimmed(lines: Sequence[str]) -> Iterator[str]:
    return (each.strip() for each in lines)
