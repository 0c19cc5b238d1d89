"""Shapes of people and groups."""

from typing import Annotated

import msgspec

from assent.contracts.shape import Limits, Shape
from assent.contracts.words import Handle, RoleName, Title


class CreatePerson(Shape, frozen=True, kw_only=True):
    name: Handle
    """Username. It can contain `a-z`, digits, `.`, `_` and `-`, and must be unique across all projects."""
    display_name: Title | None = None
    """Name that is shown in the interface."""
    email: Annotated[str, Limits(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = None
    """Email address."""
    password: Annotated[str, Limits(min_length=10, max_length=200)] | None = None
    """Password. If you set one, the account is marked as set up by you until another admin confirms it."""
    roles: list[RoleName] = msgspec.field(default_factory=lambda: ["viewer"])
    """Roles of the person in this project."""


class ChangePerson(Shape, frozen=True, kw_only=True):
    display_name: Title | None = None
    email: Annotated[str, Limits(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = None
    password: Annotated[str, Limits(min_length=10, max_length=200)] | None = None
    """New password. Setting it ends the person's sessions and revokes their tokens. The request is rejected if an email
    channel in the home project can reach the person; send a reset link instead.
    """
    roles: list[RoleName] | None = None
    """Roles that replace the person's current roles in this project."""
    active: bool | None = None
    """Whether the account is active. If `false`, its tokens and sessions stop working."""


class Person(Shape, frozen=True, kw_only=True):
    id: str
    name: str
    display_name: str
    email: str | None = None
    roles: list[RoleName]
    """Roles of the person in this project."""
    active: bool
    home: str | None = None
    """Home project: this project, or `*` if only admins with access to all projects can manage the account. Null if
    another project manages the account.
    """
    reset_by: str | None = None
    """Admins who set up or reset the person's access. Set until the access has been confirmed."""
    created_at: str


class PersonPage(Shape, frozen=True, kw_only=True):
    items: list[Person]


class PutGroup(Shape, frozen=True, kw_only=True):
    members: Annotated[list[Handle], Limits(max_length=1000)]
    """Usernames of the members. They replace all current members."""


class Group(Shape, frozen=True, kw_only=True):
    name: str
    members: list[str]


class GroupPage(Shape, frozen=True, kw_only=True):
    items: list[Group]
