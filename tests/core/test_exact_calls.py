"""“Always approve” proposes a rule for exactly one call in one directory, never for a whole tool."""

from typing import Any

import pytest

from assent.core.call_digests import call_digest, function_digest, tool_digest
from assent.core.draft import draft
from assent.core.errors import InvalidRequest
from assent.core.exact_calls import is_offered, is_whole_tool
from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.core.rules import propose, subject_of

BASH = {"tool": "Bash", "arguments": {"command": "git status", "timeout": 5}, "directory": "/srv/shop"}
GATED = {"command": ["git", "status"], "program": "/usr/bin/git", "directory": "/srv/shop"}


def subject(gate: str, payload: dict[str, Any]) -> Subject:
    return subject_of(draft({"agentId": "claude-code", "payload": {"breakpointId": gate, **payload}}))


def test_the_proposed_pattern_includes_the_arguments_and_the_directory() -> None:
    asked = subject("tool.bash", BASH)
    pattern = propose(asked)
    assert pattern.startswith(
        "tool.bash(agentId = 'claude-code' AND payload.arguments.command = 'git status' AND"
        " payload.arguments.timeout = 5 AND payload.directory = '/srv/shop' AND payload.callDigest = '"
    )
    assert match(parse(pattern), asked) is True


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"command": "git push", "timeout": 5}},
        {"arguments": {"command": "git status", "timeout": 5, "dangerouslyDisableSandbox": True}},
        {"arguments": {"command": "git status"}},
        {"directory": "/srv/other"},
        {"directory": None},
        {"tool": "PowerShell"},
    ],
)
def test_the_proposed_pattern_does_not_match_any_other_call(change: dict[str, Any]) -> None:
    first = subject("tool.bash", BASH)
    claimed = {"callDigest": first.values["payload"]["callDigest"]}
    assert match(parse(propose(first)), subject("tool.bash", BASH | change | claimed)) is not True


@pytest.mark.parametrize(
    ("gate", "payload", "other"),
    [
        ("tool.edit", {"tool": "Edit", "arguments": {"file_path": "a", "edits": [{"new": "x" * 5000}]}},
         {"arguments": {"file_path": "a", "edits": []}}),
        ("call.shop.pay", {"function": "shop.pay", "arguments": {"to": "ann", "amount": 5}},
         {"arguments": {"to": "bob", "amount": 5}}),
        ("shell.git", GATED, {"command": ["git", "push"]}),
        ("shell.git", GATED, {"program": "/tmp/git"}),
        ("deploy", {"arguments": {"to": "staging"}}, {"arguments": {"to": "production"}}),
        ("tool.x", {"tool": "x", "arguments": {}, "command": "ls"}, {"command": "rm -rf /"}),
        ("tool.x", {"tool": "x", "arguments": {}}, {"command": "rm -rf /"}),
        ("tool.x", {"tool": "x", "arguments": {}, "input": "ls"}, {"input": "rm -rf /"}),
        ("tool.x", {"tool": "x", "arguments": {}, "cwd": "/srv"}, {"cwd": "/"}),
        ("tool.x", {"tool": "x", "command": "ls"}, {"tool": "y"}),
        ("tool.x", {"tool": "x", "function": "f", "arguments": {}}, {"function": "g"}),
        ("tool.x", {"arguments": {}}, {"tool": ["x"]}),
        ("shell.git", {"command": "ls", "arguments": ["a"]}, {"arguments": ["b"]}),
        ("shell.git", GATED | {"programSha256": "aa"}, {"programSha256": "bb"}),
        ("shell.git", GATED, {"programSha256": "bb"}),
        ("tool.bash", {"tool": "Bash", "arguments": {"command": "rm -rf build"}}, {"directory": "/home/me"}),
        ("tool.edit", {"tool": "Edit", "arguments": {"edits": []}}, {"arguments": ["a"]}),
        ("tool.edit", {"tool": "Edit", "arguments": {"edits": []}}, {"arguments": None}),
    ],
)  # fmt: skip
def test_proposed_patterns_match_only_the_call_they_were_created_for(
    gate: str, payload: dict[str, Any], other: dict[str, Any]
) -> None:
    pattern = parse(propose(subject(gate, payload)))
    assert match(pattern, subject(gate, payload)) is True
    claimed = {"callDigest": subject(gate, payload).values["payload"]["callDigest"]}
    assert match(pattern, subject(gate, payload | other | claimed)) is not True


def test_integrations_and_the_server_compute_the_same_call_digests() -> None:
    assert call_digest({**BASH, "door": "claude-code", "callId": "1"}) == tool_digest("Bash", BASH["arguments"])  # type: ignore[arg-type]
    assert call_digest({"function": "shop.pay", "arguments": {"to": "ann"}}) == function_digest(
        "shop.pay", {"to": "ann"}
    )
    assert call_digest({"arguments": {"a": 1}}) == tool_digest("", {"a": 1})
    # Stored rules contain this digest, so it must not change.
    assert call_digest(GATED) == "9af2e3a3f5893a32316f02b507f19207ae81dd9c06f8a8f7587b7e56ab90858f"


@pytest.mark.parametrize(
    ("gate", "payload"),
    [
        ("mygate", {"tool": "Bash", "arguments": ["rm", "-rf", "/"]}),
        ("mygate", {"tool": "Bash"}),
        ("mygate", {"function": "shop.pay"}),
        ("mygate", {"arguments": "rm -rf /"}),
        ("mygate", {"command": None}),
        ("shell.git", GATED | {"programSha256": 5}),
        ("tool.bash", BASH | {"directory": None}),
        ("call.shop.query", {"function": "shop.query", "arguments": {"sql": "(hidden)"}, "hidden": ["sql"]}),
        ("tool.bash", {}),
        ("shell.rm", {"question": "Run it?"}),
        ("tool.bash", BASH | {"directory": "/srv/\x01"}),
        ("tool.bash", BASH | {"directory": "/srv/" + "x" * 2000}),
        ("tool.bash", BASH | {"directory": ["/srv"]}),
        ("tool.write", {"tool": "Write", "arguments": {"file_path": ".claude/settings.json"}}),
    ],
)
def test_no_rule_is_suggested_for_a_whole_tool_or_a_protected_call(gate: str, payload: dict[str, Any]) -> None:
    asked = Subject(gate, {"agentId": "claude-code", "payload": payload})
    with pytest.raises(InvalidRequest, match="No rule can be suggested"):
        propose(asked)


def test_the_rule_suggested_for_a_breakpoint_without_a_call_matches_its_gate_and_agent() -> None:
    assert propose(subject("deploy", {"question": "Deploy?"})) == "deploy(agentId = 'claude-code')"
    assert is_offered("deploy", {})
    assert not is_offered("tool.bash", {})
    assert [is_whole_tool(each) for each in ("tool.bash", "shell.rm", "call.x", "deploy")] == [True, True, True, False]
