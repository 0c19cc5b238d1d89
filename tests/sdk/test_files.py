"""Context files: what may be read, and how it goes along."""

import base64
import os
from pathlib import Path

import pytest

from assent.sdk.errors import FileRefused
from assent.sdk.files import MAX_FILE, ContextFile, guess, snapshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "plan.md").write_bytes(b"# Plan\r\n")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def test_a_snapshot_is_the_bytes_of_the_file_under_its_relative_name(root: Path) -> None:
    assert snapshot("sub/plan.md", root=root) == ContextFile("sub/plan.md", "markdown", b"# Plan\r\n")


@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "", ".", "a\x00b", "sub", "no"]
)
def test_nothing_outside_and_nothing_that_is_no_file_is_read(root: Path, path: str) -> None:
    with pytest.raises(FileRefused):
        snapshot(path, root=root)


def test_a_link_that_leaves_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to(tmp_path)

    for path in ("out.txt", "up/secret.txt"):
        with pytest.raises(FileRefused, match="outside"):
            snapshot(path, root=root)


def test_a_link_that_stays_is_followed(root: Path) -> None:
    (root / "in.md").symlink_to(root / "sub" / "plan.md")

    assert snapshot("in.md", root=root).content == b"# Plan\r\n"


def test_a_pipe_is_refused_instead_of_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(FileRefused, match="not a regular file"):
        snapshot("pipe", root=root)


def test_a_file_past_the_limit_is_refused(root: Path) -> None:
    with (root / "big.bin").open("wb") as file:
        file.truncate(MAX_FILE + 1)

    with pytest.raises(FileRefused, match="larger"):
        snapshot("big.bin", root=root)


@pytest.mark.parametrize(
    ("name", "format_", "language"),
    [
        ("a.md", "markdown", None),
        ("a.HTML", "html", None),
        ("a.patch", "diff", None),
        ("a.json", "json", None),
        ("a.PNG", "image", None),
        ("a.py", "code", "python"),
        ("a.log", "text", None),
        ("Makefile", "text", None),
    ],
)
def test_the_ending_tells_the_format(name: str, format_: str, language: str | None) -> None:
    assert guess(Path(name)) == (format_, language)


def test_a_given_format_wins_over_the_ending(root: Path) -> None:
    assert snapshot("sub/plan.md", root=root, format="text").format == "text"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\x00b"])
def test_what_is_not_text_goes_as_base64(content: bytes) -> None:
    entry = ContextFile("x", "text", content).entry()

    assert base64.b64decode(entry["contentBase64"]) == content
    assert "content" not in entry


def test_text_goes_as_text_byte_for_byte() -> None:
    content = "\ufeffGrüße\r\n".encode()

    assert ContextFile("x", "text", content).entry()["content"].encode() == content
