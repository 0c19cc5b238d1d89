"""docs/reference/settings.md: the fields of Settings, and the notes in tools/settings_notes.md."""

import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from assent.kernel.settings import Settings
from tools.docs.notes import read_notes

NOTES = Path(__file__).parents[1] / "settings_notes.md"
TABLE = "<!-- table -->"
"""The placeholder for the table in the introduction."""


def settings_page() -> str:
    text, notes = read_notes(NOTES)
    if unknown := set(notes) - set(Settings.model_fields):
        sys.exit(f"{NOTES.name} has notes on settings that do not exist: {', '.join(sorted(unknown))}")
    rows = [_row(name, each, notes.get(name, "")) for name, each in Settings.model_fields.items()]
    table = "\n".join(["|variable|in assent.yaml|default|meaning|", "|---|---|---|---|", *rows])
    return text.replace(TABLE, table) + "\n"


def _row(name: str, setting: FieldInfo, note: str) -> str:
    meaning = " ".join([setting.description or "", *note.split("\n")]).strip()
    return f"|`ASSENT_{name.upper()}`|`{name}`|{_default(setting.default)}|{meaning}|"


def _default(default: object) -> str:
    if default is None:
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
