"""Translates Pydantic's errors into plain sentences, because its own messages mention patterns and types."""

from collections.abc import Callable, Mapping
from typing import Any

from assent.core.plurals import plural

_NO_CONTROLS = "must not contain line breaks or control characters"
_SLUG = (
    "must start with a lowercase letter or a digit, and contain only lowercase letters, digits, dots, hyphens and "
    "underscores"
)
PATTERNS = {
    r"^[^\x00-\x1f\x7f]+$": _NO_CONTROLS,
    r"^[^\x00-\x1f\x7f]*$": _NO_CONTROLS,
    r"^[^\s\x00-\x1f\x7f]+$": "must not contain spaces or control characters",
    r"^[a-z0-9][a-z0-9._-]*$": _SLUG,
    r"^[a-z0-9][a-z0-9_.-]*$": _SLUG,
    r"^[a-z0-9][a-z0-9._-]{0,99}$": _SLUG + "; at most 100 characters",
    r"^[a-z0-9_-]+$": "must contain only lowercase letters, digits, hyphens and underscores",
    r"^[0-9a-f]{64}$": "must be a SHA-256 digest: 64 lowercase hexadecimal digits",
    r"^[A-Za-z0-9+/]*={0,2}$": "must be Base64",
    r"^https?://[^\s\x00-\x1f\x7f]+$": "must be an http:// or https:// address",
    r"^[0-9dhms]+$": "must be a duration, for example 30s, 15m or 2h",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "must be a time of day, for example 08:30",
    r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$": "must be an email address",
    r"^tok_[0-9a-z]{26}$": "must be a token ID: tok_ followed by 26 letters or digits",
}
_PLAIN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is required",
    "extra_forbidden": lambda _: "is not a known field",
    "string_type": lambda _: "must be text",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "list_type": lambda _: "must be a list",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "literal_error": lambda ctx: f"must be one of {ctx['expected']}",
    "enum": lambda ctx: f"must be one of {ctx['expected']}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "greater_than": lambda ctx: f"must be greater than {ctx['gt']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "less_than": lambda ctx: f"must be less than {ctx['lt']}",
    "string_too_short": lambda ctx: _too_short(ctx["min_length"], "character"),
    "string_too_long": lambda ctx: f"must be at most {plural(ctx['max_length'], 'character')} long",
    "too_short": lambda ctx: _too_short(ctx["min_length"], "item"),
    "too_long": lambda ctx: f"must have at most {plural(ctx['max_length'], 'item')}",
    "string_pattern_mismatch": lambda ctx: PATTERNS.get(ctx["pattern"], "contains a character that is not allowed"),
}


def plain(kind: str, message: str, ctx: Mapping[str, Any]) -> str:
    """Return a validation error as a sentence without its subject."""
    known = _PLAIN.get(kind)
    return known(ctx) if known else message.removeprefix("Value error, ")


def _too_short(least: int, what: str) -> str:
    return "must not be empty" if least == 1 else f"must have at least {plural(least, what)}"
