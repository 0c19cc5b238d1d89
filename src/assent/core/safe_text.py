"""Makes hidden and misleading characters in untrusted text visible, for pages, messages and terminals."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache

from assent.core.hidden_characters import BLANKS, FILLERS, HIDDEN, SCRIPTS

MAX_MARKS = 4


def character_class(*lists: str) -> str:
    """Convert ranges such as `200B-200F 2028` to a character class in a regular expression, without brackets."""
    parts = (each.split("-") for ranges in lists for each in ranges.split())
    return "".join("-".join(f"\\U{int(code, 16):08x}" for code in part) for part in parts)


# Languages need only a few combining marks on a letter. A larger number would cover the surrounding lines.
_MARK_RANGES = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)
_MARK = f"[{_MARK_RANGES}]"
_HEAP = re.compile(f"({_MARK}{{{MAX_MARKS}}})({_MARK}+)")
_EMOJI_STYLE, _JOINER, _KEYCAP, _WIDE_BLANK = "\ufe0f", "\u200d", "\u20e3", "\u3000"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_WORD = re.compile(f"[^\\W_](?:[^\\W_]|{_MARK})*")
_ASCII_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SYMBOLS = frozenset("ΓΔΘΛΞΠΣΦΨΩβγδεζθλμξπσςφψ")
"""Greek letters that occur next to Latin ones in units and formulas (μs, kΩ) and cannot be confused with them."""


def visible(text: object, *, scripts: bool = True) -> str:
    """Mark each hidden or misleading character, so that readers see what the text really contains.

    Without `scripts`, look-alike letters of other scripts are not marked, because marking changes the target of a URL.
    """
    # A carriage return is hidden unless it is part of an ordinary line break.
    return _HEAP.sub(_unheaped, revealed(str(text).replace("\r\n", "\n"), marked, scripts=scripts))


def marked(char: str) -> str:
    return f"⟦U+{ord(char):04X}⟧"


def revealed(text: str, write: Callable[[str], str], *, joiners: bool = True, scripts: bool = True) -> str:
    """Replace hidden characters with the result of `write`, and mark look-alike letters.

    With `joiners`, joiners within emoji are kept.
    """

    def written(found: re.Match[str]) -> str:
        return found.group() if _belongs(found, joiners=joiners) else write(found.group())

    if text.isascii():
        return _ASCII_CONTROL.sub(written, text)
    if scripts and _foreign().search(text):
        text = _WORD.sub(_one_script, text)
    return _unseen().sub(written, text)


# The following patterns are compiled when the first non-ASCII text arrives, so that hooks start faster.
@cache
def _unseen() -> re.Pattern[str]:
    """Return a regular expression for hidden characters other than tabs and line feeds."""
    return re.compile(f"[{character_class(HIDDEN, FILLERS, BLANKS)}]")


@cache
def _foreign() -> re.Pattern[str]:
    """Return a regular expression for letters of non-Latin scripts that have look-alikes."""
    return re.compile(f"[{character_class(*(each for name, each in SCRIPTS.items() if name != 'LATIN'))}]")


@cache
def _letters(script: str) -> re.Pattern[str]:
    return re.compile(f"[{character_class(SCRIPTS[script])}]")


def _one_script(found: re.Match[str]) -> str:
    """Mark letters that do not belong to a word's predominant script, such as a Cyrillic а in `pаypal`."""
    word = found.group()
    if word.isascii() or not _foreign().search(word):
        return word
    scripts = [_script(char) for char in word]
    counts = Counter(filter(None, scripts))
    if len(counts) < 2:  # noqa: PLR2004  # two scripts
        return word
    # If Latin and another script are equally frequent, Latin is the main script.
    main = max(counts, key=lambda name: (counts[name], name == "LATIN"))
    return "".join(
        f"⟦{char} U+{ord(char):04X}⟧" if name and name != main else char
        for char, name in zip(word, scripts, strict=True)
    )


def _script(char: str) -> str:
    if char in _SYMBOLS:
        return ""
    return next((name for name in SCRIPTS if _letters(name).match(char)), "")


def _unheaped(found: re.Match[str]) -> str:
    return found.group(1) + "".join(map(marked, found.group(2)))


def _belongs(found: re.Match[str], *, joiners: bool) -> bool:
    """Return whether a hidden character is part of an emoji, or an ideographic space next to a wide character."""
    mark, start = found.group(), found.start()
    before = found.string[max(start - 2, 0) : start]
    after = found.string[found.end() : found.end() + 1]
    if mark == _EMOJI_STYLE:
        return _is_emoji(before[-1:]) or after == _KEYCAP
    if mark == _JOINER:
        return joiners and _is_emoji(before.removesuffix(_EMOJI_STYLE)[-1:]) and _is_emoji(after)
    return mark == _WIDE_BLANK and (_is_wide(before[-1:]) or _is_wide(after))


def _is_wide(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] in "LP" and unicodedata.east_asian_width(char) in "WF"


def _is_emoji(mark: str) -> bool:
    return bool(mark) and (
        unicodedata.category(mark) == "So"
        or (unicodedata.category(mark) == "Sm" and mark >= "←")
        or mark in "‼⁉〰"
        or ord(mark) in _SKIN_TONES
    )
