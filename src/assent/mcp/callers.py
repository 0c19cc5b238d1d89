"""Who calls a tool: whose token it asks with, and whose token an answer given in the client may carry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from assent.domain.secrets import PREFIXES
from assent.sdk.connection import Connection
from assent.sdk.errors import BadAddress
from assent.sdk.visible import visible

REVIEWER_HEADER = "assent-reviewer-token"
LONGEST_NAME = 100

Call: TypeAlias = Context[Any, Any]
"""One call of a tool, as the protocol carries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    url: str | None
    token: str
    agent_id: str
    ttl_seconds: int | None = None
    """How long people have, where the agent does not say."""
    reviewer_token: str | None = None
    """A person's own token: with it, what that person fills in where the agent runs is a decision."""


Callers: TypeAlias = Callable[[Call], Caller]


def configured(environment: Mapping[str, str], *, agent_id: str | None, ttl_seconds: int | None = None) -> Callers:
    """Return who calls over standard input: whoever the environment of this process says, always."""
    token, url = environment.get("ASSENT_TOKEN", ""), environment.get("ASSENT_URL")
    if not token:
        msg = "Set ASSENT_TOKEN to an agent token. Create one with `assent token create --kind agent --name NAME`."
        raise BadAddress(msg)
    Connection(url, token)  # what cannot be an address is told to the person who starts it
    reviewer = _reviewer(environment.get("ASSENT_REVIEWER_TOKEN"), token)

    def caller(call: Call) -> Caller:
        return Caller(
            url=url,
            token=token,
            agent_id=agent_id or _client_name(call),
            ttl_seconds=ttl_seconds,
            reviewer_token=reviewer,
        )

    return caller


def passed_through(url: str | None, *, agent_id: str | None, ttl_seconds: int | None = None) -> Callers:
    """Return who calls over HTTP: whoever the request itself says; this process has no token to lend."""

    def caller(call: Call) -> Caller:
        headers = call.headers or {}
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            msg = "Missing bearer token. Send an agent token. No question was created."
            raise ToolError(msg)
        try:
            reviewer = _reviewer(headers.get(REVIEWER_HEADER), token)
        except BadAddress as error:
            raise ToolError(error.message) from error
        return Caller(
            url=url,
            token=token,
            agent_id=agent_id or _client_name(call),
            ttl_seconds=ttl_seconds,
            reviewer_token=reviewer,
        )

    return caller


def _reviewer(token: str | None, agents: str) -> str | None:
    if token and (token == agents or not token.startswith(PREFIXES["person"])):
        msg = (
            "The reviewer token must belong to a person and differ from the agent token."
            " Agents cannot approve or reject."
        )
        raise BadAddress(msg)
    return token or None


def _client_name(call: Call) -> str:
    """Return the name that the client gives itself; which names a token may use is the server's to say."""
    about = call.session.client_params
    return visible(about.client_info.name).strip()[:LONGEST_NAME] or "mcp" if about else "mcp"
