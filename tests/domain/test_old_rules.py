"""“Always approve” rules from before patterns contained the whole call are found, and no other rules."""

import pytest

from assent.domain.old_rules import ALWAYS_APPROVE, unnamed, unnamed_in
from assent.domain.rulebook import Rule, RuleAction

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
def test_the_missing_parts_of_an_always_approve_rule_follow_from_its_pattern(
    pattern: str, missing: tuple[str, ...]
) -> None:
    assert unnamed(rule(pattern)) == missing


@pytest.mark.parametrize("source", ["cli", "file", "api", ""])
def test_a_rule_written_by_a_person_is_never_reported(source: str) -> None:
    assert unnamed(rule("tool.bash", source=source)) == ()


def test_a_never_rule_is_never_reported() -> None:
    assert unnamed(rule("tool.bash", action=RuleAction.NEVER.value)) == ()


def test_a_rule_is_compared_with_the_call_that_it_would_approve() -> None:
    call = {"command": ["rm", "a"], "program": "/bin/rm", "directory": "/work"}
    assert unnamed_in(rule(f"deploy({DIGEST})"), "deploy", call) == ("working directory", "program")
    assert unnamed_in(rule("deploy(agentId = 'a')"), "deploy", {"question": "Go?"}) == ()
    assert unnamed_in(rule("deploy(agentId = 'a')"), "deploy", {"tool": "t", "arguments": {"a": 1}}) == ALL
