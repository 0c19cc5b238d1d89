"""The real Claude Code, headless, with only Assent's hook between a scripted model and a tool."""

import argparse
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from assent.agents.hooks.claude_settings import Gate, installed, write
from tests.doors.kit import ARGUMENTS
from tests.support.claude import CLAUDE
from tests.support.messages_api import Asked, Turn, has_tool, heard, messages_api

ASSENT = Path(sys.executable).with_name("assent")
TOOLS = Path(__file__).with_name("claude_code_tools.py")
TOOL = "mcp__door__deploy"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "MCP_CONNECTION_NONBLOCKING": "false",
}


def tell(*words: str) -> None:
    print(*words, flush=True)  # noqa: T201  # read by the test suite


def script(asked: Asked) -> Turn:
    """Call the tool once, then finish with its result."""
    told = heard(asked)
    for line in told:
        tell("received", line)
    return Turn("Done.") if told or not has_tool(asked, TOOL) else Turn(calls=[(TOOL, ARGUMENTS)])


def environment(state: Path, model: str) -> dict[str, str]:
    """Return an environment with a separate home folder and without the variables of the user who runs the tests."""
    home = state / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if name == "PATH" or name.startswith(("ASSENT_", "PYTHON"))
    }
    ours = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    return kept | QUIET | ours | {"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "sk-ant-of-nobody"}


def options(state: Path, gate: Gate) -> list[str]:
    settings, servers = state / "settings.json", state / "servers.json"
    write(settings, installed({"permissions": {"allow": [TOOL]}}, gate))
    tools = {"command": sys.executable, "args": [str(TOOLS), str(state / "ran")]}
    servers.write_text(json.dumps({"mcpServers": {"door": tools}}))
    return ["--settings", str(settings), "--mcp-config", str(servers), "--strict-mcp-config"]


def started(state: Path) -> tuple[str, bool]:
    """Return the session ID, and whether an earlier agent process started the session."""
    kept = state / "session"
    if kept.exists():
        return kept.read_text(), True
    kept.write_text(str(uuid.uuid4()))
    return kept.read_text(), False


class Client:
    """The client in its folder, with a session that a later agent process can resume."""

    def __init__(self, state: Path, model: str, gate: Gate) -> None:
        self.session, self.resumes = started(state)
        self._state = state
        self._env = environment(state, model)
        self._options = options(state, gate)

    def prompted(self) -> str:
        """Send the prompt and return the reason why the session ended."""
        begin = ["--resume", self.session] if self.resumes else ["--session-id", self.session]
        command = [str(CLAUDE), "-p", *begin, *self._options, "--output-format", "json", "Deploy 1.4 to production."]
        self.resumes = True
        ended = self._run(command)
        tell(ended.stdout)
        return str(json.loads(ended.stdout)["stop_reason"]) if ended.returncode == 0 else ""

    def supervised(self) -> bool:
        """Resume the session if it was deferred."""
        command = [str(ASSENT), "hook", "claude", "resume", self.session, "--program", str(CLAUDE), "--json", "--"]
        ended = self._run([*command, *self._options])
        tell(ended.stdout)
        return ended.returncode == 0

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            env=self._env,
            cwd=self._state,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )


def deferring(client: Client) -> bool:
    """Send the prompt again if the agent was killed before the client had saved the deferral."""
    if client.resumes and client.supervised():
        return True
    ended = client.prompted()
    return client.supervised() if ended == "tool_deferred" else bool(ended)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--ttl", type=int, default=600)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--defer", action="store_true")
    given = parser.parse_args()
    state: Path = given.state
    url = os.environ["ASSENT_URL"] if given.http else None
    named = [("editable", "version"), ("agent-id", os.environ["ASSENT_AGENT_ID"])]
    gate = Gate(program=str(ASSENT), url=url, matcher="mcp__.*", ttl=given.ttl, defer=given.defer, options=named)
    with messages_api(script) as model:
        client = Client(state, model, gate)
        ended = deferring(client) if given.defer else bool(client.prompted())
    ran = state / "ran"
    for line in ran.read_text().splitlines() if ran.exists() else ():
        tell("ran", line)
    return 0 if ended else 1


if __name__ == "__main__":
    sys.exit(main())
