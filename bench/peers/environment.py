"""Creates a separate environment for each peer when it is first measured, with the versions pinned in this folder."""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "peers"
INSTALL_SECONDS = 900


class Unavailable(Exception):
    """A peer could not be installed or started, for the reason in the message."""


def python_of(name: str) -> Path:
    """Return the interpreter of a peer's environment. Create the environment if it is missing or outdated."""
    wanted = HERE / f"{name}.txt"
    folder = BUILD / name
    python, stamp = folder / "bin" / "python", folder / "versions.sha256"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != digest:
        print(f"Installing {name}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _installed(python, wanted)
        stamp.write_text(digest)
    return python


def _installed(python: Path, wanted: Path) -> None:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    try:
        done = subprocess.run(
            [*pip, "install", "--requirement", str(wanted)], capture_output=True, text=True,
            timeout=INSTALL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable("could not be installed within 15 minutes") from error
    if done.returncode:
        raise Unavailable(f"could not be installed: {last_line(done.stderr)}")


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
