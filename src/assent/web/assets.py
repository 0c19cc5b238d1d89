"""Serves the style sheet, ES modules and images under URLs with a hash that changes when any of the files changes."""

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from assent.core.errors import NotFound

FOR_EVER = "public, max-age=31536000, immutable"
SHEET = "assent.css"
MISSING = (
    "The web pages' libraries are missing. They are fetched when the package is built. In a clone, run make setup or "
    "make serve again."
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    packed: bytes
    media_type: str


def _read(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            found |= _read(each, f"{prefix}{each.name}/")
        else:
            found[prefix + each.name] = each.read_bytes()
    return found


def _joined(found: dict[str, bytes]) -> dict[str, bytes]:
    """Join all style sheets into one: libraries, then the design tokens, then the sheets that use them."""
    sheets = [name for name in found if name.endswith(".css")]
    sheets.sort(key=lambda name: (not name.startswith("vendor/"), name != SHEET, name))
    sheet = b"\n".join(found[name] for name in sheets)
    return {name: content for name, content in found.items() if name not in sheets} | {SHEET: sheet}


class Assets:
    """All files in static/. Modules import each other by relative path, so all of them share the hash in the URL."""

    def __init__(self) -> None:
        # Read only once, so that the content always matches the hash in its URL.
        read = _joined(_read(files("assent.web").joinpath("static")))
        if "vendor/htmx.min.js" not in read:
            raise RuntimeError(MISSING)
        self.digest = hashlib.sha256(b"\0".join(read[name] for name in sorted(read))).hexdigest()[:16]
        self._found = {
            name: Asset(content, gzip.compress(content, mtime=0), _TYPES["." + name.rpartition(".")[2]])
            for name, content in read.items()
        }

    def url(self, name: str) -> str:
        """Return the URL of a file; raise KeyError if the file does not exist, so that the page fails to render."""
        if name not in self._found:
            raise KeyError(name)
        return f"/static/{self.digest}/{name}"

    def serve(self, request: Request) -> Response:
        found = self._found.get(request.path_params["name"])
        # Never serve a file under the hash of another version: browsers and proxies would cache it for a year.
        if found is None or request.path_params["digest"] != self.digest:
            msg = "This file is no longer available. Reload the page."
            raise NotFound(msg)
        headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
        if takes_gzip(request):
            return Response(found.packed, 200, headers | {"Content-Encoding": "gzip"}, found.media_type)
        return Response(found.content, 200, headers, found.media_type)


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")
