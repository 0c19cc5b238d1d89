"""What signing in gives away: nothing about who there is."""

from argon2 import PasswordHasher

from assent.services.people import NOBODY


def test_an_unknown_name_costs_as_much_as_a_wrong_password() -> None:
    assert not PasswordHasher().check_needs_rehash(NOBODY), "it is made with other parameters than passwords are"
