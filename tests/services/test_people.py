"""Signing in does not reveal which accounts exist."""

from argon2 import PasswordHasher

from assent.services.people import NOBODY


def test_an_unknown_name_costs_as_much_as_a_wrong_password() -> None:
    assert not PasswordHasher().check_needs_rehash(NOBODY), "the dummy hash has other parameters than real passwords"
