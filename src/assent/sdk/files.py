"""Context files: snapshots taken by the client, because the server never opens a path that an agent specifies."""

import base64
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from assent.sdk.errors import FileRefused
from assent.sdk.keywords import strict_class

MAX_FILE = 10 * 1024 * 1024
FORMATS = ("markdown", "html", "code", "text", "diff", "image", "json")
_BY_SUFFIX = {
    ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".diff": "diff", ".patch": "diff",
    ".json": "json", ".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".webp": "image",
}  # fmt: skip
LANGUAGES = {
    ".bash": "bash", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".css": "css", ".go": "go", ".h": "c",
    ".hcl": "hcl", ".hpp": "cpp", ".ini": "ini", ".java": "java", ".js": "javascript", ".jsx": "jsx", ".kt": "kotlin",
    ".lua": "lua", ".mjs": "javascript", ".php": "php", ".pl": "perl", ".proto": "protobuf", ".ps1": "powershell",
    ".py": "python", ".r": "r", ".rb": "ruby", ".rs": "rust", ".scala": "scala", ".sh": "bash", ".sql": "sql",
    ".svg": "xml", ".swift": "swift", ".tf": "terraform", ".toml": "toml", ".ts": "typescript", ".tsx": "tsx",
    ".xml": "xml", ".yaml": "yaml", ".yml": "yaml", ".zig": "zig",
}  # fmt: skip


@strict_class
@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file's content at the time it was read."""

    path: str
    format: str
    content: bytes
    language: str | None = None

    def entry(self, *, sha256: str | None = None) -> Mapping[str, Any]:
        """Return the payload's entry: the digest if uploaded, otherwise text if possible, otherwise base64."""
        named = {"path": self.path, "format": self.format}
        if self.language:
            named["language"] = self.language
        if sha256 is not None:
            return named | {"sha256": sha256}
        text = self._text()
        if text is not None:
            return named | {"content": text}
        return named | {"contentBase64": base64.b64encode(self.content).decode()}

    def _text(self) -> str | None:
        try:
            text = self.content.decode()
        except UnicodeDecodeError:
            return None
        # PostgreSQL cannot store a null character in text.
        return None if "\x00" in text else text


def snapshot(path: str, *, root: Path, format: str | None = None) -> ContextFile:  # noqa: A002  # the payload's field
    """Read a file under root; reject absolute paths, `..` and symbolic links that lead out of root."""
    relative = relative_path(path)
    try:
        found = (root / relative).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        msg = f"File not found: {path!r}. Choose a file in {root}."
        raise FileRefused(msg) from error
    # Compare resolved paths, because a symbolic link can lead out of the directory without `..`.
    if not found.is_relative_to(root.resolve()):
        msg = f"{path!r} is a link to a file outside {root}. Copy the file into that directory to send it."
        raise FileRefused(msg)
    content = _read(found, path)
    chosen, language = guess(relative)
    return ContextFile(relative.as_posix(), format or chosen, content, language if format in {None, "code"} else None)


def relative_path(path: str) -> PurePath:
    relative = PurePath(path)
    if relative.is_absolute() or relative.drive or ".." in relative.parts or not relative.parts or "\x00" in path:
        msg = f"{path!r} cannot be sent. Use a relative path inside the current directory, without `..`."
        raise FileRefused(msg)
    return relative


def _read(found: Path, path: str) -> bytes:
    # The link was resolved above, so do not follow a new one in its place, and do not block on a pipe.
    try:
        descriptor = os.open(found, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        msg = f"Cannot read {path!r}: {error.strerror}."
        raise FileRefused(msg) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        msg = f"{path!r} is not a regular file."
        raise FileRefused(msg)
    with os.fdopen(descriptor, "rb") as file:
        # Read one extra byte to detect a file that is too large, even if it grows while it is read.
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        msg = f"{path!r} is larger than {MAX_FILE // 1024 // 1024} MiB. Send only the relevant part."
        raise FileRefused(msg)
    return content


def guess(path: PurePath) -> tuple[str, str | None]:
    """Return a format, and for code a language, based on the file extension."""
    suffix = PurePosixPath(path.name).suffix.lower()
    if suffix in LANGUAGES:
        return "code", LANGUAGES[suffix]
    return _BY_SUFFIX.get(suffix, "text"), None
