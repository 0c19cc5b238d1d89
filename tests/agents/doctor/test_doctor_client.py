"""The doctor's findings about Claude Code's settings match what the real client does when a gate fails."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assent.agents.doctor.claude_checks import claude_findings
from assent.agents.doctor.findings import Document, Machine, Severity
from tests.support.claude import CLAUDE
from tests.support.messages_api import Asked, Turn, has_tool, heard, messages_api

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    # Claude Code lets root skip permissions only if told that it is running in a sandbox.
    "IS_SANDBOX": "1",
}
BLOCKS: dict[str, Any] = {"onFailure": "block", "timeout": 86520}
ALLOWED = {"permissions": {"allow": ["Bash"]}}
BYPASSED = {"permissions": {"defaultMode": "bypassPermissions"}}


def script(asked: Asked) -> Turn:
    if heard(asked) or not has_tool(asked, "Bash"):
        return Turn("Done.")
    return Turn(calls=[("Bash", {"command": "touch ran", "description": "Leave a file"})])


def settings(
    gate: dict[str, Any], more: dict[str, Any], *, event: str = "PreToolUse", matcher: Any = "*"
) -> dict[str, Any]:
    return {"hooks": {event: [{"matcher": matcher, "hooks": [gate]}]}} | more


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], bool]] = {
    "a gate that blocks": (BLOCKS, ALLOWED, {}, False),
    "a gate that blocks, without permissions": (BLOCKS, BYPASSED, {}, False),
    "no onFailure": ({"timeout": 86520}, ALLOWED, {}, True),
    "in the background": (BLOCKS | {"async": True}, ALLOWED, {}, True),
    "swallowed by the shell": (BLOCKS | {"shell line": "|| true"}, ALLOWED, {}, True),
    "switched off": (BLOCKS, ALLOWED | {"disableAllHooks": True}, {}, True),
    "allowed, so no dialog": (BLOCKS, ALLOWED, {"event": "PermissionRequest"}, True),
    "without permissions, so no dialog": (BLOCKS, BYPASSED, {"event": "PermissionRequest"}, True),
    "another tool's": (BLOCKS, ALLOWED, {"matcher": "Edit|Write"}, True),
    "a matcher that is no pattern": (BLOCKS, ALLOWED, {"matcher": "("}, True),
    "turned around by the shell": (BLOCKS | {"shell line": "", "before": "!"}, ALLOWED, {}, True),
    "passed by where it is not installed": (
        BLOCKS | {"shell line": "", "before": "command -v nosuchprogram || exit 0;"},
        ALLOWED,
        {},
        True,
    ),
    "a second line that always succeeds": (BLOCKS | {"shell line": "\nexit 0"}, ALLOWED, {}, True),
}


@pytest.mark.parametrize(("gate", "more", "where", "opens"), CASES.values(), ids=CASES)
def test_a_failing_gate_fails_open_exactly_where_the_doctor_reports_it(
    tmp_path: Path, gate: dict[str, Any], more: dict[str, Any], where: dict[str, Any], *, opens: bool
) -> None:
    broken = failing(tmp_path)
    line, before = gate.get("shell line"), gate.get("before", "")
    command = (
        {"command": str(broken), "args": ["hook", "claude", "--url", "http://127.0.0.1:7373"]}
        if line is None
        else {"command": f"{before} {broken} hook claude {line}"}
    )
    hook = {"type": "command"} | command | {name: gate[name] for name in gate.keys() - {"shell line", "before"}}
    content = settings(hook, more, **where)
    assert says_it_opens(content) == opens
    assert runs(tmp_path, content) == opens


def test_a_matcher_that_is_not_a_string_disables_the_gate(tmp_path: Path) -> None:
    hook = {"type": "command", "command": str(failing(tmp_path)), "args": ["hook", "claude"]} | BLOCKS
    content = settings(hook, {}, matcher=["Bash"])
    assert says_it_opens(content)
    # The client ignores such a file entirely, so the allowed tool has to be passed as an option.
    assert runs(tmp_path, content, "--allowedTools", "Bash")


def failing(folder: Path) -> Path:
    """Return a gate program that fails before it can ask."""
    gate = folder / "assent"
    gate.write_text("#!/bin/sh\nexit 1\n")
    gate.chmod(0o755)
    return gate


def says_it_opens(content: dict[str, Any]) -> bool:
    found = claude_findings([Document(path="settings.json", content=content)], Machine(runs=lambda _: True))
    return any(each.severity is Severity.PROBLEM for each in found)


def runs(folder: Path, content: dict[str, Any], *more: str) -> bool:
    """Have the real client attempt the call, and return whether it ran."""
    project, home, file = folder / "project", folder / "home", folder / "settings.json"
    project.mkdir()
    home.mkdir()
    file.write_text(json.dumps(content))
    with messages_api(script) as model:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")} | QUIET
        done = subprocess.run(
            [str(CLAUDE), "-p", "Leave a file.", "--settings", str(file), "--output-format", "json", *more],
            env=env | {"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "sk-ant-of-nobody"},
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return (project / "ran").exists()
