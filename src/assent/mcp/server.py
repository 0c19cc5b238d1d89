"""The server itself: the tools under one name, spoken over standard input or streamable HTTP."""

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

from assent.domain.canonical import sha256
from assent.mcp.callers import Callers
from assent.mcp.tools import Tools
from assent.sdk.errors import BadAddress, UnknownArgument
from assent.sdk.keywords import refuse_unknown

PATH = "/mcp"
FORM_SECONDS = 7 * 24 * 3600.0
"""How long a form may lie open in a client; the breakpoint's own deadline decides about the rest."""
DRAIN_SECONDS = 3
INSTRUCTIONS = (
    "Request human approval for an action before you perform it. Ask with create_breakpoint and wait with"
    " wait_for_breakpoint, or do both with ask_human. Continue only if approved is true. If a call fails or returns"
    " anything else, the action is not approved."
)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class _StrictServer(MCPServer[None]):
    """Refuses arguments that a tool does not have, which the library would ignore."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's own
        super().__init__(*args, **kwargs)
        self._known: dict[str, frozenset[str]] = {}

    def know(self, tool: Callable[..., Any]) -> None:
        names = inspect.signature(tool).parameters
        self._known[tool.__name__] = frozenset(names) - {"call"}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            refuse_unknown(name, arguments, self._known.get(name, arguments))
        except UnknownArgument as error:
            raise ToolError(error.message) from error
        return await super().call_tool(name, arguments, context)


def built(callers: Callers, *, verifier: "Bearer | None" = None) -> MCPServer[None]:
    # Tokens are made by Assent, not by an OAuth server; the issuer is asked for and told to nobody.
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
    # Claude Code takes an answer of one block only: no structured output beside the text.
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
        if tool != tools.permission_prompt:  # Claude Code calls that one, and newer versions may send more
            server.know(tool)
    return server


class Bearer:
    """Lets in whoever brings a token; what it is worth, the server of Assent says at every call."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if not token.strip():
            return None
        # A session and a form belong to the token they began with.
        return AccessToken(token=token, client_id=sha256(token.encode()), scopes=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where HTTP is listened on, and under which names: a page could bring along a name of its own."""

    host: str = "127.0.0.1"
    port: int = 7374
    hosts: Sequence[str] = ()
    """What else may stand in the Host header, such as the name of a proxy."""
    origins: Sequence[str] = ()
    """Pages that may call; none without being named."""

    def security(self, port: int) -> TransportSecuritySettings:
        names = (*_LOOPBACK, f"[{self.host}]" if ":" in self.host else self.host)
        own = [f"{name}:{port}" for name in names]
        return TransportSecuritySettings(allowed_hosts=[*own, *self.hosts], allowed_origins=list(self.origins))


def listener(listening: Listening) -> socket.socket:
    """Return a socket that is listened on already, or say why there is none."""
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
