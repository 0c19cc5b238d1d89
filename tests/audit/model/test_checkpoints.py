"""A checkpoint is a signed note with a single valid encoding, and only its key can verify it."""

import base64
import hashlib

import pytest

from assent.audit import checkpoint as checkpoints
from assent.audit.checkpoint import BadCheckpoint, Checkpoint
from assent.core.receipts import public_key

SEED = bytes(range(32))
PUBLIC = public_key(SEED)
ORIGIN = "assent.log/0011223344556677"
SIGNED = Checkpoint(origin=ORIGIN, number=3, size=17, root=hashlib.sha256(b"").digest(), at=1_800_000_000_000_000)
NOTE = checkpoints.sign(SIGNED, SEED)
KEYS = {checkpoints.key_id(ORIGIN, PUBLIC): PUBLIC}


def test_a_note_has_the_standard_signed_note_format() -> None:
    text, signature = NOTE.split("\n\n")
    assert text.splitlines() == [
        ORIGIN,
        "17",
        base64.b64encode(SIGNED.root).decode(),
        "number 3",
        "time 2027-01-15T08:00:00.000000Z",
    ]
    dash, name, spelt = signature.removesuffix("\n").split(" ")
    named = hashlib.sha256(ORIGIN.encode() + b"\n\x01" + PUBLIC).digest()[:4]
    assert (dash, name) == ("\u2014", ORIGIN)
    assert base64.b64decode(spelt)[:4] == named
    assert checkpoints.verifier_key(ORIGIN, PUBLIC) == (
        f"{ORIGIN}+{named.hex()}+{base64.b64encode(bytes([1]) + PUBLIC).decode()}"
    )


def test_a_signed_checkpoint_can_be_read_back() -> None:
    assert checkpoints.check(NOTE, KEYS) == SIGNED
    assert checkpoints.read(NOTE) == (SIGNED, next(iter(KEYS)))


def test_a_note_with_any_changed_character_is_rejected() -> None:
    for n, character in enumerate(NOTE):
        changed = NOTE[:n] + ("1" if character != "1" else "2") + NOTE[n + 1 :]
        with pytest.raises(BadCheckpoint):
            checkpoints.check(changed, KEYS)


@pytest.mark.parametrize("text", ["", NOTE[:-1], NOTE + "\n", NOTE + NOTE, NOTE.replace("\n\n", "\n"), f" {NOTE}"])
def test_a_truncated_or_extended_note_is_rejected(text: str) -> None:
    with pytest.raises(BadCheckpoint):
        checkpoints.check(text, KEYS)


def test_a_size_with_leading_zeros_is_rejected() -> None:
    with pytest.raises(BadCheckpoint):
        checkpoints.read(NOTE.replace("\n17\n", "\n017\n"))


def test_another_key_is_rejected_even_with_the_same_id() -> None:
    other = public_key(bytes(32))
    with pytest.raises(BadCheckpoint, match="not trusted"):
        checkpoints.check(NOTE, {checkpoints.key_id(ORIGIN, other): other})
    with pytest.raises(BadCheckpoint, match="not trusted"):
        checkpoints.check(NOTE, dict.fromkeys(KEYS, other))


def test_a_verifier_key_can_be_read_back() -> None:
    written = checkpoints.verifier_key(ORIGIN, PUBLIC)
    assert dict([checkpoints.read_verifier_key(f" {written}\n")]) == KEYS


@pytest.mark.parametrize("text", ["", "a+b", "a+00000000+AAAA", checkpoints.verifier_key(ORIGIN, PUBLIC)[:-4] + "AAA="])
def test_an_invalid_verifier_key_is_rejected(text: str) -> None:
    with pytest.raises(BadCheckpoint):
        checkpoints.read_verifier_key(text)
