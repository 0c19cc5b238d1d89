"""Checks of settings: each fault is reported, and correct settings yield no findings."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.doctor.claude_checks import claude_accesses, claude_findings
from assent.agents.doctor.claude_settings import covers, shell_words
from assent.agents.doctor.findings import (
    Access,
    Document,
    Finding,
    Machine,
    Place,
    Severity,
    access_findings,
    counted,
    effective,
    same_server,
    whole_number,
    worst_first,
)
from assent.agents.doctor.mcp_checks import mcp_accesses, mcp_findings
from assent.agents.doctor.server_checks import Seen, clock, reached, skew, versions
from assent.core.secrets import secret

AGENT, PERSON, SERVICE = (secret(kind, bytes(range(32))) for kind in ("agent", "person", "service"))
PINNED = "hook claude --url https://assent.example.com --receipt-key KEY"
GATED = PINNED.split()
COMMAND = {"type": "command", "command": "assent", "args": GATED, "timeout": 86400, "onFailure": "block"}
HTTP = {
    "type": "http",
    "url": "https://assent.example.com/api/hooks/claude",
    "timeout": 86400,
    "onFailure": "block",
    "headers": {"Authorization": "Bearer $ASSENT_TOKEN"},
    "allowedEnvVars": ["ASSENT_TOKEN"],
}
HERE = Machine(env={"ASSENT_TOKEN": AGENT}, runs=lambda _: True, project="/app")


def settings(
    *gates: Mapping[str, Any], event: str = "PreToolUse", matcher: str | None = "*", **more: Any
) -> dict[str, Any]:
    entry = {"hooks": [dict(each) for each in gates]} | ({"matcher": matcher} if matcher is not None else {})
    return {"hooks": {event: [entry]}} | more


def looked(*contents: Any, machine: Machine = HERE) -> list[Finding]:
    documents = [Document(path=f"/{n}.json", content=content) for n, content in enumerate(contents)]
    return list(claude_findings(documents, machine))


def bad(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(each.check, each.severity.value) for each in findings if each.severity is not Severity.OK]


def resolved(document: Any, pointer: str) -> Any:
    """Resolve a JSON pointer according to RFC 6901."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize("gate", [COMMAND, HTTP])
def test_a_blocking_gate_is_reported_as_ok(gate: Mapping[str, Any], event: str) -> None:
    (found,) = looked(settings(gate, event=event))
    assert (found.check, found.severity) == ("gate", Severity.OK)
    assert found.place == Place("/0.json", f"/hooks/{event}/0/hooks/0")


WRONG: list[tuple[str, Mapping[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    ("no onFailure", COMMAND, {"onFailure": None}, [("hook-on-failure", "problem")]),
    ("goes on", HTTP, {"onFailure": "continue"}, [("hook-on-failure", "problem")]),
    ("a word nobody knows", COMMAND, {"onFailure": "Block"}, [("hook-on-failure", "problem")]),
    ("in the background", COMMAND, {"async": True}, [("hook-async", "problem")]),
    ("woken later", COMMAND, {"asyncRewake": True}, [("hook-async", "problem")]),
    ("once", COMMAND, {"once": True}, [("hook-once", "problem")]),
    ("without a timeout", COMMAND, {"timeout": None}, [("hook-timeout", "problem")]),
    ("shorter than a day", COMMAND, {"timeout": 86399}, [("hook-timeout", "problem")]),
    ("too short", COMMAND, {"args": [*GATED, "--ttl", "86401"]}, [("hook-timeout", "problem")]),
    ("too short, in one word", COMMAND, {"args": [*GATED, "--ttl=86401"]}, [("hook-timeout", "problem")]),
    ("too short over HTTP", HTTP, {"url": f"{HTTP['url']}?ttl=86401"}, [("hook-timeout", "problem")]),
    (
        "the default is too short",
        COMMAND,
        {"args": [*GATED, "--ttl", "601"], "timeout": None},
        [("hook-timeout", "problem")],
    ),
    ("narrowed", COMMAND, {"if": "Bash(git push *)"}, [("hook-if", "warning")]),
    ("in the clear", HTTP, {"url": "http://10.0.0.7:7373/api/hooks/claude"}, [("hook-url", "warning")]),
    ("no token", HTTP, {"headers": {}}, [("hook-token", "problem")]),
    ("not a bearer", HTTP, {"headers": {"Authorization": "Basic eA=="}}, [("hook-token", "problem")]),
    ("not allowed", HTTP, {"allowedEnvVars": ["OTHER"]}, [("hook-variable", "problem")]),
    (
        "not set",
        HTTP,
        {"headers": {"authorization": "Bearer ${OTHER}"}, "allowedEnvVars": ["OTHER"]},
        [("hook-variable", "problem")],
    ),
    (
        "swallowed",
        COMMAND,
        {"command": f"assent {PINNED} || true", "args": None},
        [("hook-swallowed", "problem")],
    ),
    ("a line goes on", COMMAND, {"command": f"assent {PINNED}; true", "args": None}, [("hook-swallowed", "problem")]),
    ("left alone", COMMAND, {"command": f"assent {PINNED} & wait", "args": None}, [("hook-swallowed", "problem")]),
    ("a pipe", COMMAND, {"command": f"assent {PINNED} | tee log", "args": None}, [("hook-swallowed", "problem")]),
]


@pytest.mark.parametrize(("gate", "changes", "expected"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_each_gate_problem_is_reported(
    gate: Mapping[str, Any], changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    changed = {name: value for name, value in {**gate, **changes}.items() if value is not None}
    content = settings(changed)
    found = looked(content)
    assert bad(found) == expected
    assert all(each.what.endswith(".") and each.todo for each in found)
    assert all(resolved(content, each.place.pointer or "") for each in found)


@pytest.mark.parametrize(
    "changes",
    [
        {"args": [*GATED, "--ttl", "86400"]},
        {"args": [*GATED, "--ttl", "soon"]},
        {"args": [*GATED, "--ttl", "9" * 5000]},
        {"args": [*GATED, "--ttl", "600"], "timeout": None},
        {"args": [*GATED, "--ttl", "9", "--ttl", "86400"], "timeout": 86520},
        {"command": f"/opt/assent/bin/assent {PINNED}", "args": None},
        {"command": f"cd /srv && ASSENT_URL=http://127.0.0.1:1 assent {PINNED} 2>>log", "args": None},
        {"command": "uv", "args": ["run", "assent", *GATED]},
        {"command": "python", "args": ["-m", "assent", *GATED]},
        {"command": "C:\\bin\\assent.exe", "args": GATED},
        {"once": False, "async": False},
        {"command": f"umask 077; /opt/a@b/assent {PINNED}", "args": None},
    ],
)
def test_a_correct_gate_is_recognized_in_every_form(changes: dict[str, Any]) -> None:
    found = looked(settings({name: value for name, value in {**COMMAND, **changes}.items() if value is not None}))
    assert [(each.check, each.severity) for each in found] == [("gate", Severity.OK)]


@pytest.mark.parametrize(
    "other",
    [
        {"type": "command", "command": "echo assent hook"},
        {"type": "command", "command": "assent", "args": ["ask", "claude"]},
        {"type": "command", "command": "my-assent hook claude"},
        {"type": "http", "url": "https://assent.example.com/hooks/claude"},
        {"type": "http", "url": 7},
        {"type": "http", "url": "http://[/api/hooks/claude"},
        {"type": "prompt", "prompt": "assent hook claude"},
    ],
)
def test_other_hooks_are_not_gates(other: dict[str, Any]) -> None:
    assert bad(looked(settings(other))) == [("no-gate", "problem")]


@pytest.mark.parametrize(
    ("on_failure", "so"), [("block", "all calls are blocked"), (None, "all calls run without approval")]
)
def test_a_gate_that_cannot_start_is_reported_as_a_problem(on_failure: str | None, so: str) -> None:
    machine = Machine(env=HERE.env, runs=lambda program: program != "assent")
    found = looked(settings({**COMMAND, "onFailure": on_failure}), machine=machine)
    (finding,) = (each for each in found if each.check == "hook-command")
    assert (finding.severity, finding.place.pointer) == (Severity.PROBLEM, "/hooks/PreToolUse/0/hooks/0/command")
    assert so in finding.what


def test_a_program_that_only_a_shell_can_resolve_is_not_checked() -> None:
    machine = Machine(env=HERE.env, runs=lambda _: False)
    gate = {**COMMAND, "command": f"$HOME/bin/assent {PINNED}"}
    del gate["args"]
    assert bad(looked(settings(gate), machine=machine)) == []


def test_a_hook_on_an_event_that_cannot_block_is_not_a_gate() -> None:
    found = looked(settings(COMMAND, event="PostToolUse"))
    assert bad(found) == [("hook-event", "problem"), ("no-gate", "problem")]


@pytest.mark.parametrize(
    ("matcher", "tool", "seen"),
    [
        ("", "Bash", True),
        ("*", "mcp__a__b", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Bash|Edit", "Edit", True),
        ("Bash, Edit", "Edit", True),
        ("Edit|Write", "NotebookEdit", False),
        ("mcp__.*", "mcp__a__b", True),
        ("mcp__a", "mcp__a__b", False),
        ("mcp__a__.*", "mcp__b__c", False),
        ("Bash|mcp__.*", "BashOutput", True),
        ("^(Bash|Edit)$", "BashOutput", False),
        ("[", "Bash", False),
    ],
)
def test_a_matcher_covers_the_same_tools_as_in_claude_code(matcher: str, tool: str, *, seen: bool) -> None:
    assert covers(matcher, tool) is seen


def test_a_gate_without_a_matcher_covers_every_tool() -> None:
    assert bad(looked(settings(COMMAND, matcher=None))) == []


def test_uncovered_tools_are_reported_once_at_the_first_gate() -> None:
    narrow = settings(COMMAND, COMMAND, matcher="Bash|Edit|Write")
    (found,) = (each for each in looked(narrow) if each.severity != "ok")
    assert (found.check, found.severity) == ("matcher-misses", Severity.WARNING)
    assert found.place == Place("/0.json", "/hooks/PreToolUse/0/hooks/0")
    assert "NotebookEdit, WebFetch, MCP tools" in found.what


def test_the_coverage_of_several_gates_is_combined() -> None:
    one, other = settings(COMMAND, matcher="Bash|Edit|Write|NotebookEdit"), settings(HTTP, matcher="WebFetch|mcp__.*")
    assert bad(looked(one, other)) == []


@pytest.mark.parametrize(
    ("matcher", "severity"), [("(", "problem"), ("mcp__github", "warning"), ("Bash|mcp__github", "warning")]
)
def test_a_matcher_that_matches_nothing_is_reported(matcher: str, severity: str) -> None:
    assert ("hook-matcher", severity) in bad(looked(settings(COMMAND, matcher=matcher)))


@pytest.mark.parametrize(
    ("event", "matcher", "rule", "expected"),
    [
        ("PreToolUse", "*", "Bash", []),
        ("PreToolUse", "*", "mcp__github", []),
        ("PermissionRequest", "*", "Bash", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "Bash(*)", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "*", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "Bash(:*)", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "Write( ** )", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "PowerShell", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "MultiEdit", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "Bash(npm test:*)", [("allow-rule", "warning")]),
        ("PermissionRequest", "*", "mcp__github", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "mcp__github__*", [("allow-rule", "problem")]),
        ("PermissionRequest", "*", "mcp__assent__ask_human", []),
        ("PermissionRequest", "*", "Read", []),
        ("PermissionRequest", "*", "no (rule", []),
        ("PreToolUse", "Bash|mcp__.*", "Edit", [("matcher-misses", "warning"), ("allow-rule", "problem")]),
        ("PreToolUse", "Bash|mcp__.*", "Write(docs/**)", [("matcher-misses", "warning"), ("allow-rule", "warning")]),
    ],
)
def test_rules_that_let_a_call_bypass_the_gate_are_reported(
    event: str, matcher: str, rule: str, expected: list[tuple[str, str]]
) -> None:
    content = settings(COMMAND, event=event, matcher=matcher, permissions={"allow": ["Glob", rule]})
    found = looked(content)
    assert bad(found) == expected
    assert all(each.place.pointer == "/permissions/allow/1" for each in found if each.check == "allow-rule")


def test_an_allow_rule_is_checked_against_the_gates_of_all_files() -> None:
    mine, theirs = {"permissions": {"allow": ["Bash"]}}, settings(COMMAND, event="PermissionRequest")
    assert [each.place for each in looked(mine, theirs) if each.check == "allow-rule"] == [
        Place("/0.json", "/permissions/allow/0")
    ]


@pytest.mark.parametrize(
    ("event", "mode", "expected"),
    [
        ("PreToolUse", "default", []),
        ("PreToolUse", "plan", []),
        ("PreToolUse", "bypassPermissions", [("mode", "warning")]),
        ("PreToolUse", "acceptEdits", [("mode", "warning")]),
        ("PreToolUse", "yolo", [("mode", "warning")]),
        ("PermissionRequest", "bypassPermissions", [("mode", "problem")]),
        ("PermissionRequest", "acceptEdits", [("mode", "problem")]),
        ("PermissionRequest", "auto", [("mode", "problem")]),
        ("PermissionRequest", "dontAsk", []),
    ],
)
def test_modes_that_skip_permission_prompts_are_reported(
    event: str, mode: str, expected: list[tuple[str, str]]
) -> None:
    assert bad(looked(settings(COMMAND, event=event, permissions={"defaultMode": mode}))) == expected


@pytest.mark.parametrize(
    ("matcher", "mode", "named"),
    [
        ("Bash|WebFetch|mcp__.*", "acceptEdits", "Edit, Write, NotebookEdit run without approval."),
        ("Edit|Write|NotebookEdit", "acceptEdits", None),
        ("Edit|Write|NotebookEdit|WebFetch", "bypassPermissions", "Bash, MCP tools run without approval."),
    ],
)
def test_a_permission_mode_is_reported_as_a_problem_only_for_uncovered_tools(
    matcher: str, mode: str, named: str | None
) -> None:
    content = settings(COMMAND, matcher=matcher, permissions={"defaultMode": mode})
    (found,) = (each for each in looked(content) if each.check == "mode")
    assert found.place == Place("/0.json", "/permissions/defaultMode")
    assert (found.severity is Severity.PROBLEM, named is None or found.what.endswith(named)) == (
        named is not None,
        True,
    )


@pytest.mark.parametrize(
    ("event", "more", "expected"),
    [
        ("PreToolUse", {"disableAllHooks": True}, [("hooks-disabled", "problem")]),
        ("PreToolUse", {"disableAllHooks": False}, []),
        ("PreToolUse", {"allowManagedHooksOnly": True}, []),
        ("PreToolUse", {"skipDangerousModePermissionPrompt": True}, [("mode-skips", "warning")]),
        ("PermissionRequest", {"sandbox": {"autoAllowBashIfSandboxed": True}}, [("mode-skips", "problem")]),
        ("PreToolUse", {"sandbox": {"autoAllowBashIfSandboxed": True}}, []),
    ],
)
def test_settings_that_disable_gates_are_reported(
    event: str, more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    content = settings(COMMAND, event=event, **more)
    found = looked(content)
    assert bad(found) == expected
    assert all(resolved(content, each.place.pointer or "") is True for each in found if each.severity != Severity.OK)


def test_the_last_file_takes_precedence() -> None:
    off, on = {"disableAllHooks": True}, {"disableAllHooks": False}
    assert bad(looked(settings(COMMAND), off, on)) == []
    assert bad(looked(settings(COMMAND), on, off)) == [("hooks-disabled", "problem")]
    documents = [Document(path="a", content={"x": {"y": 1}}), Document(path="b", content={"x": {}})]
    assert effective(documents, "x", "y") == (Place("a", "/x/y"), 1)


@pytest.mark.parametrize("managed_gate", [True, False])
def test_an_organization_may_allow_only_its_managed_hooks(*, managed_gate: bool) -> None:
    own = Document(path="u", content=settings(COMMAND))
    content = {"allowManagedHooksOnly": True} | (settings(COMMAND) if managed_gate else {})
    managed = Document(path="m", content=content, managed=True)
    found = list(claude_findings([own, managed], HERE))
    places = [each.place for each in found if each.check == "hooks-disabled"]
    assert places == ([] if managed_gate else [Place("m", "/allowManagedHooksOnly")])
    assert bad(found) == ([] if managed_gate else [("hooks-disabled", "problem")])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"allowedHttpHookUrls": ["https://assent.example.com/*"]}, []),
        ({"allowedHttpHookUrls": ["https://other.example.com/*"]}, [("hook-url", "problem")]),
        ({"allowedHttpHookUrls": []}, [("hook-url", "problem")]),
        ({"httpHookAllowedEnvVars": ["ASSENT_TOKEN"]}, []),
        ({"httpHookAllowedEnvVars": ["PATH"]}, [("hook-variable", "problem")]),
    ],
)
def test_an_organizations_restrictions_on_http_hooks_are_respected(
    more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert bad(looked(settings(HTTP), more)) == expected
    assert bad(looked(settings(COMMAND), more)) == []


def test_variables_from_settings_count_as_set() -> None:
    machine = Machine(runs=HERE.runs)
    assert bad(looked(settings(HTTP), machine=machine)) == [("hook-variable", "problem")]
    assert bad(looked(settings(HTTP, env={"ASSENT_TOKEN": AGENT}), machine=machine)) == []


@pytest.mark.parametrize(
    "content",
    [
        {"hooks": []},
        {"hooks": {"PreToolUse": {}}},
        {"hooks": {"PreToolUse": [7]}},
        {"hooks": {"PreToolUse": [{"matcher": "*"}]}},
        {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": ["assent hook claude"]}]}},
        [],
    ],
)
def test_hooks_that_cannot_be_loaded_are_reported_as_a_problem(content: Any) -> None:
    assert bad(looked(content)) == [("shape", "problem"), ("no-gate", "problem")]


def test_each_hook_that_cannot_be_loaded_is_reported() -> None:
    content = {"hooks": {"PreToolUse": 1, "PermissionRequest": [{"hooks": []}, 2], "Stop": 3}}
    assert [each.place.pointer for each in looked(content) if each.check == "shape"] == [
        *("/hooks/PreToolUse", "/hooks/PermissionRequest/1", "/hooks/Stop")
    ]


def test_an_unreadable_file_is_reported_as_a_problem() -> None:
    document = Document(path="/x.json", trouble="it is not JSON at line 1, column 2")
    found = list(claude_findings([document], HERE))
    assert bad(found) == [("unreadable", "problem"), ("no-gate", "problem")]
    assert found[0].place == Place("/x.json")
    assert bad(list(mcp_findings([document], [], HERE))) == [("unreadable", "problem")]


def test_missing_settings_are_reported_as_a_missing_gate() -> None:
    (found,) = looked()
    assert (found.check, found.severity, found.place) == ("no-gate", Severity.PROBLEM, Place("/app"))


def test_a_missing_gate_is_only_a_warning_if_the_agent_can_ask_over_mcp() -> None:
    (found,) = claude_findings([], HERE, asks_otherwise=True)
    assert (found.check, found.severity) == ("no-gate", Severity.WARNING)


UNPINNED = {**COMMAND, "args": ["hook", "claude"]}
ISOLATED = {**COMMAND, "command": "/opt/python", "args": ["-I", "-m", "assent", *GATED, "--token-file", "/t"]}


def test_a_gate_that_depends_on_environment_variables_is_reported() -> None:
    assert bad(looked(settings(UNPINNED))) == [("hook-unpinned", "problem")]
    unsigned = {**COMMAND, "args": ["hook", "claude", "--url=https://assent.example.com"]}
    assert bad(looked(settings(unsigned))) == [("hook-receipt-key", "warning")]


@pytest.mark.parametrize("name", ["ASSENT_URL", "ASSENT_RECEIPT_KEY"])
def test_a_url_or_receipt_key_in_any_settings_file_is_found(name: str) -> None:
    project = {"env": {name: "x"}}
    for contents in ((settings(UNPINNED), project), (project, settings(UNPINNED)), (settings(UNPINNED) | project,)):
        (found,) = (each for each in looked(*contents) if each.check == "env")
        assert (found.severity, found.place.pointer) == (Severity.PROBLEM, f"/env/{name}")
    assert ("env", "warning") in bad(looked(settings(COMMAND), project))


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        (UNPINNED, ["LD_PRELOAD", "PYTHONPATH", "PATH", "ASSENT_TOKEN", "HTTPS_PROXY", "all_proxy", "SSL_CERT_FILE"]),
        (COMMAND, ["DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP", "PATH", "ASSENT_TOKEN"]),
        (HTTP, ["LD_PRELOAD", "ASSENT_TOKEN", "HTTPS_PROXY"]),
        (ISOLATED, ["LD_PRELOAD"]),
    ],
)
def test_variables_in_other_settings_files_that_affect_a_gate_are_reported(
    gate: dict[str, Any], names: list[str]
) -> None:
    everything = ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "ASSENT_TOKEN"]
    everything += ["HTTPS_PROXY", "all_proxy", "SSL_CERT_FILE", "EDITOR"]
    env = dict.fromkeys(everything, AGENT)
    found = [each for each in looked(settings(gate), {"env": env}) if each.check == "env"]
    assert set(names) <= {str(each.place.pointer).rpartition("/")[2] for each in found}
    assert all(each.severity is Severity.PROBLEM for each in found)
    assert "/env/EDITOR" not in [each.place.pointer for each in found]
    if gate is ISOLATED:
        assert [each.place.pointer for each in found] == ["/env/LD_PRELOAD", "/env/DYLD_INSERT_LIBRARIES"]
    assert [each for each in looked(settings(gate, env=env)) if each.check == "env"] == [], (
        "the gate's own file may set them"
    )


@pytest.mark.parametrize("matcher", ["bash", "Bsh", "^Bash_$", "edit|write"])
def test_a_matcher_that_matches_no_tool_is_reported_as_a_problem(matcher: str) -> None:
    assert ("hook-matcher", "problem") in bad(looked(settings(COMMAND, matcher=matcher)))


@pytest.mark.parametrize("matcher", ["*", "", "Read", "TodoWrite", "mcp__github__.*", "^(Bash|Edit)$"])
def test_a_matcher_that_matches_a_tool_is_not_reported(matcher: str) -> None:
    assert "hook-matcher" not in [check for check, _ in bad(looked(settings(COMMAND, matcher=matcher)))]


_KEYS = st.sampled_from(
    """hooks PreToolUse matcher type command args url headers env permissions allow defaultMode timeout mcpServers
    ASSENT_TOKEN projects /app sandbox""".split()  # noqa: SIM905  # a list of words is easier to read without quotes
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_any_settings_file_can_be_checked(content: Any) -> None:
    document = Document(path="f", content=content)
    found = [
        *claude_findings([document], HERE),
        *mcp_findings([document], [document], HERE),
        *(each for access in claude_accesses([document], HERE) for each in access_findings(access)),
        *(each for access in mcp_accesses([document], HERE) for each in access_findings(access)),
    ]
    assert all(each.what and (each.todo or each.severity is Severity.OK) for each in found)


@given(st.text(alphabet="assent hokcld|&;\"' $()<>\\", max_size=40))
def test_any_command_line_can_be_parsed(command: str) -> None:
    assert all(isinstance(word, str) for word in shell_words(command))


def test_a_json_pointer_is_escaped() -> None:
    assert Place("f", "").at("a/b", "c~d", 0) == Place("f", "/a~1b/c~0d/0")


MCP: dict[str, Any] = {"command": "assent", "args": ["mcp"], "env": {"ASSENT_TOKEN": AGENT}}


def mcp(server: Any, name: str = "assent") -> dict[str, Any]:
    return {"mcpServers": {name: server}}


def mcp_looked(content: Any, *, machine: Machine = HERE, settings: Any = None) -> list[Finding]:
    found = Document(path="/.mcp.json", content=content)
    return list(mcp_findings([found], [Document(path="/s.json", content=settings or {})], machine))


NO_ENV = Machine(runs=lambda _: True, project="/app")


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (MCP, []),
        ({**MCP, "timeout": 60_000}, []),
        ({**MCP, "timeout": 59_999}, [("mcp-timeout", "problem")]),
        ({**MCP, "timeout": 60}, [("mcp-timeout", "warning")]),
        ({**MCP, "env": {}}, [("mcp-token", "problem")]),
        ({**MCP, "env": {"ASSENT_TOKEN": "${MINE}"}}, [("mcp-token", "problem")]),
        ({**MCP, "env": {"ASSENT_TOKEN": f"${{MINE:-{AGENT}}}"}}, []),
        ({**MCP, "env": MCP["env"] | {"ASSENT_REVIEWER_TOKEN": PERSON}}, [("mcp-person", "warning")]),
        ({"url": "https://a.example.com/mcp", "headers": {"authorization": f"Bearer {AGENT}"}}, []),
        ({"url": "https://a.example.com/mcp"}, [("mcp-token", "problem")]),
        (
            {"url": "https://a.example.com/mcp", "headers": {"Authorization": f"Bearer {AGENT}", "X-P": PERSON}},
            [("mcp-person", "warning")],
        ),
        ({"command": "npx", "args": ["other"], "timeout": 5000}, []),
        ({"command": "npx", "args": ["other"], "env": {"X": PERSON}}, [("mcp-person", "warning")]),
        ("assent mcp", []),
    ],
)
def test_each_mcp_server_problem_is_reported(server: Any, expected: list[tuple[str, str]]) -> None:
    content = mcp(server)
    found = mcp_looked(content, machine=NO_ENV)
    assert bad(found) == expected
    assert all(resolved(content, each.place.pointer or "") for each in found)


def test_a_stdio_server_may_take_its_token_from_the_environment() -> None:
    assert bad(mcp_looked(mcp({**MCP, "env": {}}), machine=HERE)) == []
    assert bad(mcp_looked(mcp({"url": "https://a.example.com/mcp"}), machine=HERE)) == [("mcp-token", "problem")]


def test_an_mcp_server_that_cannot_start_is_reported_as_a_problem() -> None:
    found = mcp_looked(mcp(MCP), machine=Machine(runs=lambda program: program != "assent"))
    assert bad(found) == [("mcp-command", "problem")]
    assert "assent is not on the PATH" in found[0].what


def test_a_correct_mcp_server_is_reported_as_ok() -> None:
    (found,) = mcp_looked(mcp(MCP))
    assert (found.check, found.severity, found.place.pointer) == ("mcp", Severity.OK, "/mcpServers/assent")


def test_findings_show_the_timeout_and_suggest_a_variable_for_a_token() -> None:
    (short,) = mcp_looked(mcp({**MCP, "timeout": 5000}))
    assert "times out after 5000 ms" in short.what
    (lying, _) = mcp_looked(mcp({**MCP, "env": MCP["env"] | {"my-token": PERSON}}))
    assert "${MY_TOKEN}" in lying.todo


def test_another_projects_mcp_server_is_not_checked() -> None:
    wrong = mcp({**MCP, "env": {}})
    assert bad(mcp_looked({"projects": {"/app": wrong}}, machine=NO_ENV)) == [("mcp-token", "problem")]
    assert mcp_looked({"projects": {"/other": wrong}}, machine=NO_ENV) == []


@pytest.mark.parametrize("name", ["MCP_TOOL_TIMEOUT", "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT"])
@pytest.mark.parametrize(("value", "short"), [("30000", True), ("60000", False), ("0", False), ("never", False)])
def test_a_global_tool_timeout_is_read_from_the_settings_and_the_environment(
    name: str, value: str, *, short: bool
) -> None:
    expected = [("mcp-timeout", "problem")] if short else []
    (*found,) = mcp_looked(mcp(MCP), machine=Machine(env={name: value}, runs=HERE.runs))
    assert bad(found) == expected
    (*found,) = mcp_looked(mcp(MCP), machine=NO_ENV, settings={"env": {name: value}})
    assert bad(found) == expected
    assert not short or Place("/s.json", f"/env/{name}") in [each.place for each in found]
    assert mcp_looked(mcp({"command": "other"}), settings={"env": {name: value}}) == []


def test_each_token_is_found_with_its_servers_url() -> None:
    content = settings(HTTP, env={"ASSENT_TOKEN": PERSON, "ASSENT_URL": "http://127.0.0.1:1"})
    from_env, from_hook = claude_accesses([Document(path="s", content=content)], HERE)
    assert from_env == Access(Place("s", "/env/ASSENT_TOKEN"), PERSON, "http://127.0.0.1:1")
    assert from_hook == Access(Place("s", "/hooks/PreToolUse/0/hooks/0/headers"), PERSON, str(HTTP["url"]))
    document = Document(path="m", content=mcp({**MCP, "env": MCP["env"] | {"ASSENT_URL": "${U}"}}))
    assert list(mcp_accesses([document], Machine(env={"U": "http://u"}))) == [
        Access(Place("m", "/mcpServers/assent/env/ASSENT_TOKEN"), AGENT, "http://u")
    ]


@pytest.mark.parametrize(
    ("server", "url"), [("http://127.0.0.1:7373", None), ("https://b.example.com", "http://127.0.0.1:7374/mcp")]
)
def test_an_mcp_server_on_the_same_host_is_assumed_to_forward_tokens_to_our_server(
    server: str, url: str | None
) -> None:
    content = mcp({"url": "http://127.0.0.1:7374/mcp", "headers": {"Authorization": f"Bearer {AGENT}"}})
    (access,) = mcp_accesses([Document(path="m", content=content)], Machine(server=server))
    assert access == Access(Place("m", "/mcpServers/assent"), AGENT, url)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (AGENT, []),
        (PERSON, [("token-kind", "warning")]),
        (SERVICE, [("token-kind", "problem")]),
        (AGENT[:-1], [("token-form", "problem")]),
        ("hunter2", [("token-form", "problem")]),
    ],
)
def test_a_token_is_classified_by_its_format_and_never_shown(token: str, expected: list[tuple[str, str]]) -> None:
    found = list(access_findings(Access(Place("ASSENT_TOKEN"), token)))
    assert bad(found) == expected
    assert not any(token in f"{each.what}{each.todo}" for each in found)


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("http://h:1/api/hooks/claude", "http://h:1", True),
        ("https://h/x", "https://h:443", True),
        ("http://h", "https://h", False),
        ("http://h:1", "http://h:2", False),
        ("http://H:1", "http://h:1", True),
        ("http://h:x", "http://h", False),
        ("http://[", "http://h", False),
        ("http://h:x", "http://g:x", False),
        ("http://h:80", "http://h", True),
        ("ftp://h:80", "ftp://h", False),
    ],
)
def test_a_server_is_identified_by_scheme_host_and_port(url: str, other: str, *, same: bool) -> None:
    assert same_server(url, other) is same


def dated(date: str, *, sent: float = 1_000_000_000.0, took: float = 0.5) -> Seen:
    return Seen(url="http://s", status=200, detail="ready\n", date=date, sent=sent, received=sent + took)


def test_clock_skew_is_measured_as_precisely_as_a_response_allows() -> None:
    at = "Sun, 09 Sep 2001 01:46:40 GMT"  # 1,000,000,000 seconds
    assert skew(dated(at)) == 0
    assert skew(dated(at, sent=1_000_000_001.9)) == 0
    assert skew(dated(at, sent=1_000_000_010.0)) == -8
    assert skew(dated(at, sent=999_999_990.0)) == 9.5
    assert skew(dated(at, sent=999_999_990.0, took=20)) == 0
    assert skew(dated("yesterday")) is None


@pytest.mark.parametrize(
    ("sent", "severity", "said"),
    [
        *(
            (0, "ok", "this machine's clock are in sync"),
            (30, "warning", "28 s behind"),
            (-30, "warning", "30 s ahead"),
            (4, "ok", "in sync"),
        ),
        *(
            (7, "ok", "this machine's clock are in sync"),
            (7.5, "warning", "behind"),
            (-5, "ok", "in sync"),
            (-5.5, "warning", "ahead"),
        ),
    ],
)
def test_a_clock_difference_of_more_than_five_seconds_causes_a_warning(sent: float, severity: str, said: str) -> None:
    (found,) = clock(dated("Sun, 09 Sep 2001 01:46:40 GMT", sent=1_000_000_000 + sent, took=0))
    assert (found.check, found.severity, said in found.what) == ("clock", severity, True), found.what
    assert found.place == Place("http://s")


def test_a_response_without_a_valid_date_causes_a_warning() -> None:
    assert bad(list(clock(dated("")))) == [("clock", "warning")]


@pytest.mark.parametrize(
    ("status", "detail", "severity"),
    [
        (200, "ready\n", "ok"),
        (200, "<html>", "problem"),
        (503, "", "problem"),
        (404, "", "problem"),
        (None, "x", "problem"),
    ],
)
def test_a_server_is_ready_only_if_its_response_says_so(status: int | None, detail: str, severity: str) -> None:
    found = reached(Seen(url="http://s", status=status, detail=detail))
    assert (found.check, found.severity, found.place) == ("server", severity, Place("http://s"))


def test_the_reason_a_server_is_not_ready_is_shown() -> None:
    assert "The disk is full." in reached(Seen(url="http://s", status=503, detail="The disk is full.")).what
    assert "the reason is unknown" in reached(Seen(url="http://s", status=503)).what


@pytest.mark.parametrize(
    ("theirs", "ours", "severity"),
    [("0.1.0", "0.1.7", "ok"), ("0.2.0", "0.1.0", "warning"), ("1.1", "0.1", "warning"), (None, "0.1", "warning")],
)
def test_versions_must_have_the_same_major_and_minor_numbers(theirs: str | None, ours: str, severity: str) -> None:
    (found,) = versions("http://s", theirs, ours)
    assert (found.check, found.severity, found.place) == ("version", severity, Place("http://s"))


def test_findings_are_sorted_by_severity_and_otherwise_keep_their_order() -> None:
    def one(check: str, severity: Severity) -> Finding:
        return Finding(check=check, severity=severity, place=Place("f"), what="w")

    given_ = [one("a", Severity.OK), one("b", Severity.WARNING), one("c", Severity.PROBLEM), one("d", Severity.WARNING)]
    assert "".join(each.check for each in worst_first(given_)) == "cbda"
    assert [counted(given_, each) for each in Severity] == [1, 2, 1]


@pytest.mark.parametrize(
    ("text", "number"), [("60", 60), ("9" * 12, 10**12 - 1), ("9" * 13, None), ("-1", None), ("٣", None), ("", None)]
)
def test_numbers_have_at_most_twelve_ascii_digits(text: str, number: int | None) -> None:
    assert whole_number(text) == number
