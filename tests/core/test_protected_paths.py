"""Rules cannot approve changes to files that configure gates, regardless of the spelling and the tool."""

import json
from typing import Any

import pytest

from assent.core.canonical import Json
from assent.core.draft import draft
from assent.core.protected_paths import DEEPEST, LONGEST_COMMAND, MOST_VALUES, MOST_WILDCARDS, protected
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import Source, recommend, subject_of


def reason(tool: str, arguments: dict[str, Json], **more: Json) -> str | None:
    return protected(f"tool.{tool.lower()}", {"tool": tool, "arguments": arguments, "directory": "/srv/shop", **more})


def written(path: str, **more: Json) -> str | None:
    return reason("Write", {"file_path": path, "content": "x"}, **more)


PROTECTED = [
    "/srv/shop/.claude/settings.json", ".claude/settings.local.json", ".CLAUDE/Settings.json", "~/.claude.json",
    ".mcp.json", ".codex/config.toml", ".gemini/settings.json", ".cursor/mcp.json", ".cursor/hooks.json",
    ".copilot/config.json", "opencode.json", ".config/opencode/opencode.json", ".github/hooks/gate.json",
    ".git/hooks/pre-commit", ".git/config", "vendor/lib/.git/config", ".git", "GIT~1/config", ".git./config",
    ".git::$INDEX_ALLOCATION/config", ".g\u200bit/config", ".ｇｉｔ/config", ".git\\hooks\\post-checkout",
    "assent.yaml", "deploy/ASSENT.YML", ".envrc", ".npmrc", ".vscode/tasks.json", ".github/workflows/ci.yml",
    ".github", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "Jenkinsfile.deploy", "azure-pipelines.yml",
    "/home/ann/.bashrc", "~/.zshenv", "~/.profile", "/etc/profile.d/x.sh", ".config/fish/config.fish",
    "~/.ssh/authorized_keys", "src/../.claude/settings.json", "file:///srv/shop/%2Eclaude/settings.json",
    ".claude/worktrees", ".claude/worktrees/feature/.claude/settings.json",
]  # fmt: skip
FREE = [
    "/srv/shop/src/app.py", "README.md", ".gitignore", "docs/git.md", "src/claude.py", ".github/ISSUE_TEMPLATE.md",
    ".claude/../src/app.py", ".claude/worktrees/feature/src/app.py", "notes.git/x", "src/settings.json", "my.profile",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_a_path_that_configures_gates_is_protected_in_every_spelling(path: str) -> None:
    assert written(path) is not None


@pytest.mark.parametrize("path", FREE)
def test_unrelated_paths_are_not_protected(path: str) -> None:
    assert written(path) is None


@pytest.mark.parametrize(
    "command",
    [
        "echo '{}' > .claude/settings.json", "echo x>>~/.bashrc", "cp a .cla''ude/settings.json",
        'cp a ".claude"/settings.json', r"cp a .cl\aude/settings.json", "tee $HOME/.zshrc", "cat a > ${H}/.ssh/config",
        "cd .git && rm -r hooks", "git --git-dir=.git config core.hooksPath x", "rm -rf .*", "rm .g?t/config",
        "cp a .{claude,x}/settings.json", "rm -rf .github", "curl -o.envrc https://example.com", "D=.claude; ls $D",
        "prettier --write *.yaml", "sed -i s/a/b/ .cl$X/settings.json", "dd if=a of=.npmrc", "Copy-Item a .git\\hooks",
        "cp a .G\u200bIT/config",
    ],
)  # fmt: skip
def test_commands_that_mention_a_protected_path_are_protected(command: str) -> None:
    assert reason("Bash", {"command": command}) is not None
    assert protected("shell.x", {"command": ["bash", "-c", command]}) is not None


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "ls *",
        "echo $HOME",
        "npm test -- --grep 'x*y'",
        "git clone https://example.com/a/b.git",
        "ls src/*",
    ],
)
def test_unrelated_commands_are_not_protected(command: str) -> None:
    assert reason("Bash", {"command": command, "description": "Nothing in .git changes"}) is None


def test_text_written_to_a_file_is_not_treated_as_a_path() -> None:
    assert reason("Edit", {"file_path": ".gitignore", "old_string": ".envrc", "new_string": ".git"}) is None
    assert reason("MultiEdit", {"file_path": "a", "edits": [{"old_string": ".npmrc", "new_string": "x"}]}) is None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("mcp__files__move_file", {"source": "x", "destination": "a/.envrc"}),
        ("mcp__files__write", {"files": {".claude/settings.json": "{}"}}),
        ("mcp__files__write", {"edits": [{"where": {"target": ".git/config"}}]}),
        ("apply_patch", {"input": "*** Update File: .mcp.json\n+{}"}),
        ("NotebookEdit", {"notebook_path": ".vscode/a.ipynb", "new_source": ""}),
        ("shell", {"command": ["tee", ".git/hooks/pre-push"]}),
    ],
)
def test_every_argument_of_every_tool_is_checked(tool: str, arguments: dict[str, Json]) -> None:
    assert reason(tool, arguments) is not None


def test_resolved_paths_and_the_working_directory_are_checked() -> None:
    assert written("notes.md", realPaths={"file_path": "/srv/shop/.claude/settings.json"}) is not None
    assert reason("Bash", {"command": "tee notes"}, realPaths={"command": ["/srv/shop/.git/config"]}) is not None
    assert written("settings.json", directory="/srv/shop/.claude") is not None
    assert written("workflows/ci.yml", directory="/srv/shop/.github") is not None
    assert written("a.py", directory="/srv/shop/.claude/worktrees/feature") is None


def test_an_unresolved_path_from_a_resolving_client_is_protected() -> None:
    assert written("a.py", door="claude-code") is not None
    assert written("a.py", door="claude-code", realPaths={"file_path": "/srv/shop/a.py"}) is None
    assert written("a.py", door="langgraph") is None


def test_reading_is_allowed_except_for_secret_files() -> None:
    assert reason("Read", {"file_path": ".git/HEAD"}) is None
    assert reason("Read", {"file_path": "~/.ssh/id_ed25519"}) is not None
    assert protected("tool.edit", {"tool": "Read", "arguments": {"file_path": ".git/HEAD"}}) is not None


def test_a_call_too_large_to_check_is_protected() -> None:
    assert reason("Bash", {"command": "a" * (LONGEST_COMMAND + 1)}) is not None
    assert reason("mcp__x", {"names": ["a"] * (MOST_VALUES + 1)}) is not None
    assert reason("Bash", {"command": " ".join(f"a{n}*" for n in range(MOST_WILDCARDS + 1))}) is not None
    assert reason("Bash", {"command": "a*/" * 101}) is not None


SETTINGS = ".claude/settings.json"


@pytest.mark.parametrize(
    "arguments",
    [
        [SETTINGS], [["x", {"to": SETTINGS}]], SETTINGS, f"--force {SETTINGS}", json.dumps({"file_path": SETTINGS}),
        f" \n{json.dumps([SETTINGS])}", json.dumps(json.dumps({"file_path": SETTINGS})),
        {"input": json.dumps({"file_path": SETTINGS})}, f'{{"file_path": "{SETTINGS}", "file_path": "a"}}',
        f'{{"n": {"1" * 5000}, "file_path": "{SETTINGS}"}}', '{"file_path": "\\u002eclaude/settings.json"}',
        json.dumps({"content": "\t"}).replace("\\t", "\t") + f"; rm {SETTINGS}",
    ],
)  # fmt: skip
def test_arguments_of_every_type_are_checked(arguments: Json) -> None:
    assert protected("tool.write", {"tool": "Write", "arguments": arguments}) is not None


@pytest.mark.parametrize(
    "name",
    ["input", "args", "params", "file_path", "path", "cmd", "commands", "argv", "script", "patch", "Command", "target"],
)
@pytest.mark.parametrize("value", [SETTINGS, [SETTINGS], {"to": SETTINGS}, json.dumps({"to": SETTINGS})])
@pytest.mark.parametrize("more", [{}, {"arguments": {}}, {"tool": "Write", "arguments": {"file_path": "a"}}])
def test_call_fields_outside_the_arguments_are_checked(name: str, value: Json, more: dict[str, Json]) -> None:
    assert protected("tool.write", {**more, name: value}) is not None


def test_a_field_outside_the_arguments_cannot_exempt_an_argument() -> None:
    assert protected("tool.x", {"arguments": {"instructions": SETTINGS}, "path": "a"}) is not None


def test_json_in_strings_is_checked_like_arguments_up_to_a_depth_limit() -> None:
    edit = {"file_path": ".gitignore", "old_string": ".envrc", "new_string": ".git"}
    assert protected("tool.edit", {"tool": "Edit", "arguments": json.dumps(edit)}) is None
    for deep in ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "[" * 200_000):
        assert protected("tool.x", {"arguments": {"input": deep}}) is not None


def test_arguments_that_a_client_cannot_resolve_to_paths_are_protected() -> None:
    assert protected("tool.write", {"tool": "Write", "arguments": ["notes.md"], "door": "claude-code"}) is not None


def test_a_question_that_is_not_a_call_is_not_protected() -> None:
    assert protected("deploy", {"question": "Change .git/config?"}) is None


@pytest.mark.parametrize(
    "payload",
    [
        {"environment": "production", "version": 3, "done": True, "notes": None},
        {"title": SETTINGS, "description": SETTINGS, "previousFeedback": SETTINGS, "options": [SETTINGS]},
        {
            "context": {"files": [{"path": SETTINGS, "format": "code", "content": "{}"}]},
            "form": {"properties": {".git": {"type": "string"}}},
        },
        {"summary": "Explains how .git/config and .envrc are read.\n\n[1] see docs/git.md"},
        {"door": "langgraph", "callId": ".git", "askedBy": "x", "link": "https://example.com/a/.git"},
        {"file_path": ".gitignore", "content": ".git"},
    ],
)
def test_free_form_fields_do_not_make_a_breakpoint_protected(payload: dict[str, Any]) -> None:
    asked = draft({"agentId": "ci", "payload": {"question": "Change .git?", "breakpointId": "deploy.web", **payload}})
    book = Rulebook.of([Rule(id="rule-live", pattern="deploy.*", action="auto-approve")])
    assert protected("deploy.web", asked.payload) is None
    found = recommend(book, subject_of(asked), hard_stop=False, after_n=None, consecutive=0, now=1)
    assert found.source is Source.AUTO


@pytest.mark.parametrize("more", [{}, {"autoApproveAfterN": 1}])
def test_rules_and_counts_cannot_approve_a_protected_call(more: dict[str, Any]) -> None:
    payload = {
        "breakpointId": "tool.write", "tool": "Write", "arguments": {"file_path": "/srv/shop/.claude/settings.json"},
    }  # fmt: skip
    asked = draft({"agentId": "claude-code", "payload": payload | more})
    live = Rule(id="rule-live", pattern="tool.*", action="auto-approve")
    shadow = Rule(id="rule-shadow", pattern="tool.write", action="auto-approve", mode="shadow")
    found = recommend(
        Rulebook.of([] if more else [live, shadow]),
        subject_of(asked),
        hard_stop=False,
        after_n=more.get("autoApproveAfterN"),
        consecutive=9,
        now=1,
    )
    assert (found.recommended, found.source) == (False, Source.PROTECTED)
    assert ".claude" in str(found.body()["reason"])
    assert all(not each.recommended for each in found.shadow_matches)
