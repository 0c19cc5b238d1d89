"""Makes untrusted text safe to print in a terminal."""

import unicodedata

from assent.core.safe_text import revealed


def visible(text: str, *, lines: bool = False) -> str:
    """Return untrusted text in which characters that hide, reorder or control text are written as escapes.

    With `lines`, line feeds and tabs are kept.
    """
    shown = revealed(text, _escape, joiners=False)
    if not lines:
        shown = shown.replace("\n", "\\n").replace("\t", "\\t")
    if shown.isascii():
        return shown
    # The width at which a terminal draws characters that Unicode has not assigned yet is unknown.
    return "".join(_escape(char) if unicodedata.category(char) == "Cn" else char for char in shown)


def _escape(char: str) -> str:
    code = ord(char)
    if char == "\r":
        return "\\r"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
