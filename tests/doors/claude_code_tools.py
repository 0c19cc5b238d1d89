"""An MCP server over stdio with one tool that records each of its runs."""

import json
import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("door")


@server.tool(structured_output=False)
def deploy(target: str, version: str) -> str:
    """Deploy a version to a target."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(json.dumps({"target": target, "version": version}) + "\n")
    return "deployed"


if __name__ == "__main__":
    server.run()
