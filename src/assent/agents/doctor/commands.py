"""`assent doctor`: checks whether gates fail open and whether a test question arrives."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from assent.agents.doctor.claude_checks import claude_accesses, claude_findings, environment, gate_hooks
from assent.agents.doctor.files import Papers, exposed_data, machine, papers
from assent.agents.doctor.findings import (
    TOKEN,
    URL,
    Access,
    Finding,
    Machine,
    Place,
    Severity,
    access_findings,
    counted,
    problem,
    same_server,
    split,
    warning,
    worst_first,
)
from assent.agents.doctor.mcp_checks import asks_over_mcp, mcp_accesses, mcp_findings
from assent.agents.doctor.pin_checks import agents
from assent.agents.doctor.server import (
    TAG,
    TITLE,
    TTL,
    Live,
    claim_findings,
    live_findings,
    old_rule_findings,
    rule_findings,
    server_findings,
    token_findings,
)
from assent.console import output
from assent.console.output import Json
from assent.core.old_rules import sentence, unnamed
from assent.core.plurals import plural
from assent.core.secrets import well_formed
from assent.sdk.errors import AssentError, BadAddress
from assent.sdk.protocol import Asking

app = typer.Typer()

MARKS = {Severity.PROBLEM: ("✗", "red"), Severity.WARNING: ("!", "yellow"), Severity.OK: ("✓", "green")}
Files = list[Path] | None


@app.callback()
def _only() -> None:
    """Keep the command's name, which Typer drops if an app has only one command."""


@app.command()
def doctor(  # noqa: PLR0913  # the options of the command
    *,
    settings: Annotated[
        Files,
        typer.Option("--settings", metavar="FILE", help="Additional Claude Code settings file to check (repeatable)"),
    ] = None,
    mcp_config: Annotated[
        Files,
        typer.Option("--mcp-config", metavar="FILE", help="Additional MCP server configuration to check (repeatable)"),
    ] = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Create a test breakpoint and then cancel it")] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a reviewer to answer the test breakpoint")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Maximum time to wait with --wait")] = 300,
    gate: Annotated[str, typer.Option(help="Gate for the test breakpoint")] = "assent.doctor",
    agent_id: Annotated[
        str | None, typer.Option(help="ID of the requesting agent (default: ASSENT_AGENT_ID or assent-doctor)")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Check only files, without contacting the server")] = False,
    as_json: Json = False,
) -> None:
    """Find gates that fail open, and send a test question. The exit code is 1 if there is a problem."""
    found = papers(settings or (), mcp_config or ())
    here = machine()
    findings = list(_of_files(found, here))
    tried: Live | None = None
    if not offline:
        who = agent_id or os.environ.get("ASSENT_AGENT_ID") or "assent-doctor"
        test = _test(gate, who, wait=timeout if wait else None) if live else None
        asking = list(agents(gate_hooks(found.settings)))
        tried, more = _of_server(here.server, _accesses(found, here), test, timeout if wait else None, asking)
        findings += more
    _print(worst_first(findings), found, tried, as_json=as_json)
    if counted(findings, Severity.PROBLEM):
        raise typer.Exit(output.FAILED)


def _of_files(found: Papers, here: Machine) -> Iterable[Finding]:
    yield from claude_findings(found.settings, here, asks_otherwise=asks_over_mcp(found.mcp, here))
    yield from mcp_findings(found.mcp, found.settings, _surrounding(found, here))
    for access in _accesses(found, here):
        yield from access_findings(access)
    for path in exposed_data():
        mode = "700" if path.is_dir() else "600"
        what = "Other users on this machine can access the server's data."
        yield warning("data", Place(str(path)), what, f"Run: chmod {mode} {path}")
    yield from _of_local_rules()


def _of_local_rules() -> Iterable[Finding]:
    """Report local rules that are ignored because an older version wrote them or the file is invalid."""
    from assent.sdk import local, local_rules  # noqa: PLC0415  # loads the rule language, which startup does not need

    place = Place(str(local.folder() / local_rules.RULES))
    try:
        rules = local_rules.listed(local.folder())
    except AssentError as error:
        yield warning(
            "rules-local", place, error.message, "Correct or remove the file. Until then, no local rules apply."
        )
        return
    now = time.time_ns() // 1000
    for each in rules:
        if each.in_force(now) and (missing := unnamed(each)):
            what = f"{sentence(each.id, missing)} It is ignored."
            todo = f'Answer "always" the next time you are asked, or run: assent rule remove {each.id} --local'
            yield warning("rule-old", place, what, todo)


def _surrounding(found: Papers, here: Machine) -> Machine:
    return replace(here, env=environment(found.settings, here.env))


def _accesses(found: Papers, here: Machine) -> list[Access]:
    """Return every token that agents are given here, without duplicates. The environment's token comes first."""
    own = [Access(Place(TOKEN), here.env[TOKEN])] if here.env.get(TOKEN) else []
    given = [*claude_accesses(found.settings, here), *mcp_accesses(found.mcp, _surrounding(found, here))]
    placed = [replace(each, url=_other(each.url, here.server)) for each in given]
    # Reversing twice keeps the first of several equal tokens, which is the environment's token, if any.
    return list({(each.token, each.url): each for each in reversed([*own, *placed])}.values())[::-1]


def _other(url: str | None, server: str) -> str | None:
    """Return the origin of a URL, or None if it is on our server."""
    parts = split(url or "")
    return f"{parts.scheme}://{parts.netloc}" if url and not same_server(url, server) else None


def _test(gate: str, agent_id: str, *, wait: float | None) -> Asking:
    # The question is a hard stop, so that an auto-approval cannot look like a reviewer's answer.
    return Asking(
        agent_id=agent_id,
        title=TITLE,
        tags=[TAG],
        breakpoint_id=gate,
        hard_stop=True,
        ttl_seconds=TTL if wait is None else int(wait) + TTL,
    )


def _of_server(
    url: str, accesses: Sequence[Access], test: Asking | None, wait: float | None, agents: Sequence[str]
) -> tuple[Live | None, list[Finding]]:
    try:
        ready, findings = server_findings(url)
    except BadAddress as error:
        return None, [problem("server", Place(URL), error.message, f"Set {URL} to the server's URL.")]
    # Send tokens only to the server configured in the environment, never to a URL read from a file.
    ours = [each for each in accesses if each.url is None]
    findings += [_elsewhere(each, url) for each in accesses if each.url is not None]
    usable = [each for each in ours if well_formed(each.token)]
    if not accesses:
        todo = "Set it to an agent token. Create one with `assent token create --kind agent --name NAME`."
        findings.append(problem("token", Place(TOKEN), f"{TOKEN} is not set, so agents cannot ask questions.", todo))
    if not ready:
        return None, findings
    known = list(token_findings(url, usable))
    # Use only tokens that the server has accepted, because the others would fail for a known reason.
    good = [each for each, said in zip(usable, known, strict=True) if said.severity is Severity.OK]
    known += rule_findings(url, good[0], agents) if good else ()
    tried, lived = live_findings(good[0], test, url=url, wait=wait) if test and good else (None, ())
    return tried, [*findings, *known, *claim_findings(url, good), *old_rule_findings(url, good), *lived]


def _elsewhere(access: Access, url: str) -> Finding:
    what = f"This token is for a different server than {url} and was not tested."
    return warning("token", access.place, what, f"To test it, set {URL} to that server and run `assent doctor` again.")


def _print(findings: Sequence[Finding], found: Papers, tried: Live | None, *, as_json: bool) -> None:
    problems, warnings = (counted(findings, each) for each in (Severity.PROBLEM, Severity.WARNING))
    if as_json:
        output.emit(
            {
                "ok": not problems,
                "problems": problems,
                "warnings": warnings,
                "findings": [_json(each) for each in findings],
                "files": found.paths,
                "live": _live_json(tried) if tried else None,
            }
        )
        return
    _print_table(findings)
    checked = ", ".join(map(_short, found.paths))
    output.remark(f"Checked {checked}." if checked else "There were no files to check.")
    output.say(_summary(problems, warnings), style="red" if problems else "yellow" if warnings else "green")


def _json(each: Finding) -> dict[str, Any]:
    return {
        "check": each.check,
        "severity": each.severity.value,
        "where": each.place.where,
        "pointer": each.place.pointer,
        "what": each.what,
        "do": each.todo or None,
    }


def _live_json(tried: Live) -> dict[str, Any]:
    return {
        "breakpointId": tried.breakpoint_id,
        "status": tried.status,
        "createSeconds": tried.create_seconds,
        "streamSeconds": tried.stream_seconds,
        "endSeconds": tried.end_seconds,
        "answeredBy": tried.answered_by,
    }


def _print_table(findings: Sequence[Finding]) -> None:
    if not output.out.is_terminal:
        rows = [(each.severity.value, each.check, _where(each.place), each.what, each.todo) for each in findings]
        output.table(("severity", "check", "where", "what", "do"), rows, empty="")
        return
    # Show sentences in full, whereas output.table truncates its cells.
    shown = Table.grid(padding=(0, 1))
    for each in findings:
        mark, style = MARKS[each.severity]
        lines = [(each.what, ""), (each.todo and f"→ {each.todo}", ""), (_where(each.place), "dim")]
        said = Text("\n").join(Text(output.visible(line), style=how) for line, how in lines if line)
        shown.add_row(Text(mark, style=style), said)
    output.out.print(shown)


def _where(place: Place) -> str:
    return f"{_short(place.where)} {place.pointer}" if place.pointer else _short(place.where)


def _short(path: str) -> str:
    """Return a path relative to the current folder or to ~, if possible."""
    for folder, instead in ((Path.cwd(), ""), (Path.home(), "~/")):
        if Path(path).is_absolute() and Path(path).is_relative_to(folder):
            return f"{instead}{Path(path).relative_to(folder)}"
    return path


def _summary(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "No problems found."
    said = [plural(count, name) for count, name in ((problems, "problem"), (warnings, "warning")) if count]
    return f"Found {' and '.join(said)}."
