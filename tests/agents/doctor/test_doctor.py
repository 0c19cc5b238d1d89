"""The doctor finds gates that fail open, contacts only the configured server, and leaves nothing behind."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assent.cli.main import app
from assent.core.access import Kind, Principal, Role
from assent.core.old_rules import ALWAYS_APPROVE
from assent.core.rulebook import Rule
from assent.core.secrets import secret
from assent.kernel.settings import Settings
from assent.policy.usecases.rules import NewRule, RuleService
from assent.sdk.client import Assent
from tests.cli.commands import COMMAND, Desk, environment, here_json, run, start
from tests.cli.terminal import Seat
from tests.docs.pages import DOCS, ROOT, fences, sections
from tests.support.nodes import ManualClock, free_port, running_node

LONG_AGO = 1_600_000_000_000_000
PAGE = DOCS / "how-to" / "check-your-gates.md"
REFERENCE = (DOCS / "reference" / "doctor.md").read_text()
CHECKS = sections(REFERENCE, 2)["Checks"]
PINNED = ["hook", "claude", "--url", "http://127.0.0.1:7373", "--receipt-key", "KEY"]
GATE = {"type": "command", "command": "assent", "args": PINNED, "timeout": 86520, "onFailure": "block"}


@dataclass
class Home:
    """A user's home and project folders, isolated from those of the user who runs the tests."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def env(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        bare = environment(HOME=str(self.root), PATH=path, XDG_CONFIG_HOME=str(self.root / ".config"))
        for name in ("CLAUDE_CONFIG_DIR", "MCP_TOOL_TIMEOUT", "APPDATA"):
            bare.pop(name, None)
        return bare | self.variables

    def write(self, path: str, content: Any) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def doctor(self, *arguments: str) -> "Told":
        """Run the doctor in this process, where it is already imported; without settings, write a correct gate."""
        given = self.root / "given" / "settings.json"
        if all(each == given for each in self.root.rglob("settings*.json")):
            arguments = (*arguments, "--settings", str(self.write("given/settings.json", settings())))
        away: dict[str, str | None] = dict.fromkeys(os.environ.keys() - self.env.keys())
        with contextlib.chdir(self.project):
            done = CliRunner(env=away | self.env).invoke(app, ["doctor", "--json", *arguments])
        assert done.stdout, done.output
        return Told(done.exit_code, json.loads(done.stdout), done.output)

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Told:
    code: int
    report: dict[str, Any]
    everything: str

    def bad(self) -> list[tuple[str, str]]:
        return [(each["check"], each["severity"]) for each in self.report["findings"] if each["severity"] != "ok"]

    def of(self, check: str) -> dict[str, Any]:
        (found,) = (each for each in self.report["findings"] if each["check"] == check)
        return dict(found)


def settings(gate: Mapping[str, Any] = GATE, **more: Any) -> dict[str, Any]:
    return {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [gate]}]}} | more


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.project.mkdir()
    return made


@pytest.fixture
def patient(home: Home, desk: Desk) -> Home:
    """A home with a configured server and agent token."""
    home.variables |= {"ASSENT_URL": desk.url, "ASSENT_TOKEN": desk.agent_token}
    return home


def raised_on(desk: Desk) -> list[str]:
    with desk.reviewer() as reviewer:
        return [each.id for each in reviewer.list(tag="doctor", limit=200).items]


@pytest.mark.parametrize("form", [[], ["--http"], ["--defer"]])
def test_settings_written_by_install_yield_no_findings(patient: Home, form: list[str]) -> None:
    assert run("hook", "claude", "install", *form, env=patient.env, cwd=patient.project).returncode == 0
    told = patient.doctor()
    assert (told.code, told.bad(), told.report["ok"]) == (0, [], True)
    assert {each["check"] for each in told.report["findings"]} == {
        "gate",
        "server",
        "clock",
        "version",
        "token",
        "live",
    }
    assert told.report["files"] == [str(patient.project / ".claude" / "settings.json")]


def test_the_report_has_the_documented_shape(patient: Home) -> None:
    (documented,) = map(json.loads, fences(REFERENCE, "json"))
    told = patient.doctor()
    assert told.report.keys() == documented.keys()
    assert all(each.keys() == documented["findings"][0].keys() for each in told.report["findings"])
    assert told.report["live"].keys() == documented["live"].keys()


def test_every_check_is_documented_in_the_reference() -> None:
    text = "".join(path.read_text() for path in (ROOT / "src/assent/agents/doctor").glob("*.py"))
    named = set(re.findall(r'(?:problem|warning|fine|else warning\))\(\s*"([a-z-]+)"', text))
    table = "".join(line.split("|")[1] for line in CHECKS.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z-]+)`", table)) == named


def test_the_page_shows_the_actual_doctor_output(home: Home) -> None:
    home.write("project/.claude/settings.json", fences(PAGE.read_text(), "json")[0])
    with Seat([*COMMAND, "doctor", "--offline"], env=home.env, cwd=home.project) as seat:
        assert seat.ended() == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", seat.shown)
    (expected,) = (each for each in fences(PAGE.read_text(), "") if each.startswith("✗"))
    lines = [line.strip() for line in shown.splitlines() if not line.startswith("Checked")]
    assert lines == [line.strip() for line in expected.splitlines()]


def test_a_live_test_creates_receives_and_cancels_a_breakpoint(patient: Home, desk: Desk) -> None:
    told = patient.doctor("--agent-id", "somebody")
    live = told.report["live"]
    found = desk.found(live["breakpointId"])
    assert (live["status"], found.status, found.agent_id) == ("cancelled", "cancelled", "somebody")
    assert (found.gate, found.tags, found.payload["hardStop"]) == ("assent.doctor", ["doctor"], True)
    assert None not in (live["createSeconds"], live["streamSeconds"], live["endSeconds"])


def test_the_no_live_option_creates_no_breakpoint_and_offline_sends_no_requests(patient: Home, desk: Desk) -> None:
    before = raised_on(desk)
    told = patient.doctor("--no-live")
    assert (told.code, told.report["live"], raised_on(desk)) == (0, None, before)
    with listening() as fake:
        patient.variables["ASSENT_URL"] = fake.url
        assert (patient.doctor("--offline").code, fake.asked) == (0, [])


def test_gates_that_fail_open_are_reported_with_their_location(patient: Home) -> None:
    file = patient.write(
        "project/.claude/settings.json",
        settings({**GATE, "onFailure": "continue", "timeout": 60}, permissions={"defaultMode": "bypassPermissions"}),
    )
    told = patient.doctor("--no-live")
    assert (told.code, told.report["ok"], told.report["problems"], told.report["warnings"]) == (1, False, 2, 1)
    assert told.bad() == [("hook-on-failure", "problem"), ("hook-timeout", "problem"), ("mode", "warning")]
    found = told.of("hook-timeout")
    assert (found["where"], found["pointer"]) == (str(file), "/hooks/PreToolUse/0/hooks/0/timeout")
    assert found["what"].startswith("Reviewers have 86400 s to answer, but Claude Code stops waiting after 60 s")
    assert "86400" in found["do"]


def test_a_program_in_an_unknown_users_home_is_reported_as_missing(patient: Home) -> None:
    patient.write("project/.claude/settings.json", settings({**GATE, "command": "~nosuchuser/assent"}))
    told = patient.doctor("--no-live")
    assert told.code == 1
    assert told.of("hook-command")["what"].startswith("~nosuchuser/assent is not on the PATH")


def test_all_settings_files_apply_in_order_of_precedence(patient: Home) -> None:
    user = patient.write(".claude/settings.json", settings(disableAllHooks=True))
    patient.write("project/.claude/settings.json", {"disableAllHooks": False})
    assert patient.doctor("--offline").bad() == []
    local = patient.write("project/.claude/settings.local.json", {"disableAllHooks": True})
    told = patient.doctor("--offline")
    assert (told.bad(), told.of("hooks-disabled")["where"]) == ([("hooks-disabled", "problem")], str(local))
    given = patient.write("given.json", {"disableAllHooks": False})
    told = patient.doctor("--offline", "--settings", str(given))
    assert told.bad() == []
    assert told.report["files"][0], told.report["files"][-1] == (str(user), str(given))


def test_claude_config_dir_determines_the_user_settings(patient: Home) -> None:
    patient.write(".claude/settings.json", settings({**GATE, "onFailure": "continue"}))
    elsewhere = patient.write("elsewhere/settings.json", settings())
    patient.write(".claude.json", {"mcpServers": {"assent": {"command": "assent", "args": ["mcp"], "timeout": 5000}}})
    patient.variables["CLAUDE_CONFIG_DIR"] = str(elsewhere.parent)
    told = patient.doctor("--offline")
    assert (told.bad(), told.report["files"]) == ([], [str(elsewhere)])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it is not valid JSON: line 1, column 2"),
        ("", "it is not valid JSON: line 1, column 1"),
        ("[]", "it is not a JSON object"),
        ("[" * 200_000, "it is nested too deeply"),
        ("\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"), "it is not valid JSON"),
    ],
)
def test_invalid_settings_files_are_reported_without_crashing(patient: Home, content: str, said: str) -> None:
    patient.write("project/.claude/settings.json", content)
    patient.write("project/.mcp.json", content)
    told = patient.doctor("--offline")
    assert told.code == 1
    assert told.bad() == [("unreadable", "problem"), ("no-gate", "problem"), ("unreadable", "problem")]
    assert all(said in each["what"] for each in told.report["findings"] if each["check"] == "unreadable")


def test_unreadable_files_are_reported_without_blocking(patient: Home) -> None:
    (patient.project / ".claude" / "settings.json").mkdir(parents=True)
    os.mkfifo(patient.project / ".mcp.json")
    (patient.project / ".claude" / "settings.local.json").symlink_to("nowhere")
    told = patient.doctor("--offline", "--settings", "missing.json", "--mcp-config", "missing.json")
    assert told.bad() == [*[("unreadable", "problem")] * 3, ("no-gate", "problem"), *[("unreadable", "problem")] * 2]


def test_mcp_servers_are_checked_in_every_client_configuration(patient: Home) -> None:
    short = {"mcpServers": {"assent": {"command": "assent", "args": ["mcp"], "timeout": 5000}}}
    places = [
        patient.write("project/.mcp.json", short),
        patient.write(".claude.json", {"projects": {str(patient.project): short}} | short),
        patient.write(".config/Claude/claude_desktop_config.json", short),
        patient.write("more.json", short),
    ]
    if sys.platform == "darwin":
        del places[2]
    told = patient.doctor("--offline", "--mcp-config", str(places[-1]))
    found = [each["where"] for each in told.report["findings"] if each["check"] == "mcp-timeout"]
    assert sorted(found) == sorted([*map(str, places), str(places[1])])


def test_a_personal_token_in_an_mcp_configuration_causes_a_warning(patient: Home, desk: Desk) -> None:
    env = {"ASSENT_TOKEN": desk.agent_token, "ASSENT_REVIEWER_TOKEN": desk.reviewer_token}
    server = {"command": "assent", "args": ["mcp"], "env": env}
    patient.write("project/.mcp.json", {"mcpServers": {"assent": server}})
    told = patient.doctor("--no-live")
    assert (told.code, told.bad()) == (0, [("mcp-person", "warning")])
    assert told.of("mcp-person")["pointer"] == "/mcpServers/assent/env/ASSENT_REVIEWER_TOKEN"


def test_using_a_personal_token_for_an_agent_causes_a_warning(patient: Home, desk: Desk) -> None:
    patient.variables["ASSENT_TOKEN"] = desk.reviewer_token
    told = patient.doctor()
    assert (told.code, told.bad()) == (0, [("token-kind", "warning")])
    assert told.report["live"]["status"] == "cancelled"


def expired(data: Path) -> str:
    """Create a token that expired long ago."""

    async def make() -> str:
        async with running_node(Settings(data_dir=data), clock=ManualClock(LONG_AGO)) as node:
            return await node.token("agent", expires_in=1)

    return asyncio.run(make())


def revoked(data: Path) -> str:
    given = {"ASSENT_DATA_DIR": str(data)}
    made = here_json("token", "create", "--kind", "agent", "--name", "gone", **given)
    here_json("token", "revoke", made["id"], **given)
    return str(made["token"])


@pytest.mark.parametrize(
    ("kind", "check", "said"),
    [
        ("expired", "token", "This token has expired."),
        ("revoked", "token", "Invalid or revoked token"),
        ("unknown", "token", "Invalid or revoked token"),
        ("cut off", "token-form", "truncated"),
    ],
)
def test_an_invalid_token_is_reported_as_a_problem(patient: Home, desk: Desk, kind: str, check: str, said: str) -> None:
    token = {
        "expired": lambda: expired(desk.data),
        "revoked": lambda: revoked(desk.data),
        "unknown": lambda: secret("agent", bytes(32)),
        "cut off": lambda: desk.agent_token[:-3],
    }[kind]()
    patient.variables["ASSENT_TOKEN"] = token
    told = patient.doctor()
    assert (told.code, told.bad(), told.report["live"]) == (1, [(check, "problem")], None)
    assert said in told.of(check)["what"]
    assert told.of(check)["where"] == "ASSENT_TOKEN"
    assert token not in told.everything


def test_tokens_in_the_settings_are_also_tested(patient: Home, desk: Desk) -> None:
    file = patient.write(".claude/settings.json", settings(env={"ASSENT_TOKEN": revoked(desk.data)}))
    told = patient.doctor("--no-live")
    refused = [each for each in told.report["findings"] if each["severity"] == "problem"]
    assert [(each["where"], each["pointer"]) for each in refused] == [(str(file), "/env/ASSENT_TOKEN")]


def test_a_missing_token_is_reported_as_a_problem(patient: Home) -> None:
    del patient.variables["ASSENT_TOKEN"]
    told = patient.doctor()
    assert (told.code, told.bad(), told.report["live"]) == (1, [("token", "problem")], None)


def test_an_unreachable_server_is_reported_as_a_problem(patient: Home) -> None:
    patient.variables["ASSENT_URL"] = f"http://127.0.0.1:{free_port()}"
    told = patient.doctor()
    assert (told.code, told.bad(), told.report["live"]) == (1, [("server", "problem")], None)
    assert told.of("server")["where"] == patient.variables["ASSENT_URL"]


def test_an_invalid_server_url_is_reported_as_a_problem(patient: Home) -> None:
    patient.variables["ASSENT_URL"] = "ftp://example.com"
    told = patient.doctor()
    assert (told.code, told.bad(), told.of("server")["where"]) == (1, [("server", "problem")], "ASSENT_URL")


@dataclass
class Fake:
    """A server with scripted responses and Date headers that can forward other requests to a real server."""

    answers: Mapping[str, tuple[int, str, str]]
    date: str | None
    behind: str | None
    asked: list[str] = field(default_factory=list[str])
    url: str = ""

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        self.asked.append(path)
        plain = path.partition("?")[0]
        for ending, (status, kind, text) in self.answers.items():
            if plain.endswith(ending):
                return status, kind, text.encode()
        if self.behind is None:
            return 404, "text/plain", b"nothing here"
        with contextlib.closing(http.client.HTTPConnection(self.behind.removeprefix("http://"), timeout=60)) as real:
            passed = {
                name: headers[name] for name in ("Authorization", "Content-Type", "Idempotency-Key") if name in headers
            }
            real.request(method, path, body or None, passed)
            got = real.getresponse()
            return got.status, got.headers["content-type"], got.read()


@contextlib.contextmanager
def listening(
    answers: Mapping[str, tuple[int, str, str]] | None = None, *, date: str | None = None, behind: str | None = None
) -> Iterator[Fake]:
    fake = Fake(answers or {}, date, behind)

    class Handler(BaseHTTPRequestHandler):
        def date_time_string(self, timestamp: float | None = None) -> str:
            return fake.date if fake.date is not None else super().date_time_string(timestamp)

        def do_GET(self) -> None:  # name required by http.server
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            status, kind, said = fake.answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815  # name required by http.server

        def log_message(self, *_: Any) -> None:
            """Log nothing, because requests are recorded."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        fake.url = f"http://127.0.0.1:{running.server_address[1]}"
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield fake
        running.shutdown()


@pytest.mark.parametrize("date", ["Sun, 09 Sep 2001 01:46:40 GMT", "Wed, 01 Jan 2098 00:00:00 GMT", "soon"])
def test_clock_skew_causes_a_warning(patient: Home, desk: Desk, date: str) -> None:
    with listening(date=date, behind=desk.url) as fake:
        patient.variables["ASSENT_URL"] = fake.url
        told = patient.doctor("--no-live")
    assert (told.code, told.bad()) == (0, [("clock", "warning")])


def test_a_server_with_a_different_version_causes_a_warning(patient: Home, desk: Desk) -> None:
    about = json.dumps({"info": {"title": "Assent", "version": "7.0.0"}})
    with listening({"/openapi.json": (200, "application/json", about)}, behind=desk.url) as fake:
        patient.variables["ASSENT_URL"] = fake.url
        told = patient.doctor("--no-live")
    assert (told.code, told.bad()) == (0, [("version", "warning")])
    assert "7.0.0" in told.of("version")["what"]


def test_a_server_that_is_not_ready_is_reported_and_stops_further_checks(patient: Home) -> None:
    said = json.dumps({"code": "unavailable", "detail": "The database is not accepting writes."})
    with listening({"/readyz": (503, "application/problem+json", said)}) as fake:
        patient.variables["ASSENT_URL"] = fake.url
        told = patient.doctor()
    assert (told.code, told.of("server")["severity"]) == (1, "problem")
    assert "The database is not accepting writes." in told.of("server")["what"]
    assert fake.asked == ["/readyz", "/openapi.json"]


@pytest.mark.parametrize("status", [200, 404, 500])
def test_another_service_at_the_url_is_reported_as_a_problem(patient: Home, status: int) -> None:
    with listening({"/readyz": (status, "text/html", "<h1>Welcome</h1>")}) as fake:
        patient.variables["ASSENT_URL"] = fake.url
        told = patient.doctor()
    assert (told.code, told.of("server")["severity"]) == (1, "problem")
    assert not any(path.startswith("/api/") for path in fake.asked)


def test_an_unreadable_stream_is_reported_and_cancels_the_test(patient: Home, desk: Desk) -> None:
    with listening({"/stream": (502, "text/plain", "no")}, behind=desk.url) as fake:
        patient.variables["ASSENT_URL"] = fake.url
        told = patient.doctor()
    assert (told.code, told.bad()) == (1, [("live", "problem")])
    assert "stream could not be read" in told.of("live")["what"]
    assert desk.found(told.report["live"]["breakpointId"]).status == "cancelled"


def test_tokens_are_not_sent_to_servers_named_in_project_files(patient: Home, desk: Desk) -> None:
    with listening(behind=desk.url) as fake:
        token = {"headers": {"Authorization": "Bearer $ASSENT_TOKEN"}, "allowedEnvVars": ["ASSENT_TOKEN"]}
        hook = {"type": "http", "url": f"{fake.url}/api/hooks/claude", "timeout": 86520, "onFailure": "block"} | token
        server = {"command": "assent", "args": ["mcp"], "env": {"ASSENT_URL": fake.url}}
        patient.write("project/.claude/settings.json", settings(hook, env={"ASSENT_URL": fake.url}))
        patient.write("project/.mcp.json", {"mcpServers": {"assent": server}})
        told = patient.doctor()
        assert fake.asked == []
    assert (told.code, told.bad()) == (0, [("env", "warning"), ("token", "warning")])
    assert told.report["live"]["status"] == "cancelled"


def test_a_warning_about_a_restricted_token_explains_how_to_test_it(patient: Home, desk: Desk) -> None:
    limits = ("--gate", "deploy.*", "--agent-id", "ci")
    made = here_json("token", "create", "--kind", "agent", "--name", "ci", *limits, ASSENT_DATA_DIR=str(desk.data))
    patient.variables["ASSENT_TOKEN"] = made["token"]
    told = patient.doctor()
    assert (told.code, told.bad(), told.report["live"]) == (0, [("live", "warning")], None)
    assert "--gate and --agent-id" in told.of("live")["do"]
    assert patient.doctor("--gate", "deploy.test", "--agent-id", "ci").bad() == []


@pytest.mark.parametrize("approved", [True, False])
def test_a_reviewer_can_answer_the_live_test(patient: Home, desk: Desk, *, approved: bool) -> None:
    patient.write(".claude/settings.json", settings())
    waiting = start("doctor", "--wait", "--json", env=patient.env)
    with waiting, desk.reviewer() as reviewer:
        breakpoint_id = told_of(waiting)
        reviewer.feedback(breakpoint_id, {"release": True, "approved": approved})
        out, _ = waiting.communicate(timeout=60)
    report = json.loads(out)
    assert waiting.returncode == 0, report["findings"][0]["what"]
    assert (report["live"]["breakpointId"], report["live"]["status"]) == (breakpoint_id, "released")
    assert report["live"]["answeredBy"] == "owner"


def told_of(waiting: Any) -> str:
    """Wait until the doctor prints the link to its test breakpoint, and return the breakpoint's ID."""
    return str(waiting.stderr.readline().rstrip().rpartition("/")[2])


def test_an_unanswered_live_test_is_reported_and_cancelled(patient: Home, desk: Desk) -> None:
    told = patient.doctor("--wait", "--timeout", "1")
    assert (told.code, told.bad()) == (1, [("live", "problem")])
    assert desk.found(told.report["live"]["breakpointId"]).status == "cancelled"


def test_interrupting_the_live_test_cancels_it(patient: Home, desk: Desk) -> None:
    with start("doctor", "--wait", env=patient.env) as waiting:
        breakpoint_id = told_of(waiting)
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
    assert (waiting.returncode, desk.found(breakpoint_id).status) == (130, "cancelled")


def test_a_terminal_shows_severity_marks_and_remedies(patient: Home) -> None:
    gate = {**GATE, "onFailure": "continue", "if": "Bash(git push *)"}
    patient.write("project/.claude/settings.json", settings(gate, permissions={"defaultMode": "\x1b[31m"}))
    with Seat([*COMMAND, "doctor"], env=patient.env, cwd=patient.project) as seat:
        assert seat.ended() == 1
    shown = seat.shown
    order = [shown.index(mark) for mark in ("✗", "!", "✓")]
    assert order == sorted(order)
    assert '→ Add "onFailure": "block" to the hook' in shown
    assert ".claude/settings.json /hooks/PreToolUse/0/hooks/0" in shown
    assert "Found 1 problem and 2 warnings." in shown


def test_without_a_terminal_findings_are_tab_separated_and_uncolored(patient: Home) -> None:
    patient.write("project/.claude/settings.json", settings({**GATE, "command": "\x1b[2Jnowhere/assent"}))
    done = run("doctor", "--offline", env=patient.env, cwd=patient.project)
    assert done.returncode == 1
    head, line, *_ = done.stdout.splitlines()
    assert head.split("\t") == ["SEVERITY", "CHECK", "WHERE", "WHAT", "DO"]
    assert line.split("\t")[:2] == ["problem", "hook-command"]
    assert ("\x1b" in done.stdout, "\\x1b[2Jnowhere" in done.stdout) == (False, True)


def test_a_server_rule_that_approves_a_whole_tool_is_reported_as_a_problem(patient: Home, desk: Desk) -> None:
    made = here_json("token", "create", "--kind", "admin", "--name", "rules", ASSENT_DATA_DIR=str(desk.data))
    with Assent(desk.url, made["token"]) as admin:
        narrow = admin.add_rule("tool.bash(payload.arguments.command = 'git status')", "auto-approve")
        assert patient.doctor("--no-live").bad() == []
        wide = admin.add_rule("tool.*", "auto-approve")
        told = patient.doctor("--no-live")
        for each in (narrow, wide):
            admin.remove_rule(each.id)
    assert (told.code, told.bad()) == (1, [("rule-wide", "problem")])
    assert wide.id in told.of("rule-wide")["what"]


OLD_RULE = {"pattern": "tool.bash(agentId = 'claude-code')", "action": "auto-approve", "source": "always-approve"}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"source": "cli"}, False),
        ({"expiresAt": "2001-01-01T00:00:00Z"}, False),
    ],
)
def test_an_outdated_local_rule_causes_a_warning(patient: Home, changes: dict[str, Any], found: Any) -> None:
    patient.write(".claude/settings.json", settings())
    rules = [OLD_RULE | {"id": "rule-old"} | changes]
    document = {"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": rules}
    path = patient.write(".assent/rules.json", document)
    told = patient.doctor("--offline")
    assert told.bad() == ([("rule-old", "warning")] if found else [])
    if found:
        finding = told.of("rule-old")
        assert finding["where"] == str(path)
        assert finding["what"].startswith("The rule rule-old does not check")
        assert "assent rule remove rule-old --local" in finding["do"]


def test_ignored_local_rules_cause_a_warning(patient: Home) -> None:
    patient.write(".claude/settings.json", settings())
    patient.write(".assent/rules.json", "{")
    assert patient.doctor("--offline").bad() == [("rules-local", "warning")]


async def written_by_always_approve(data: Path, pattern: str) -> Rule:
    admin = Principal(kind=Kind.PERSON, id="per_a", name="adm", project="default", roles=frozenset({Role.ADMIN}))
    new = NewRule(pattern=pattern, action="auto-approve")
    async with running_node(Settings(data_dir=data)) as node:
        return await node.assent.database.write(
            lambda tx: node.assent[RuleService].add(tx, new, by=admin, source=ALWAYS_APPROVE)
        )


def test_an_outdated_server_rule_causes_a_warning(patient: Home, desk: Desk) -> None:
    made = here_json("token", "create", "--kind", "admin", "--name", "old-rules", ASSENT_DATA_DIR=str(desk.data))
    patient.write(".claude/settings.json", settings())
    old = asyncio.run(written_by_always_approve(desk.data, "tool.bash(payload.callDigest = 'd')"))
    with Assent(desk.url, made["token"]) as admin:
        env = patient.env | {"ASSENT_TOKEN": made["token"]}
        done = run("doctor", "--no-live", "--json", env=env, cwd=patient.project)
        admin.remove_rule(old.id)
    (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "rule-old"]
    assert (finding["severity"], old.id in finding["what"]) == ("warning", True)
    assert f"assent rule remove {old.id}" in finding["do"]


def test_a_checkup_without_findings_says_so(patient: Home) -> None:
    assert run("doctor", "--offline", env=patient.env, cwd=patient.project).returncode == 1, "there is no gate"
    patient.write(".claude/settings.json", settings())
    done = run("doctor", env=patient.env, cwd=patient.project)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "No problems found.")


def test_the_doctor_writes_no_files_and_prints_no_secrets(patient: Home, desk: Desk) -> None:
    env = {"ASSENT_TOKEN": desk.agent_token, "ASSENT_REVIEWER_TOKEN": desk.reviewer_token}
    patient.write("project/.mcp.json", {"mcpServers": {"assent": {"command": "assent", "args": ["mcp"], "env": env}}})
    literal = {"headers": {"Authorization": f"Bearer {desk.reviewer_token}"}}
    hook = {"type": "http", "url": f"{desk.url}/api/hooks/claude", "timeout": 86520, "onFailure": "block"} | literal
    patient.write("project/.claude/settings.json", settings(hook))
    patient.write(".claude/settings.json", "{")
    before = patient.files()
    told = patient.doctor()
    assert told.code == 1
    assert patient.files() == before
    assert not any(token in told.everything for token in (desk.agent_token, desk.reviewer_token))
