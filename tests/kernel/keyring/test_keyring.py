"""A sealed secret can be opened only with its key, at its location and unmodified."""

import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import Unavailable
from assent.kernel.keyring import KeyFile, Keyring, Sealed, UnusableKeys
from tests.support.keys import new_key

PLACE = ("default", "callback", 1)
ONE, OTHER = new_key(), new_key()
places = st.tuples(st.text(max_size=10), st.text(max_size=10), st.integers(1, 100))


def keyring(*keys: str) -> Keyring:
    return Keyring(lambda: [("env:KEYS", " ".join(keys))], secrets.token_bytes)


@given(st.text(), places)
def test_a_sealed_secret_can_be_opened_at_its_location(plain: str, place: tuple[str, str, int]) -> None:
    made = keyring(ONE).seal(plain, *place)
    assert keyring(ONE).open(made, *place) == plain


@given(places, places)
def test_a_sealed_secret_cannot_be_opened_at_another_location(
    one: tuple[str, str, int], other: tuple[str, str, int]
) -> None:
    ring = keyring(ONE)
    made = ring.seal("whsec_x", *one)
    if one != other:
        with pytest.raises(Unavailable):
            ring.open(made, *other)


def test_changing_any_byte_of_a_sealed_secret_is_detected() -> None:
    ring = keyring(ONE)
    made = ring.seal("whsec_x", *PLACE)
    for n in range(len(made.ciphertext)):
        changed = bytearray(made.ciphertext)
        changed[n] ^= 1
        with pytest.raises(Unavailable, match="changed or moved"):
            ring.open(Sealed(made.key_id, bytes(changed)), *PLACE)


@pytest.mark.parametrize("length", [0, 1, 5, 13, 20])
def test_a_truncated_ciphertext_is_detected(length: int) -> None:
    ring = keyring(ONE)
    made = ring.seal("whsec_x", *PLACE)
    with pytest.raises(Unavailable):
        ring.open(Sealed(made.key_id, made.ciphertext[:length]), *PLACE)


def test_the_first_key_encrypts_and_every_key_decrypts() -> None:
    before = keyring(ONE).seal("old", *PLACE)
    ring = keyring(OTHER, ONE)
    after = ring.seal("new", *PLACE)

    assert (ring.open(before, *PLACE), ring.open(after, *PLACE)) == ("old", "new")
    assert [after.key_id, before.key_id] == ring.load()
    with pytest.raises(Unavailable, match=after.key_id):
        keyring(ONE).open(after, *PLACE)


def test_sealing_a_secret_twice_gives_different_ciphertexts() -> None:
    ring = keyring(ONE)
    assert len({ring.seal("same", *PLACE).ciphertext for _ in range(50)}) == 50


def test_a_key_id_reveals_nothing_about_the_key() -> None:
    (name,) = keyring(ONE).load()
    assert name.startswith("key_")
    assert len(name) == 16
    assert name != keyring(OTHER).load()[0]


def test_a_key_added_by_another_process_is_used_immediately(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "assent.keys", secrets.token_bytes)
    running = Keyring(file.read, secrets.token_bytes, make=file.make)
    before = running.seal("old", *PLACE)
    file.add_newest()
    elsewhere = Keyring(file.read, secrets.token_bytes).seal("new", *PLACE)

    assert running.open(elsewhere, *PLACE) == "new"
    assert running.open(before, *PLACE) == "old"
    assert running.seal("newer", *PLACE).key_id == elsewhere.key_id != before.key_id


def test_secrets_cannot_be_sealed_or_opened_without_a_key() -> None:
    made = keyring(ONE).seal("x", *PLACE)
    for attempt in (lambda: keyring().seal("x", *PLACE), lambda: keyring().open(made, *PLACE)):
        with pytest.raises(Unavailable, match="ASSENT_SECRET_KEYS"):
            attempt()


@pytest.mark.parametrize(
    "bad", ["short", "!" * 44, ONE[:-4], ONE + "AAAA", "ünïcode"], ids=["short", "signs", "cut", "long", "letters"]
)
def test_the_error_for_an_invalid_key_does_not_quote_it(bad: str) -> None:
    with pytest.raises(UnusableKeys) as refused:
        keyring(bad).load()
    assert bad not in str(refused.value)
    assert "env:KEYS" in str(refused.value)


def test_keys_can_use_url_safe_base64() -> None:
    standard, spelt_for_addresses = "+/" * 21 + "A=", "-_" * 21 + "A="
    assert keyring(standard).load() == keyring(spelt_for_addresses).load()


def test_the_key_file_is_created_on_demand_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "assent.keys", secrets.token_bytes)
    ring = Keyring(file.read, secrets.token_bytes, make=file.make)
    with pytest.raises(Unavailable):
        ring.open(Sealed("key_none", b""), *PLACE)
    assert not file.path.exists(), "reading must not create a key"

    ring.seal("x", *PLACE)

    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file.path]


def test_concurrent_first_uses_create_a_single_key(tmp_path: Path) -> None:
    def first(_: int) -> Sealed:
        file = KeyFile(tmp_path / "assent.keys", secrets.token_bytes)
        return Keyring(file.read, secrets.token_bytes, make=file.make).seal("x", *PLACE)

    with ThreadPoolExecutor(8) as threads:
        assert len({made.key_id for made in threads.map(first, range(32))}) == 1


def test_no_key_is_lost_when_several_are_added_concurrently(tmp_path: Path) -> None:
    def add(_: int) -> None:
        KeyFile(tmp_path / "assent.keys", secrets.token_bytes).add_newest()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(16)))
    file = KeyFile(tmp_path / "assent.keys", secrets.token_bytes)
    assert len(Keyring(file.read, secrets.token_bytes).load()) == 16


def test_older_keys_are_appended_once_after_the_newest(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "assent.keys", secrets.token_bytes)
    file.make()
    (newest,) = Keyring(file.read, secrets.token_bytes).load()
    for _ in range(2):
        file.add_older(f"{ONE}\n{OTHER}\n")
    assert Keyring(file.read, secrets.token_bytes).load() == [newest, *keyring(ONE, OTHER).load()]
