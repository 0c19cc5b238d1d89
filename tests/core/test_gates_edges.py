"""Length limits of gates."""

import re

from assent.core.gates import slug


def test_gates_are_truncated_to_200_characters() -> None:
    assert slug("a" * 200) == slug("a" * 201) == "a" * 200
    assert slug("a" * 199) == "a" * 199


def test_a_truncated_gate_does_not_end_in_a_hyphen() -> None:
    assert slug("a" * 199 + " b") == "a" * 199


def test_a_generated_gate_ends_in_eight_hex_digits() -> None:
    assert re.fullmatch(r"breakpoint-[0-9a-f]{8}", slug("?"))
    assert slug("?") != slug("!")
