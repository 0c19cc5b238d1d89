"""Checks of the MCP servers in a client's settings: which ones are Assent's, their tokens and their timeouts."""

from typing import Any

import pytest

from assent.agents.doctor.findings import Access, Document, Finding, Machine, Place, Severity
from assent.agents.doctor.mcp_checks import Server, filled_in, mcp_accesses, mcp_findings, servers
from tests.agents.doctor.test_checkup import AGENT, MCP, PERSON, bad, mcp, resolved

HERE = Machine(runs=lambda _: True, project="/app")
REACHED: dict[str, Any] = {"url": "https://a.example.com/mcp", "headers": {"Authorization": f"Bearer {AGENT}"}}


def server(name: str = "assent", **settings: Any) -> Server:
    return Server(Place("f", "/mcpServers/x"), name, settings)


def looked(*contents: Any, settings: Any = None, machine: Machine = HERE) -> list[Finding]:
    documents = [Document(path=f"/{n}.json", content=content) for n, content in enumerate(contents)]
    return list(mcp_findings(documents, [Document(path="/s.json", content=settings)], machine))


def accesses(*contents: Any, **machine: Any) -> list[Access]:
    documents = [Document(path=f"/{n}.json", content=content) for n, content in enumerate(contents)]
    return list(mcp_accesses(documents, Machine(project="/app", **machine)))


@pytest.mark.parametrize(
    ("found", "ours"),
    [
        (server(command="assent", args=["mcp"]), True),
        (server("other", command="assent", args=["mcp"]), True),
        (server(command="uvx", args=["assent", "mcp", "--x"]), True),
        (server(command="uvx", args=[7, "assent", None, "mcp"]), True),
        (server(command="assent", args=["serve"]), False),
        (server(command="assent"), False),
        (server(command="assent mcp"), False),
        (server(command="npx", args=["other"], url="https://a.example.com"), False),
        (server(url="https://a.example.com"), True),
        (server("My-Assent", url="https://a.example.com"), True),
        (server("other", url="https://assent.example.com"), False),
        (server(url=7), False),
        (server(), False),
        (server(command=7, url="https://a.example.com"), True),
    ],
)
def test_a_server_is_recognized_by_its_command_or_its_name(found: Server, *, ours: bool) -> None:
    assert found.is_ours is ours


def test_only_strings_in_a_servers_settings_are_used() -> None:
    full = server(command="uvx", args=["a", 7], env={"A": "b", "C": 1}, url="u")
    assert (list(full.words), full.env, full.url) == (["uvx", "a"], {"A": "b"}, "u")
    bare = server(command=["uvx"], args="a", env=["A"], url=None)
    assert (list(bare.words), bare.env, bare.url) == ([], {}, "")
    assert list(server(args=["a"]).words) == []


def test_servers_are_read_from_global_and_project_settings() -> None:
    content: dict[str, Any] = {
        "mcpServers": {"a": {"command": "x"}, "b": "no", "c/d": {}},
        "projects": {"/app": {"mcpServers": {"e": {"url": "u"}}}, "/other": {"mcpServers": {"f": {}}}},
    }
    found = list(servers(Document(path="f", content=content), "/app"))
    assert [(each.name, each.place.pointer, each.settings) for each in found] == [
        ("a", "/mcpServers/a", {"command": "x"}),
        ("c/d", "/mcpServers/c~1d", {}),
        ("e", "/projects/~1app/mcpServers/e", {"url": "u"}),
    ]
    assert all(resolved(content, each.place.pointer or "") == each.settings for each in found)


@pytest.mark.parametrize("content", [None, [], {}, {"mcpServers": []}, {"mcpServers": None}, {"projects": []}])
def test_settings_without_servers_yield_no_servers(content: Any) -> None:
    assert list(servers(Document(path="f", content=content), "/app")) == []
    assert looked(content) == []


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${A}", "1"),
        ("a${A}b${B}c", "a1bc"),
        ("${A:-x}", "1"),
        ("${B:-x y}", "x y"),
        ("${B:-}", ""),
        ("${E:-x}", "x"),
        ("$A", "$A"),
        ("${A", "${A"),
        ("${}", "${}"),
        ("plain", "plain"),
    ],
)
def test_variables_are_expanded_or_replaced_by_their_defaults(text: str, filled: str) -> None:
    assert filled_in(text, {"A": "1", "E": ""}) == filled


def test_a_server_with_a_token_and_a_sufficient_timeout_is_ok() -> None:
    for content in (mcp(MCP), mcp(REACHED), mcp(REACHED, "my-assent")):
        (found,) = looked(content)
        assert (found.check, found.severity) == ("mcp", Severity.OK)
        assert "a token and a sufficient timeout" in found.what
    assert looked(mcp(REACHED, "other")) == []
    assert looked(mcp({"command": "npx", "args": ["x"], "timeout": 5})) == [], "not ours"


def test_a_server_without_a_token_is_reported_with_a_remedy() -> None:
    (found,) = looked(mcp({"command": "assent", "args": ["mcp"]}))
    assert (found.check, found.severity) == ("mcp-token", Severity.PROBLEM)
    assert found.place == Place("/0.json", "/mcpServers/assent")
    assert "Set ASSENT_TOKEN in its env" in found.todo


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Authorization": f"Bearer {AGENT}"}, []),
        ({"AUTHORIZATION": f"bearer   {AGENT} "}, []),
        ({"Authorization": "Bearer ${MINE}"}, []),
        ({"Authorization": "Bearer ${OTHER}"}, ["mcp-token"]),
        ({"Authorization": "Bearer "}, ["mcp-token"]),
        ({"Authorization": 7}, ["mcp-token"]),
        ({"X-Authorization": f"Bearer {AGENT}"}, ["mcp-token"]),
        (None, ["mcp-token"]),
    ],
)
def test_a_remote_server_needs_its_token_in_a_header(headers: Any, expected: list[str]) -> None:
    content = mcp({"url": "https://a.example.com/mcp", "headers": headers})
    machine = Machine(env={"MINE": AGENT, "ASSENT_TOKEN": AGENT}, runs=HERE.runs)
    assert [each for each, _ in bad(looked(content, machine=machine))] == expected
    tokens = [each.token for each in accesses(content, env=machine.env)]
    assert tokens == ([] if expected else [AGENT])


@pytest.mark.parametrize(
    ("env", "place", "token"),
    [
        ({"ASSENT_TOKEN": "own"}, "/mcpServers/assent/env/ASSENT_TOKEN", "own"),
        ({"ASSENT_TOKEN": "${MINE}"}, "/mcpServers/assent/env/ASSENT_TOKEN", "mine"),
        ({}, "/mcpServers/assent", "machine's"),
        (None, "/mcpServers/assent", "machine's"),
    ],
)
def test_a_stdio_server_uses_its_own_token_or_the_one_in_the_environment(env: Any, place: str, token: str) -> None:
    given = accesses(mcp({**MCP, "env": env}), env={"ASSENT_TOKEN": "machine's", "MINE": "mine"})
    assert given == [Access(Place("/0.json", place), token, None)]


def test_unrelated_servers_and_servers_without_a_token_are_skipped() -> None:
    assert accesses(mcp({**MCP, "env": {}})) == []
    assert accesses(mcp({**MCP, "env": {"ASSENT_TOKEN": ""}}), env={"ASSENT_TOKEN": AGENT}) == []
    assert accesses(mcp({"command": "npx", "env": {"ASSENT_TOKEN": AGENT}})) == []
    assert accesses(mcp(REACHED, "other")) == []


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, None),
        ({"ASSENT_URL": ""}, None),
        ({"ASSENT_URL": "http://u"}, "http://u"),
        ({"ASSENT_URL": "${U}"}, "http://machine"),
        ({"ASSENT_URL": "${NOT}"}, None),
        ({"ASSENT_URL": "${NOT:-http://v}"}, "http://v"),
    ],
)
def test_a_token_belongs_to_the_url_next_to_it(env: dict[str, str], url: str | None) -> None:
    (given,) = accesses(mcp({**MCP, "env": MCP["env"] | env}), env={"U": "http://machine"})
    assert given.url == url


def test_tokens_are_found_in_all_files_for_this_project() -> None:
    given = accesses(mcp(MCP), {"projects": {"/app": mcp(REACHED), "/other": mcp(MCP)}}, server="http://h")
    assert [(each.place, each.url) for each in given] == [
        (Place("/0.json", "/mcpServers/assent/env/ASSENT_TOKEN"), None),
        (Place("/1.json", "/projects/~1app/mcpServers/assent"), "https://a.example.com/mcp"),
    ]


def test_the_path_of_a_missing_program_is_truncated_to_sixty_characters() -> None:
    nowhere = Machine(runs=lambda program: program == "mcp")
    (found,) = looked(mcp({**MCP, "command": f"/{'x' * 100}/assent"}), machine=nowhere)
    assert (found.check, found.severity) == ("mcp-command", Severity.PROBLEM)
    assert found.place == Place("/0.json", "/mcpServers/assent/command")
    assert f"/{'x' * 59} is not on the PATH" in found.what
    assert bad(looked(mcp(REACHED), machine=nowhere)) == [], "a remote server is not started"
    only = Machine(runs=lambda program: program == "assent")
    assert bad(looked(mcp(MCP), machine=only)) == []


@pytest.mark.parametrize(
    ("timeout", "severity", "said"),
    [
        *((60_000, None, ""), (60_000.5, None, ""), (10**400, None, ""), ("5", None, ""), (None, None, "")),
        *((59_999, "problem", "times out after 59999 ms"), (59_999.5, "problem", "times out after 59999.5 ms")),
        *((1000, "problem", "times out after 1000 ms"), (1001, "problem", "times out after 1001 ms")),
        *((999, "warning", "ignores a timeout of 999 ms"), (60, "warning", "the minimum is 1000")),
        *((0, "warning", "a timeout of 0 ms"), (-(10**400), "warning", "Claude Code ignores")),
    ],
    ids=lambda given: str(given)[:12],
)
def test_a_timeout_must_be_at_least_a_minute_and_is_ignored_below_a_second(
    timeout: Any, severity: str | None, said: str
) -> None:
    (found,) = looked(mcp({**MCP, "timeout": timeout}))
    assert (found.check, found.severity.value) == (("mcp", "ok") if severity is None else ("mcp-timeout", severity))
    assert said in found.what
    assert severity is None or "at least 60000" in found.todo
    assert found.place.pointer == "/mcpServers/assent" + ("" if severity is None else "/timeout")


@pytest.mark.parametrize("name", ["MCP_TOOL_TIMEOUT", "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT"])
@pytest.mark.parametrize(
    ("value", "short"), [("59999", True), ("60000", False), ("1", True), (5000, True), ("", False), ("-1", False)]
)
def test_a_global_tool_timeout_below_a_minute_is_reported_as_a_problem(name: str, value: Any, *, short: bool) -> None:
    found = looked(mcp(MCP), settings={"env": {name: value}})
    assert bad(found) == ([("mcp-timeout", "problem")] if short else [])
    assert not short or (
        found[-1].place,
        f"after {value} ms" in found[-1].what,
        "at least 60000" in found[-1].todo,
    ) == (
        *(Place("/s.json", f"/env/{name}"), True),
        True,
    )


def test_a_timeout_in_settings_overrides_the_environment() -> None:
    machine = Machine(env={"MCP_TOOL_TIMEOUT": "5000"}, runs=HERE.runs)
    assert [each.place for each in looked(mcp(MCP), machine=machine) if each.check == "mcp-timeout"] == [
        Place("MCP_TOOL_TIMEOUT")
    ]
    assert bad(looked(mcp(MCP), machine=machine, settings={"env": {"MCP_TOOL_TIMEOUT": "60000"}})) == []
    assert bad(looked(mcp(REACHED, "other"), machine=machine)) == [], "there is no server of ours"


@pytest.mark.parametrize(
    ("settings", "pointer", "variable"),
    [
        ({"env": {"MINE": PERSON}}, "/mcpServers/x/env/MINE", "${MINE}"),
        ({"headers": {"X-My-Token": PERSON}}, "/mcpServers/x/headers/X-My-Token", "${X_MY_TOKEN}"),
        ({"env": {"ASSENT_TOKEN": PERSON}}, None, ""),
        ({"env": {"MINE": AGENT}}, None, ""),
        ({"env": {"MINE": "${PERSON}"}}, None, ""),
        ({"other": {"MINE": PERSON}}, None, ""),
    ],
)
def test_a_personal_token_in_plain_text_is_found_in_any_servers_settings(
    settings: Any, pointer: str | None, variable: str
) -> None:
    found = looked(mcp({"command": "npx"} | settings, "x"))
    assert [each.place for each in found] == ([] if pointer is None else [Place("/0.json", pointer)])
    assert all((each.check, each.severity) == ("mcp-person", Severity.WARNING) for each in found)
    assert all(variable in each.todo and PERSON not in f"{each.what}{each.todo}" for each in found)


def test_an_unreadable_file_is_reported_and_the_others_are_checked() -> None:
    documents = [Document(path="/x.json", trouble="it is not a file"), Document(path="/y.json", content=mcp(MCP))]
    found = list(mcp_findings(documents, [], HERE))
    assert [(each.check, each.place.where) for each in found] == [("unreadable", "/x.json"), ("mcp", "/y.json")]
