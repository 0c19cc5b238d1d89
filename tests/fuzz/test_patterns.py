"""Parses 100,000 generated texts and texts from Hypothesis: each is valid or rejected with a position."""

import os
import random
import sys
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.patterns import PIECES, SEEDS, check, texts
from tests.support.lanes import scaled

TEXTS = scaled(100_000, __name__)


@pytest.mark.timeout(600)
def test_parsing_generated_text_raises_only_pattern_errors(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("ASSENT_TEST_SEED") or random.randrange(2**32))
    accepted = 0
    for text in islice(texts(random.Random(seed)), TEXTS):
        try:
            accepted += check(text)
        except Exception as error:
            error.add_note(f"seed {seed}, text {text!r}")
            raise
    with capsys.disabled():
        sys.stdout.write(f"\n{TEXTS} texts, {accepted} of them patterns, seed {seed}\n")
    # The test would prove nothing if all texts were valid, or if all were invalid.
    assert TEXTS // 100 < accepted < TEXTS // 2


@given(st.text(max_size=200) | st.lists(st.sampled_from([*SEEDS, *PIECES]), max_size=12).map("".join))
@settings(max_examples=1_000)
def test_parsing_hypothesis_text_raises_only_pattern_errors(text: str) -> None:
    check(text)
