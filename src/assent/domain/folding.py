"""Folding of text that people read as the same: case, compatible characters, invisible characters and whitespace."""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from assent.domain.hidden_characters import BLANKS, FILLERS, HIDDEN
from assent.domain.visible import character_class

Form: TypeAlias = Literal["NFKC", "NFKD"]
_FORMS: tuple[Form, ...] = ("NFKC", "NFKD")
_CACHED_TEXTS = 32
_ASCII_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_ASCII_HIDDEN = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
_ASCII_BLANK = re.compile(f"[{_ASCII_BLANKS}]")
_RUN = re.compile(" {2,}")


@lru_cache(maxsize=_CACHED_TEXTS)
def readings(text: str) -> tuple[str, ...]:
    """Return all folded spellings of a text; most texts have only one.

    A filler, which looks blank but is not whitespace to programs, is read both as a space and as nothing. Letters with
    marks are read composed and decomposed. Spaces are read unchanged, and also with runs collapsed and ends stripped.
    """
    found = [each for (each,) in _folded_alike((text,))]
    return tuple(dict.fromkeys((*found, *(_RUN.sub(" ", each).strip(" ") for each in found))))


def is_uncertain(text: str) -> bool:
    """Return whether `readings` may be incomplete: each of several fillers can be read as a space or as nothing."""
    return not text.isascii() and len(_fillers().findall(text)) > 1


def solid(text: str) -> tuple[str, ...]:
    """Return a folded text without spaces, which is the same for every reading of its fillers."""
    return tuple(
        dict.fromkeys(unicodedata.normalize(form, _folded(text, form, "").replace(" ", "")) for form in _FORMS)
    )


def is_spelled_like(name: str, others: frozenset[str]) -> bool:
    """Return whether a name can be read as one of the others, which are given as readings."""
    if not others.isdisjoint(readings(name)):
        return True
    return is_uncertain(name) and not {each for other in others for each in solid(other)}.isdisjoint(solid(name))


def spellings(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the literal parts of a pattern in every spelling that `readings` can return."""
    found = _folded_alike(parts)
    return tuple(dict.fromkeys((*found, *(tuple(_RUN.sub(" ", part) for part in each) for each in found))))


def _folded_alike(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    if all(map(str.isascii, parts)):
        return [tuple(_ASCII_BLANK.sub(" ", _ASCII_HIDDEN.sub("", part)).lower() for part in parts)]
    found = (tuple(_folded(part, form, filler) for part in parts) for form in _FORMS for filler in ("", " "))
    return list(dict.fromkeys(found))


def _folded(text: str, form: Form, filler: str) -> str:
    # Twice, because a hidden character may precede a combining mark, and normalization may reveal another one.
    composed = unicodedata.normalize(form, _seen(text, filler))
    return unicodedata.normalize(form, _seen(unicodedata.normalize(form, composed.casefold()), filler))


def _seen(text: str, filler: str) -> str:
    return _hidden().sub("", _fillers().sub(filler, _blanks().sub(" ", text)))


# Compiled when the first non-ASCII text arrives.
@cache
def _blanks() -> re.Pattern[str]:
    return re.compile(f"[{_ASCII_BLANKS}\x85\u2028\u2029{character_class(BLANKS)}]")


@cache
def _fillers() -> re.Pattern[str]:
    return re.compile(f"[{character_class(FILLERS)}]")


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"[{character_class(HIDDEN)}]")
