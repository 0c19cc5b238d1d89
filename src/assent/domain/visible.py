"""What others wrote, with nothing in it that hides or misleads."""

import re
import unicodedata

MAX_MARKS = 4

# What a reader cannot see, or what changes how the rest is seen: controls, direction and format marks, fillers, tags,
# variation selectors, private use, surrogates. The tab and the line feed stay what they are.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
# A few marks on a letter are how a language is written; a heap of them covers the lines around.
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]"
)
_HEAP = re.compile(f"({_MARK}{{{MAX_MARKS}}})({_MARK}+)")
_EMOJI_STYLE, _JOINER, _KEYCAP = "\ufe0f", "\u200d", "\u20e3"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def visible(text: object) -> str:
    """Write out each character that hides or misleads, so that what is read is what is there."""
    return _HEAP.sub(_unheaped, _UNSEEN.sub(_written_out, str(text).replace("\r\n", "\n")))


def _unheaped(found: re.Match[str]) -> str:
    return found.group(1) + "".join(f"⟦U+{ord(mark):04X}⟧" for mark in found.group(2))


def _written_out(found: re.Match[str]) -> str:
    mark, start = found.group(), found.start()
    before = found.string[max(start - 2, 0) : start]
    after = found.string[found.end() : found.end() + 1]
    if mark == _EMOJI_STYLE and (_is_emoji(before[-1:]) or after == _KEYCAP):
        return mark
    if mark == _JOINER and _is_emoji(before.removesuffix(_EMOJI_STYLE)[-1:]) and _is_emoji(after):
        return mark
    return f"⟦U+{ord(mark):04X}⟧"


def _is_emoji(mark: str) -> bool:
    return bool(mark) and (
        unicodedata.category(mark) == "So"
        or (unicodedata.category(mark) == "Sm" and mark >= "←")
        or mark in "‼⁉〰"
        or ord(mark) in _SKIN_TONES
    )
