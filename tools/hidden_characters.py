"""Generates the list of characters that can hide text, for the server and the SDK, from Python's Unicode data.

python -m tools.hidden_characters
Writes src/assent/core/hidden_characters.py. Run it again when the Python version brings a newer Unicode version.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

MODULE = Path(__file__).parents[1] / "src" / "assent" / "core" / "hidden_characters.py"
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Other_Default_Ignorable_Code_Point and Variation_Selector of PropList.txt, which unicodedata does not provide.
DEFAULT_IGNORABLE = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xEFFFF),
)  # fmt: skip
NONCHARACTERS = ((0xFDD0, 0xFDEF), *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)))
EGYPTIAN_CONTROLS = (0x13430, 0x1345F)
"""Newer Unicode versions add format controls and blanks to this block."""
FILLER_NAMES = ("FILLER", "PATTERN BLANK", "NULL NOTEHEAD", "NUMBER JOINER", "CONSONANT JOINER")
LOOKALIKE_SCRIPTS = (
    "LATIN", "GREEK", "COPTIC", "CYRILLIC", "ARMENIAN", "GEORGIAN", "CHEROKEE", "LISU", "DESERET", "OSAGE", "GOTHIC",
    "CARIAN", "LYCIAN", "LYDIAN", "MATHEMATICAL",
)  # fmt: skip
"""Scripts with letters that look like letters of other scripts. Their letters' names begin with the script's name."""
WIDTH = 110


def hides(code: int) -> bool:
    char = chr(code)
    if char in "\t\n":
        return False
    ranges = (*DEFAULT_IGNORABLE, *NONCHARACTERS, EGYPTIAN_CONTROLS)
    return unicodedata.category(char) in HIDDEN_CATEGORIES or any(low <= code <= high for low, high in ranges)


def is_filler(code: int) -> bool:
    """Return whether a character is an invisible filler; gap and line fillers are visible."""
    name = unicodedata.name(chr(code), "").replace("GAP FILLER", "").replace("LINE FILLER", "")
    return any(each in name for each in FILLER_NAMES)


def is_blank(code: int) -> bool:
    return unicodedata.category(chr(code)) == "Zs" and chr(code) != " "


def script(code: int) -> str:
    """Return the script of a letter, or an empty string for other characters."""
    name = unicodedata.name(chr(code), "").removeprefix("FULLWIDTH ").removeprefix("MODIFIER LETTER SMALL CAPITAL ")
    is_letter = unicodedata.category(chr(code))[0] == "L"
    return next((each for each in LOOKALIKE_SCRIPTS if name.startswith(f"{each} ")), "") if is_letter else ""


def ranges_of(belongs: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and belongs(code)
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            yield first, code - 1
            first = None


def written(ranges: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{low:04X}" if low == high else f"{low:04X}-{high:04X}" for low, high in ranges)


def quoted(text: str, indent: str) -> str:
    """Return text as one string literal or, if it is too long, as several literals in parentheses, one per line."""
    lines, line = list[str](), ""
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH:
            lines.append(line)
            line = ""
        line += f"{word} "
    lines.append(line.rstrip())
    if len(lines) == 1:
        return f'"{lines[0]}"'
    joined = "\n".join(f'{indent}    "{each}"' for each in lines)
    return f"(\n{joined}\n{indent})"


def _is_of(scripts: Sequence[str], name: str, code: int) -> bool:
    return scripts[code] == name


def module() -> str:
    scripts = [script(code) for code in range(sys.maxunicode + 1)]
    named = {each: written(ranges_of(lambda code: scripts[code] == each)) for each in LOOKALIKE_SCRIPTS}  # noqa: B023
    entries = "\n".join(f'    "{each}": {quoted(text, "    ")},' for each, text in named.items())
    lists = {
        "HIDDEN": ("Invisible characters, and characters that change how other characters are displayed.", hides),
        "FILLERS": (
            "Letters, marks and symbols (according to Unicode) that are displayed as a blank or not at all.",
            is_filler,
        ),
        "BLANKS": ("All space characters except U+0020.", is_blank),
    }
    body = "\n".join(
        f'{name} = {quoted(written(ranges_of(test)), "")}\n"""{about}"""' for name, (about, test) in lists.items()
    )
    return (
        '"""Characters that hide or mislead, by code point. Generated: python -m tools.hidden_characters."""\n\n'
        f'UNICODE_VERSION = "{unicodedata.unidata_version}"\n{body}\n'
        f'SCRIPTS = {{\n{entries}\n}}\n"""Letters of scripts that have look-alikes in other scripts."""\n'
    )


def main() -> None:
    MODULE.write_text(module(), encoding="utf-8")


if __name__ == "__main__":
    main()
