"""Receipts by command: get one, check it with or without a server, use it, and the keys they are signed with."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assent.cli import output
from assent.cli.output import Json
from assent.cli.session import session
from assent.domain.canonical import is_object, strict_loads
from assent.domain.receipts import LARGEST
from assent.sdk import receipts
from assent.sdk.client import Assent
from assent.sdk.errors import AssentError, FileRefused, InvalidReceipt, MalformedJson
from assent.sdk.receipts import Expected, Keys, Receipt, ReceiptKey, ReceiptKeys, ReceiptUse
from assent.sdk.values import plain

app = typer.Typer()
receipt = typer.Typer(no_args_is_help=True, help="Signed proof of approvals.")
app.add_typer(receipt, name="receipt")

STDIN = "-"


@receipt.command("get")
def receipt_get(
    breakpoint_id: Annotated[str, typer.Argument(metavar="ID", help="The breakpoint's id.")],
    *,
    target: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
    as_json: Json = False,
) -> None:
    """Print the receipt of an approval, as one line of JSON."""
    with session() as assent:
        found = assent.receipt(breakpoint_id)
    if target is not None:
        _write(target, found.text() + "\n")
        output.remark(f"Written to {output.visible(str(target))}; good until {found.body()['expiresAt']}.")
    if target is None or as_json:
        output.emit(found.body())


@receipt.command("verify")
def receipt_verify(  # noqa: PLR0913  # the options of the command
    source: Annotated[str, typer.Argument(metavar="FILE", help="The receipt; - reads standard input.")],
    *,
    consume: Annotated[bool, typer.Option("--consume", help="Use it up: the second time is refused.")] = False,
    key: Annotated[
        list[str] | None, typer.Option(metavar="PUBLICKEY", help="Trust this key only, and ask no server; repeat it.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Trust the keys in a file: one to a line, or as `receipt keys --json` prints them."
        ),
    ] = None,
    digest: Annotated[str | None, typer.Option(help="The digest of what is about to be done.")] = None,
    content: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON that would raise it again; its digest must be the same.")
    ] = None,
    gate: Annotated[str | None, typer.Option(help="The gate it must be for.")] = None,
    agent_id: Annotated[str | None, typer.Option(help="The agent it must be for.")] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt: exit code 0 only if it is signed, still good, and for what was expected."""
    try:
        found = receipts.loads(_read(source))
        expected = Expected(digest=_digest(found, digest, content), gate=gate, agent_id=agent_id)
        use = _verified(found, expected, _given_keys(key, keys), consume=consume)
    except AssentError as error:
        if as_json:
            output.emit({"valid": False, "code": error.code, "detail": error.message})
        raise
    if as_json:
        output.emit({"valid": True, "receipt": found.body()} | ({"use": plain(use)} if use else {}))
    else:
        _describe(found, use)


def _verified(found: Receipt, expected: Expected, trusted: Keys | None, *, consume: bool) -> ReceiptUse | None:
    """Without a server where the keys are at hand and nothing is to be used up."""
    if trusted is not None and not consume:
        receipts.check(found, trusted, now=time.time(), **expected)
        return None
    with session() as assent:
        if consume:
            return assent.consume_receipt(found, keys=trusted, **expected)
        receipts.check(found, receipts.trusted(assent.receipt_keys().items), now=time.time(), **expected)
        return None


def _given_keys(given: Sequence[str] | None, file: Path | None) -> Keys | None:
    """The keys of the command line, else those of ASSENT_RECEIPT_KEY, else None."""
    if not given and file is None:
        return receipts.pinned(os.environ)
    trusted: dict[str, bytes] = {}
    for each in given or ():
        trusted |= receipts.read_keys(each)
    if file is not None:
        trusted |= _keys_in(_read(str(file)))
    return trusted


def _keys_in(text: bytes) -> dict[str, bytes]:
    """Read what `receipt keys --json` printed, or keys alone."""
    if text.lstrip().startswith(b"{"):
        try:
            return receipts.trusted(msgspec.json.decode(text, type=ReceiptKeys).items)
        except msgspec.MsgspecError as error:
            raise InvalidReceipt("The file of keys is not what assent receipt keys --json prints.") from error
    return receipts.read_keys(text.decode("ascii", "replace"))


def _digest(found: Receipt, digest: str | None, content: Path | None) -> str | None:
    if content is None:
        return digest
    try:
        body = strict_loads(_read(str(content)))
    except MalformedJson as error:
        raise typer.BadParameter(error.message, param_hint="--content") from error
    if not is_object(body):
        raise typer.BadParameter("must hold a JSON object", param_hint="--content")
    computed = receipts.content_digest(body, project=found.approval.project)
    if digest is not None and digest != computed:
        raise typer.BadParameter("is not the digest of --content", param_hint="--digest")
    return computed


def _describe(found: Receipt, use: ReceiptUse | None) -> None:
    told, body = found.approval, found.body()
    output.say("This receipt holds." if use is None else "This receipt holds, and is used up now.", style="green")
    output.fields(
        {
            "breakpoint": told.breakpoint_id,
            "project": told.project,
            "gate": told.gate,
            "agent": told.agent_id,
            "digest": told.digest,
            "approved by": ", ".join(f"{each.by} via {each.via}" for each in told.approvers),
            "option": told.option,
            "answers": json.dumps(told.answers, ensure_ascii=False) if told.answers else None,
            "edits": json.dumps(told.edits, ensure_ascii=False) if told.edits else None,
            "decided": body["decidedAt"],
            "good until": body["expiresAt"],
            "key": found.key_id,
        }
    )


@receipt.command("keys")
def receipt_keys(
    *,
    current: Annotated[bool, typer.Option("--current", help="Only the key that signs now, and nothing else.")] = False,
    as_json: Json = False,
) -> None:
    """Print the public keys of the project, newest first: the first column is what others may trust."""
    with session() as assent:
        found = assent.receipt_keys()
    if current:
        found = ReceiptKeys(items=[each for each in found.items if each.state == "current"])
    if current and not as_json:
        output.say("\n".join(output.visible(each.public_key) for each in found.items))
        return
    _print_keys(found, as_json=as_json)


@receipt.command("rotate-key")
def rotate_key(
    *,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="And trust no older key any more: for one that leaked.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign with a new key from now on; receipts by the older ones stay good until they expire. For admins."""
    with session() as assent:
        found = _rotated(assent, revoke=revoke)
    _print_keys(found, as_json=as_json)


def _rotated(assent: Assent, *, revoke: bool) -> ReceiptKeys:
    calls = assent.calls
    return assent.perform(receipts.rotating_key(revoke=revoke, pace=calls.pace, patience=calls.patience))


def _print_keys(found: ReceiptKeys, *, as_json: bool) -> None:
    if as_json:
        output.emit(plain(found))
        return
    rows = [_row(each) for each in found.items]
    output.table(("public key", "id", "state", "created", "by"), rows, empty="There are no keys.")


def _row(each: ReceiptKey) -> Sequence[str]:
    return (each.public_key, each.key_id, each.state, each.created_at, each.created_by)


def _read(source: str) -> bytes:
    try:
        if source == STDIN:
            return sys.stdin.buffer.read(LARGEST + 1)
        with Path(source).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        msg = f"{source} cannot be read: {error.strerror}."
        raise FileRefused(msg) from error


def _write(target: Path, text: str) -> None:
    """For its owner only: whoever holds a receipt may use it."""
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)  # it may have been there, open to others
            file.write(text)
    except OSError as error:
        msg = f"{target} cannot be written: {error.strerror}."
        raise FileRefused(msg) from error
