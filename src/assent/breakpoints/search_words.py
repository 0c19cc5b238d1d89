"""Normalized words for searching breakpoints. Text in scripts without spaces is split into pairs of characters."""

import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain, pairwise

from assent.core.breakpoint import Breakpoint
from assent.core.canonical import Json
from assent.core.safe_text import character_class

MAX_INDEXED_CHARACTERS = 20_000
"""PostgreSQL limits a document to 1 MiB."""
MAX_WORD_CHARACTERS = 100
"""PostgreSQL limits a lexeme to 2 KiB."""
MAX_SOUGHT_WORDS = 40
_BETWEEN_EARLIER_WORDS = re.compile(r"[\W_]+")
_JOINT = "·"
"""Joins the two words of a pair. It is punctuation, so no word contains it, but both databases treat it as a letter."""
_PUNCTUATION = "-._/:@#"
_JOINTS = re.compile(f"[{_PUNCTUATION}]+")
_ASCII_NAME = re.compile("[0-9a-z]+(?:[-._/:@#]+[0-9a-z]+)*")
# An ID is indexed as one word. If it were split, its prefix "bp" would match every breakpoint, which is slow.
_ID = re.compile("(?<![0-9a-z_])bp_(?=[0-9a-z])")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Thai and Lao, Myanmar, Hangul, Khmer, Tai, kana, Han, Bopomofo, Yi.
_UNSPACED = (
    "0E00-0EFF 1000-109F 1100-11FF 1780-17FF 1950-19FF 1A20-1AAF 2E80-2FDF 3005-3007 3040-31FF 3400-4DBF 4E00-A4CF "
    "A960-A97F A9E0-A9FF AA60-AADF AC00-D7FF F900-FAFF 1AFF0-1B16F 20000-3FFFD"
)
# The combining grapheme joiner and the variation selectors: invisible, but not in category Cf.
_HIDDEN = frozenset({"\u034f", *map(chr, range(0xFE00, 0xFE10))})


def indexed_words(*parts: Json) -> str:
    """Return the words of these texts as the index stores them, each between spaces, or "" for texts without words.

    The words of a name are followed by pairs of adjacent words: v1.2.3 becomes v1 2 3 v1·2 2·3. Text in a script
    without spaces becomes pairs of adjacent characters and the last character: 日本語 becomes 日本 本語 語.
    """
    text = "\n".join(part for part in parts if isinstance(part, str) and part)[:MAX_INDEXED_CHARACTERS]
    found: list[str] = []
    for name in _names(text):
        if name.isalnum() and name.isascii():
            found.append(name[:MAX_WORD_CHARACTERS])
            continue
        chains = _chains(name)
        for run in chain.from_iterable(chains):
            found += [*_pairs(run), run[-1]] if _is_unspaced(run) else [run[:MAX_WORD_CHARACTERS]]
        for words in chains:
            found += _joined(words)
    return f" {' '.join(found)} " if found else ""


def words_of(current: Breakpoint) -> str:
    """Return a breakpoint's search words, with short, distinctive texts first, because long texts are truncated."""
    question = current.payload.get("question")
    return indexed_words(
        current.id, current.gate, current.agent_id, current.run_id, *current.tags, current.title, question
    )


def earlier_words_of(current: Breakpoint) -> str:
    """Return the search words that versions before migration 0021 stored in the row itself."""
    question = current.payload.get("question")
    parts = (current.title, question, current.gate, current.agent_id, current.run_id, *current.tags)
    return _BETWEEN_EARLIER_WORDS.sub(" ", " ".join(part for part in parts if isinstance(part, str))).strip()


def sought_words(q: str) -> tuple[str, ...]:
    """Return the strings, including spaces, that the indexed words must all contain, in any order.

    A word also matches the beginning of a longer word, unless it is a single letter or digit. Text in a script without
    spaces matches anywhere. The words of a name must be adjacent in the indexed name.
    """
    found: dict[str, None] = {}
    for words in chain.from_iterable(map(_chains, _names(q))):
        last = words[-1]
        if _is_unspaced(last):
            found[f" {' '.join(_pairs(last)) or last}"] = None
        else:
            sought = " ".join(_joined(words)) or last[:MAX_WORD_CHARACTERS]
            found[f" {sought}" + ("" if len(last) > 1 else " ")] = None
    return tuple(found)[:MAX_SOUGHT_WORDS]


def is_found(sought: tuple[str, ...], words: str) -> bool:
    """Return whether these indexed words contain all of the sought strings."""
    return bool(sought) and all(each in words for each in sought)


def _names(text: str) -> list[str]:
    """Split text into names, which can contain punctuation, such as deploy.production or agent-49."""
    if text.isascii():
        return _ASCII_NAME.findall(_ID.sub("bp", text.lower()))
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    folded = unicodedata.normalize("NFKC", _ACCENTS.sub("", folded))
    spelled = "".join(map(_spelled, _ID.sub("bp", folded))).split()
    return [name for each in spelled if (name := each.strip(_PUNCTUATION))]


def _chains(name: str) -> list[list[str]]:
    """Split a name into chains of joined words (scripts with spaces) and separate runs (scripts without spaces)."""
    if name.isascii():
        return [_JOINTS.split(name)]
    found: list[list[str]] = []
    follows = False
    for word in _JOINTS.split(name):
        for run in [word] if word.isascii() else _runs().findall(word):
            if follows and not _is_unspaced(run):
                found[-1].append(run)
            else:
                found.append([run])
            follows = False
        follows = not _is_unspaced(found[-1][-1])
    return found


def _joined(words: list[str]) -> list[str]:
    return [f"{one}{_JOINT}{following}"[:MAX_WORD_CHARACTERS] for one, following in pairwise(words)]


@lru_cache(maxsize=4096)
def _spelled(character: str) -> str:
    """Return the character as indexed: an empty string if it is hidden, a space if it separates words."""
    kind = unicodedata.category(character)
    if kind == "Cf" or character in _HIDDEN:
        return ""
    if kind == "So":
        return f" {character} "  # an emoji is a separate word
    return character if kind[0] in "LNM" or character in _PUNCTUATION else " "


def _pairs(run: str) -> list[str]:
    return [run[n : n + 2] for n in range(len(run) - 1)]


def _is_unspaced(run: str) -> bool:
    return not run.isascii() and _unspaced().match(run) is not None


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{character_class(_UNSPACED)}]")


@cache
def _runs() -> re.Pattern[str]:
    """Return a pattern that splits a word where it changes between scripts with and without spaces."""
    unspaced = character_class(_UNSPACED)
    return re.compile(f"[{unspaced}]+|[^{unspaced}]+")
