"""Text that others wrote, made harmless for a terminal."""

import unicodedata

# Drawn as nothing, or as a blank, though their categories are those of letters and marks.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, range(0x180B, 0x1810)))
    + "".join(map(chr, range(0xFE00, 0xFE0E)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, *, lines: bool = False) -> str:
    """Return untrusted text with everything that hides, reorders or controls written out as an escape.

    With `lines`, line feeds and tabs stay what they are.
    """
    kept = "\n\t" if lines else ""
    return "".join(_escape(char) if _hides(char) and char not in kept else char for char in text)


def _hides(char: str) -> bool:
    return not " " <= char <= "~" and (unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _INVISIBLE)


def _escape(char: str) -> str:
    code = ord(char)
    if char in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char]
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
