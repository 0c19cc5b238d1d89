"""What an auditor takes along: checkpoints, proofs, keys and the export. Commands of `assent audit`."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.app import Assent
from assent.cli import output
from assent.cli.data import Data, looking_at, on_data, operator, settings_with
from assent.cli.output import Json
from assent.domain.checkpoints import BadCheckpoint, read_verifier_key
from assent.domain.errors import InvalidRequest, NotFound
from assent.http.bodies import checkpoint_body, consistency_body, inclusion_body, key_body
from assent.services.audit_export import Exported, export
from assent.services.checkpoints import CHECKPOINT_BATCH
from assent.services.people import DEFAULT_PROJECT
from assent.store.transaction import Transaction

Project = Annotated[str, typer.Option(help="The project it belongs to.")]


def add_to(audit: typer.Typer) -> None:
    """Put the commands beside `assent audit verify`."""
    audit.command("checkpoint")(checkpoint)
    audit.command("proof")(proof)
    audit.command("consistency")(consistency)
    audit.command("export")(export_)
    audit.command("keys")(keys)
    audit.command("rotate-key")(rotate_key)


def trusted(texts: Sequence[str]) -> Mapping[str, bytes] | None:
    """Read the public keys that somebody gave; None where none was given."""
    try:
        return dict(map(read_verifier_key, texts)) or None
    except BadCheckpoint as error:
        msg = f"--key: {error}."
        raise InvalidRequest(msg) from error


def checkpoint(*, data: Data = None, as_json: Json = False) -> None:
    """Sign the events that no checkpoint covers yet, at once, and tell the anchor file."""
    settings = settings_with(data)
    signed = 0
    while (taken := on_data(settings, lambda node, tx: node.checkpoints.make(tx))) == CHECKPOINT_BATCH:
        signed += taken
    last = on_data(settings, lambda _, tx: tx.checkpoints.last())
    looking_at(settings, lambda node: node.anchoring.write_file())
    body = {"events": signed + taken, "checkpoint": checkpoint_body(last) if last else None}
    sentence = (
        f"{body['events']:,} events signed; checkpoint {last.number} is over {last.size:,} events."
        if last
        else "There is nothing to sign yet."
    )
    _done(body, sentence, as_json=as_json)


def proof(
    subject: Annotated[str, typer.Argument(metavar="ID", help="A breakpoint or a rule; ID:3 is its third event.")],
    *,
    number: Annotated[int | None, typer.Option("--checkpoint", help="Against this checkpoint, not the last.")] = None,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that events are in the log that a checkpoint signs."""
    subject_id, _, event = subject.partition(":")
    if event and not (event.isascii() and event.isdigit()):
        msg = f"{subject} is neither an id nor an id, a colon and the number of an event."
        raise InvalidRequest(msg)

    async def look(node: Assent) -> dict[str, Any]:
        use_case = partial(
            node.checkpoints.inclusion, subject_id=subject_id, seq=int(event) if event else None, number=number,
            by=operator(project),
        )  # fmt: skip
        return inclusion_body(await node.database.read(use_case))

    found = looking_at(settings_with(data), look)
    if as_json:
        output.emit(found)
        return
    output.say(found["checkpoint"]["note"])
    columns = ("event", "position", "hash", "path")
    rows = [
        (str(each["seq"]), str(each["position"]), each["hash"], "\n".join(each["path"])) for each in found["events"]
    ]
    output.table(columns, rows, empty="No event of it is in a checkpoint yet.")
    if found["waiting"]:
        output.remark(f"{found['waiting']} of its events are in no checkpoint yet.")


def consistency(
    first: Annotated[int, typer.Argument(metavar="FIRST", help="The number of the earlier checkpoint.")],
    second: Annotated[int | None, typer.Argument(metavar="SECOND", help="The later one; else the last.")] = None,
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that the log only grew from one checkpoint to another."""

    async def look(node: Assent) -> dict[str, Any]:
        use_case = partial(node.checkpoints.consistency, first=first, second=second, by=operator(DEFAULT_PROJECT))
        return consistency_body(await node.database.read(use_case))

    found = looking_at(settings_with(data), look)
    sentence = "\n".join([found["first"]["note"], found["second"]["note"], *found["path"]])
    _done(found, sentence, as_json=as_json)


def export_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; it must not exist.")],
    *,
    project: Annotated[str | None, typer.Option(help="Only this project, with a proof for each event.")] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write events, checkpoints, keys and proofs into one file that another program can check."""

    async def look(node: Assent) -> Exported:
        return await node.database.read(partial(_write, path=path, project=project))

    written = looking_at(settings_with(data), look)
    body = {
        "file": str(path),
        "events": written.events,
        "checkpoints": written.checkpoints,
        "breakpoints": written.breakpoints,
    }
    sentence = (
        f"{path}: {written.events:,} events, {written.checkpoints:,} checkpoints, {written.breakpoints:,} breakpoints."
    )
    _done(body, output.visible(sentence), as_json=as_json)


def _write(tx: Transaction, *, path: Path, project: str | None) -> Exported:
    """Write beside it first: a file of that name is a whole one."""
    if path.exists():
        msg = f"The file {path} exists already. Choose another name."
        raise InvalidRequest(msg)
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            if project is not None:
                tx.projects.get(project)
            written = export(tx, file.write, project=project)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        msg = f"The file {path} cannot be written: {error.strerror}."
        raise InvalidRequest(msg) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return written


def keys(*, data: Data = None, as_json: Json = False) -> None:
    """Print the public keys of checkpoints, newest first, as programs that check signed notes take them."""

    async def look(node: Assent) -> list[dict[str, Any]]:
        use_case = partial(node.checkpoints.keys, by=operator(DEFAULT_PROJECT))
        return [key_body(each) for each in await node.database.read(use_case)]

    _print_keys(looking_at(settings_with(data), look), as_json=as_json)


def rotate_key(*, data: Data = None, as_json: Json = False) -> None:
    """Sign checkpoints with a new key from now on; what older ones signed stays signed."""

    def use_case(node: Assent, tx: Transaction) -> list[dict[str, Any]]:
        return [key_body(each) for each in node.checkpoints.rotate(tx, by=operator(DEFAULT_PROJECT))]

    _print_keys(on_data(settings_with(data), use_case), as_json=as_json)


def _print_keys(found: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.emit({"items": found})
        return
    if not found:
        raise NotFound("There is no key yet: it is made with the first checkpoint.")
    for each in found:
        output.say(each["verifierKey"])


def _done(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(value)
    else:
        output.say(sentence)
