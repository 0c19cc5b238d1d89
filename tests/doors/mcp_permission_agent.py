"""The real Claude Code, headless, which asks `assent mcp` about a tool that no rule allows."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.doors.claude_code_agent import ASSENT, TOOLS, environment, script
from tests.support.claude import CLAUDE
from tests.support.messages_api import messages_api

PROMPT = "mcp__assent__permission_prompt"


def servers(state: Path, ttl: int) -> Path:
    """Write the MCP configuration with two servers: the tool's and Assent's."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("ASSENT_")}
    file = state / "servers.json"
    door = {"command": sys.executable, "args": [str(TOOLS), str(state / "ran")]}
    asks = {"command": str(ASSENT), "args": ["mcp", "--ttl", str(ttl)], "env": kept}
    file.write_text(json.dumps({"mcpServers": {"door": door, "assent": asks}}))
    return file


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--ttl", type=int, default=600)
    given = parser.parse_args()
    state: Path = given.state
    with messages_api(script) as model:
        options = ["--mcp-config", str(servers(state, given.ttl)), "--strict-mcp-config"]
        command = [str(CLAUDE), "-p", *options, "--permission-prompt-tool", PROMPT, "Deploy 1.4 to production."]
        ended = subprocess.run(
            command, env=environment(state, model), cwd=state, stdin=subprocess.DEVNULL, check=False
        ).returncode
    ran = state / "ran"
    for line in ran.read_text().splitlines() if ran.exists() else ():
        sys.stdout.write(f"ran {line}\n")
    return ended


if __name__ == "__main__":
    sys.exit(main())
