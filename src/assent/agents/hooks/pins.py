"""The server that a hook contacts, fixed in the hook's arguments so that the environment cannot redirect requests."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import assent
from assent.console import output
from assent.console.session import trouble_teller
from assent.core.errors import AssentError, InvalidRequest
from assent.sdk import receipts
from assent.sdk.client import Assent
from assent.sdk.connection import DEFAULT_URL, Fixed
from assent.sdk.errors import BadAddress
from assent.sdk.receipts import Keys

TOKEN_ENV = "ASSENT_TOKEN"  # noqa: S105  # the name of a variable
INSTALL_PATIENCE = 1.0
PROBE_SECONDS = 60.0
"""Enough for Python to load all of Assent from a cold disk; after that, the process is considered hung."""
_WHICH = "import os, sys, assent.cli.main, assent; sys.stdout.buffer.write(b'\\n' + os.fsencode(assent.__file__))"

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Server URL; overrides ASSENT_URL and the proxy variables")
]
ReceiptKeys = Annotated[
    list[str] | None,
    typer.Option("--receipt-key", metavar="KEY", help="Public key to trust for receipts (repeatable)"),
]
TokenEnv = Annotated[str, typer.Option(metavar="NAME", help="Environment variable that contains the agent token")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File that contains the agent token, readable only by you")
]
CaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CA certificates to trust with --url; overrides SSL_CERT_FILE"),
]
Proxy = Annotated[str | None, typer.Option(metavar="URL", help="Proxy to use with --url")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The server and token that a hook uses, and the receipt keys it trusts."""

    url: str | None = None
    """None for hooks installed before URLs were pinned, which use ASSENT_URL."""
    receipt_keys: Sequence[str] = ()
    token_env: str = TOKEN_ENV
    token_file: Path | None = None
    ca_file: Path | None = None
    proxy: str | None = None

    @property
    def server(self) -> str:
        return self.url or os.environ.get("ASSENT_URL") or DEFAULT_URL

    @property
    def keys(self) -> Keys | None:
        """The trusted receipt keys; raises if any of them is not a valid key."""
        return receipts.read_keys(" ".join(self.receipt_keys)) if self.receipt_keys else receipts.pinned(os.environ)

    @property
    def words(self) -> list[tuple[str, str]]:
        """The options that the hook is installed with."""
        found = [("url", self.url), *(("receipt-key", each) for each in self.receipt_keys)]
        found += [("token-file", str(self.token_file))] if self.token_file else [("token-env", self.token_env)]
        found += [("ca-file", str(self.ca_file) if self.ca_file else None), ("proxy", self.proxy)]
        return [(name, value) for name, value in found if value]

    def reached(self, *, patience: float) -> Assent:
        fixed = None if self.url is None else Fixed(proxy=self.proxy, ca_file=str(self.ca_file or "") or None)
        return Assent(
            self.url, self.token(), patience=patience, on_trouble=trouble_teller(patience=patience), fixed=fixed
        )

    def token(self) -> str:
        if self.token_file is not None:
            return _token_in(self.token_file)
        token = os.environ.get(self.token_env, "")
        if not token:
            msg = f"{self.token_env} is not set. Set it to an agent token in the environment that starts the agent."
            raise BadAddress(msg)
        return token


def _token_in(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as file:
            # Check the open file, because the path could be replaced between a check and the read.
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(10_000)
    except (OSError, RuntimeError) as error:
        msg = f"The token file {path} cannot be read: {error}."
        raise BadAddress(msg) from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        msg = f"The token file {path} is accessible to other users. Run: chmod 600 {path}"
        raise BadAddress(msg)
    return text.decode("ascii", "replace").strip()


def current_keys(pins: Pins) -> tuple[Sequence[str], str]:
    """Return the server's current receipt key, or no key and the reason."""
    try:
        with pins.reached(patience=INSTALL_PATIENCE) as server:
            found = [each.public_key for each in server.receipt_keys().items if each.state == "current"]
    except AssentError as error:
        return (), error.message
    return found, "" if found else "The server does not have a receipt key yet."


def isolated() -> tuple[str, Sequence[str]]:
    """Return the program and the first arguments that start this installation regardless of PATH and PYTHONPATH.

    If Python finds this installation only through its environment variables or the user's site directory, return the
    script that started this process. Raise if that script cannot be executed.
    """
    if _isolated_is_us():
        return sys.executable, ["-I", "-m", "assent"]
    script = Path(sys.argv[0]).absolute()
    if script.stem != "assent" or not script.is_file() or not os.access(script, os.X_OK):
        msg = (
            "Python cannot import this Assent installation in isolated mode (python -I -m assent), so the hook could"
            " not start. Install Assent, or use --program to specify the program to run."
        )
        raise InvalidRequest(msg)
    output.remark(
        "Python cannot import this Assent installation in isolated mode (python -I -m assent), so anyone who can set"
        " PYTHONPATH for the hook can make it load other code. Install Assent in its own virtual environment and run"
        " this command again.",
        style="yellow",
    )
    return str(script), ()


def _isolated_is_us() -> bool:
    """Return whether our interpreter loads this installation in isolated mode."""
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter
            # -I ignores PYTHON* variables, the user's site directory and the current directory.
            [sys.executable, "-I", "-c", _WHICH],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
        )
        # The path is on the last line, because imports may print something before it.
        found = done.stdout.rpartition(b"\n")[2]
        return done.returncode == 0 and Path(os.fsdecode(found)).samefile(assent.__file__)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
