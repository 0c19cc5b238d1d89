"""People and groups."""

from typing import Annotated

from pydantic import Field, StringConstraints

from assent.wire.words import Handle, RoleName, Strict, Title


class CreatePerson(Strict):
    name: Handle
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    roles: list[RoleName] = Field(default=["viewer"])


class ChangePerson(Strict):
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    roles: list[RoleName] | None = None
    active: bool | None = None


class PersonView(Strict):
    id: str
    name: str
    display_name: str
    email: str | None = None
    roles: list[RoleName]
    active: bool
    home: str | None = None
    reset_by: str | None = None
    created_at: str


class PersonPage(Strict):
    items: list[PersonView]


class PutGroup(Strict):
    members: Annotated[list[Handle], Field(max_length=1000)]


class GroupView(Strict):
    name: str
    members: list[str]


class GroupPage(Strict):
    items: list[GroupView]
