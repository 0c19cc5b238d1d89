"""The command that sends a test webhook to a source, signed as its provider would sign it."""

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import httpx2
import typer

from assent.console import output
from assent.console.output import Json
from assent.core.canonical import is_object
from assent.core.errors import InvalidRequest, Unauthenticated
from assent.sdk import connection, protocol, signing
from assent.sdk.errors import Unreachable

commands = typer.Typer()

Sign = Literal[
    "github", "gitlab", "bitbucket", "gitea", "forgejo", "circleci", "jira", "standard-webhooks", "hmac", "bearer",
    "path", "none",
]  # fmt: skip
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class Fixture:
    body: bytes
    headers: Mapping[str, str]


@commands.command("send")
def trigger_send(  # noqa: PLR0913  # one parameter for each option
    fixture: Annotated[
        Path,
        typer.Argument(
            metavar="FIXTURE", help="File with a request body or a JSON object {headers, body}; - for standard input"
        ),
    ],
    *,
    source: Annotated[str, typer.Option(metavar="NAME", help="Source name or ID")],
    sign: Annotated[Sign, typer.Option(help="Signature scheme")] = "none",
    secret: Annotated[
        str | None, typer.Option(metavar="REFERENCE", help="Signing secret, as an env:NAME or file:PATH reference")
    ] = None,
    event: Annotated[str, typer.Option(metavar="NAME", help="Provider's event name, such as push")] = "",
    delivery: Annotated[
        str | None, typer.Option(metavar="ID", help="Delivery ID; reuse an ID to simulate a redelivery")
    ] = None,
    header: Annotated[
        str, typer.Option(metavar="NAME", help="Header for an HMAC signature (default: X-Signature)")
    ] = "",
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Prefix for an HMAC signature, such as sha256=")] = "",
    url: Annotated[str | None, typer.Option(metavar="URL", help="Server URL (default: ASSENT_URL)")] = None,
    as_json: Json = False,
) -> None:
    """Send a test webhook to a source, signed like the provider's webhooks. The exit code is 1 if it is rejected."""
    read = _read(fixture)
    key = _secret(sign, secret)
    call = signing.Call(read.body, event, delivery or str(uuid.uuid4()), int(time.time()), header, prefix)
    made = _signed(sign, key, call)
    address = f"/hooks/{quote(source, safe='')}" + (f"/{quote(key, safe='')}" if sign == "path" else "")
    headers = httpx2.Headers({"Content-Type": "application/json"})
    headers.update(read.headers)
    # The new signature replaces the one that was recorded with the fixture.
    headers.update(made)
    answer = _posted(url or os.environ.get("ASSENT_URL") or connection.DEFAULT_URL, address, headers, read.body)
    _print(answer, as_json=as_json)


def _read(path: Path) -> Fixture:
    try:
        content = typer.get_binary_stream("stdin").read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        msg = f"cannot be read: {error.strerror}"
        raise typer.BadParameter(msg, param_hint="FIXTURE") from error
    try:
        found: Any = json.loads(content)
    except ValueError:
        return Fixture(content, {})
    # A JSON file without these keys is the request body itself.
    if not is_object(found) or not {"headers", "body"} <= set(found) or not is_object(found["headers"]):
        return Fixture(content, {})
    body = found["body"]
    # A string is sent unchanged, so that a fixture can contain the exact bytes.
    encoded = body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()
    kept = {name: str(value) for name, value in found["headers"].items() if name.lower() not in _OURS}
    return Fixture(encoded, kept)


def _secret(sign: Sign, reference: str | None) -> str:
    if sign == "none":
        return ""
    if reference is None or not reference.startswith(("env:", "file:")):
        msg = "must be env:NAME or file:PATH, because other users can see command-line arguments"
        raise typer.BadParameter(msg, param_hint="--secret")
    from assent.kernel.settings import resolve  # noqa: PLC0415  # most commands do not need the settings

    try:
        return str(resolve(reference)).strip()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--secret") from error


def _signed(sign: Sign, secret: str, call: signing.Call) -> dict[str, str]:
    if sign in {"none", "path"}:
        return {}
    try:
        return signing.signed(sign, secret, call)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--secret") from error


def _posted(url: str, address: str, headers: httpx2.Headers, body: bytes) -> httpx2.Response:
    try:
        # An internet proxy cannot reach this machine's loopback interface.
        loopback = httpx2.URL(url).host in _LOOPBACK
        with httpx2.Client(base_url=url.rstrip("/"), trust_env=not loopback, timeout=connection.ANSWER_SECONDS) as http:
            return http.post(address, headers=headers, content=body)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        msg = f"{output.visible(url)!r} is not a valid URL"
        raise typer.BadParameter(msg, param_hint="--url") from error
    except httpx2.RequestError as error:
        msg = f"cannot connect to {url} ({error})"
        raise Unreachable(msg) from error


def _print(answer: httpx2.Response, *, as_json: bool) -> None:
    if not answer.is_success:
        problem = protocol.problem(connection.reply(answer, answer.content))
        if isinstance(problem, Unauthenticated):
            msg = f"{problem.message} Check --sign and --secret."
            raise InvalidRequest(msg) from problem  # the hint about ASSENT_TOKEN would not help
        raise problem
    try:
        said: Any = answer.json()
    except ValueError:
        said = {}
    told: Mapping[str, Any] = said if is_object(said) else {}
    if as_json:
        output.emit({"status": answer.status_code, **told})
        return
    again = " This is a duplicate. It was counted but does not start any runs." if told.get("duplicate") else ""
    output.say(f"{answer.status_code}: {output.visible(str(told.get('eventId') or 'accepted'))}.{again}")
