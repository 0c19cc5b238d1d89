"""Normalizes text that looks the same to people: case, compatibility and invisible characters, and whitespace."""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from assent.core.hidden_characters import BLANKS, FILLERS, HIDDEN
from assent.core.safe_text import character_class

Form: TypeAlias = Literal["NFKC", "NFKD"]
_FORMS: tuple[Form, ...] = ("NFKC", "NFKD")
_CACHED_TEXTS = 32
_ASCII_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_ASCII_HIDDEN = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
_ASCII_BLANK = re.compile(f"[{_ASCII_BLANKS}]")
_RUN = re.compile(" {2,}")


# Cached, because many rules test the same few values of a breakpoint.
@lru_cache(maxsize=_CACHED_TEXTS)
def readings(text: str) -> tuple[str, ...]:
    """Return all folded spellings of a text. Most texts have only one.

    Fillers look blank but are not whitespace to programs, so they are read both as a space and as nothing. Letters with
    marks are read composed and decomposed. Spaces are read unchanged, and also collapsed and stripped.
    """
    found = [each for (each,) in _folded_alike((text,))]
    return tuple(dict.fromkeys((*found, *(_RUN.sub(" ", each).strip(" ") for each in found))))


def is_uncertain(text: str) -> bool:
    """Return whether `readings` may be incomplete, because each of several fillers can be a space or nothing."""
    return not text.isascii() and len(_fillers().findall(text)) > 1


def solid(text: str) -> tuple[str, ...]:
    """Return folded spellings without spaces, which do not depend on how fillers are read."""
    return tuple(
        dict.fromkeys(unicodedata.normalize(form, _folded(text, form, "").replace(" ", "")) for form in _FORMS)
    )


def is_spelled_like(name: str, others: frozenset[str]) -> bool:
    """Return whether any reading of a name is among the given readings of other names."""
    if not others.isdisjoint(readings(name)):
        return True
    return is_uncertain(name) and not {each for other in others for each in solid(other)}.isdisjoint(solid(name))


def spellings(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the literal parts of a pattern in every spelling that `readings` can produce."""
    found = _folded_alike(parts)
    return tuple(dict.fromkeys((*found, *(tuple(_RUN.sub(" ", part) for part in each) for each in found))))


def _folded_alike(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    if all(map(str.isascii, parts)):  # ASCII text does not need the Unicode tables
        return [tuple(_ASCII_BLANK.sub(" ", _ASCII_HIDDEN.sub("", part)).lower() for part in parts)]
    found = (tuple(_folded(part, form, filler) for part in parts) for form in _FORMS for filler in ("", " "))
    return list(dict.fromkeys(found))


def _folded(text: str, form: Form, filler: str) -> str:
    # Fold twice: removing a hidden character can let a combining mark compose with the letter before it, and
    # normalization can produce another hidden character.
    composed = unicodedata.normalize(form, _seen(text, filler))
    return unicodedata.normalize(form, _seen(unicodedata.normalize(form, composed.casefold()), filler))


def _seen(text: str, filler: str) -> str:
    return _hidden().sub("", _fillers().sub(filler, _blanks().sub(" ", text)))


# The following patterns are compiled when the first non-ASCII text arrives, so that programs start faster.
@cache
def _blanks() -> re.Pattern[str]:
    return re.compile(f"[{_ASCII_BLANKS}\x85\u2028\u2029{character_class(BLANKS)}]")


@cache
def _fillers() -> re.Pattern[str]:
    return re.compile(f"[{character_class(FILLERS)}]")


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"[{character_class(HIDDEN)}]")
