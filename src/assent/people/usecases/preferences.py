"""Notification and display preferences, set by people themselves or by an admin on their behalf."""

from collections.abc import Mapping
from dataclasses import replace

from assent.core.access import Kind, Permission, Principal, Role
from assent.core.canonical import Json
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels
from assent.people.preferences import NONE, Preferences, read, theme, time_zone
from assent.people.store.people import People, Person
from assent.people.store.preferences import PreferenceStore
from assent.people.usecases.people import PeopleService


class PreferenceService:
    def __init__(self, people: PeopleService) -> None:
        self._people = people

    def of(self, tx: Transaction, name: str, *, by: Principal) -> Preferences:
        person = self._person(tx, name, by)
        return tx[PreferenceStore].of([person.id]).get(person.id, NONE)

    def put(self, tx: Transaction, name: str, body: Mapping[str, Json], *, by: Principal) -> Preferences:
        person = self._person(tx, name, by)
        tx.acting(by)
        if person.id != by.id:
            self._people.refuse_foreign(tx, person, by)
        wanted = read(body)
        before = tx[PreferenceStore].of([person.id]).get(person.id, NONE)
        # Channels in the stored preferences are accepted even if they no longer exist.
        known = {each.name for each in tx[Channels].in_project(by.project)} | set(before.channels)
        for n, channel in enumerate(wanted.channels):
            if channel not in known:
                raise InvalidRequest.at(f"/channels/{n}", f"channel {channel} not found")
        if wanted.away is not None and wanted.away != before.away:
            self._check_deputy(tx, wanted.away.deputy, person, by)
        tx[PreferenceStore].put(person.id, wanted, now=tx.now())
        return wanted

    def set_display(self, tx: Transaction, *, chosen_theme: str, zone: str | None, by: Principal) -> None:
        """Set the theme and time zone of the caller's pages in all browsers."""
        person = tx[People].find(by.id)
        if person is None:
            msg = "Only people have a theme and a time zone."
            raise Forbidden(msg)
        tx.acting(by)
        read_in = time_zone(zone, "/timeZone") if zone else None
        tx[People].save(replace(person, theme=theme(chosen_theme), time_zone=read_in))

    def _person(self, tx: Transaction, name: str, by: Principal) -> Person:
        """Return a person; callers who are not admins cannot find out whether other names exist."""
        if by.kind is Kind.PERSON and by.name == name:
            found = tx[People].find(by.id)
            if found is not None:
                return found
        if by.kind is Kind.PERSON and not by.may(Permission.MANAGE):
            msg = "Only admins can change other people's preferences."
            raise Forbidden(msg)
        by.require(Permission.MANAGE)
        return self._people.known(tx, name, by=by)

    def _check_deputy(self, tx: Transaction, name: str, person: Person, by: Principal) -> None:
        if name == person.name:
            raise InvalidRequest.at("/away/deputy", "must be a different person")
        if person.id != by.id and name == by.name:
            msg = f"Only {person.name} can make you their deputy."
            raise Forbidden(msg)
        try:
            found = self._people.known(tx, name, by=by)
        except NotFound as error:
            raise InvalidRequest.at("/away/deputy", f"person {name} not found") from error
        live = tx[People].live_roles(found.id, project=by.project, token_id=None, now=tx.now())
        if Role.REVIEWER not in live:
            raise InvalidRequest.at("/away/deputy", f"{name} is not a reviewer in this project")
