"""Browsers never execute a file, regardless of its content and its declared format."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assent.breakpoints.api.content import file_response, safe_type
from assent.breakpoints.store.files import FileEntry

HARMLESS = {
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
}
FORMATS = ["markdown", "html", "code", "text", "diff", "image", "json", "svg", "application/pdf", ""]


def entry(content: bytes | None, format_: str = "image", path: str = "a.html") -> FileEntry:
    return FileEntry(0, path, format_, None, "0" * 64, len(content or b""), content)


@given(st.binary(max_size=64), st.sampled_from(FORMATS))
@example(b"<svg onload=alert(1)>", "image")
@example(b"<!doctype html><script>", "html")
@example(b"%PDF-1.7", "image")
@example(b"RIFF\x00\x00\x00\x00WAVE", "image")
@example(b"\x00\x00\x00 ftypavif", "image")
def test_no_content_is_served_with_an_executable_type(content: bytes, format_: str) -> None:
    assert safe_type(entry(content, format_)) in HARMLESS


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\x89PNG\n\x1a\n", "application/octet-stream"),
        (b"\xff\xd8\xff\xdb", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"GIF88a", "application/octet-stream"),
        (b"RIFF1234WEBP", "image/webp"),
        (b"RIFF1234WEB", "application/octet-stream"),
        (b"", "application/octet-stream"),
        (None, "application/octet-stream"),
    ],
)
def test_images_are_recognized_by_their_first_bytes(content: bytes | None, kind: str) -> None:
    assert safe_type(entry(content)) == kind


@given(st.text(min_size=1, max_size=100).filter(lambda path: path.isprintable()), st.sampled_from(FORMATS))
@example('a"; filename=evil.exe', "text")
@example("dir/\u202etxt.exe", "text")
@example("a/b\\c;d", "image")
def test_a_file_name_cannot_break_out_of_its_header(path: str, format_: str) -> None:
    headers = file_response(entry(b"x", format_, path)).headers
    shown, _, rest = headers["content-disposition"].partition("; ")
    assert shown in {"inline", "attachment"}
    assert rest.startswith("filename*=UTF-8''")
    assert rest.isascii()
    assert not set(rest[len("filename*=UTF-8''") :]) & set(" ;\"'\\/\r\n")
    assert headers["content-security-policy"].startswith("sandbox;")
