"""Prints the features of each integration from the definitions used by the tests: `python -m tests.doors.table`."""

import sys

from tests.doors.doors import DOORS
from tests.doors.kit import Door

COLUMNS = (
    "integration", "package", "how it waits", "approval", "rejection and its reason", "edited arguments", "deadline",
    "cancelled", "server down", "killed, then restarted",
)  # fmt: skip


def row(door: Door) -> tuple[str, ...]:
    """Return an integration's row; every cell after the first three is verified by a test in test_doors.py."""
    edits = "yes" if door.edits else door.lacks["edits"]
    resumes = "the same question" if door.resumes else door.lacks["resumes"]
    package = f"`{door.package}`" if door.package else "none"
    return (
        f"`{door.name}`",
        package,
        door.how,
        "runs",
        "reaches the model",
        edits,
        "blocks",
        "blocks",
        "blocks",
        resumes,
    )


def table() -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join(row(door)) + " |" for door in DOORS)])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
