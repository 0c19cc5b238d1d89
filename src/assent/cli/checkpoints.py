"""Commands of `assent audit` that produce evidence for auditors: checkpoints, proofs, keys and the export."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.audit.checkpoint import BadCheckpoint, read_verifier_key
from assent.audit.store.checkpoints import Checkpoints
from assent.audit.usecases.checkpoints import CHECKPOINT_BATCH, CheckpointService
from assent.audit.usecases.export import Exported, export
from assent.audit.usecases.publish_checkpoint import Anchoring
from assent.audit.views import checkpoint_body, consistency_body, inclusion_body, key_body
from assent.cli.data import Data, looking_at, on_data, operator, settings_with
from assent.console import output
from assent.console.output import Json
from assent.core.errors import InvalidRequest, NotFound
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.node import Node
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT

Project = Annotated[str, typer.Option(help="Project ID")]


def add_to(audit: typer.Typer) -> None:
    """Add the commands to `assent audit`."""
    audit.command("checkpoint")(checkpoint)
    audit.command("proof")(proof)
    audit.command("consistency")(consistency)
    audit.command("export")(export_)
    audit.command("keys")(keys)
    audit.command("rotate-key")(rotate_key)


def trusted(texts: Sequence[str]) -> Mapping[str, bytes] | None:
    """Parse the given public keys; return None if there are none."""
    try:
        return dict(map(read_verifier_key, texts)) or None
    except BadCheckpoint as error:
        msg = f"--key: {error}."
        raise InvalidRequest(msg) from error


def checkpoint(*, data: Data = None, as_json: Json = False) -> None:
    """Sign all events that no checkpoint covers yet, and append the new checkpoint to the anchor file."""
    settings = settings_with(data)
    signed = 0
    # One transaction per batch, so that a long backlog does not block a running server.
    while (taken := on_data(settings, lambda node, tx: node[CheckpointService].make(tx))) == CHECKPOINT_BATCH:
        signed += taken
    last = on_data(settings, lambda _, tx: tx[Checkpoints].last())
    looking_at(settings, lambda node: node[Anchoring].write_file())
    body = {"events": signed + taken, "checkpoint": checkpoint_body(last) if last else None}
    sentence = (
        f"Signed {plural(signed + taken, 'event')}. Checkpoint {last.number} covers {plural(last.size, 'event')}."
        if last
        else "No events to sign yet."
    )
    _done(body, sentence, as_json=as_json)


def proof(
    subject: Annotated[
        str, typer.Argument(metavar="ID", help="ID of a breakpoint or rule; ID:3 selects its third event")
    ],
    *,
    number: Annotated[int | None, typer.Option("--checkpoint", help="Checkpoint number (default: the latest)")] = None,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that the events of a breakpoint or rule are included in the audit log."""
    subject_id, _, event = subject.partition(":")
    if event and not (event.isascii() and event.isdigit()):
        msg = f"{subject} is invalid. Use an ID, or an ID with an event number, such as {subject_id}:3."
        raise InvalidRequest(msg)

    async def look(node: Node) -> dict[str, Any]:
        use_case = partial(
            node[CheckpointService].inclusion, subject_id=subject_id, seq=int(event) if event else None, number=number,
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
    output.table(columns, rows, empty="None of the events are in a checkpoint yet.")
    if found["waiting"]:
        output.remark(f"{plural(found['waiting'], 'event is', 'events are')} not in a checkpoint yet.")


def consistency(
    first: Annotated[int, typer.Argument(metavar="FIRST", help="Number of the earlier checkpoint")],
    second: Annotated[
        int | None, typer.Argument(metavar="SECOND", help="Number of the later checkpoint (default: the latest)")
    ] = None,
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that the log was append-only between two checkpoints."""

    async def look(node: Node) -> dict[str, Any]:
        use_case = partial(
            node[CheckpointService].consistency, first=first, second=second, by=operator(DEFAULT_PROJECT)
        )
        return consistency_body(await node.database.read(use_case))

    found = looking_at(settings_with(data), look)
    sentence = "\n".join([found["first"]["note"], found["second"]["note"], *found["path"]])
    _done(found, sentence, as_json=as_json)


def export_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write (must not exist yet)")],
    *,
    project: Annotated[
        str | None, typer.Option(help="Project to export, with a proof for each event (default: all projects)")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Export events, checkpoints, keys and proofs to a single file that other programs can verify."""

    async def look(node: Node) -> Exported:
        return await node.database.read(partial(_write, path=path, project=project))

    written = looking_at(settings_with(data), look)
    body = {
        "file": str(path),
        "events": written.events,
        "checkpoints": written.checkpoints,
        "breakpoints": written.breakpoints,
    }
    sentence = (
        f"Exported {plural(written.events, 'event')}, {plural(written.checkpoints, 'checkpoint')} and"
        f" {plural(written.breakpoints, 'breakpoint')} to {path}."
    )
    _done(body, output.visible(sentence), as_json=as_json)


def _write(tx: Transaction, *, path: Path, project: str | None) -> Exported:
    """Write to a temporary file in the same folder first, so that a file with this name is always complete."""
    if path.exists():
        msg = f"The file {path} already exists. Choose another name."
        raise InvalidRequest(msg)
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            if project is not None:
                tx[Projects].get(project)
            written = export(tx, file.write, project=project)
            file.flush()
            # Sync before renaming, so that a crash cannot leave a complete name with partial content.
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        msg = f"The file {path} cannot be written: {error.strerror}."
        raise InvalidRequest(msg) from error
    finally:
        # An interrupted export must not leave a partial file behind.
        unfinished.unlink(missing_ok=True)
    return written


def keys(*, data: Data = None, as_json: Json = False) -> None:
    """Print the public keys for checkpoints, newest first, in the format that signed-note tools expect."""

    async def look(node: Node) -> list[dict[str, Any]]:
        use_case = partial(node[CheckpointService].keys, by=operator(DEFAULT_PROJECT))
        return [key_body(each) for each in await node.database.read(use_case)]

    _print_keys(looking_at(settings_with(data), look), as_json=as_json)


def rotate_key(*, data: Data = None, as_json: Json = False) -> None:
    """Start signing checkpoints with a new key. Existing signatures remain valid."""

    def use_case(node: Node, tx: Transaction) -> list[dict[str, Any]]:
        return [key_body(each) for each in node[CheckpointService].rotate(tx, by=operator(DEFAULT_PROJECT))]

    _print_keys(on_data(settings_with(data), use_case), as_json=as_json)


def _print_keys(found: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.emit({"items": found})
        return
    if not found:
        raise NotFound("No key exists yet. One is created with the first checkpoint.")
    for each in found:
        output.say(each["verifierKey"])


def _done(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(value)
    else:
        output.say(sentence)
