"""Assent's hooks in a git repository, by command: put in, looked at, taken out. No server is needed."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.cli import output
from assent.cli.output import Json
from assent.domain.errors import InvalidRequest
from assent.sources import git_hooks
from assent.sources.git_hooks import Report, State

app = typer.Typer()
hooks = typer.Typer(no_args_is_help=True, help="Hooks of git that tell Assent what happens in a repository.")
app.add_typer(hooks, name="hooks")

Repo = Annotated[Path, typer.Option("--repo", metavar="PATH", help="The repository, or a worktree of it.")]
HERE = Path()


@hooks.command("install")
def hooks_install(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Put the hooks in, beside those that are there; exits with 1 if one has to be added by hand."""
    report = _asked(git_hooks.install, repo)
    _show(report, as_json=as_json)
    if not as_json and report.complete:
        output.remark("What happens here is kept until a source of the kind git reads it.")
    if not report.complete:
        raise typer.Exit(output.FAILED)


@hooks.command("status")
def hooks_status(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Say which hooks are in, and how much waits to be told; exits with 1 if a hook is not in."""
    report = _asked(git_hooks.status, repo)
    _show(report, as_json=as_json)
    if not report.complete:
        raise typer.Exit(output.FAILED)


@hooks.command("uninstall")
def hooks_uninstall(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Take out what was put in; every other hook is as it was before, byte for byte."""
    report = _asked(git_hooks.uninstall, repo)
    _show(report, as_json=as_json)
    if not as_json and report.waiting:
        output.remark(f"{report.waiting} not told yet: kept in {output.visible(report.spool)}.", style="yellow")


def _asked(use: Callable[[Path], Report], repo: Path) -> Report:
    try:
        return use(repo)
    except OSError as error:
        raise InvalidRequest(str(error)) from error


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        output.emit(_plain(report))
        return
    rows = [(each.name, each.state.value, each.path, each.note) for each in report.hooks]
    output.table(("hook", "state", "where", "note"), rows, empty="")
    if report.waiting:
        output.say(f"{report.waiting} waiting to be told")
    for each in report.hooks:
        if each.line and each.state is not State.INSTALLED:
            output.say(f"Add to {output.visible(each.path)}:", style="yellow")
            output.say(f"  {each.line}")


def _plain(report: Report) -> dict[str, Any]:
    return {
        "repo": report.repo,
        "bare": report.is_bare,
        "installed": report.complete,
        "spool": report.spool,
        "waiting": report.waiting,
        "hooks": [dataclasses.asdict(each) for each in report.hooks],
    }
