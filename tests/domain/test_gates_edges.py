"""Limits of gates."""

import re

from assent.domain.gates import slug


def test_a_gate_has_at_most_two_hundred_characters() -> None:
    assert slug("a" * 200) == slug("a" * 201) == "a" * 200
    assert slug("a" * 199) == "a" * 199


def test_a_gate_that_is_cut_does_not_end_in_a_hyphen() -> None:
    assert slug("a" * 199 + " b") == "a" * 199


def test_a_gate_for_what_cannot_be_spelt_ends_in_eight_digits_of_its_digest() -> None:
    assert re.fullmatch(r"breakpoint-[0-9a-f]{8}", slug("?"))
    assert slug("?") != slug("!")
