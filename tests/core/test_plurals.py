"""Nouns that agree with their counts."""

import pytest

from assent.core.plurals import plural


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1000, "1,000 entries")]
)
def test_a_noun_agrees_with_its_count(count: int, said: str) -> None:
    assert plural(count, "entry", "entries") == said
    assert plural(count, "event") == said.replace("entry", "event").replace("entries", "events")
