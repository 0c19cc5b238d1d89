"""What Jira tells, read: which breakpoint an issue stands for, and whether somebody answered it there."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.channels.jira.text import plain
from assent.channels.wording import line
from assent.domain.canonical import Json, is_array, is_object
from assent.domain.instants import SECOND, from_iso
from assent.domain.terms import MAX_TEXT
from assent.ports import Heard, Wish

LABEL, OURS = "breakpoint", "bp-"
_WORDS = re.compile(r"\s*(approved?|reject(?:ed)?)\b[\s:.,!–—-]*(.*)", re.IGNORECASE | re.DOTALL)
_TOGETHER = 60 * SECOND
"""How far a comment may be from a move and still be about it."""


@dataclass(frozen=True, slots=True)
class Said:
    key: str
    approved: bool
    comment: str
    by: str
    mention: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """What counts as an answer: names of statuses by how they are compared, and whether words do."""

    approve: Mapping[str, str]
    reject: Mapping[str, str]
    words: bool

    @property
    def statuses(self) -> dict[str, str]:
        return {**self.approve, **self.reject}

    def read(self, told: Mapping[str, Json], fingerprint: str, *, me: str | None) -> Heard | None:
        """Find an answer in a message from Jira; what we did there ourselves is none."""
        issue: Json = told.get("issue")
        key: Json = issue.get("key") if is_object(issue) else None
        about = breakpoint_id(issue)
        if not isinstance(key, str) or about is None:
            return None
        said = self._moved(told, key, fingerprint) or self._worded(told, key)
        if said is None or not said.by or said.by == me:
            return None
        return Heard(
            key=said.key,
            wish=Wish.ANSWER,
            identity=said.by,
            breakpoint_id=about,
            comment=said.comment[:MAX_TEXT] or None,
            trace={"key": str(key)},
            said={"key": key, "approved": said.approved, "mention": said.mention, "summary": _summary(issue)},
        )

    def found(
        self, issue: Mapping[str, Json], history: Sequence[Mapping[str, Json]], comments: Sequence[Mapping[str, Json]]
    ) -> list[dict[str, Any]]:
        """Return what we found ourselves in the shape in which Jira would have told it."""
        moves = sorted((each for each in history if _moved_to(each)), key=_number)
        told: list[dict[str, Any]] = []
        # What was taken back before we looked is not said: the issue must still be where the last move led.
        if moves and _moved_to(moves[-1]).lower() == status(issue):
            beside = [each for each in comments if _together(each, moves[-1])][:1]
            move = {"issue": issue, "changelog": moves[-1], "user": moves[-1].get("author")}
            told.append(move | ({"comment": beside[0]} if beside else {}))
        if self.words:
            told += [{"issue": issue, "comment": each} for each in reversed(comments)]
        return told

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
        reason = "" if approved else f"Rejected in Jira as {line(name, 60)}"
        # The number of the change is signed, and the same when we find it ourselves; a webhook's header is neither.
        return Said(f"{key}:change:{log.get('id') or fingerprint}", approved, words or reason, by, mention)

    def _worded(self, told: Mapping[str, Json], key: str) -> Said | None:
        comment: Json = told.get("comment")
        deleted = told.get("webhookEvent") == "comment_deleted"
        if not self.words or deleted or not is_object(comment) or not _untouched(comment):
            return None
        found = _WORDS.fullmatch(plain(comment.get("body")))
        if found is None or found[2].split("\n", 1)[0].rstrip().endswith("?"):
            return None
        approved = found[1].lower().startswith("approve")
        reason = found[2].strip() or ("" if approved else "Rejected in Jira by a comment")
        return Said(f"{key}:comment:{comment.get('id')}", approved, reason, *account(comment.get("author")))


def breakpoint_id(issue: Json) -> str | None:
    fields: Json = issue.get("fields") if is_object(issue) else None
    labels: Json = fields.get("labels") if is_object(fields) else None
    found = [each for each in labels if isinstance(each, str)] if is_array(labels) else []
    ours = [each.removeprefix(OURS) for each in found if each.startswith(OURS)]
    # A second one was put there by somebody, and which is meant is anybody's guess.
    return ours[0] if LABEL in found and len(ours) == 1 else None


def _summary(issue: Json) -> str:
    fields: Json = issue.get("fields") if is_object(issue) else None
    return str(fields.get("summary", "")) if is_object(fields) else ""


def status(issue: Json) -> str:
    fields: Json = issue.get("fields") if is_object(issue) else None
    found: Json = fields.get("status") if is_object(fields) else None
    return str(found.get("name", "")).lower() if is_object(found) else ""


def account(user: Json) -> tuple[str, str]:
    """Return who it is, and how they are mentioned: the same in the cloud, the key and the name elsewhere."""
    found = user if is_object(user) else {}
    names = [each for name in ("accountId", "key", "name") if isinstance(each := found.get(name), str) and each]
    return (names[0], names[0] if "accountId" in found else names[-1]) if names else ("", "")


def _moved_to(log: Mapping[str, Json]) -> str:
    items: Json = log.get("items")
    moves = [each for each in items if is_object(each) and each.get("field") == "status"] if is_array(items) else []
    return str(moves[-1].get("toString", "")) if moves else ""


def _number(change: Mapping[str, Json]) -> int:
    number = str(change.get("id", ""))
    return int(number) if number.isascii() and number.isdigit() else 0


def _untouched(comment: Mapping[str, Json]) -> bool:
    """Whether it says what its author wrote: others may change it, and must not speak for them."""
    return account(comment.get("updateAuthor") or comment.get("author")) == account(comment.get("author"))


def _together(comment: Mapping[str, Json], move: Mapping[str, Json]) -> bool:
    try:
        apart = abs(from_iso(str(comment.get("created"))) - from_iso(str(move.get("created"))))
    except ValueError:
        return False
    return apart <= _TOGETHER and account(comment.get("author")) == account(move.get("author"))
