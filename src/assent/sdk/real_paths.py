"""Resolves the paths in a tool call on this machine when it is made, so that symbolic links cannot hide anything."""

import os
from collections.abc import Mapping
from pathlib import Path

from assent.core.canonical import Json
from assent.core.protected_paths import DIRECTORY, LONGEST_COMMAND, PATHS, is_protected, words


def real_paths(arguments: Mapping[str, Json], directory: str) -> dict[str, Json]:
    """Return the real path of each argument that names a file, and the protected files that other arguments lead to."""
    found: dict[str, Json] = {
        name: _resolved(value, directory)
        for name, value in arguments.items()
        if name.lower() in PATHS and isinstance(value, str)
    }
    for name, value in arguments.items():
        if name not in found and isinstance(value, str) and len(value) <= LONGEST_COMMAND:
            hidden = sorted({path for word in words(value) if is_protected(path := _resolved(word, directory))})
            found |= {name: hidden} if hidden else {}
    real = _resolved(directory, directory)
    return found | ({DIRECTORY: real} if is_protected(real) else {})


def _resolved(path: str, directory: str) -> str:
    """Return the real path; text that cannot be a path is returned unchanged."""
    try:
        # Expand ~ and follow links, because either can lead to a protected file.
        return os.path.realpath(Path(directory, Path(path).expanduser()))
    except (OSError, ValueError, RuntimeError):
        return path
