"""The Jira channel: creates one issue per breakpoint; people answer by moving the issue or commenting on it."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import structlog

from assent.core.breakpoint import Breakpoint
from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import AlreadyEnded, DigestMismatch, InvalidRequest, Unauthenticated, Unavailable
from assent.core.terms import MAX_TEXT, Answer, reason
from assent.core.timestamps import SECOND
from assent.delivery.channels.fields import Fields, Hidden
from assent.delivery.channels.jira.api import SETTLES, JiraApi
from assent.delivery.channels.jira.reading import LABEL, OURS, Meaning, account, breakpoint_id, status
from assent.delivery.channels.jira.text import Body, plain
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.wording import facts, headline, lead, line, outcome, question
from assent.delivery.message import Digest, Note, Purpose
from assent.delivery.ports import Heard, Posted, Told
from assent.kernel.outbound import BadUrl, Permanent, Transient, Undelivered, before_sending
from assent.kernel.ports import Incoming

SECRETS = frozenset({"token", "bearer", "webhookSecret"})
PROOFS = frozenset({"url", "webhookSecret"})
_KNOWN = SECRETS | {
    *("url", "project", "issueType", "user", "labels", "approve", "reject", "commentWords", "closeTransition"),
    *("pollSeconds", "timezone"),
}
NO_REASON = "requires a reason. Comment again, for example “reject: the tests fail”"
PATIENCE = 25.0
"""Timeout in seconds for all requests of one attempt; shorter than a delivery's lease."""
_LONGEST_QUESTION = 4_000
_MOST = 600
_FIRST_LOOK, _OVERLAP, _LONGEST_LOOK = 24 * 60, 10, 30 * 24 * 60
"""In minutes: how far back the first poll looks, how much polls overlap, and the limit after an outage."""
_LONGEST_PAUSE = 300
_MOST_KEPT = 5_000
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Polled(Incoming):
    """An answer found by polling. It does not need a signature, because HTTP requests are never of this type."""


class JiraChannel:
    def __init__(self, settings: Mapping[str, Any], tools: Tools, *, patience: float = PATIENCE) -> None:
        given = Fields(settings, tools, known=_KNOWN)
        self._tools = tools
        self._patience = patience
        self._api = _api(given, tools)
        self._project = _checked(given.text("project"), r"[A-Z][A-Z0-9_]{1,50}", "/settings/project", "OPS")
        self._type = given.optional("issueType") or "Task"
        self._labels = tuple(
            _checked(each, r"[^\s\"\\]{1,200}", f"/settings/labels/{n}", "audit")
            for n, each in enumerate(given.texts("labels"))
        )
        self._meaning = Meaning(_names(given, "approve"), _names(given, "reject"), given.flag("commentWords"))
        if self._meaning.approve.keys() & self._meaning.reject.keys():
            raise InvalidRequest.at("/settings/reject", "must not contain a status that is also in approve")
        self._close = given.optional("closeTransition")
        self._webhook = given.secret("webhookSecret")
        self._zone = given.zone("timezone")
        self._pause = given.number("pollSeconds", 30, most=3_600)
        self._me: str | None = None
        self._looked_at: int | None = None
        self._heard_at: int | None = None
        self._seen: OrderedDict[str, str] = OrderedDict()
        self._refused: OrderedDict[str, str] = OrderedDict()

    async def send(self, note: Note) -> Posted:
        note = self._local(note)
        async with _in_time(self._patience):
            with before_sending():
                found = (note.thread or {}).get("key") or await self._find(note.breakpoint.id)
            if found is None:
                found = await self._create(note)
            elif note.purpose is not Purpose.ASK:
                await self._comment(found, Body(lead=lead(note), link=("Review", note.review_url)), note)
        return self._posted(found)

    async def close(self, note: Note) -> Posted | None:
        """Add the outcome to the issue as a comment, and apply the `closeTransition` setting."""
        note = self._local(note)
        async with _in_time(self._patience):
            key = (note.thread or {}).get("key") or await self._find(note.breakpoint.id)
            if key is None:
                return None
            await self._comment(key, Body(lead=f"Assent: {outcome(note)}"), note)
            moved = await self._move(key, note.breakpoint) if self._close else ""
        return self._posted(key, **({"transition": moved} if moved else {}))

    async def digest(self, digest: Digest) -> Posted:
        """Raise Permanent, because every breakpoint gets its own issue."""
        del digest
        raise Permanent("Jira does not support digests: each breakpoint gets its own issue.")

    async def check(self) -> str:
        await self._find_out_who_we_are()
        found = await self._api.get(f"project/{quote(self._project)}")
        name: Json = found.get("name") if is_object(found) else None
        return f"Signed in to Jira. Project {self._project}: {line(str(name or self._project), 60)}."

    def _local(self, note: Note) -> Note:
        """Return the note with the time zone from the settings, because an issue has many readers."""
        return replace(note, to=replace(note.to, zone=self._zone or note.to.zone))

    async def _find(self, breakpoint_id: str) -> str | None:
        """Find a breakpoint's issue, because Jira does not have idempotency keys that would prevent duplicates."""
        jql = f'project = "{self._project}" AND labels = "{OURS}{breakpoint_id}" ORDER BY created ASC'
        found = await self._api.search(jql, fields="labels", most=1)
        key: Json = found[0].get("key") if found else None
        return key if isinstance(key, str) else None

    async def _create(self, note: Note) -> str:
        asked = note.breakpoint
        high = " High risk: open Review to approve or reject." if asked.risk == "high" else ""
        body = Body(
            lead=f"{lead(note)}{high}",
            question=question(asked, _LONGEST_QUESTION),
            facts=facts(asked, note.to.zone),
            link=("Review", note.review_url),
        )
        fields = {
            "project": {"key": self._project},
            "issuetype": {"name": self._type},
            "summary": _summary(asked),
            "labels": [LABEL, f"{OURS}{asked.id}", *self._labels],
            "description": self._api.text(body),
        }
        made = await self._api.post("issue", {"fields": fields})
        key: Json = made.get("key") if is_object(made) else None
        if not isinstance(key, str):
            raise Transient("Jira created an issue but did not return its key.", retry_after=SETTLES)
        return key

    async def _comment(self, key: str, body: Body, note: Note) -> None:
        if note.attempt > 1:
            # An earlier attempt may have succeeded although its response was lost.
            said = [plain(each.get("body")) for each in await self._api.comments(key)]
            if any(note.id in each for each in said):
                return
        text = self._api.text(Body(lead=body.lead, link=body.link, reference=note.id))
        await self._api.post(f"issue/{quote(key)}/comment", {"body": text})

    async def _move(self, key: str, ended: Breakpoint) -> str:
        """Apply the configured transition; return an empty string, or the reason why this is not possible."""
        wanted = (self._close or "").lower()
        issue = await self._api.get(f"issue/{quote(key)}", fields="status")
        now = status(issue)
        answered_here = (ended.result or {}).get("via") == "jira" and now in self._meaning.statuses
        if now == wanted or answered_here:
            return ""
        page = await self._api.get(f"issue/{quote(key)}/transitions")
        offered: Json = page.get("transitions") if is_object(page) else None
        for each in offered if is_array(offered) else ():
            target: Json = each.get("to") if is_object(each) else None
            leads_to = str(target.get("name", "")).lower() if is_object(target) else ""
            if is_object(each) and wanted in {str(each.get("name", "")).lower(), leads_to}:
                if leads_to != now:
                    await self._api.post(f"issue/{quote(key)}/transitions", {"transition": {"id": each.get("id")}})
                return ""
        return f"the transition {self._close} is not available for this issue"

    def _posted(self, key: str, **more: str) -> Posted:
        return Posted({"key": key, "url": f"{self._api.url}/browse/{key}", **more})

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        if not isinstance(incoming, Polled):
            self._verify(incoming)
        try:
            told: Json = json.loads(incoming.body)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest.at("", "must be JSON") from error
        self._heard_at = _steady()
        fingerprint = hashlib.sha256(incoming.body).hexdigest()
        heard = self._meaning.read(told, fingerprint, me=self._me) if is_object(told) else None
        return [heard] if heard is not None else []

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        """Return the answer; raise DigestMismatch if the issue's summary or label was changed."""
        if heard.said.get("summary") != _summary(current):
            msg = "The issue summary was changed."
            raise DigestMismatch(msg)
        approved = heard.said.get("approved") is True
        # If the issue was moved, the rejection counts without a reason, because the move has already happened.
        asks = not approved and heard.said.get("inWords") is True
        comment = reason(heard.comment, NO_REASON) if asks else heard.comment
        if not approved and comment is not None:
            comment = comment[:MAX_TEXT]  # a long reason must not prevent a rejection; `reply` reports the truncation
        return Answer(approved=approved, comment=comment, digest=current.digest)

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        """Add a comment to the issue if an answer was not counted, or if its comment was truncated.

        Many people can read the issue, so the comment refers to Review for reasons that could be confidential.
        """
        key, who = heard.said.get("key"), heard.said.get("mention")
        cut = told.done and told.error is None and not told.again and _is_cut(heard)
        if (told.done and not cut) or isinstance(told.error, AlreadyEnded):
            return None
        if not isinstance(key, str) or heard.key in self._refused:
            return None
        # Comment only once, even if Jira sends the webhook again.
        _keep(self._refused, heard.key, "")
        what = "comment" if heard.said.get("inWords") is True else "move"
        words = f"Assent: this {what} was not counted. To see why, open Review."
        if cut:
            words = (
                f"Assent: the rejection was counted, but only the first {MAX_TEXT:,} characters of the comment were "
            )
            words += "stored."
        elif told.problems.get("/comment") == NO_REASON:
            words = f"Assent: a rejection {NO_REASON}."
        elif "/comment" in told.problems:
            moved = "Move the issue back, then move it again with another comment."
            advice = "Add a new comment." if what == "comment" else moved
            words = f"Assent: the comment {told.problems['/comment']}. It was not counted. {advice}"
        text = self._api.text(Body(lead=words, mention=who if isinstance(who, str) else None))
        if self._me is None:
            await self._find_out_who_we_are()
        # Never reply to our own account, because each reply would trigger another webhook.
        if heard.identity != self._me:
            await self._api.post(f"issue/{quote(key)}/comment", {"body": text})
        return None

    def _verify(self, incoming: Incoming) -> None:
        given = incoming.headers.get("x-hub-signature", "")
        secret = _secret(self._webhook)
        right = "sha256=" + hmac.new(secret.encode(), incoming.body, hashlib.sha256).hexdigest()
        # With an empty secret, anyone could compute the MAC.
        if not secret or not hmac.compare_digest(given.encode(), right.encode()):
            msg = "Invalid signature: it does not match this channel's webhookSecret."
            raise Unauthenticated(msg)

    async def listen(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        """Poll for changes until cancelled; this also finds answers whose webhook was lost."""
        if not self._pause or not (self._meaning.statuses or self._meaning.words):
            # Polling cannot find any answers, but `listen` must run until it is cancelled.
            await asyncio.Event().wait()
        failures = 0
        while True:
            try:
                await self.look(take)
                failures, pause = 0, self._pause
            except Undelivered as error:
                failures += 1
                asked = error.retry_after if isinstance(error, Transient) else None
                pause = max(min(self._pause * 2**failures, _LONGEST_PAUSE), asked or 0)
                _log.warning("jira_unreachable", error=error.message, pause=pause)
            await asyncio.sleep(pause)

    def heard_at(self) -> int | None:
        return self._heard_at

    async def look(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        """Poll once for the changes since the last successful poll."""
        now = self._tools.now()
        if self._me is None:
            await self._find_out_who_we_are()
        since = _FIRST_LOOK if self._looked_at is None else (now - self._looked_at) // (60 * SECOND) + _OVERLAP
        jql = f'project = "{self._project}" AND labels = {LABEL} AND updated >= -{min(since, _LONGEST_LOOK)}m'
        # If comments do not count as answers, only issues with one of these statuses can contain an answer.
        if not self._meaning.words:
            names = ", ".join(f'"{each}"' for each in self._meaning.statuses.values())
            jql += f" AND status in ({names})"
        for issue in await self._api.search(
            f"{jql} ORDER BY updated DESC", fields="summary,status,labels,updated", most=_MOST
        ):
            await self._look_at(issue, take)
        # Set only after success, so that the next poll also covers the period that a failed poll missed.
        self._looked_at = now
        self._heard_at = _steady()

    async def _look_at(
        self, issue: Mapping[str, Json], take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]
    ) -> None:
        key, fields = str(issue.get("key", "")), issue.get("fields")
        updated = str(fields.get("updated", "")) if is_object(fields) else ""
        if self._seen.get(key) == updated or breakpoint_id(issue) is None:
            return
        try:
            for told in self._meaning.found(issue, await self._api.history(key), await self._api.comments(key)):
                await take(Polled({}, json.dumps(told).encode(), self._tools.now()))
        except Unavailable:
            return  # the issue is not marked as seen, so that the next poll tries again
        _keep(self._seen, key, updated)

    async def _find_out_who_we_are(self) -> None:
        self._me = account(await self._api.get("myself"))[0] or None


def _api(given: Fields, tools: Tools) -> JiraApi:
    url = given.text("url").rstrip("/")
    try:
        tools.outbound.check_url(url)
    except BadUrl as error:
        raise InvalidRequest.at("/settings/url", str(error)) from error
    user, token, bearer = given.optional("user"), given.secret("token"), given.secret("bearer")
    if bearer is not None and user is None and token is None:
        return JiraApi(tools.outbound, url, None, bearer)
    if bearer is not None or user is None or token is None:
        raise InvalidRequest.at(
            "/settings/token", "set user and token for Jira Cloud, or set bearer for Jira Data Center"
        )
    return JiraApi(tools.outbound, url, user, token)


def _is_cut(heard: Heard) -> bool:
    return heard.said.get("approved") is not True and len(heard.comment or "") > MAX_TEXT


def _summary(asked: Breakpoint) -> str:
    """Return the issue's summary. It includes the breakpoint ID, so that a changed label cannot redirect an answer."""
    return f"{headline(asked, 160)} ({asked.id})"


def _names(given: Fields, name: str) -> dict[str, str]:
    """Return the configured status names by their lowercase form, for case-insensitive comparison."""
    found = given.texts(name)
    for place, each in enumerate(found):
        _checked(each, r"[^\"\\]{1,100}", f"/settings/{name}/{place}", "Approved")
    return {each.lower(): each for each in found}


def _checked(text: str, pattern: str, pointer: str, example: str) -> str:
    if re.fullmatch(pattern, text) is None:
        raise InvalidRequest.at(pointer, f"is not valid (example: {example})")
    return text


@contextlib.asynccontextmanager
async def _in_time(seconds: float) -> AsyncGenerator[None, None]:
    """Limit the duration of a block; delay the retry until a search would find an issue created despite the timeout."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as late:
        raise Transient("Jira did not respond in time.", retry_after=SETTLES) from late


def _secret(hidden: Hidden | None) -> str:
    try:
        return hidden.value() if hidden is not None else ""
    except Transient as error:
        raise Unauthenticated(error.message) from error


def _keep(kept: OrderedDict[str, str], key: str, value: str) -> None:
    kept[key] = value
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)


def _steady() -> int:
    return time.monotonic_ns() // 1000
