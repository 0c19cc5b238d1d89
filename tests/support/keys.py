"""Keys for stored secrets, as an operator of PostgreSQL provides them to every node."""

import base64
import secrets
from pathlib import Path


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def key_reference(folder: Path, *keys: str) -> str:
    """Write keys, newest first, to a file readable only by its owner, and return a reference to it."""
    path = folder / "secret-keys"
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}\n" for key in keys or (new_key(),)))
    return f"file:{path}"
