"""Check the subject of a commit message: `python -m tools.commit_message FILE`, called by pre-commit."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_SUBJECT_LENGTH = 60
_GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ")
_PREFIX = re.compile(r"^\w+(\([^)]*\))?!?: ")
_NOT_IMPERATIVE = re.compile(
    r"^(?:\w+(?:ed|ing)|adds|fixes|makes|moves|removes|renames|uses|updates|an?|the|what)\b", re.IGNORECASE
)
_IMPERATIVES = {
    "bring",
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "seed",
    "shed",
    "speed",
    "spring",
    "string",
    "wing",
}


def complaints(message: str) -> Iterator[str]:
    """Return what is wrong with the subject; comment lines and generated subjects are ignored."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_GENERATED):
        return
    if not subject.strip():
        yield "The subject is empty."
        return
    yield from _form(subject)
    first = subject.split()[0]
    if _NOT_IMPERATIVE.match(subject) and first.lower() not in _IMPERATIVES:
        yield f"The subject starts with {first!r}. Use the imperative: Add, Fix, Remove."
    if len(lines) > 1 and lines[1].strip():
        yield "The subject and the body are not separated by a blank line."


def _form(subject: str) -> Iterator[str]:
    if len(subject) > MAX_SUBJECT_LENGTH:
        yield f"The subject has {len(subject)} characters. The maximum is {MAX_SUBJECT_LENGTH}."
    if subject.endswith("."):
        yield "The subject ends with a period."
    if _PREFIX.match(subject):
        yield "The subject has a prefix. Start with the verb."
    if subject[0].islower():
        yield "The subject starts with a lowercase letter."


def main() -> int:
    problems = list(complaints(Path(sys.argv[1]).read_text("utf-8")))
    sys.stderr.write("".join(f"{each}\n" for each in problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
