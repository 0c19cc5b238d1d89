"""Settings interpreted as Claude Code does: commands, shells, matchers, variables and malformed hooks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.doctor.claude_settings import (
    DECIDING,
    DEFAULT_TIMEOUT,
    HOOK_PATH,
    Hook,
    covers,
    filled_in,
    hooks,
    is_broken,
    is_command,
    misshapen,
    shell_words,
)
from assent.agents.doctor.findings import Document, Place, Severity

URL = "https://assent.example.com/api/hooks/claude"
DEEP = "(" * 5000 + ")" * 5000
ENDLESS = "a{99999999999}"


def hook(**settings: Any) -> Hook:
    return Hook(place=Place("f", ""), event="PreToolUse", matcher="*", settings=settings)


def shell(command: str, **more: Any) -> Hook:
    return hook(type="command", command=command, **more)


def started(command: str, *args: Any, **more: Any) -> Hook:
    return hook(type="command", command=command, args=list(args), **more)


def http(url: Any = URL, **more: Any) -> Hook:
    return hook(type="http", url=url, **more)


def test_names_and_defaults_match_claude_code_and_our_api() -> None:
    assert DECIDING == ("PreToolUse", "PermissionRequest")
    assert HOOK_PATH == "/api/hooks/claude"
    assert DEFAULT_TIMEOUT == 600
    assert shell("x").managed is False


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("assent hook claude", ["assent", "hook", "claude"]),
        ("assent 'hook' \"claude\"", ["assent", "hook", "claude"]),
        ("a;b", ["a", ";", "b"]),
        ("a&&b||c|d&", ["a", "&&", "b", "||", "c", "|", "d", "&"]),
        ("a --tag 'x y'", ["a", "--tag", "x y"]),
        ("a #b", ["a", "#b"]),
        ("a X=b@c:d/e,f", ["a", "X=b@c:d/e,f"]),
        ("XX a", ["XX", "a"]),
        ("a 'b c", ["a", "'b", "c"]),
        ("a\nb", ["a", ";", "b"]),
        ("a \n\n b\n", ["a", ";", "b"]),
        ("\na\n", ["a"]),
        ("a &&\nb |\n c", ["a", "&&", "b", "|", "c"]),
        ("a || \n b", ["a", "||", "b"]),
        ("a \\\n b", ["a", "b"]),
        ("", []),
    ],
)
def test_a_line_is_split_as_a_shell_would_split_it(command: str, words: list[str]) -> None:
    assert list(shell_words(command)) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (shell("assent hook claude --ttl 9"), ["assent", "hook", "claude", "--ttl", "9"]),
        (started("assent", "hook", "a b", 7, None), ["assent", "hook", "a b"]),
        (started("a b"), ["a b"]),
        (hook(type="command", command="a b", args="c"), ["a", "b"]),
        (hook(type="command", command=7), []),
        (hook(type="command"), []),
        (hook(type="prompt", command="assent hook claude"), []),
        (hook(command="assent hook claude"), []),
        (http(command="assent hook claude"), []),
    ],
)
def test_a_command_is_split_unless_its_arguments_are_a_list(found: Hook, words: list[str]) -> None:
    assert list(found.words) == words


@pytest.mark.parametrize(
    ("found", "program"),
    [
        (shell("assent hook claude"), "assent"),
        (shell("/opt/bin/assent hook claude"), "/opt/bin/assent"),
        (shell("A=1 B_2=x assent hook claude"), "assent"),
        (shell("uv run assent hook claude"), "uv"),
        (shell("A= uv run -q assent hook claude"), "uv"),
        (shell("cd /srv && assent hook claude"), "assent"),
        (shell('cd "$CLAUDE_PROJECT_DIR" && A=1 uv run assent hook claude'), "uv"),
        (shell("cd /srv; assent hook claude"), "assent"),
        (shell("cd /srv\nexec assent hook claude"), "assent"),
        (shell("(assent hook claude)"), "assent"),
        (shell("! assent hook claude"), "assent"),
        (shell("true && { command assent hook claude; }"), "assent"),
        (shell("if true; then assent hook claude; fi"), "assent"),
        (shell("if assent hook claude; then true; fi"), "assent"),
        (shell("assent hook claude && other"), "assent"),
        (shell("$HOME/bin/assent hook claude"), ""),
        (shell("$RUN assent hook claude"), ""),
        (shell("command -p assent hook claude"), ""),
        (shell("uv run $HOME/assent hook claude"), "uv"),
        (shell(""), ""),
        (started("assent", "hook", "claude"), "assent"),
        (started("A=1", "assent", "hook", "claude"), "A=1"),
        (started("exec", "assent", "hook", "claude"), "exec"),
        (started("$HOME/assent", "hook", "claude"), ""),
        (started("uv", "run", "$X", "assent", "hook", "claude"), "uv"),
        (http(), ""),
    ],
)
def test_the_program_that_starts_the_gate_is_identified(found: Hook, program: str) -> None:
    assert found.program == program


@pytest.mark.parametrize(
    ("found", "swallows"),
    [
        (shell("assent hook claude"), False),
        (shell("assent hook claude\n"), False),
        (shell("assent hook claude && true"), False),
        (shell("assent hook claude &&\n true"), False),
        (shell("assent hook claude 2>&1 >log"), False),
        (shell("(assent hook claude)"), False),
        (shell("a; b | c || assent hook claude"), False),
        (shell("cd /srv\nassent hook claude"), False),
        (shell("assent hook claude || true"), True),
        (shell("assent hook claude; true"), True),
        (shell("assent hook claude | tee log"), True),
        (shell("assent hook claude |& tee log"), True),
        (shell("assent hook claude & wait"), True),
        (shell("assent hook claude --ttl 9||true"), True),
        (shell("assent hook claude\nexit 0"), True),
        (shell("(assent hook claude)||true"), True),
        (shell("assent hook claude;(true)"), True),
        (shell("(assent hook claude)\ntrue"), True),
        (shell("(assent hook claude;)|| :"), True),
        (shell("(assent hook claude)|(cat)"), True),
        (shell("case x in x) assent hook claude;; esac"), True),
        (started("assent", "hook", "claude", "--tag", ";"), False),
        (started("assent", "hook", "claude", "||", "true"), False),
        (http(), False),
    ],
)
def test_a_command_after_the_gate_hides_its_failure(found: Hook, *, swallows: bool) -> None:
    assert found.swallows_failure is swallows


@pytest.mark.parametrize(
    "line",
    [
        "! assent hook claude",
        "true || assent hook claude",
        "a; b | c || assent hook claude",
        "command -v assent >/dev/null || exit 0; assent hook claude",
        "test -f .off && exit 0; assent hook claude",
        "[ -f .on ] || exit 0\nassent hook claude",
        "if test -f .on; then assent hook claude; fi",
        "while false; do assent hook claude; done",
        "for each in $FILES; do assent hook claude; done",
        "case $X in y) assent hook claude;; esac",
        "trap 'exit 0' EXIT; assent hook claude",
        "(true)||(assent hook claude)",
    ],
)
def test_a_line_that_can_skip_or_invert_the_gate_is_recognized(line: str) -> None:
    assert shell(line).may_be_skipped


@pytest.mark.parametrize(
    "found",
    [
        shell("assent hook claude"),
        shell("cd /srv && assent hook claude"),
        shell("cd /srv; A=1 exec assent hook claude"),
        shell("cat | assent hook claude"),
        shell("{ assent hook claude && true; }"),
        shell("assent hook claude || exit 0"),
        shell("assent hook claude --tag !"),
        started("assent", "hook", "claude"),
        started("!", "assent", "hook", "claude"),
        http(),
    ],
)
def test_preparatory_commands_do_not_skip_the_gate(found: Hook) -> None:
    assert not found.may_be_skipped


@pytest.mark.parametrize(
    ("found", "gate"),
    [
        (shell("assent hook claude"), True),
        (shell("assent hook claude --ttl 9"), True),
        (shell("assent \\\n hook claude"), True),
        (shell("echo assent; assent hook claude"), True),
        (started("assent", "hook", "claude"), True),
        (started("C:\\bin\\assent.exe", "hook", "claude"), True),
        (started("assent", "assent", "hook", "claude"), True),
        (started("assent", "hook"), False),
        (started("assent", "claude", "hook"), False),
        (started("assent", "--x", "hook", "claude"), False),
        (started("hook", "claude", "assent"), False),
        (started("assent.py", "hook", "claude"), False),
        (started("other", "hook", "claude"), False),
        (started("assents", "hook", "claude"), False),
        (started("assent hook claude"), False),
        (http(), True),
        (http(f"{URL}/"), True),
        (http(f"{URL}?ttl=9"), True),
        (http("http://127.0.0.1:7373/behind/a/proxy/api/hooks/claude"), True),
        (http(f"{URL}X"), False),
        (http(f"{URL}/more"), False),
        (http("https://a.example.com/?x=/api/hooks/claude"), False),
        (http(None, command="assent hook claude"), False),
        (hook(type="http", command="assent hook claude"), False),
        (hook(type="command", url=URL), False),
        (hook(url=URL), False),
    ],
)
def test_a_gate_is_recognized_by_our_command_or_url(found: Hook, *, gate: bool) -> None:
    assert found.is_gate is gate


@pytest.mark.parametrize(
    ("words", "command", "ours"),
    [
        (["assent", "mcp"], ["mcp"], True),
        (["uvx", "assent", "mcp", "--x"], ["mcp"], True),
        (["assent", "mcp"], ["hook", "claude"], False),
        (["mcp", "assent"], ["mcp"], False),
        (["assent"], ["mcp"], False),
        (["assent", "x", "mcp"], ["mcp"], False),
        ([], ["mcp"], False),
    ],
)
def test_our_program_is_recognized_by_its_command(words: list[str], command: list[str], *, ours: bool) -> None:
    assert is_command(words, *command) is ours


def test_only_strings_count_as_urls_and_headers() -> None:
    assert http().url == URL
    assert http(7).url == ""
    assert hook(type="command", url=URL).url == ""
    assert http(headers={"A": "b", "C": 1}).headers == {"A": "b"}
    assert http(headers=["A"]).headers == {}
    assert (http().is_http, shell("x").is_http, hook(type="https").is_http) == (True, False, False)


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [(3600, 3600), (0.5, 0.5), (True, 600), (0, 600), (-1, 600), (-0.5, 600), ("3600", 600), (None, 600), ([], 600)],
)
def test_a_hook_timeout_defaults_to_ten_minutes(given_: Any, seconds: float) -> None:
    assert shell("x", timeout=given_).timeout == seconds
    assert shell("x").timeout == 600


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ([], 86400),
        (["--ttl", "9"], 9),
        (["--ttl=9"], 9),
        (["--ttl", "9", "--tag", "x"], 9),
        (["--tag", "x=y", "--ttl=9"], 9),
        (["--ttl", "9", "--ttl=8"], 8),
        (["--ttl", "1", "--ttl", "2", "--ttl", "3"], 3),
        (["--ttl"], 86400),
        (["--ttl", "0"], 86400),
        (["--ttl", "soon"], 86400),
        (["--ttl=9=8"], 86400),
        (["--ttls=9"], 86400),
        (["--ttls", "9"], 86400),
        (["--tag", "9"], 86400),
    ],
)
def test_the_last_ttl_option_takes_effect_and_the_default_is_a_day(options: list[str], seconds: int) -> None:
    assert started("assent", "hook", "claude", *options).ttl == seconds
    assert shell(" ".join(["assent hook claude", *options])).ttl == seconds


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        *(("", 86400), ("?ttl=9", 9), ("?a=b&ttl=9&c=d", 9), ("?ttl=9&ttl=8", 8), ("?ttl=1&ttl=2&ttl=3", 3)),
        *(("?ttl=", 86400), ("?ttl=x", 86400), ("?tt=9", 86400), ("#ttl=9", 86400)),
    ],
)
def test_the_last_ttl_parameter_takes_effect_and_the_default_is_a_day(query: str, seconds: int) -> None:
    assert http(f"{URL}{query}").ttl == seconds
    assert http(f"{URL}{query}", command="assent hook claude --ttl 5", args=["--ttl", "5"]).ttl == seconds


def test_each_variable_is_listed_with_its_header() -> None:
    headers = {"A": "Bearer $TOKEN", "B": "${ONE}-$TWO_2", "C": "plain $ and ${} $1 ${lower}"}
    assert list(http(headers=headers).variables()) == [("A", "TOKEN"), ("B", "ONE"), ("B", "TWO_2")]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Bearer $A", "Bearer 1"),
        ("Bearer ${A}", "Bearer 1"),
        ("$A${B}$C.", "12."),
        ("${C}", ""),
        ("$AB", ""),
        ("${AB", "${AB"),
        ("$lower", "$lower"),
        ("$", "$"),
        ("plain", "plain"),
    ],
)
def test_variables_are_expanded_and_unset_ones_are_empty(text: str, filled: str) -> None:
    assert filled_in(text, {"A": "1", "B": "2"}) == filled


@pytest.mark.parametrize(
    ("matcher", "tool", "seen"),
    [
        *(("", "Bash", True), ("*", "Bash", True), (" ", "Bash", False)),
        *(("Bash", "Bash", True), ("Bash", "bash", False), ("Bas", "Bash", False), ("Bash ", "Bash", True)),
        *(("Edit|Bash", "Bash", True), ("Edit,Bash", "Bash", True), ("Edit, Bash |Write", "Bash", True)),
        *(("Edit|Write", "Edit|Write", False), ("my-tool", "my-tool", True), ("a1_b", "a1_b", True)),
        *((".*", "Bash", True), ("Ba.h", "Bash", True), ("as", "Bash", False), ("a[s]", "Bash", True)),
        *(("^Edit$", "NotebookEdit", False), ("Edit$", "NotebookEdit", True), ("[", "[", False), ("+", "+", False)),
        *((ENDLESS, "aaaa", False), (DEEP, "Bash", False)),
    ],
)
def test_a_matcher_is_a_list_of_names_or_a_regular_expression(matcher: str, tool: str, *, seen: bool) -> None:
    assert covers(matcher, tool) is seen
    assert Hook(place=Place("f"), event="x", matcher=matcher, settings={}).sees(tool) is seen


@given(st.text(alphabet="aB*+?.|,(){}[]^$\\ 19-", max_size=12), st.sampled_from(["Bash", "aB", "mcp__a__b"]))
@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
def test_an_invalid_matcher_covers_no_tool(matcher: str, tool: str) -> None:
    assert covers(matcher, tool) in {True, False}
    if is_broken(matcher):
        assert not covers(matcher, tool)


@pytest.mark.parametrize(
    ("matcher", "broken"),
    [
        *(("*", False), ("", False), ("Bash", False), (".*", False), ("mcp__.*", False)),
        *(("(", True), ("[", True), ("**", True), ("*Bash", True), (ENDLESS, True), (DEEP, True)),
    ],
)
def test_a_single_star_is_a_valid_matcher(matcher: str, *, broken: bool) -> None:
    assert is_broken(matcher) is broken


def test_a_hook_is_read_with_its_event_matcher_and_location() -> None:
    first, second, third = {"type": "command"}, {"type": "http"}, {"type": "prompt"}
    content = {
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [first, "no", second]}, {"matcher": "", "hooks": [third]}],
            "Start": [{"matcher": ["Bash"], "hooks": [first]}, {"matcher": False, "hooks": [first]}],
            "Stop": [{"hooks": [first]}, "no", {"hooks": {"a": first}}],
            "Other": {"hooks": [first]},
        }
    }
    read = list(hooks(Document(path="f", content=content)))
    assert [(each.place.pointer, each.event, each.matcher, each.settings) for each in read] == [
        ("/hooks/PreToolUse/0/hooks/0", "PreToolUse", "Bash", first),
        ("/hooks/PreToolUse/0/hooks/2", "PreToolUse", "Bash", second),
        ("/hooks/PreToolUse/1/hooks/0", "PreToolUse", "", third),
        ("/hooks/Stop/0/hooks/0", "Stop", "", first),
    ]
    assert [each.managed for each in read] == [False] * 4
    assert all(each.managed for each in hooks(Document(path="f", content=content, managed=True)))


@pytest.mark.parametrize("content", [None, 7, [], {}, {"hooks": None}, {"hooks": []}, {"hooks": {"Stop": None}}])
def test_settings_without_hooks_yield_no_hooks(content: Any) -> None:
    assert list(hooks(Document(path="f", content=content))) == []


SHAPES: list[tuple[Any, list[str]]] = [
    ({}, []),
    ({"hooks": None}, []),
    ({"hooks": {}}, []),
    ({"hooks": {"Stop": []}}, []),
    ({"hooks": {"Stop": [{"hooks": []}, {"hooks": [{}]}]}}, []),
    (None, [""]),
    ([], [""]),
    ("hooks", [""]),
    ({"hooks": []}, ["/hooks"]),
    ({"hooks": "x"}, ["/hooks"]),
    ({"hooks": {"Stop": {}}}, ["/hooks/Stop"]),
    ({"hooks": {"Stop": None, "Start": 7}}, ["/hooks/Stop", "/hooks/Start"]),
    ({"hooks": {"Stop": [{}, {"hooks": {}}, {"hooks": [{}, 7]}, 7]}}, [f"/hooks/Stop/{n}" for n in range(4)]),
    ({"hooks": {"Stop": [{"hooks": [], "matcher": ["Bash"]}, {"hooks": [], "matcher": "x"}]}}, ["/hooks/Stop/0"]),
    ({"hooks": {"Stop": [{"hooks": [{}]}, {}], "Start": [7]}}, ["/hooks/Stop/1", "/hooks/Start/0"]),
]


@pytest.mark.parametrize(("content", "pointers"), SHAPES)
def test_each_malformed_entry_is_reported_with_its_location(content: Any, pointers: list[str]) -> None:
    found = list(misshapen(Document(path="f", content=content)))
    assert [each.place for each in found] == [Place("f", pointer) for pointer in pointers]
    assert all((each.check, each.severity) == ("shape", Severity.PROBLEM) for each in found)
    assert all("assent hook claude install" in each.todo for each in found)
