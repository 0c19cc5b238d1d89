"""Commands that install, inspect and uninstall Git hooks in a repository, without a server."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.console import output
from assent.console.output import Json
from assent.core.errors import InvalidRequest
from assent.core.plurals import plural
from assent.triggers.sources import git_hooks
from assent.triggers.sources.git_hooks import Report, State

app = typer.Typer()
hooks = typer.Typer(no_args_is_help=True, help="Manage Git hooks that report repository activity to Assent.")
app.add_typer(hooks, name="hooks")

Repo = Annotated[Path, typer.Option("--repo", metavar="DIR", help="Repository or worktree")]
HERE = Path()


@hooks.command("install")
def hooks_install(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Install the hooks alongside existing hooks. The exit code is 1 if you have to add a hook manually."""
    report = _asked(git_hooks.install, repo)
    _show(report, as_json=as_json)
    if not as_json and report.complete:
        output.remark("Events from this repository are stored until a Git source reads them.")
    if not report.complete:
        raise typer.Exit(output.FAILED)


@hooks.command("status")
def hooks_status(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Show which hooks are installed and how many events are unread. The exit code is 1 if a hook is missing."""
    report = _asked(git_hooks.status, repo)
    _show(report, as_json=as_json)
    if not report.complete:
        raise typer.Exit(output.FAILED)


@hooks.command("uninstall")
def hooks_uninstall(*, repo: Repo = HERE, as_json: Json = False) -> None:
    """Remove the installed hooks. Any other hooks are restored byte for byte."""
    report = _asked(git_hooks.uninstall, repo)
    _show(report, as_json=as_json)
    if not as_json and report.waiting:
        output.remark(
            f"{plural(report.waiting, 'unread event is', 'unread events are')} kept in {output.visible(report.spool)}.",
            style="yellow",
        )


def _asked(use: Callable[[Path], Report], repo: Path) -> Report:
    try:
        return use(repo)
    except OSError as error:
        # The messages of these errors are written for users.
        raise InvalidRequest(str(error)) from error


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        output.emit(_plain(report))
        return
    rows = [(each.name, each.state.value, each.path, each.note) for each in report.hooks]
    output.table(("hook", "state", "path", "note"), rows, empty="")
    if report.waiting:
        output.say(plural(report.waiting, "unread event"))
    for each in report.hooks:
        if each.line and each.state is not State.INSTALLED:
            output.say(f"Add this line to {output.visible(each.path)}:", style="yellow")
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
