"""The command that runs the MCP server."""

import contextlib
import os
from typing import Annotated, Literal

import typer

from assent.console import output
from assent.console.output import Json

app = typer.Typer()


@app.command()
def mcp(  # noqa: PLR0913  # the options of the command
    *,
    transport: Annotated[
        Literal["stdio", "http"], typer.Option(help="Transport: standard input and output, or streamable HTTP")
    ] = "stdio",
    host: Annotated[str, typer.Option(help="Address to listen on with the http transport")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on with the http transport; 0 selects a free port")
    ] = 7374,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST[:PORT]", help="Additional Host header to accept (repeatable)")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Web origin that may call the server, such as https://a.b (repeatable; default: none)",
        ),
    ] = None,
    agent_id: Annotated[
        str | None,
        typer.Option(envvar="ASSENT_AGENT_ID", help="ID of the requesting agent (default: name of the MCP client)"),
    ] = None,
    ttl: Annotated[
        int | None,
        typer.Option(min=1, metavar="SECONDS", help="Number of seconds until the deadline, unless the agent sets one"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an MCP server that lets agents ask questions. Its tools cannot approve or reject."""
    if transport == "stdio":
        _over_stdio(agent_id, ttl)
        return
    from assent.agents.mcp.callers import passed_through  # noqa: PLC0415  # slow to import
    from assent.agents.mcp.server import PATH, Listening, application, listener, serve  # noqa: PLC0415  # the same

    listening = Listening(host=host, port=port, hosts=allow_host or (), origins=allow_origin or ())
    with listener(listening) as socket:
        taken: int = socket.getsockname()[1]
        callers = passed_through(os.environ.get("ASSENT_URL"), agent_id=agent_id, ttl_seconds=ttl)
        asgi = application(callers, listening, port=taken)
        url = f"http://{f'[{host}]' if ':' in host else host}:{taken}{PATH}"
        if as_json:
            output.emit({"url": url})
        else:
            output.say(f"MCP server running at {url}. Each agent must send its own token as a bearer token.")
        # uvicorn raises KeyboardInterrupt again after it has drained, which is a normal exit.
        with contextlib.suppress(KeyboardInterrupt):
            serve(asgi, socket)


def _over_stdio(agent_id: str | None, ttl: int | None) -> None:
    from assent.agents.mcp.callers import configured  # noqa: PLC0415  # slow to import
    from assent.agents.mcp.server import built  # noqa: PLC0415  # the same

    built(configured(os.environ, agent_id=agent_id, ttl_seconds=ttl)).run("stdio")
