"""Findings about Claude Code's gates: their locations, their wording, and the settings that yield none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.doctor.claude_checks import RISKY, Gates, claude_accesses, claude_findings, environment
from assent.agents.doctor.claude_settings import Hook
from assent.agents.doctor.findings import Access, Document, Finding, Machine, Place, Severity
from tests.agents.doctor.test_checkup import AGENT, COMMAND, HERE, HTTP, PINNED, bad, looked, resolved, settings

GATE = "/hooks/PreToolUse/0/hooks/0"
DIALOG = "PermissionRequest"
UNKNOWN: list[Any] = ["yolo", "", 7, True, [], {}, ["default"]]


def one(check: str, *contents: Any, machine: Machine = HERE) -> Finding:
    """Return the only finding from this check."""
    (found,) = (each for each in looked(*contents, machine=machine) if each.check == check)
    return found


def gate(of: Any = COMMAND, **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**of, **changes}.items() if value is not None}


def gates(*seen: tuple[str, str]) -> Gates:
    return Gates([Hook(place=Place("f"), event=event, matcher=matcher, settings={}) for event, matcher in seen])


def test_tools_that_change_or_send_data_are_risky() -> None:
    assert RISKY == ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "mcp__server__tool")


def test_a_gate_covers_matching_tools_only_on_its_own_event() -> None:
    both = gates(("PreToolUse", "Bash"), (DIALOG, "Edit|Write"), ("Stop", "*"))
    assert [tool for tool in RISKY if both.before(tool)] == ["Bash"]
    assert [tool for tool in RISKY if both.instead_of_dialog(tool)] == ["Edit", "Write"]
    assert both.unseen() == ["NotebookEdit", "WebFetch", "mcp__server__tool"]
    assert gates().unseen() == list(RISKY)


@pytest.mark.parametrize(
    ("changes", "check", "below", "words"),
    [
        ({"onFailure": None}, "hook-on-failure", "", ("without approval", '"onFailure": "block"')),
        ({"async": True}, "hook-async", "/async", ("in the background", 'Remove "async".')),
        ({"asyncRewake": True}, "hook-async", "/asyncRewake", ("in the background", 'Remove "asyncRewake".')),
        ({"once": True}, "hook-once", "/once", ("after its first call", 'Remove "once".')),
        ({"timeout": 60}, "hook-timeout", "/timeout", ("have 86400 s", "stops waiting after 60 s", "more than 86400")),
        (
            {"timeout": 0.5},
            "hook-timeout",
            "/timeout",
            ("have 86400 s", "waiting after 0.5 s", "more than 86400"),
        ),
        ({"timeout": None}, "hook-timeout", "", ("stops waiting after 600 s by default",)),
        ({"if": "Bash(git *)"}, "hook-if", "/if", ("only calls that match", 'Remove "if"')),
        (
            {"args": None, "command": f"assent {PINNED}; true"},
            "hook-swallowed",
            "/command",
            ("continues", "||, ; or |"),
        ),
    ],
)
def test_each_problem_is_reported_with_its_location_and_a_remedy(
    changes: dict[str, Any], check: str, below: str, words: tuple[str, ...]
) -> None:
    content = settings(gate(**changes))
    found = one(check, content)
    assert bad(looked(content)) == [(check, found.severity.value)]
    assert found.place == Place("/0.json", f"{GATE}{below}")
    assert all(word in f"{found.what} {found.todo}" for word in words), found
    assert "gate" not in [each.check for each in looked(content)], "a faulty gate is not reported as ok"


@pytest.mark.parametrize("name", ["async", "asyncRewake", "once"])
def test_the_remedy_for_a_setting_that_disables_the_gate_is_to_remove_it(name: str) -> None:
    (found,) = looked(settings(gate(**{name: True})))
    assert (found.place.pointer, found.todo) == (f"{GATE}/{name}", f'Remove "{name}".')


@pytest.mark.parametrize("changes", [{"async": 1}, {"async": "true"}, {"once": 1}, {"asyncRewake": False}])
def test_only_true_enables_a_boolean_setting(changes: dict[str, Any]) -> None:
    assert bad(looked(settings(gate(**changes)))) == []


@pytest.mark.parametrize("timeout", [86_400, 86_520, 2_000_120, 10**400], ids=lambda given: str(given)[:12])
def test_an_ok_gate_shows_its_exact_timeout(timeout: int) -> None:
    found = one("gate", settings(gate(timeout=timeout)))
    assert (
        found.what == f"The gate on PreToolUse blocks the call if it fails, and waits up to {timeout} s for an answer."
    )


def test_all_problems_with_a_gate_are_reported() -> None:
    wrong = gate(HTTP, onFailure="continue", once=True, timeout=1, url="http://a.example.com/api/hooks/claude")
    more: dict[str, Any] = {"allowedHttpHookUrls": [], "httpHookAllowedEnvVars": []}
    assert [each.check for each in looked(settings(wrong), more)] == [
        *("hook-on-failure", "hook-once", "hook-timeout", "hook-url", "hook-url", "hook-variable"),
    ]


def test_the_remedy_for_a_gate_on_the_wrong_event_names_the_right_events() -> None:
    found = one("hook-event", settings(COMMAND, event="PostToolUse"))
    assert found.place.pointer == "/hooks/PostToolUse/0/hooks/0"
    assert "A gate on PostToolUse cannot block the call" in found.what
    assert "PreToolUse or PermissionRequest" in found.todo
    assert bad(looked(settings(COMMAND, event="PostToolUse", disableAllHooks=True))) == [
        *(("hook-event", "problem"), ("no-gate", "problem")),
    ]


@pytest.mark.parametrize(
    ("matcher", "severity"),
    [
        *(("(", "problem"), ("a{99999999999}", "problem")),
        *(("mcp__git-hub", "warning"), ("Bash|mcp__github", "warning"), ("Bash, mcp__github", "warning")),
        *(("mcp__github|Bash", "warning"), ("Bash|mcp__my_server|Edit", "warning")),
        *(("mcp__github__push", None), ("mcp__github__.*", None), ("Bash", None), ("xmcp__github", None)),
    ],
)
def test_a_matcher_that_cannot_match_is_reported_at_its_hook(matcher: str, severity: str | None) -> None:
    found = [each for each in looked(settings(COMMAND, matcher=matcher)) if each.check == "hook-matcher"]
    assert [(each.severity.value, each.place.pointer) for each in found] == ([(severity, GATE)] if severity else [])


@pytest.mark.parametrize(
    ("on_failure", "so"), [("block", "all calls are blocked."), ("continue", "all calls run without approval.")]
)
def test_the_path_of_a_missing_program_is_truncated_to_sixty_characters(on_failure: str, so: str) -> None:
    nowhere = Machine(runs=lambda _: False)
    wrong = gate(command=f"/{'x' * 100}/assent", onFailure=on_failure)
    found = one("hook-command", settings(wrong), machine=nowhere)
    assert (found.severity, found.place.pointer) == (Severity.PROBLEM, f"{GATE}/command")
    assert f"/{'x' * 59} is not on the PATH, so the gate cannot start and {so}" in found.what
    assert bad(looked(settings(HTTP), machine=Machine(env=HERE.env, runs=lambda _: False))) == []


def test_a_shell_line_that_begins_with_cd_is_not_searched_for_a_program() -> None:
    machine = Machine(runs=lambda program: program == "assent")
    line = f'cd "$CLAUDE_PROJECT_DIR" && assent {PINNED}'
    assert bad(looked(settings(gate(command=line, args=None)), machine=machine)) == []


@pytest.mark.parametrize(
    ("address", "clear"),
    [
        *(("https://a.example.com", False), ("http://a.example.com", True), ("http://10.0.0.7:7373", True)),
        *(("http://127.0.0.1:7373", False), ("http://localhost:7373", False), ("http://[::1]:7373", False)),
        *(("http://localhost.example.com", True), ("HTTPS://a.example.com", False)),
    ],
)
def test_a_token_may_be_sent_unencrypted_only_to_this_machine(address: str, *, clear: bool) -> None:
    found = looked(settings(gate(HTTP, url=f"{address}/api/hooks/claude")))
    assert bad(found) == ([("hook-url", "warning")] if clear else [])
    assert not clear or (found[0].place.pointer, "https://" in found[0].todo) == (f"{GATE}/url", True)


@pytest.mark.parametrize(
    ("headers", "sends"),
    [
        *(({"Authorization": "Bearer $ASSENT_TOKEN"}, True), ({"AUTHORIZATION": "bearer $ASSENT_TOKEN"}, True)),
        *(({"X-Token": "Bearer $ASSENT_TOKEN"}, False), ({"Authorization": "Basic $ASSENT_TOKEN"}, False)),
        *(({"Authorization": "Bearer"}, False), ({}, False), (None, False)),
        ({"authorization": "Basic x", "Authorization": "Bearer $ASSENT_TOKEN"}, True),
        ({"authorization": "Bearer $ASSENT_TOKEN", "Authorization": "Basic x"}, False),
        ({"authorization": "Basic y", "AUTHORIZATION": "Basic x", "Authorization": "Bearer $ASSENT_TOKEN"}, True),
    ],
    ids=str,
)
def test_an_http_hook_must_send_its_token_as_a_bearer_token(headers: Any, *, sends: bool) -> None:
    """If a header occurs several times, the last one counts."""
    content = settings(gate(HTTP, headers=headers))
    assert bad(looked(content)) == ([] if sends else [("hook-token", "problem")])
    tokens = [each.token for each in claude_accesses([Document(path="f", content=content)], HERE)]
    assert tokens == ([AGENT] if sends else [])
    if not sends:
        found = one("hook-token", content)
        assert found.place.pointer == GATE
        assert found.todo == (
            'Add "headers": {"Authorization": "Bearer $ASSENT_TOKEN"} and "allowedEnvVars": ["ASSENT_TOKEN"].'
        )


@pytest.mark.parametrize(
    ("allowed", "env", "words"),
    [
        (["MINE"], {"MINE": "x"}, None),
        (["OTHER", 7, "MINE"], {"MINE": "x"}, None),
        (["OTHER"], {"MINE": "x"}, ("MINE is not in allowedEnvVars", 'Add "allowedEnvVars": ["MINE"]')),
        (None, {"MINE": "x"}, ("MINE is not in allowedEnvVars", 'Add "allowedEnvVars": ["MINE"]')),
        (["MINE"], {}, ("MINE is not set here", "Set MINE in Claude Code's environment")),
        (["MINE"], {"MINE": ""}, ("MINE is not set here", "Set MINE in Claude Code's environment")),
    ],
    ids=str,
)
def test_a_variable_in_a_header_must_be_allowed_and_set(
    allowed: Any, env: dict[str, str], words: tuple[str, str] | None
) -> None:
    content = settings(gate(HTTP, headers={"Authorization": "Bearer ${MINE}"}, allowedEnvVars=allowed))
    machine = Machine(env=env, runs=HERE.runs)
    found = looked(content, machine=machine)
    assert bad(found) == ([] if words is None else [("hook-variable", "problem")])
    assert words is None or (words[0] in found[0].what, words[1] in found[0].todo) == (True, True)
    assert words is None or found[0].place.pointer == f"{GATE}/headers/Authorization"
    accesses = list(claude_accesses([Document(path="f", content=content)], machine))
    assert [each.token for each in accesses] == (["x"] if words is None else [])


def test_an_organizations_lists_from_all_files_are_combined() -> None:
    url, name = str(HTTP["url"]), "ASSENT_TOKEN"
    neither, both = ["https://b.example.com/*", 7], [url]
    assert bad(looked(settings(HTTP), {"allowedHttpHookUrls": neither}, {"allowedHttpHookUrls": both})) == []
    assert bad(looked(settings(HTTP), {"httpHookAllowedEnvVars": ["X"]}, {"httpHookAllowedEnvVars": [name]})) == []
    wrong = one("hook-url", settings(HTTP), {"allowedHttpHookUrls": neither})
    assert (wrong.severity, wrong.place.pointer) == (Severity.PROBLEM, f"{GATE}/url")
    assert "allowedHttpHookUrls" in wrong.what
    unset = one("hook-variable", settings(HTTP), {"httpHookAllowedEnvVars": ["X", 7]})
    assert unset.place.pointer == f"{GATE}/headers/Authorization"
    assert "Add ASSENT_TOKEN to httpHookAllowedEnvVars" in unset.todo


def test_variables_in_later_files_override_earlier_files_and_the_environment() -> None:
    files = [{"env": {"A": "1", "B": "1"}}, {"env": {"B": "2", "C": 7}}, {"env": ["A"]}, {"A": "no"}]
    documents = [Document(path="f", content=content) for content in files]
    assert environment(documents, {"A": "0", "D": "0"}) == {"A": "1", "B": "2", "D": "0"}


def test_tokens_are_found_in_variables_and_gate_headers() -> None:
    first = Document(path="a", content={"env": {"ASSENT_TOKEN": "one"}})
    second = Document(path="b", content=settings(HTTP, COMMAND, gate(HTTP, url="https://b.example.com/else")))
    third = Document(path="c", content={"env": {"ASSENT_URL": "http://u"}})
    assert list(claude_accesses([first, second, third], HERE)) == [
        Access(Place("a", "/env/ASSENT_TOKEN"), "one", None),
        Access(Place("b", f"{GATE}/headers"), "one", str(HTTP["url"])),
    ]


@pytest.mark.parametrize(("header", "token"), [("Bearer asta_x", "asta_x"), ("bearer   asta_x ", "asta_x")])
def test_a_token_in_a_header_is_read_without_the_scheme(header: str, token: str) -> None:
    content = settings(gate(HTTP, headers={"Authorization": header}))
    assert [each.token for each in claude_accesses([Document(path="f", content=content)], HERE)] == [token]


@pytest.mark.parametrize("switch", ["disableAllHooks", "skipDangerousModePermissionPrompt"])
@pytest.mark.parametrize("value", [False, 1, "true", None, {}])
def test_a_switch_is_enabled_only_by_the_value_true(switch: str, value: Any) -> None:
    assert bad(looked(settings(COMMAND, **{switch: value}))) == []


def test_a_switch_is_reported_in_the_file_that_sets_it() -> None:
    off = one("hooks-disabled", settings(COMMAND), {"disableAllHooks": True})
    assert (off.severity, off.place) == (Severity.PROBLEM, Place("/1.json", "/disableAllHooks"))
    assert off.todo == 'Remove "disableAllHooks".'
    skip = one("mode-skips", settings(COMMAND), {"skipDangerousModePermissionPrompt": True})
    assert (skip.severity, skip.place) == (Severity.WARNING, Place("/1.json", "/skipDangerousModePermissionPrompt"))
    assert '"disableBypassPermissionsMode" to "disable"' in skip.todo


@pytest.mark.parametrize(
    ("event", "matcher", "value", "found"),
    [
        *(("PreToolUse", "Bash", True, False), ("PreToolUse", "Edit", True, True), (DIALOG, "*", True, True)),
        *((DIALOG, "*", False, False), (DIALOG, "*", 1, False), (DIALOG, "*", None, False)),
    ],
)
def test_a_sandbox_that_auto_allows_commands_is_reported_unless_a_gate_runs_first(
    event: str, matcher: str, value: Any, *, found: bool
) -> None:
    content = settings(COMMAND, event=event, matcher=matcher, sandbox={"autoAllowBashIfSandboxed": value})
    told = [each for each in looked(content) if each.check == "mode-skips"]
    assert [(each.severity, each.place.pointer) for each in told] == (
        [(Severity.PROBLEM, "/sandbox/autoAllowBashIfSandboxed")] if found else []
    )


@pytest.mark.parametrize(
    ("said", "managed", "own", "found"),
    [
        *((True, True, False, True), (True, True, True, False), (True, False, False, False)),
        *((False, True, False, False), (1, True, False, False), (None, True, False, False)),
    ],
)
def test_only_managed_settings_can_restrict_hooks_to_managed_ones(
    said: Any, *, managed: bool, own: bool, found: bool
) -> None:
    rules = Document(path="m", content={"allowManagedHooksOnly": said}, managed=managed)
    gated = Document(path="g", content=settings(COMMAND), managed=own)
    told = list(claude_findings([gated, rules], HERE))
    assert bad(told) == ([("hooks-disabled", "problem")] if found else [])
    assert not found or told[-1].place == Place("m", "/allowManagedHooksOnly")


@pytest.mark.parametrize(
    ("mode", "matcher", "severity", "said"),
    [
        *((mode, "*", None, "") for mode in ("default", "manual", "plan", "dontAsk")),
        *((mode, "*", "warning", f"In {mode} mode, ") for mode in ("bypassPermissions", "acceptEdits", "auto")),
        *((mode, "*", "warning", "Unknown permission mode") for mode in UNKNOWN),
        (
            "auto",
            "Bash|Edit|Write",
            "problem",
            "In auto mode, NotebookEdit, WebFetch, MCP tools run without approval.",
        ),
        ("acceptEdits", "Bash", "problem", "Edit, Write, NotebookEdit run without approval."),
        ("acceptEdits", "Edit|Write|NotebookEdit", "warning", "so only gates on PreToolUse run"),
        ("yolo", "Bash", "warning", "Unknown permission mode"),
    ],
    ids=str,
)
def test_a_mode_is_reported_with_the_calls_that_it_leaves_ungated(
    mode: Any, matcher: str, severity: str | None, said: str
) -> None:
    content = settings(COMMAND, matcher=matcher, permissions={"defaultMode": mode})
    found = [each for each in looked(content) if each.check == "mode"]
    assert [(each.severity.value, each.place.pointer) for each in found] == (
        [(severity, "/permissions/defaultMode")] if severity else []
    )
    assert all(said in each.what and '"default"' in each.todo for each in found)


def test_the_remedy_for_an_unknown_mode_is_the_default_mode() -> None:
    assert one("mode", settings(COMMAND, permissions={"defaultMode": "yolo"})).todo == 'Use "default".'


@pytest.mark.parametrize(
    ("rule", "severity"),
    [
        *((rule, "problem") for rule in ("Bash", " Bash ", "Bash()", "Bash( * )", "Edit(**)", "WebFetch(:*)")),
        *((rule, "problem") for rule in ("Write", "NotebookEdit", "PowerShell", "MultiEdit", "*")),
        *(
            (rule, "problem")
            for rule in ("mcp__github", "mcp__github__push", "mcp__git_hub__*", "mcp__*", "mcp__assentx")
        ),
        *((rule, "warning") for rule in ("Bash(git status)", "Bash (ls)", "Edit(a\nb)", "mcp__github__push(x)")),
        *((rule, None) for rule in ("Read", "Glob(*)", "mcp__assent", "mcp__assent__ask", "Bash(", "", "Bash x", "x*")),
        *((rule, None) for rule in (7, None, ["Bash"])),
    ],
    ids=str,
)
def test_allow_rules_that_skip_the_permission_dialog_are_reported(rule: Any, severity: str | None) -> None:
    content = settings(COMMAND, event=DIALOG, permissions={"allow": [rule]})
    found = [each for each in looked(content) if each.check == "allow-rule"]
    assert [each.severity.value for each in found] == ([severity] if severity else [])
    assert all(resolved(content, each.place.pointer or "") == rule for each in found)
    assert all("the gate on PermissionRequest does not run" in each.what for each in found)


@pytest.mark.parametrize(
    ("matcher", "rule", "seen"),
    [
        *(("Bash", "*", True), ("Edit", "*", False), ("Bash", "Bash(ls)", True), ("Edit", "Bash(ls)", False)),
        *(("mcp__.*", "mcp__github", True), ("mcp__github__.*", "mcp__github", True)),
        *(("mcp__github__.*", "mcp__github__push", True), ("mcp__other__.*", "mcp__github", False)),
        *(("^mcp__github__tool$", "mcp__github", True), ("^mcp__github__x$", "mcp__github__*", True)),
        *(("mcp__github__push", "mcp__github__push", True), ("mcp__github__push", "mcp__github", False)),
    ],
)
def test_allow_rules_are_not_reported_if_a_gate_checks_the_calls_first(matcher: str, rule: str, *, seen: bool) -> None:
    content = settings(COMMAND, matcher=matcher, permissions={"allow": [rule]})
    found = [each for each in looked(content) if each.check == "allow-rule"]
    assert (found == []) is seen
    assert all("not covered by a gate" in each.what for each in found)
    assert all(f"that covers {rule.partition('(')[0]}." in each.todo for each in found)


def test_rules_are_truncated_to_sixty_characters_in_findings() -> None:
    rule = f"Bash({'x' * 100})"
    found = one("allow-rule", settings(COMMAND, event=DIALOG, permissions={"allow": [rule]}))
    assert found.what.startswith(f"{rule[:60]} is allowed")


def test_uncovered_tools_are_reported_once_by_name() -> None:
    found = one("matcher-misses", settings(COMMAND, matcher="WebFetch"), settings(COMMAND, matcher="Write"))
    assert found.place == Place("/0.json", GATE)
    assert "No gate covers Bash, Edit, NotebookEdit, MCP tools." in found.what


def test_without_a_gate_only_the_last_file_is_reported() -> None:
    rest = {"disableAllHooks": True, "permissions": {"defaultMode": "auto", "allow": ["Bash"]}}
    (found,) = looked({}, {}, rest)
    assert (found.check, found.severity, found.place) == ("no-gate", Severity.PROBLEM, Place("/2.json"))
    assert "assent hook claude install" in found.todo


def test_an_unreadable_file_is_reported_and_the_others_are_checked() -> None:
    documents = [Document(path="/x", trouble="it is not a file"), Document(path="/y", content=settings(COMMAND))]
    found = list(claude_findings(documents, HERE))
    assert [(each.check, each.place.where) for each in found] == [("unreadable", "/x"), ("gate", "/y")]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["*", "Bash", "auto", "block", "(", "$X", "mcp__a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["allow", "defaultMode"]), inner),
    max_leaves=5,
)
_SETTINGS = st.sampled_from(
    ["permissions", "sandbox", "env", "disableAllHooks", "allowedHttpHookUrls", "httpHookAllowedEnvVars", "other"]
)
_HOOK = st.sampled_from(["timeout", "onFailure", "headers", "allowedEnvVars", "if", "async", "once", "args", "url"])


@given(st.dictionaries(_SETTINGS, _VALUES), st.dictionaries(_HOOK, _VALUES), st.sampled_from([COMMAND, HTTP]))
def test_a_gate_with_any_options_and_any_surrounding_settings_can_be_checked(
    more: dict[str, Any], changes: dict[str, Any], of: dict[str, Any]
) -> None:
    found = looked(settings({**of, **changes}, matcher="Bash", **more))
    assert found
    assert all(each.what and (each.todo or each.severity is Severity.OK) for each in found)
