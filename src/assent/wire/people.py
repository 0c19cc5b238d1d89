"""People and groups."""

from typing import Annotated

from pydantic import Field, StringConstraints

from assent.wire.words import Handle, RoleName, Strict, Title


class CreatePerson(Strict):
    name: Handle
    """Username. Allowed characters: `a-z`, digits, `.`, `_` and `-`. Must be unique across all projects."""
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    """If set, the account is flagged as set up by the caller."""
    roles: list[RoleName] = Field(default=["viewer"])
    """Roles in this project."""


class ChangePerson(Strict):
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    """Ends the person's sessions and revokes their tokens. Rejected if an email channel in the home project reaches the
    person; send a reset link instead.
    """
    roles: list[RoleName] | None = None
    """Replaces the person's roles in this project."""
    active: bool | None = None
    """If false, the account is closed, and its tokens and sessions stop working."""


class PersonView(Strict):
    id: str
    name: str
    display_name: str
    email: str | None = None
    roles: list[RoleName]
    """Roles in this project."""
    active: bool
    home: str | None = None
    """This project, or `*` for admins of all projects. Null if another project manages the account."""
    reset_by: str | None = None
    """Admins who set up or reset the person's access, until it is confirmed."""
    created_at: str


class PersonPage(Strict):
    items: list[PersonView]


class PutGroup(Strict):
    members: Annotated[list[Handle], Field(max_length=1000)]
    """Usernames. They replace the current members."""


class GroupView(Strict):
    name: str
    members: list[str]


class GroupPage(Strict):
    items: list[GroupView]
