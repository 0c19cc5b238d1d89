"""The command that imports data from the original service."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.breakpoints.store.original import Original, opened
from assent.breakpoints.usecases.importing import Carried, Left, carry, carry_rules, foresee, read_past, read_rules
from assent.cli.data import Data, looking_at, on_data, operator, settings_with
from assent.console import output
from assent.console.output import Json
from assent.core.access import Principal
from assent.core.canonical import is_object, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson
from assent.core.importing import Past
from assent.core.plurals import plural
from assent.core.rules_file import Entry
from assent.kernel.settings import Settings
from assent.node import Node
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.policy.usecases.rules_file import Imported

app = typer.Typer()

SHOWN = 20
"""Maximum number of skipped entries that are listed individually."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to import, and how."""

    by: Principal
    rules: Sequence[Entry] | None
    live_rules: bool
    dry_run: bool


@dataclass(slots=True)
class Done:
    """The result of the import, or of a dry run."""

    carried: list[Carried] = field(default_factory=list[Carried])
    left: list[Left] = field(default_factory=list[Left])
    rules: Imported | None = None

    @property
    def new(self) -> list[Carried]:
        return [each for each in self.carried if each.is_new]


@app.command("import")
def import_command(  # noqa: PLR0913  # the options of the command
    file: Annotated[Path, typer.Argument(metavar="FILE", help="breakpoints.db file from the original service")],
    *,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="rules.json file from the original service")
    ] = None,
    live_rules: Annotated[
        bool, typer.Option("--live-rules", help="Import auto-approve rules in live mode instead of shadow mode")
    ] = False,
    project: Annotated[str, typer.Option(help="Project to import into")] = DEFAULT_PROJECT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported without changing anything")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Import completed breakpoints from the original service. You can repeat this safely. Nothing is approved."""
    settings = settings_with(data)
    # Read the rules before importing anything, so that an invalid file changes nothing.
    entries = _entries(rules) if rules is not None else None
    wanted = Wanted(by=operator(project), rules=entries, live_rules=live_rules, dry_run=dry_run)
    with opened(file) as original:
        done = _import(settings, original, wanted)
    if as_json:
        output.emit(_body(done, wanted))
    else:
        _print(done, wanted)


def _entries(path: Path) -> list[Entry]:
    try:
        document = strict_loads(path.read_bytes())
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}."
        raise InvalidRequest(msg) from error
    except MalformedJson as error:
        msg = f"{path} is not valid JSON: {error.message}"
        raise InvalidRequest(msg) from error
    if not is_object(document):
        msg = f"{path} must contain a JSON object."
        raise InvalidRequest(msg)
    return read_rules(document)


def _import(settings: Settings, original: Original, wanted: Wanted) -> Done:
    if not wanted.dry_run:
        on_data(settings, lambda _, tx: tx[Projects].get(wanted.by.project))  # also migrates the data
    return looking_at(settings, partial(_carried, original=original, wanted=wanted))


async def _carried(node: Node, *, original: Original, wanted: Wanted) -> Done:
    """Import in batches; repeating an interrupted import continues where it stopped."""
    done = Done()
    if wanted.by.project != DEFAULT_PROJECT:  # the default project is created by the first write
        await node.database.read(lambda tx: tx[Projects].get(wanted.by.project))
    # A dry run uses a read transaction, in which nothing can be written by mistake.
    run = node.database.read if wanted.dry_run else node.database.write
    step = foresee if wanted.dry_run else carry
    for batch in original.batches():
        readings = [read_past(found) for found in batch]
        pasts: list[Past] = [each.past for each in readings if each.past is not None]
        done.left += [left for each in readings for left in each.left]
        done.carried += await run(partial(step, pasts=pasts, by=wanted.by))
    why = "Not imported because it contains secrets. Create a channel instead."
    done.left += [Left("extension", name, why) for name in original.extensions()]
    if wanted.rules is not None:
        done.rules = await run(
            partial(carry_rules, entries=wanted.rules, by=wanted.by, live=wanted.live_rules, dry_run=wanted.dry_run)
        )
    return done


def _body(done: Done, wanted: Wanted) -> dict[str, Any]:
    return {
        "dryRun": wanted.dry_run,
        "project": wanted.by.project,
        "imported": [{"from": each.origin, "id": each.id, "status": each.status} for each in done.new],
        "alreadyThere": len(done.carried) - len(done.new),
        "comments": sum(each.comments for each in done.new),
        "notCarried": [{"kind": each.kind, "id": each.id, "why": each.why} for each in done.left],
        "rules": None if done.rules is None else _rules(done.rules),
    }


def _rules(rules: Imported) -> dict[str, int]:
    found = rules.plan
    return {"added": len(found.added), "changed": len(found.changed), "unchanged": len(found.unchanged)}


def _print(done: Done, wanted: Wanted) -> None:
    verb = "Dry run: would import" if wanted.dry_run else "Imported"
    comments = sum(each.comments for each in done.new)
    there = len(done.carried) - len(done.new)
    output.say(
        f"{verb} {plural(len(done.new), 'breakpoint')} with {plural(comments, 'comment')}. Already imported: {there}."
    )
    if done.rules is not None:
        counts = ", ".join(f"{count} {what}" for what, count in _rules(done.rules).items())
        output.say(f"Rules: {counts}.")
    if done.left:
        rows = [(each.kind, each.id, each.why) for each in done.left[:SHOWN]]
        output.table(("not imported", "id", "reason"), rows, empty="", wide=("reason",))
        more = len(done.left) - SHOWN
        if more > 0:
            output.remark(f"{more} more not shown. Use --json to list all of them.")
