"""Hand-written input for the generated pages: an introduction, then notes that begin with `@ NAME`."""

import re
from collections.abc import Mapping
from pathlib import Path


def read_notes(path: Path) -> tuple[str, Mapping[str, str]]:
    """Return the introduction, and the notes by name."""
    introduction, *rest = re.split(r"^@ (.+)\n", path.read_text(), flags=re.MULTILINE)
    return introduction.strip(), {name: text.strip() for name, text in zip(rest[::2], rest[1::2], strict=True)}
