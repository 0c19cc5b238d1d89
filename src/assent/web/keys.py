"""Keyboard shortcuts, used by the key bindings, the help dialog, the palette and the hints on buttons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """A keyboard shortcut: its `data-action` in the pages, its keys and a description."""

    action: str
    keys: str
    does: str
    group: str


KEYS = (
    Key("next", "j", "Next breakpoint", "Navigate"),
    Key("previous", "k", "Previous breakpoint", "Navigate"),
    Key("open", "Enter", "Open the selected breakpoint", "Navigate"),
    Key("back", "u", "Back to the list", "Navigate"),
    Key("search", "/", "Search", "Navigate"),
    Key("approve", "a", "Approve", "Decide"),
    Key("reject", "r", "Reject with a reason", "Decide"),
    Key("option", "1–9", "Choose an option", "Decide"),
    Key("comment", "c", "Add a comment", "Decide"),
    Key("undo", "z", "Undo the last answer", "Decide"),
    Key("claim", "m", "Claim or unclaim", "Decide"),
    Key("snooze", "s", "Snooze", "Decide"),
    Key("select", "x", "Select for a bulk answer", "Decide"),
    Key("go-inbox", "g i", "Go to the inbox", "Go to"),
    Key("go-mine", "g m", "Go to my approvals", "Go to"),
    Key("go-runs", "g r", "Go to runs", "Go to"),
    Key("go-triggers", "g t", "Go to triggers", "Go to"),
    Key("go-rules", "g u", "Go to rules", "Go to"),
    Key("go-gates", "g g", "Go to gates", "Go to"),
    Key("go-insights", "g s", "Go to metrics", "Go to"),
    Key("go-deliveries", "g d", "Go to deliveries", "Go to"),
    Key("go-admin", "g a", "Go to admin", "Go to"),
    Key("palette", "⌘K", "Find an action", "Help"),
    Key("help", "?", "Keyboard shortcuts", "Help"),
)
_BY_ACTION = {key.action: key for key in KEYS}


def key_for(action: str) -> str:
    """Return the shortcut to show on a button."""
    return _BY_ACTION[action].keys


def grouped() -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key in KEYS:
        found.setdefault(key.group, []).append(key)
    return found
