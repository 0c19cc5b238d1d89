"""Commands that get, verify and consume receipts, and manage the keys that sign them."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assent.console import output
from assent.console.output import Json
from assent.console.session import session
from assent.contracts.shape import plain
from assent.core.canonical import is_object, strict_loads
from assent.core.receipts import LARGEST
from assent.sdk import receipts
from assent.sdk.client import Assent
from assent.sdk.errors import AssentError, FileRefused, InvalidReceipt, MalformedJson
from assent.sdk.receipts import Expected, Keys, Receipt, ReceiptKey, ReceiptKeys, ReceiptUse

app = typer.Typer()
receipt = typer.Typer(no_args_is_help=True, help="Manage receipts (signed proof of approval).")
app.add_typer(receipt, name="receipt")

STDIN = "-"


@receipt.command("get")
def receipt_get(
    breakpoint_id: Annotated[str, typer.Argument(metavar="ID", help="Breakpoint ID")],
    *,
    target: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file (readable only by you)")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the receipt for an approval as a single line of JSON."""
    with session() as assent:
        found = assent.receipt(breakpoint_id)
    if target is not None:
        _write(target, found.text() + "\n")
        output.remark(f"Wrote {output.visible(str(target))}. The receipt expires at {found.body()['expiresAt']}.")
    if target is None or as_json:
        output.emit(found.body())


@receipt.command("verify")
def receipt_verify(  # noqa: PLR0913  # one parameter per option
    source: Annotated[str, typer.Argument(metavar="FILE", help="Receipt file, or - for standard input")],
    *,
    consume: Annotated[
        bool, typer.Option("--consume", help="Consume the receipt, so that it cannot be used again")
    ] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Public key to trust (repeatable); only --consume then requires a server"),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with keys to trust, one per line or as printed by `assent receipt keys --json`"
        ),
    ] = None,
    digest: Annotated[str | None, typer.Option(help="Expected content hash")] = None,
    content: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the create request's JSON body; its content hash must match the receipt"
        ),
    ] = None,
    gate: Annotated[str | None, typer.Option(help="Expected gate")] = None,
    agent_id: Annotated[str | None, typer.Option(help="Expected agent ID")] = None,
    as_json: Json = False,
) -> None:
    """Verify a receipt. The exit code is 0 only if the receipt is trusted, unexpired and matches the options."""
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
    """Verify the receipt, using a server only to look up keys or to consume the receipt."""
    if trusted is not None and not consume:
        receipts.check(found, trusted, now=time.time(), **expected)
        return None
    with session() as assent:
        if consume:
            return assent.consume_receipt(found, keys=trusted, **expected)
        receipts.check(found, receipts.trusted(assent.receipt_keys().items), now=time.time(), **expected)
        return None


def _given_keys(given: Sequence[str] | None, file: Path | None) -> Keys | None:
    """Return the keys from the command line, otherwise those in ASSENT_RECEIPT_KEY, otherwise None."""
    if not given and file is None:
        return receipts.pinned(os.environ)
    trusted: dict[str, bytes] = {}
    for each in given or ():
        trusted |= receipts.read_keys(each)
    if file is not None:
        trusted |= _keys_in(_read(str(file)))
    return trusted


def _keys_in(text: bytes) -> dict[str, bytes]:
    """Parse the output of `receipt keys --json`, or a plain list of keys."""
    if text.lstrip().startswith(b"{"):
        try:
            return receipts.trusted(msgspec.json.decode(text, type=ReceiptKeys).items)
        except msgspec.MsgspecError as error:
            raise InvalidReceipt(
                "The key file does not match the output format of `assent receipt keys --json`."
            ) from error
    return receipts.read_keys(text.decode("ascii", "replace"))


def _digest(found: Receipt, digest: str | None, content: Path | None) -> str | None:
    if content is None:
        return digest
    try:
        body = strict_loads(_read(str(content)))
    except MalformedJson as error:
        raise typer.BadParameter(error.message, param_hint="--content") from error
    if not is_object(body):
        raise typer.BadParameter("must contain a JSON object", param_hint="--content")
    computed = receipts.content_digest(body, project=found.approval.project)
    if digest is not None and digest != computed:
        raise typer.BadParameter("does not match the content hash of the --content file", param_hint="--digest")
    return computed


def _describe(found: Receipt, use: ReceiptUse | None) -> None:
    told, body = found.approval, found.body()
    output.say(
        "The receipt is valid." if use is None else "The receipt is valid and has now been consumed.", style="green"
    )
    output.fields(
        {
            "breakpoint": told.breakpoint_id,
            "project": told.project,
            "gate": told.gate,
            "agent": told.agent_id,
            "content hash": told.digest,
            "approved by": ", ".join(f"{each.by} via {each.via}" for each in told.approvers),
            "option": told.option,
            "answers": json.dumps(told.answers, ensure_ascii=False) if told.answers else None,
            "edits": json.dumps(told.edits, ensure_ascii=False) if told.edits else None,
            "decided": body["decidedAt"],
            "expires": body["expiresAt"],
            "key": found.key_id,
        }
    )


@receipt.command("keys")
def receipt_keys(
    *,
    current: Annotated[bool, typer.Option("--current", help="Print only the current signing key")] = False,
    as_json: Json = False,
) -> None:
    """List the project's public receipt keys, newest first."""
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
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke all older keys, for example after a leak")] = False,
    as_json: Json = False,
) -> None:
    """Start signing receipts with a new key (admins only). Without --revoke, existing receipts remain valid."""
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
    output.table(("public key", "id", "state", "created", "by"), rows, empty="No keys.")


def _row(each: ReceiptKey) -> Sequence[str]:
    return (each.public_key, each.key_id, each.state, each.created_at, each.created_by)


def _read(source: str) -> bytes:
    try:
        # Read one byte more than allowed, so that files that are too large are rejected instead of truncated.
        if source == STDIN:
            return sys.stdin.buffer.read(LARGEST + 1)
        with Path(source).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        msg = f"{source} cannot be read: {error.strerror}."
        raise FileRefused(msg) from error


def _write(target: Path, text: str) -> None:
    """Write a file that only its owner can read, because anyone with a receipt can use it."""
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)  # an existing file may have wider permissions
            file.write(text)
    except OSError as error:
        msg = f"{target} cannot be written: {error.strerror}."
        raise FileRefused(msg) from error
