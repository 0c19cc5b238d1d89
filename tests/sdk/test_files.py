"""Context files: which files can be read, and how they are sent."""

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


def test_a_snapshot_contains_the_bytes_and_the_relative_path(root: Path) -> None:
    assert snapshot("sub/plan.md", root=root) == ContextFile("sub/plan.md", "markdown", b"# Plan\r\n")


@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "/etc/passwd", "", ".", "a\x00b", "sub", "no"]
)
def test_paths_outside_the_root_and_paths_that_are_not_files_are_rejected(root: Path, path: str) -> None:
    with pytest.raises(FileRefused):
        snapshot(path, root=root)


def test_a_symlink_that_leaves_the_root_is_rejected(root: Path, tmp_path: Path) -> None:
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to(tmp_path)

    for path in ("out.txt", "up/secret.txt"):
        with pytest.raises(FileRefused, match="outside"):
            snapshot(path, root=root)


def test_a_symlink_within_the_root_is_followed(root: Path) -> None:
    (root / "in.md").symlink_to(root / "sub" / "plan.md")

    assert snapshot("in.md", root=root).content == b"# Plan\r\n"


def test_a_named_pipe_is_rejected_without_blocking(root: Path) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(FileRefused, match="not a regular file"):
        snapshot("pipe", root=root)


def test_a_file_above_the_size_limit_is_rejected(root: Path) -> None:
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
def test_the_file_extension_determines_the_format(name: str, format_: str, language: str | None) -> None:
    assert guess(Path(name)) == (format_, language)


def test_an_explicit_format_overrides_the_file_extension(root: Path) -> None:
    assert snapshot("sub/plan.md", root=root, format="text").format == "text"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\x00b"])
def test_binary_content_is_sent_as_base64(content: bytes) -> None:
    entry = ContextFile("x", "text", content).entry()

    assert base64.b64decode(entry["contentBase64"]) == content
    assert "content" not in entry


def test_text_content_is_sent_unchanged() -> None:
    content = "\ufeffGrüße\r\n".encode()

    assert ContextFile("x", "text", content).entry()["content"].encode() == content
