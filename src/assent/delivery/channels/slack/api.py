"""A client for Slack's Web API whose errors tell operators what to do."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from assent.core.canonical import Json, is_object
from assent.kernel.outbound import Outbound, Permanent, Reply, Transient

API = "https://slack.com/api/"
BOT, APP = "token", "appToken"
"""The settings that refer to the tokens."""

_AGAIN = "Reinstall the app and store the new token in the secret referenced by the token setting."
_HOPELESS: dict[str, str] = {
    "invalid_auth": f"Slack rejected the token. {_AGAIN}",
    "not_authed": f"The token is empty. {_AGAIN}",
    "account_inactive": f"The app was removed from this Slack workspace. {_AGAIN}",
    "token_revoked": f"The token was revoked. {_AGAIN}",
    "token_expired": f"The token has expired. {_AGAIN}",
    "not_allowed_token_type": "Wrong token type. The bot token must begin with xoxb-, the app-level token with xapp-.",
    "channel_not_found": "Slack channel not found. Check the room setting. If the channel is private, invite the app.",
    "is_archived": "The Slack channel is archived. Set room to a different channel.",
    "not_in_channel": "The app is not a member of the Slack channel. Type /invite @Assent in the channel.",
    "missing_scope": "The app is missing a scope. Compare its scopes with the manifest, then reinstall the app.",
    "restricted_action": "The workspace does not allow apps to post in this channel. Ask a Slack administrator.",
    "user_disabled": "This Slack account is deactivated.",
    "user_not_found": "This Slack account no longer exists. The person must link their account again.",
    "users_not_found": "No Slack account uses this person's email address. The person must link their account.",
    "cannot_dm_bot": "This is a bot account, which cannot receive messages.",
    "invalid_blocks": "Slack rejected the message format. Please report this.",
    "msg_too_long": "Slack rejected the message because it is too long. Please report this.",
}
_SLOW_DOWN = "ratelimited"
_WORD = re.compile(r"[a-z_]{1,60}")


class Refused(Permanent):
    """An error from Slack that a retry will not fix."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message, unsent=True)
        self.error = error


class Failed(Transient):
    def __init__(self, error: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message, unsent=error == _SLOW_DOWN, retry_after=retry_after)
        self.error = error


class CutShort(Transient):
    """The response was truncated because it was too long."""


@dataclass(frozen=True, slots=True)
class SlackApi:
    outbound: Outbound
    url: str
    secret: Callable[[str], str]
    """Returns the token that a setting refers to; raises Permanent if it cannot be read."""

    async def call(
        self, method: str, arguments: Mapping[str, object] | None = None, *, using: str = BOT
    ) -> dict[str, Any]:
        """Call a method and return its response; raise Refused or Failed if Slack reports an error."""
        return self._read(method, await self._post(method, using, arguments or {}))

    async def test(self) -> tuple[dict[str, Any], frozenset[str] | None]:
        """Return the response of auth.test and the token's scopes, or None if Slack does not send them."""
        reply = await self._post("auth.test", BOT, {})
        told = reply.headers.get("x-oauth-scopes")
        scopes = frozenset(each.strip() for each in told.split(",")) if told is not None else None
        return self._read("auth.test", reply), scopes

    async def _post(self, method: str, using: str, arguments: Mapping[str, object]) -> Reply:
        # All methods accept form fields, but only some accept JSON.
        fields = {name: _field(value) for name, value in arguments.items() if value is not None}
        headers = {
            "authorization": f"Bearer {self.secret(using)}",
            "content-type": "application/x-www-form-urlencoded",
        }
        return await self.outbound.post(self.url + method, body=urlencode(fields).encode(), headers=headers)

    @staticmethod
    def _read(method: str, reply: Reply) -> dict[str, Any]:
        try:
            answer: Json = json.loads(reply.body)
        # The body is truncated at the size limit, which leaves invalid JSON.
        except ValueError as error:
            raise CutShort(f"Slack's response to {method} could not be read.") from error
        if not is_object(answer):
            raise Transient(f"Slack's response to {method} could not be read.")
        if answer.get("ok") is True:
            return answer
        raise _failure(method, answer.get("error"), reply.headers)


def _field(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _failure(method: str, told: object, headers: Mapping[str, str]) -> Permanent | Transient:
    # The error ends up in logs and on pages, so accept only a plain word.
    error = told if isinstance(told, str) and _WORD.fullmatch(told) else "an unknown error"
    if error in _HOPELESS:
        return Refused(error, f"{_HOPELESS[error]} ({error})")
    after = headers.get("retry-after", "")
    wait = int(after) if after.isascii() and after.isdigit() and len(after) < 6 else None  # noqa: PLR2004
    if error == _SLOW_DOWN:
        return Failed(error, "Slack rate limit reached.", retry_after=wait or 30)
    return Failed(error, f"Slack returned {error} for {method}.", retry_after=wait)


def as_object(value: Json) -> dict[str, Any]:
    """Return the value if it is a JSON object, otherwise an empty object."""
    return value if is_object(value) else {}
