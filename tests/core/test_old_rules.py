"""Only “Always approve” rules created before patterns contained the whole call are detected."""

import pytest

from assent.core.old_rules import ALWAYS_APPROVE, unnamed, unnamed_in
from assent.core.rulebook import Rule, RuleAction

DIGEST = "payload.callDigest = 'd'"
HERE = "payload.directory = '/work'"
PROGRAM = "payload.programSha256 = 'p'"
ALL = ("working directory", "arguments")


def rule(pattern: str, *, source: str = ALWAYS_APPROVE, action: str = RuleAction.AUTO.value) -> Rule:
    return Rule(id="rule-1", pattern=pattern, action=action, source=source)


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("tool.bash(agentId = 'claude-code')", ALL),
        ("tool.bash", ALL),
        (f"tool.bash({DIGEST})", ("working directory",)),
        (f"tool.bash({HERE} OR {DIGEST})", ALL),
        (f"tool.bash(payload.directory startswith '/work' AND {DIGEST})", ("working directory",)),
        (f"tool.bash(agentId = 'a' AND {HERE} AND {DIGEST})", ()),
        (f"tool.bash(NOT payload.directory exists AND {DIGEST})", ()),
        ("shell.rm.abc(agentId = 'assent-cli')", (*ALL, "program")),
        (f"shell.rm.abc({HERE} AND {DIGEST})", ("program",)),
        (f"deploy.now({HERE} AND {DIGEST})", ("program",)),
        (f"shell.rm.abc({HERE} AND {PROGRAM} AND {DIGEST})", ()),
        (f"shell.rm.abc({HERE} AND NOT payload.programSha256 exists AND {DIGEST})", ()),
        (f"call.module.pay({DIGEST})", ("working directory",)),
        ("confirm.deploy(agentId = 'a')", ()),
        ("tool.bash(", ()),
    ],
)
def test_the_pattern_of_an_always_approve_rule_determines_its_missing_parts(
    pattern: str, missing: tuple[str, ...]
) -> None:
    assert unnamed(rule(pattern)) == missing


@pytest.mark.parametrize("source", ["cli", "file", "api", ""])
def test_rules_that_were_not_created_by_always_approve_are_never_reported(source: str) -> None:
    assert unnamed(rule("tool.bash", source=source)) == ()


def test_never_rules_are_not_reported_as_incomplete() -> None:
    assert unnamed(rule("tool.bash", action=RuleAction.NEVER.value)) == ()


def test_only_parts_that_the_call_contains_are_reported_as_missing() -> None:
    call = {"command": ["rm", "a"], "program": "/bin/rm", "directory": "/work"}
    assert unnamed_in(rule(f"deploy({DIGEST})"), "deploy", call) == ("working directory", "program")
    assert unnamed_in(rule("deploy(agentId = 'a')"), "deploy", {"question": "Go?"}) == ()
    assert unnamed_in(rule("deploy(agentId = 'a')"), "deploy", {"tool": "t", "arguments": {"a": 1}}) == ALL
