"""A tool's caller: the token used to ask questions, and the token used for answers given in the caller's client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from assent.core.secrets import PREFIXES
from assent.sdk.connection import Connection
from assent.sdk.errors import BadAddress
from assent.sdk.visible import visible

REVIEWER_HEADER = "assent-reviewer-token"
LONGEST_NAME = 100

Call: TypeAlias = Context[Any, Any]
"""The context of a tool call, from the MCP library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    url: str | None
    token: str
    agent_id: str
    ttl_seconds: int | None = None
    """Seconds until the deadline, if the agent does not set one."""
    reviewer_token: str | None = None
    """A person's token. If set, an answer in the agent's client counts as that person's decision."""


Callers: TypeAlias = Callable[[Call], Caller]


def configured(environment: Mapping[str, str], *, agent_id: str | None, ttl_seconds: int | None = None) -> Callers:
    """Return the caller over standard input, which is always defined by this process's environment."""
    token, url = environment.get("ASSENT_TOKEN", ""), environment.get("ASSENT_URL")
    if not token:
        msg = "Set ASSENT_TOKEN to an agent token. Create one with `assent token create --kind agent --name NAME`."
        raise BadAddress(msg)
    Connection(url, token)  # raises now if the URL is invalid
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
    """Return the caller over HTTP. Each request defines it, because this process has no token of its own."""

    def caller(call: Call) -> Caller:
        headers = call.headers or {}
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            msg = "Missing bearer token. Send an agent token in the Authorization header."
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
    """Return the name that the client reports; the server decides which names a token may use."""
    about = call.session.client_params
    return visible(about.client_info.name).strip()[:LONGEST_NAME] or "mcp" if about else "mcp"
