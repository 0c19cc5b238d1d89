"""What each door can carry, from what its tests are told of it: `python -m tests.doors.table` prints it."""

import sys

from tests.doors.doors import DOORS
from tests.doors.kit import Door

COLUMNS = (
    "integration", "package", "how it waits", "approval", "rejection and its reason", "edited arguments", "deadline",
    "cancelled", "server down", "killed, then restarted",
)  # fmt: skip


def row(door: Door) -> tuple[str, ...]:
    """Every cell but the first three is the name of a test of this door in test_doors.py."""
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
