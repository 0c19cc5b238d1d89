"""Signing in does not reveal which accounts exist."""

from argon2 import PasswordHasher

from assent.people.usecases.people import NOBODY


def test_an_unknown_username_takes_as_long_to_reject_as_a_wrong_password() -> None:
    assert not PasswordHasher().check_needs_rehash(NOBODY), "the dummy hash has other parameters than real passwords"
