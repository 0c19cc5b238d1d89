"""Edge cases of checkpoints: each has a single valid encoding, and any other input raises BadCheckpoint."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.audit import checkpoint as checkpoints
from assent.audit.checkpoint import BadCheckpoint, Checkpoint
from assent.core.receipts import public_key
from tests.audit.model.test_checkpoints import KEYS, NOTE, ORIGIN, PUBLIC, SEED, SIGNED

TIME = "2027-01-15T08:00:00.000000Z"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def respelt(text: str) -> list[str]:
    """Return the other encodings of a base64 text that ends with one `=`: its last letter has two unused bits."""
    n = ALPHABET.index(text[-2])
    others = [f"{text[:-2]}{ALPHABET[n + bits]}=" for bits in (1, 2, 3)]
    assert {base64.b64decode(each) for each in others} == {base64.b64decode(text)}
    return others


def refused(note: str, why: str) -> None:
    for attempt in (lambda: checkpoints.read(note), lambda: checkpoints.check(note, KEYS)):
        with pytest.raises(BadCheckpoint, match=why):
            attempt()


@given(
    number=st.integers(1, 10**19 - 1),
    size=st.integers(0, 10**19 - 1),
    root=st.binary(min_size=32, max_size=32),
    at=st.integers(0, 253_402_300_799_999_999),
    seed=st.binary(min_size=32, max_size=32),
)
def test_a_checkpoint_can_be_verified_only_with_its_key(
    number: int, size: int, root: bytes, at: int, seed: bytes
) -> None:
    made = Checkpoint(origin=ORIGIN, number=number, size=size, root=root, at=at)
    keys = dict([checkpoints.read_verifier_key(checkpoints.verifier_key(ORIGIN, public_key(seed)))])
    note = checkpoints.sign(made, seed)
    assert checkpoints.check(note, keys) == made
    if seed != SEED:
        with pytest.raises(BadCheckpoint):
            checkpoints.check(note, KEYS)


def test_a_log_entry_is_the_hexadecimal_hash_of_its_event() -> None:
    assert checkpoints.entry("0a" * 32) == b"0a" * 32


@pytest.mark.parametrize(
    "time",
    [
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:00.000Z",
        "2027-01-15T08:00:00.000000",
        "2027-01-15T07:00:00-01:00",
        "20270115T080000.000000Z",
    ],
)
def test_a_time_in_a_different_format_is_rejected(time: str) -> None:
    refused(NOTE.replace(TIME, time), "in the format that Assent writes")


@pytest.mark.parametrize(
    "time",
    [
        "2027-13-15T08:00:00.000000Z",
        "99999999999999999999",
        "--------------------",
        "9999-12-31T23:59:59-23:00",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_an_invalid_or_out_of_range_time_is_rejected(time: str) -> None:
    refused(NOTE.replace(TIME, time), "its time is not valid")


def test_a_root_has_only_one_valid_base64_encoding() -> None:
    root = base64.b64encode(SIGNED.root).decode()
    for other in respelt(root):
        refused(NOTE.replace(root, other), r".+")


def test_a_signature_has_only_one_valid_base64_encoding() -> None:
    signature = NOTE[NOTE.rindex(" ") + 1 : -1]
    for other in respelt(signature):
        refused(NOTE.replace(signature, other), r".+")


def test_a_note_signed_with_another_name_is_rejected() -> None:
    refused(NOTE.replace(f"\u2014 {ORIGIN} ", "\u2014 other.log "), "^this is not a checkpoint$")


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n17\n", "\n-1\n"), ("\n17\n", "\n\n"), ("number 3", "number 0"), ("number 3", "number 03"), ("\u2014", "-")],
)
def test_impossible_checkpoint_values_are_rejected(old: str, new: str) -> None:
    assert old in NOTE
    refused(NOTE.replace(old, new), "^this is not a checkpoint$")


def test_an_altered_note_has_an_invalid_signature() -> None:
    (named,) = KEYS
    for old, new in (("\n17\n", "\n18\n"), ("number 3", "number 4"), ("08:00:00.000000", "08:00:00.000001")):
        with pytest.raises(BadCheckpoint, match=f"^its signature by key {named} is not valid$"):
            checkpoints.check(NOTE.replace(old, new), KEYS)


def test_an_error_about_an_unknown_key_names_the_key() -> None:
    with pytest.raises(BadCheckpoint, match=f"signed with the key {next(iter(KEYS))}, which is not trusted"):
        checkpoints.check(NOTE, {})


def keyed(public: bytes, *, spelt: str | None = None, named: str | None = None, prefix: bytes = b"\x01") -> str:
    text = base64.b64encode(prefix + public).decode() if spelt is None else spelt
    return f"{ORIGIN}+{named or checkpoints.key_id(ORIGIN, public)}+{text}"


@pytest.mark.parametrize(
    "text",
    [
        keyed(PUBLIC[:-1]),
        keyed(PUBLIC + b"\x00"),
        keyed(PUBLIC, named="00000000"),
        keyed(PUBLIC, prefix=b"\x02"),
        keyed(PUBLIC, prefix=b""),
        keyed(PUBLIC, spelt=base64.b64encode(b"\x01" + PUBLIC).decode() + "="),
        keyed(PUBLIC, spelt=base64.b64encode(b"\x01" + PUBLIC).decode() + "A"),
        keyed(PUBLIC, spelt="-" + base64.b64encode(b"\x01" + PUBLIC).decode()),
        keyed(PUBLIC, spelt="\u00e9"),
        "\udce9" + keyed(PUBLIC),
    ],
    ids=[
        "short", "long", "another id", "another kind", "no kind", "filled up", "no bytes", "no base64", "no ASCII",
        "a name that is no text",
    ],
)  # fmt: skip
def test_a_malformed_public_key_is_rejected(text: str) -> None:
    with pytest.raises(BadCheckpoint):
        checkpoints.read_verifier_key(text)


@given(st.text(max_size=60) | st.from_regex(re.compile(r"[a-z]{1,3}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{0,44}={0,2}")))
def test_arbitrary_text_as_a_key_or_note_raises_only_bad_checkpoint(text: str) -> None:
    with pytest.raises(BadCheckpoint):
        checkpoints.read_verifier_key(text)
    with pytest.raises(BadCheckpoint):
        checkpoints.check(text, KEYS)
