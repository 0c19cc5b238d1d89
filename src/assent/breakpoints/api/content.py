"""Serves agents' files with content types that browsers do not execute."""

from urllib.parse import quote

from starlette.responses import Response

from assent.breakpoints.store.files import FileEntry

SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; object-src 'none'"
CLOSED = f"{SANDBOX}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
"""The policy for files that are opened directly; pages cannot embed them."""
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_TEXTS = frozenset({"markdown", "html", "code", "text", "diff", "json"})


def safe_type(entry: FileEntry) -> str:
    """Return a type that browsers do not execute. Images are detected by content, regardless of the declared format."""
    content = entry.content or b""
    for magic, kind in _IMAGES.items():
        if content.startswith(magic):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return "text/plain; charset=utf-8" if entry.format in _TEXTS else "application/octet-stream"


def file_response(entry: FileEntry) -> Response:
    kind = safe_type(entry)
    # The agent chooses the name, so quote it to prevent header injection.
    name = quote(entry.path.rsplit("/", 1)[-1], safe="")
    shown = "inline" if kind != "application/octet-stream" else "attachment"
    headers = {
        "Content-Security-Policy": CLOSED,
        "Content-Disposition": f"{shown}; filename*=UTF-8''{name}",
        "Cache-Control": "private, no-store",
        "ETag": f'"{entry.sha256}"',
    }
    return Response(entry.content or b"", 200, headers, kind)
