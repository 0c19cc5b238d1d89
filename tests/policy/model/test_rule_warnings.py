"""An auto-approve rule on part of a command warns of other commands that it would approve."""

import pytest

from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.policy.rule_warnings import warnings


@pytest.mark.parametrize(
    ("predicate", "example"),
    [
        ("payload.command startswith 'git status'", "git status; rm -rf ~"),
        ("payload.arguments.command contains 'ls'", "ls; rm -rf ~"),
        ("payload.cmd matches 'git *'", "git ; rm -rf ~"),
        ("payload.command_line matches 'git * --short'", "git ; rm -rf ~;  --short"),
        ("payload.script endswith '--help'", "rm -rf ~; --help"),
        ("NOT (NOT payload.command startswith 'ls')", "ls; rm -rf ~"),
    ],
)
def test_the_warning_for_a_partial_command_rule_shows_a_dangerous_command_that_it_approves(
    predicate: str, example: str
) -> None:
    pattern = f"shell.*({predicate})"
    (said,) = warnings(pattern, "auto-approve")
    assert f"also approves {example!r}" in said
    path = said.partition(" ")[0].split(".")[1:]
    value: object = example
    for key in reversed(path):
        value = {key: value}
    assert match(parse(pattern), Subject("shell.run", {"payload": value})) is True
    assert warnings(pattern, "never-auto-approve") == []


@pytest.mark.parametrize(
    "pattern",
    [
        "shell.*", "shell.*(payload.command = 'git status')", "shell.*(payload.command in ('ls', 'pwd'))",
        "shell.*(payload.command matches 'git status')", "shell.*(NOT payload.command contains 'rm')",
        "shell.*(payload.path startswith 'src')", "shell.*(title startswith 'git')", "shell.*(((",
    ],
)  # fmt: skip
def test_rules_on_whole_commands_or_other_fields_have_no_warnings(pattern: str) -> None:
    assert warnings(pattern, "auto-approve") == []
