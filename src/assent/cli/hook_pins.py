"""The server that a hook asks: fixed in its arguments at installation, so that no environment can redirect it."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assent.cli.session import trouble_teller
from assent.domain.errors import AssentError
from assent.sdk import receipts
from assent.sdk.client import Assent
from assent.sdk.connection import DEFAULT_URL, Fixed
from assent.sdk.errors import BadAddress
from assent.sdk.receipts import Keys

TOKEN_ENV = "ASSENT_TOKEN"  # noqa: S105  # the name of a variable
INSTALL_PATIENCE = 1.0

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The server; ASSENT_URL has no say beside it, nor a proxy.")
]
ReceiptKeys = Annotated[
    list[str] | None,
    typer.Option("--receipt-key", metavar="KEY", help="A public key that must have signed the receipt; repeat it."),
]
TokenEnv = Annotated[str, typer.Option(metavar="NAME", help="The variable that holds the agent's token.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of yours alone that holds the agent's token.")
]
CaFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificates to trust, with --url; SSL_CERT_FILE has no say then.")
]
Proxy = Annotated[str | None, typer.Option(metavar="URL", help="A proxy on the way to the server, with --url.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Where a hook asks, with which token, and whose receipts it believes."""

    url: str | None = None
    """None for a hook that was installed before addresses were pinned: it asks the server of ASSENT_URL."""
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
        """The keys that must have signed; a text that is no key is refused."""
        return receipts.read_keys(" ".join(self.receipt_keys)) if self.receipt_keys else receipts.pinned(os.environ)

    @property
    def words(self) -> list[tuple[str, str]]:
        """The options that a hook is installed with."""
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
            msg = f"{self.token_env} is not set; set it to an agent's token where the agent is started."
            raise BadAddress(msg)
        return token


def _token_in(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(10_000)
    except (OSError, RuntimeError) as error:
        msg = f"The token file {path} cannot be read: {error}."
        raise BadAddress(msg) from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        msg = f"The token file {path} can be read by others; run chmod 600 on it."
        raise BadAddress(msg)
    return text.decode("ascii", "replace").strip()


def current_keys(pins: Pins) -> tuple[Sequence[str], str]:
    """Return the server's current receipt key to pin, or no key and why not."""
    try:
        with pins.reached(patience=INSTALL_PATIENCE) as assent:
            found = [each.public_key for each in assent.receipt_keys().items if each.state == "current"]
    except AssentError as error:
        return (), error.message
    return found, "" if found else "The server has no receipt key yet."


def isolated() -> tuple[str, Sequence[str]]:
    """Return how to start this very Assent whatever PATH and PYTHONPATH say: the program, and its first words."""
    before = ["-I", "-m", "assent"]
    probe = [sys.executable, "-I", "-c", "import assent.cli.main"]
    works = subprocess.run(probe, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0  # noqa: S603  # ourselves
    return (sys.executable, before) if works else (str(Path(sys.argv[0]).absolute()), ())
