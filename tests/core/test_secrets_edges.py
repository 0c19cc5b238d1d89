"""The token format never changes, so that issued tokens remain valid."""

import hashlib

from assent.core.secrets import secret, secret_hash, well_formed

ZEROS = "asta_" + "0" * 43
ONES = secret("person", b"\xff" * 32)


def test_a_token_encodes_32_bytes_in_base_62_with_a_crc() -> None:
    made = secret("agent", bytes(32))
    assert made[:-6] == ZEROS
    assert len(made) == len(ONES) == 5 + 43 + 6
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = 0
    for digit in ONES[5:48]:
        number = number * 62 + digits.index(digit)
    assert number == 2**256 - 1


def test_tokens_issued_by_earlier_versions_are_well_formed() -> None:
    assert secret("agent", bytes(range(32))) == "asta_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf3aEbvr"
    assert well_formed("asta_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf3aEbvr")


def test_a_token_with_another_prefix_is_not_well_formed() -> None:
    made = secret("agent", bytes(32))
    assert not well_formed("x" + made)
    assert not well_formed("astx_" + made[5:])


def test_the_stored_hash_is_sha256_of_the_whole_token() -> None:
    assert secret_hash(ONES) == hashlib.sha256(ONES.encode()).hexdigest()
