"""The MCP server, which offers the tools over standard input or streamable HTTP."""

import inspect
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.request_state import RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp

from assent.agents.mcp.callers import Callers
from assent.agents.mcp.tools import Tools
from assent.core.canonical import sha256
from assent.sdk.errors import BadAddress, UnknownArgument
from assent.sdk.keywords import refuse_unknown

PATH = "/mcp"
FORM_SECONDS = 7 * 24 * 3600.0
"""How long a form can stay open in a client; the breakpoint's own deadline also applies."""
DRAIN_SECONDS = 3
INSTRUCTIONS = (
    "Request human approval for an action before you perform it. Ask with create_breakpoint and wait with"
    " wait_for_breakpoint, or do both with ask_human. Continue only if approved is true. If a call fails or returns"
    " anything else, the action is not approved."
)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class _StrictServer(MCPServer[None]):
    """Rejects unknown arguments, which the library would ignore."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's signature
        super().__init__(*args, **kwargs)
        self._known: dict[str, frozenset[str]] = {}

    def know(self, tool: Callable[..., Any]) -> None:
        names = inspect.signature(tool).parameters
        self._known[tool.__name__] = frozenset(names) - {"call"}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            # Tools without known names accept any argument.
            refuse_unknown(name, arguments, self._known.get(name, arguments))
        except UnknownArgument as error:
            raise ToolError(error.message) from error
        return await super().call_tool(name, arguments, context)


def built(callers: Callers, *, verifier: "Bearer | None" = None) -> MCPServer[None]:
    # Tokens come from Assent, not from an OAuth server; the library requires an issuer but does not disclose it.
    auth = AuthSettings(issuer_url=AnyHttpUrl("http://assent.invalid"), resource_server_url=None) if verifier else None
    server = _StrictServer(
        "assent",
        title="Assent",
        version=version("assent"),
        instructions=INSTRUCTIONS,
        log_level="WARNING",
        request_state_security=RequestStateSecurity.ephemeral(ttl=FORM_SECONDS),
        auth=auth,
        token_verifier=verifier,
    )
    tools = Tools(callers)
    reads = ToolAnnotations(read_only_hint=True)
    asks = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    # Claude Code accepts only one block, so tools do not return structured output in addition to the text.
    for tool, annotations in (
        (tools.create_breakpoint, asks),
        (tools.get_breakpoint, reads),
        (tools.wait_for_breakpoint, reads),
        (tools.comment, asks),
        (tools.cancel_breakpoint, asks),
        (tools.ask_human, asks),
        (tools.permission_prompt, asks),
    ):
        server.add_tool(tool, annotations=annotations, structured_output=False)
        if tool != tools.permission_prompt:  # newer versions of Claude Code may send it more arguments
            server.know(tool)
    return server


class Bearer:
    """Accepts any token, because the Assent server checks it on every call."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if not token.strip():
            return None
        # Sessions and forms belong to the token that started them.
        return AccessToken(token=token, client_id=sha256(token.encode()), scopes=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The address to listen on, and the allowed host names, which prevent DNS rebinding."""

    host: str = "127.0.0.1"
    port: int = 7374
    hosts: Sequence[str] = ()
    """Additional values to accept in the Host header, such as the name of a proxy."""
    origins: Sequence[str] = ()
    """Web origins that may call the server; none by default."""

    def security(self, port: int) -> TransportSecuritySettings:
        # An IPv6 address is written in brackets in a Host header.
        names = (*_LOOPBACK, f"[{self.host}]" if ":" in self.host else self.host)
        own = [f"{name}:{port}" for name in names]
        return TransportSecuritySettings(allowed_hosts=[*own, *self.hosts], allowed_origins=list(self.origins))


def listener(listening: Listening) -> socket.socket:
    """Return a listening socket, or raise an error that says why it cannot listen."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family)
    except OSError as error:
        where = f"port {listening.port} on {listening.host}"
        msg = f"Cannot listen on {where}: {error.strerror}. Choose another address with --host and --port."
        raise BadAddress(msg) from error


def application(callers: Callers, listening: Listening, *, port: int) -> ASGIApp:
    server = built(callers, verifier=Bearer())
    return server.streamable_http_app(
        streamable_http_path=PATH, host=listening.host, transport_security=listening.security(port)
    )


def serve(app: ASGIApp, on: socket.socket) -> None:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=DRAIN_SECONDS
    )
    uvicorn.Server(config).run(sockets=[on])
