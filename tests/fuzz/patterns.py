"""Generates texts that are almost valid patterns, and checks properties that hold for every text."""

import random
from collections.abc import Iterator

from assent.core.errors import PatternError
from assent.core.patterns.expressions import Subject
from assent.core.patterns.grammar import MAX_LENGTH
from assent.core.patterns.pattern import explain, match, parse

SEEDS = (
    "confirm.*",
    "*.review",
    "gate.deploy-production",
    "*.review(tags contains 'design')",
    "gate.*(tags contains 'prerequisites' AND expert = 'owner')",
    "*(NOT (agentId startswith 'ci-' OR payload.amount >= 1.5e3) AND expert in ('a', \"b\") AND runId exists)",
    "a\n(\n risk <= 'medium' or priority = 'urgent' and payload.a.b-c.0 != null)",
    "*(title matches '*it''s*' AND attempt < -3 AND payload.ok = true)",
)
PIECES = (
    "(", ")", "((", "))", "'", '"', "''", "*", "**", ",", ".", "-", "=", "==", "!=", "<", ">=", "!", "&&", "~",
    " AND ", " or ", "NOT ", "not(", " in ", " in (", " exists", " contains ", " matches ", "true", "null", "1", "-1",
    "1e9", "1e999", "0x1", "tags", "expert", "payload.", "payload.x", "risk", "attempt", "colour", "\n", "\t", "\u00a0",
    "\u2028", "\x00", "\x1c", "\ud800", "\ufeff", "\u202e", "’", "é", "e\u0301", "日本", "🚀", "\\", "\\'", "%",
    "{a,b}", "[a-z]", "?", "(?=a)", "NOT " * 40, "(" * 40, "a" * 300, "1" * 400,
)  # fmt: skip
SUBJECTS = (
    Subject("", {}),
    Subject("gate.x", {"tags": ["design", ""], "expert": "owner", "agentId": "ci-1", "attempt": 3, "risk": "low"}),
    Subject(
        "ux.review", {"tags": None, "expert": ["a", "b"], "payload": {"x": [1, "a", None, True, {}], "amount": 1e308}}
    ),
    Subject("🚀", {"tags": 7, "expert": {}, "attempt": "3", "risk": 1, "payload": [1], "title": float("nan")}),
)


def texts(chance: random.Random) -> Iterator[str]:
    """Yield slightly or heavily modified patterns indefinitely."""
    pool = list(SEEDS)
    while True:
        text = chance.choice(pool)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            text = _bent(text, chance, pool)
        if len(pool) < 2_000 and len(text) < 200:
            pool.append(text)
        elif len(text) < 200:
            pool[chance.randrange(len(SEEDS), len(pool))] = text
        yield text


def _bent(text: str, chance: random.Random, pool: list[str]) -> str:
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.choice((0, 1, 1, 2, 5, 20)))
    kind = chance.randrange(7)
    if kind == 0:
        return text[:start] + text[end:]
    if kind == 1:
        return text[:start] + text[start:end] * chance.choice((2, 3, 50)) + text[end:]
    if kind == 2:
        return text[:start] + chr(chance.choice((chance.randrange(128), chance.randrange(0x110000)))) + text[end:]
    if kind == 3:
        other = chance.choice(pool)
        return text[:start] + other[chance.randint(0, len(other)) :]
    if kind == 4:
        return text[:start] + text[start:end].swapcase() + text[end:]
    return text[:start] + chance.choice(PIECES) + text[end if kind == 5 else start :]


def check(text: str) -> bool:
    """Return whether the text is a valid pattern. An invalid one must raise a PatternError with a valid position."""
    try:
        pattern = parse(text)
    except PatternError as refused:
        _check_refusal(text, refused)
        return False
    assert len(text) <= MAX_LENGTH
    assert parse(str(pattern)) == pattern
    for subject in SUBJECTS:
        assert match(pattern, subject) in {True, False, None}
        explain(pattern, subject)
    return True


def _check_refusal(text: str, refused: PatternError) -> None:
    line, column = refused.details["line"], refused.details["column"]
    lines = text.split("\n")
    assert isinstance(line, int)
    assert isinstance(column, int)
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1
    assert len(refused.message) < 1_000
    # The text can contain lone surrogates, but responses must be encodable.
    refused.message.encode()
    str(refused.details).encode()
