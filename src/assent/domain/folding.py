"""Spellings that people read as the same: case, compatible characters, what cannot be seen, every kind of blank."""

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
    """Return a text in every folded spelling it may be read as; most texts have one.

    A character that is drawn as a blank but is none to a program counts as a blank and as nothing; letters with marks
    count composed and decomposed; a run of blanks counts as it is and as one, at either end as none.
    """
    found = [each for (each,) in _folded_alike((text,))]
    return tuple(dict.fromkeys((*found, *(_RUN.sub(" ", each).strip(" ") for each in found))))


def is_uncertain(text: str) -> bool:
    """Return whether `readings` may lack one: of several fillers, each may be read as a blank or as nothing."""
    return not text.isascii() and len(_fillers().findall(text)) > 1


def solid(text: str) -> tuple[str, ...]:
    """Return a text folded and without any blank: however its fillers are read, this is the same."""
    return tuple(
        dict.fromkeys(unicodedata.normalize(form, _folded(text, form, "").replace(" ", "")) for form in _FORMS)
    )


def is_spelled_like(name: str, others: frozenset[str]) -> bool:
    """Return whether a name can be read as one of others, of which the readings are given."""
    if not others.isdisjoint(readings(name)):
        return True
    return is_uncertain(name) and not {each for other in others for each in solid(other)}.isdisjoint(solid(name))


def spellings(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the literal parts of a pattern in every spelling in which `readings` may have them."""
    found = _folded_alike(parts)
    return tuple(dict.fromkeys((*found, *(tuple(_RUN.sub(" ", part) for part in each) for each in found))))


def _folded_alike(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    if all(map(str.isascii, parts)):
        return [tuple(_ASCII_BLANK.sub(" ", _ASCII_HIDDEN.sub("", part)).lower() for part in parts)]
    found = (tuple(_folded(part, form, filler) for part in parts) for form in _FORMS for filler in ("", " "))
    return list(dict.fromkeys(found))


def _folded(text: str, form: Form, filler: str) -> str:
    # Twice: a hidden character may stand before a combining mark, and normalising may leave one.
    composed = unicodedata.normalize(form, _seen(text, filler))
    return unicodedata.normalize(form, _seen(unicodedata.normalize(form, composed.casefold()), filler))


def _seen(text: str, filler: str) -> str:
    return _hidden().sub("", _fillers().sub(filler, _blanks().sub(" ", text)))


# Built when the first text that is not ASCII comes along.
@cache
def _blanks() -> re.Pattern[str]:
    return re.compile(f"[{_ASCII_BLANKS}\x85\u2028\u2029{character_class(BLANKS)}]")


@cache
def _fillers() -> re.Pattern[str]:
    return re.compile(f"[{character_class(FILLERS)}]")


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"[{character_class(HIDDEN)}]")
