"""All snippets in the how-to guide about receipts work with a real server."""

import subprocess
import sys
from pathlib import Path

from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.docs.pages import DOCS, fences, snippets
from tests.docs.reader import URL, Reader, opened

PAGE = DOCS / "how-to" / "receipts.md"


def approved(reader: Reader, token: str) -> None:
    with Assent(reader.words[URL], token) as reviewer:
        (asked,) = reviewer.list(status="waiting").items
        reviewer.approve(asked.id)


def in_python(reader: Reader) -> "subprocess.CompletedProcess[str]":
    (code,) = fences(PAGE.read_text(), "python")
    script = f". {reader.memory}\nexec {sys.executable} -c '{code}'"
    return subprocess.run(
        ["bash", "-c", script], env=reader.env, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_shell_commands_use_a_receipt_once(sqlite_settings: Settings, tmp_path: Path) -> None:
    with opened(PAGE, tmp_path / "reader") as reader, reader.beside_a_server(sqlite_settings) as reviewer:
        reader.run("ask")
        approved(reader, reviewer)
        assert "The receipt is valid." in reader.run("verify")
        reader.run("pin")
        assert "The receipt is valid." in reader.run("verify")
        assert reader.run("consume").endswith("rm -r logs\n")
        said = reader.start("consume").communicate(timeout=60)[0]

    assert "was used" in said
    assert "rm -r logs" not in said


def test_the_python_program_uses_a_receipt_once(sqlite_settings: Settings, tmp_path: Path) -> None:
    with opened(PAGE, tmp_path / "reader") as reader, reader.beside_a_server(sqlite_settings) as reviewer:
        reader.run("ask")
        approved(reader, reviewer)
        first, second = in_python(reader), in_python(reader)

    assert (first.returncode, second.returncode) == (0, 1), first.stderr
    assert first.stdout.startswith("used by agent:")
    assert "ReceiptUsed" in second.stderr


def test_every_shell_snippet_is_run() -> None:
    assert [snippet.code for snippet in snippets(PAGE)] == fences(PAGE.read_text(), "sh")
