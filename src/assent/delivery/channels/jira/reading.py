"""Parses Jira webhooks and issues: the breakpoint that an issue belongs to, and the answers in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, is_array, is_object
from assent.core.timestamps import SECOND, from_iso
from assent.delivery.channels.jira.text import plain
from assent.delivery.ports import Heard, Wish

LABEL, OURS = "breakpoint", "bp-"
_GOES_ON = re.compile(r"\s*\w+\b(?:[^\S\n]+\w|[^\n]*\?)")
"""Matches a sentence such as “approve only once…” or a question, neither of which counts as an approval."""
_WORDS = re.compile(r"\s*(approved?|reject(?:ed)?)\b[\s:.,!–—-]*(.*)", re.IGNORECASE | re.DOTALL)
_TOGETHER = 60 * SECOND
"""A comment that the same person makes within this time of a move is treated as the reason for the move."""


@dataclass(frozen=True, slots=True)
class Said:
    key: str
    approved: bool
    comment: str
    by: str
    mention: str
    at: int
    """In microseconds. For a comment: when an approval was created, or when a rejection was last edited."""
    in_words: bool = False
    """Whether the answer is a comment, whose author can be asked for a reason."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Defines what counts as an answer: statuses, by their lowercase names, and optionally comments."""

    approve: Mapping[str, str]
    reject: Mapping[str, str]
    words: bool

    @property
    def statuses(self) -> dict[str, str]:
        return {**self.approve, **self.reject}

    def read(self, told: Mapping[str, Json], fingerprint: str, *, me: str | None) -> Heard | None:
        """Return the answer in a Jira webhook; ignore answers from our own account."""
        issue: Json = told.get("issue")
        key: Json = issue.get("key") if is_object(issue) else None
        about = breakpoint_id(issue)
        if not isinstance(key, str) or about is None:
            return None
        said = self._said(told, key, fingerprint)
        if said is None or not said.by or said.by == me:
            return None
        return Heard(
            key=said.key,
            wish=Wish.ANSWER,
            identity=said.by,
            breakpoint_id=about,
            comment=said.comment or None,
            trace={"key": str(key)},
            said={
                "key": key,
                "approved": said.approved,
                "mention": said.mention,
                "summary": _summary(issue),
                "inWords": said.in_words,
            },
        )

    def found(
        self, issue: Mapping[str, Json], history: Sequence[Mapping[str, Json]], comments: Sequence[Mapping[str, Json]]
    ) -> list[dict[str, Any]]:
        """Return each person's latest answer in the format of a Jira webhook, oldest first."""
        moves = sorted((each for each in history if _moved_to(each)), key=_order)
        told: list[dict[str, Any]] = [{"issue": issue, "comment": each} for each in comments]
        for each in moves:
            if _moved_to(each).lower() in self.statuses:
                beside = sorted((one for one in comments if _together(one, each)), key=_order)[-1:]
                move = {"issue": issue, "changelog": each, "user": each.get("author")}
                told.append(move | ({"comment": beside[0]} if beside else {}))
        found = [(said, each) for each in told if (said := self._said(each, "", "")) is not None]
        last: dict[str, dict[str, Any]] = {}
        # If one person approved and rejected at the same time, the rejection counts.
        for said, each in sorted(found, key=lambda pair: (pair[0].at, not pair[0].approved), reverse=True):
            last.setdefault(said.by, each)
        # A move that was reverted before this poll does not count: the issue must still have the last move's status.
        stands = moves[-1] if moves and _moved_to(moves[-1]).lower() == status(issue) else None
        return [each for each in reversed(last.values()) if each.get("changelog", stands) is stands]

    def _said(self, told: Mapping[str, Json], key: str, fingerprint: str) -> Said | None:
        return self._moved(told, key, fingerprint) or self._worded(told, key)

    def _moved(self, told: Mapping[str, Json], key: str, fingerprint: str) -> Said | None:
        log: Json = told.get("changelog")
        name = _moved_to(log) if is_object(log) else ""
        if not is_object(log) or name.lower() not in self.statuses:
            return None
        approved = name.lower() in self.approve
        by, mention = account(told.get("user"))
        comment: Json = told.get("comment")
        theirs = is_object(comment) and _untouched(comment) and account(comment.get("author"))[0] == by
        words = plain(comment.get("body")) if is_object(comment) and theirs else ""
        # The change ID is signed, and polling finds the same one; neither is true of a webhook's delivery header.
        change = f"{key}:change:{log.get('id') or fingerprint}"
        return Said(change, approved, words, by, mention, _at(log))

    def _worded(self, told: Mapping[str, Json], key: str) -> Said | None:
        comment: Json = told.get("comment")
        deleted = told.get("webhookEvent") == "comment_deleted"
        if not self.words or deleted or not is_object(comment) or not _untouched(comment):
            return None
        found = _WORDS.fullmatch(plain(comment.get("body")))
        if found is None or found[2].split("\n", 1)[0].rstrip().endswith("?"):
            return None
        approved = found[1].lower().startswith("approve")
        if approved and _GOES_ON.match(plain(comment.get("body"))):
            return None
        # Editing a comment must not make an approval newer than a later rejection.
        at = _at(comment) if approved else max(_at(comment), _at(comment, "updated"))
        said_by = account(comment.get("author"))
        return Said(f"{key}:comment:{comment.get('id')}", approved, found[2].strip(), *said_by, at, in_words=True)


def breakpoint_id(issue: Json) -> str | None:
    fields: Json = issue.get("fields") if is_object(issue) else None
    labels: Json = fields.get("labels") if is_object(fields) else None
    found = [each for each in labels if isinstance(each, str)] if is_array(labels) else []
    ours = [each.removeprefix(OURS) for each in found if each.startswith(OURS)]
    # We set exactly one such label; if there are several, it is unclear which breakpoint is meant.
    return ours[0] if LABEL in found and len(ours) == 1 else None


def _summary(issue: Json) -> str:
    fields: Json = issue.get("fields") if is_object(issue) else None
    return str(fields.get("summary", "")) if is_object(fields) else ""


def status(issue: Json) -> str:
    fields: Json = issue.get("fields") if is_object(issue) else None
    found: Json = fields.get("status") if is_object(fields) else None
    return str(found.get("name", "")).lower() if is_object(found) else ""


def account(user: Json) -> tuple[str, str]:
    """Return an account's ID and its ID for mentions: the same on Jira Cloud, key and name on Data Center."""
    found = user if is_object(user) else {}
    names = [each for name in ("accountId", "key", "name") if isinstance(each := found.get(name), str) and each]
    return (names[0], names[0] if "accountId" in found else names[-1]) if names else ("", "")


def _moved_to(log: Mapping[str, Json]) -> str:
    items: Json = log.get("items")
    moves = [each for each in items if is_object(each) and each.get("field") == "status"] if is_array(items) else []
    return str(moves[-1].get("toString", "")) if moves else ""


def _order(each: Mapping[str, Json]) -> tuple[int, int]:
    """Return a key that sorts from oldest to newest, regardless of Jira's order."""
    number = str(each.get("id", ""))
    return _at(each), int(number) if number.isascii() and number.isdigit() else 0


def _at(each: Mapping[str, Json], name: str = "created") -> int:
    try:
        return from_iso(str(each.get(name)))
    except ValueError:
        return 0


def _untouched(comment: Mapping[str, Json]) -> bool:
    """Return whether only the author edited the comment: edits by others must not count as the author's answer."""
    return account(comment.get("updateAuthor") or comment.get("author")) == account(comment.get("author"))


def _together(comment: Mapping[str, Json], move: Mapping[str, Json]) -> bool:
    try:
        apart = abs(from_iso(str(comment.get("created"))) - from_iso(str(move.get("created"))))
    except ValueError:
        return False
    return apart <= _TOGETHER and account(comment.get("author")) == account(move.get("author"))
