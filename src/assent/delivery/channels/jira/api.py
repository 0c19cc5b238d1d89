"""A minimal Jira client, for Jira Cloud (REST API 3) and Jira Data Center (REST API 2)."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from assent.core.canonical import Json, is_array, is_object
from assent.delivery.channels.fields import Hidden
from assent.delivery.channels.jira.text import Body, document, wiki
from assent.kernel.outbound import Outbound, Permanent, Reply, Transient, Undelivered

_ADVICE = {
    HTTPStatus.UNAUTHORIZED: "unknown user or token. Check the user setting and the secret that contains the token",
    HTTPStatus.FORBIDDEN: "the user does not have permission. Check the user's permissions in the Jira project",
    HTTPStatus.NOT_FOUND: "not found. Check the url and project settings, and whether the user can see the project",
    HTTPStatus.BAD_REQUEST: (
        "the request is not valid. Check the issueType, approve and reject settings, and the required fields of the "
        "Jira project"
    ),
}
_PAGE = 30
_NOT_NOW = frozenset({HTTPStatus.TOO_MANY_REQUESTS})
SETTLES = 30
"""Seconds after which a search reliably finds a new issue."""


@dataclass(frozen=True, slots=True)
class JiraApi:
    outbound: Outbound
    url: str
    user: str | None
    """The token's user on Jira Cloud; None on Jira Data Center, where the token identifies its user."""
    token: Hidden

    @property
    def cloud(self) -> bool:
        return self.user is not None

    def text(self, body: Body) -> Json:
        return document(body) if self.cloud else wiki(body)

    async def get(self, path: str, **query: str | int) -> Json:
        asked = f"?{urlencode(query)}" if query else ""
        return await self._read(f"{self._address(path)}{asked}")

    async def post(self, path: str, body: Mapping[str, Any]) -> Json:
        """Send a request once. If its outcome is unknown, raise Transient to retry when a search can find the issue."""
        encoded = json.dumps(body, ensure_ascii=True).encode()
        try:
            reply = await self.outbound.post(self._address(path), body=encoded, headers=self._headers())
        except Transient as error:
            advised = self._advised(error)
            if isinstance(advised, Transient) and error.status not in _NOT_NOW:
                wait = max(SETTLES, error.retry_after or 0)
                raise Transient(error.message, status=error.status, unsent=error.unsent, retry_after=wait) from error
            raise advised from error
        except Permanent as error:
            raise self._advised(error) from error
        return _json(reply)

    async def search(self, jql: str, *, fields: str, most: int) -> list[dict[str, Json]]:
        """Return the first `most` matching issues, read in pages small enough for the response size limit."""
        found: list[dict[str, Json]] = []
        after: dict[str, str | int] = {}
        while len(found) < most:
            size = min(_PAGE, most - len(found))
            path = "search/jql" if self.cloud else "search"
            page = await self.get(path, jql=jql, fields=fields, maxResults=size, **after)
            issues = _objects(page, "issues")
            found += issues
            # Jira Cloud returns a token for the next page; Jira Data Center uses offsets.
            token: Json = page.get("nextPageToken") if is_object(page) else None
            if not issues or (self.cloud and not isinstance(token, str)) or len(issues) < size:
                break
            after = {"nextPageToken": token} if self.cloud else {"startAt": len(found)}
        return found

    async def history(self, key: str) -> list[dict[str, Json]]:
        """Return the changes to an issue, oldest first; on Jira Cloud, only the last 50."""
        if not self.cloud:
            found = await self.get(f"issue/{quote(key)}", expand="changelog", fields="status")
            log: Json = found.get("changelog") if is_object(found) else None
            return _objects(log, "histories")
        page = await self.get(f"issue/{quote(key)}/changelog", startAt=0, maxResults=50)
        total: Json = page.get("total") if is_object(page) else 0
        if isinstance(total, int) and total > 50:  # noqa: PLR2004  # the size of the page above
            page = await self.get(f"issue/{quote(key)}/changelog", startAt=total - 50, maxResults=50)
        return _objects(page, "values")

    async def comments(self, key: str) -> list[dict[str, Json]]:
        """Return the latest 20 comments on an issue, newest first."""
        return _objects(await self.get(f"issue/{quote(key)}/comment", orderBy="-created", maxResults=20), "comments")

    async def _read(self, url: str) -> Json:
        try:
            return _json(await self.outbound.get(url, headers=self._headers()))
        except Undelivered as error:
            raise self._advised(error) from error

    def _address(self, path: str) -> str:
        return f"{self.url}/rest/api/{3 if self.cloud else 2}/{path}"

    def _headers(self) -> dict[str, str]:
        token = self.token.value()
        if self.user is None:
            proof = f"Bearer {token}"
        else:
            proof = f"Basic {base64.b64encode(f'{self.user}:{token}'.encode()).decode()}"
        return {"authorization": proof, "content-type": "application/json", "accept": "application/json"}

    def _advised(self, error: Undelivered) -> Undelivered:
        """Turn an error that a retry will not fix into a Permanent error with advice; return other errors unchanged."""
        advice = next((words for status, words in _ADVICE.items() if status == error.status), None)
        if advice is None:
            return error
        return Permanent(f"{urlsplit(self.url).hostname} responded with {error.status}: {advice}.", status=error.status)


def _json(reply: Reply) -> Json:
    if not reply.body:
        return None
    try:
        found: Json = json.loads(reply.body)
    except ValueError as error:
        raise Transient("Jira's response is not JSON or is too long.") from error
    return found


def _objects(page: Json, name: str) -> list[dict[str, Json]]:
    found: Json = page.get(name) if is_object(page) else None
    return [each for each in found if is_object(each)] if is_array(found) else []
