"""Tokens and form keys: checksums detect typos, and arbitrary text is never valid."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.secrets import PREFIXES, form_key, is_mark_of, person_mark, secret, secret_hash, well_formed

kinds = st.sampled_from(sorted(PREFIXES))
entropy = st.binary(min_size=32, max_size=32)


@given(kinds, entropy)
def test_generated_secrets_are_well_formed(kind: str, random: bytes) -> None:
    made = secret(kind, random)
    assert well_formed(made)
    assert made.startswith(PREFIXES[kind])
    assert len(made) == 54


@given(kinds, entropy, st.integers(0, 53), st.sampled_from(string.ascii_letters + string.digits))
def test_a_single_wrong_character_is_detected(kind: str, random: bytes, position: int, char: str) -> None:
    made = secret(kind, random)
    typo = made[:position] + char + made[position + 1 :]
    assert well_formed(typo) == (typo == made)


@given(kinds, entropy, entropy)
def test_different_random_bytes_produce_different_secrets(kind: str, one: bytes, other: bytes) -> None:
    assert (secret(kind, one) == secret(kind, other)) == (one == other)


@given(st.text(max_size=60))
def test_arbitrary_text_is_not_well_formed(text: str) -> None:
    assert not well_formed(text)


@pytest.mark.parametrize("kind", sorted(PREFIXES))
def test_a_truncated_or_extended_secret_is_not_well_formed(kind: str) -> None:
    made = secret(kind, bytes(range(32)))
    assert not well_formed(made[:-1])
    assert not well_formed(made + "0")
    assert not well_formed(made + "\n")


@given(kinds, entropy)
def test_the_stored_hash_does_not_contain_the_secret(kind: str, random: bytes) -> None:
    made = secret(kind, random)
    assert len(secret_hash(made)) == 64
    assert made[5:15] not in secret_hash(made)


salts = st.binary(min_size=16, max_size=16)


@given(salts, salts, st.text(), st.text())
def test_the_mark_in_a_form_key_is_valid_for_only_one_person(random: bytes, salt: bytes, ann: str, bob: str) -> None:
    key = form_key(random, salt, ann)
    assert is_mark_of(person_mark(key), bob) == (ann == bob)
    assert key == f"{random.hex()}.{person_mark(key)}"


@given(st.text(), st.text())
def test_arbitrary_text_is_not_a_valid_mark(text: str, person: str) -> None:
    assert not is_mark_of(person_mark(text), person)
    assert not is_mark_of(text, person)
