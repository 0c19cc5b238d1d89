"""The command that checks assent.yaml without a server and reports all problems with their lines."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.console import output
from assent.console.output import Json

if TYPE_CHECKING:
    from assent.platform.config_file import ConfigFile, Problem
    from assent.triggers.usecases.config_reload import Setup

commands = typer.Typer()
NAME = "assent.yaml"


@commands.command("validate")
def trigger_validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to check")] = Path(NAME),
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Data directory that contains the processes (overrides ASSENT_DATA_DIR)"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the sources, triggers, channels and routes in assent.yaml. This does not require a server."""
    problems, setup = _checked(file, data)
    if as_json:
        output.emit(_told(file, problems, setup))
    else:
        for each in problems:
            output.say(f"✗ {output.visible(str(each))}", style="red")
        if setup is not None and not problems:
            output.say(f"✓ {output.visible(str(file))} is valid: {_counted(setup)}.", style="green")
    if problems:
        raise typer.Exit(output.FAILED)


def _checked(path: Path, data: Path | None) -> "tuple[Sequence[Problem], Setup | None]":
    # This imports the entire server, which the other trigger commands should not have to wait for.
    from assent.cli.data import Misconfigured, settings_with  # noqa: PLC0415
    from assent.installation import setup_of  # noqa: PLC0415
    from assent.kernel.yaml_file import Unreadable  # noqa: PLC0415
    from assent.platform.config_file import PARTS, Given, read_file, unreadable  # noqa: PLC0415
    from assent.runs.processes import FolderOfProcesses  # noqa: PLC0415

    try:
        file = read_file(path, str(path))
    except (Unreadable, OSError) as error:
        return [unreadable(str(path), error)], None
    if file is None:
        msg = f"File not found: {path}."
        raise Misconfigured(msg)
    # The parts come from the given file, not from an assent.yaml in the current directory.
    settings = settings_with(data, channels=(), routes=(), sources={}, triggers=())
    given = Given({part: file.value.get(part) for part in PARTS}, file, frozenset(PARTS))
    setup = setup_of(settings, given, base=path.absolute().parent)
    found = [*_strangers(file), *setup.problems.found]
    found += setup.triggered.unfit(FolderOfProcesses(settings.process_folder))
    # In the order of the file, so that problems can be fixed from top to bottom.
    return sorted(found, key=lambda each: each.place.line if each.place else 0), setup


def _strangers(file: "ConfigFile") -> "list[Problem]":
    """Return the unknown settings, because a misspelled `triggers` would silently have no effect."""
    from assent.kernel.settings import Settings  # noqa: PLC0415
    from assent.platform.config_file import Problem  # noqa: PLC0415

    found: list[Problem] = []
    for name in file.value:
        if name not in Settings.model_fields:
            close = difflib.get_close_matches(name, Settings.model_fields, n=1)
            said = f"is not a setting. Did you mean {close[0]}?" if close else "is not a setting and has no effect"
            found.append(Problem(f"/{name}", said, file.place(f"/{name}"), file.name))
    return found


def _told(path: Path, problems: "Sequence[Problem]", setup: "Setup | None") -> dict[str, Any]:
    counts = {name: len(found) for name, found in _parts(setup).items()}
    listed = [
        {
            "line": each.place.line if each.place else None,
            "column": each.place.column if each.place else None,
            "pointer": each.pointer,
            "detail": each.text,
            "text": str(each),
        }
        for each in problems
    ]
    return {"ok": not problems, "file": str(path), **counts, "problems": listed}


def _counted(setup: "Setup") -> str:
    return ", ".join(f"{len(found)} {name}" for name, found in _parts(setup).items())


def _parts(setup: "Setup | None") -> dict[str, Sequence[object]]:
    if setup is None:
        return {}
    told, triggered = setup.told, setup.triggered
    return {
        "sources": triggered.sources,
        "triggers": triggered.triggers,
        "channels": told.channels,
        "routes": told.routes,
    }
