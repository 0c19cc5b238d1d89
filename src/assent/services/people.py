"""People, groups, projects, tokens and signing in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from assent.domain.access import EVERY_ROLE, Kind, Permission, Principal, Role
from assent.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from assent.domain.instants import SECOND
from assent.domain.routing import OWNER
from assent.domain.secrets import secret, secret_hash
from assent.store.people import EVERYWHERE, Person
from assent.store.projects import Project
from assent.store.sessions import BrowserSession
from assent.store.tokens import Token
from assent.store.transaction import Transaction

DEFAULT_PROJECT = "default"
TOKEN_LIFE = 90 * 24 * 3600 * SECOND
SESSION_LIFE = 12 * 3600 * SECOND
LINK_LIFE = 24 * 3600 * SECOND
LONGEST_SUBJECT = 255
_hasher = PasswordHasher()
# Checked when there is no such person, so that the answer takes as long as for a wrong password. Of a random text that
# nobody has kept; written down, because making one takes every command a tenth of a second.
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$C+tUt5UENycvtez8E10PWQ$pQuClz6lBpNAiyUBSABMCWLDC59Gr5duj0uTKq4kS2g"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    kind: str
    name: str
    person: str | None = None
    roles: frozenset[Role] | None = None
    gates: tuple[str, ...] = ("*",)
    agent_ids: tuple[str, ...] = ("*",)
    creates_per_minute: int | None = None
    expires_in: int | None = None


class PeopleService:
    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random

    def bootstrap(self, tx: Transaction, *, owner: str = OWNER) -> Person:
        """Make the default project and its owner, who has every role, on fresh data."""
        existing = tx.people.find_by_name(owner)
        if existing is not None:
            return existing
        now = tx.now()
        person = Person(tx.new_id("per"), owner, owner.capitalize(), None, None, active=True, created_at=now)
        tx.people.add(person)
        tx.people.grant(person.id, EVERYWHERE, EVERY_ROLE)
        tx.projects.add(Project(DEFAULT_PROJECT, "Default", person.id, {}, now))
        return person

    def create_person(  # noqa: PLR0913  # the fields of a person
        self,
        tx: Transaction,
        name: str,
        *,
        project: str,
        roles: frozenset[Role],
        display_name: str | None = None,
        email: str | None = None,
        password: str | None = None,
    ) -> Person:
        if name == OWNER and tx.people.anyone():
            raise InvalidRequest.at("/name", f"{OWNER!r} means the owner of a project; choose another name")
        if tx.people.is_group(name):
            raise InvalidRequest.at("/name", "is the name of a group; experts could not tell them apart")
        if project != EVERYWHERE:
            tx.projects.get(project)
        hashed = _hasher.hash(password) if password else None
        person = Person(tx.new_id("per"), name, display_name or name, email, hashed, active=True, created_at=tx.now())
        tx.people.add(person)
        tx.people.grant(person.id, project, roles)
        return person

    def everybody(self, tx: Transaction, *, by: Principal) -> list[Person]:
        """Return everybody this project knows."""
        by.require(Permission.READ_PEOPLE)
        return [person for person in tx.people.every() if _works_here(tx, person, by)]

    def known(self, tx: Transaction, name: str, *, by: Principal) -> Person:
        person = tx.people.get_by_name(name)
        if not _works_here(tx, person, by):
            msg = f"There is nobody called {name}."
            raise NotFound(msg)
        return person

    def change_person(self, tx: Transaction, name: str, changes: Mapping[str, Any], *, by: Principal) -> Person:
        """Change what is given: displayName, email, password, active, roles (in the caller's project)."""
        by.require(Permission.MANAGE)
        person = tx.people.get_by_name(name)
        self.refuse_foreign(tx, person, by)
        if changes.get("active") is False and person.id == by.id:
            raise InvalidRequest.at("/active", "you cannot shut yourself out")
        changed = replace(
            person,
            display_name=changes.get("displayName", person.display_name),
            email=changes.get("email", person.email),
            active=changes.get("active", person.active),
            password_hash=_hasher.hash(changes["password"]) if changes.get("password") else person.password_hash,
        )
        tx.people.save(changed)
        if "roles" in changes:
            tx.people.grant(person.id, by.project, (Role(role) for role in changes["roles"]))
        if not changed.active or changes.get("password"):
            tx.sessions.remove_all(person.id)
        return changed

    def refuse_foreign(self, tx: Transaction, person: Person, by: Principal) -> None:
        """An admin of one project does not change people who also work in others."""
        if not by.everywhere and set(tx.people.grants(person.id)) - {by.project}:
            msg = f"{person.name} also has roles in other projects; only an admin of all projects may change them."
            raise Forbidden(msg)

    def grant(self, tx: Transaction, name: str, project: str, roles: frozenset[Role], *, by: Principal) -> None:
        """Set somebody's roles in a project; in another than one's own, as an admin of all projects."""
        if project == by.project:
            self.change_person(tx, name, {"roles": sorted(roles)}, by=by)
            return
        _require_everywhere(by)
        tx.people.grant(tx.people.get_by_name(name).id, tx.projects.get(project).id, roles)

    def invite(self, tx: Transaction, name: str, *, purpose: str, by: Principal) -> str:
        """Return a one-time link that signs somebody in: an invitation, or a way back after a lost password."""
        by.require(Permission.MANAGE)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        if not person.active:
            raise InvalidRequest.at("/name", f"the account of {name} is closed; open it first")
        return self.create_link(tx, person.id, purpose=purpose)

    def put_group(self, tx: Transaction, name: str, members: Sequence[str], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        if name == OWNER or tx.people.find_by_name(name) is not None:
            raise InvalidRequest.at("/name", "is the name of a person; experts could not tell them apart")
        tx.projects.get(by.project)
        people = [tx.people.find_by_name(member) for member in members]
        for member, person in zip(members, people, strict=True):
            if person is None:
                raise InvalidRequest.at("/members", f"there is nobody called {member}")
        tx.people.put_group(by.project, name, [person.id for person in people if person], at=tx.now())

    def remove_group(self, tx: Transaction, name: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.people.remove_group(by.project, name)

    def expert_names(self, tx: Transaction, *, by: Principal) -> list[str]:
        """Return the names under which a person is asked: their own, their groups', the owner's."""
        owner = [OWNER] if tx.projects.get(by.project).owner_id == by.id else []
        return [by.name, *owner, *tx.people.group_names(by.id, project=by.project)]

    def create_project(self, tx: Transaction, project_id: str, name: str, owner: str | None, *, by: Principal) -> None:
        _require_everywhere(by)
        person = tx.people.get_by_name(owner) if owner else None
        tx.projects.add(Project(project_id, name, person.id if person else by.id, {}, tx.now()))

    def change_project(self, tx: Transaction, project_id: str, changes: Mapping[str, Any], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        if project_id != by.project and not by.everywhere:
            msg = f"There is no project {project_id}."
            raise NotFound(msg)
        project = tx.projects.get(project_id)
        owner = tx.people.get_by_name(changes["owner"]).id if changes.get("owner") else project.owner_id
        tx.projects.save(replace(project, name=changes.get("name") or project.name, owner_id=owner))

    def put_policy(self, tx: Transaction, policy: Mapping[str, Any], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.rules.turn_page(by.project)
        tx.projects.save(replace(tx.projects.get(by.project), policy=policy))

    def change_policy(
        self,
        tx: Transaction,
        changes: Mapping[str, Any],
        *,
        unchanged: Callable[[Mapping[str, Any]], bool],
        by: Principal,
    ) -> None:
        """Set these fields of the policy, None to leave one out, if it still is what somebody looked at."""
        by.require(Permission.MANAGE)
        tx.rules.turn_page(by.project)
        project = tx.projects.get(by.project)
        if not unchanged(project.policy):
            msg = "Somebody has changed the policy meanwhile. Look at it as it stands now, then change it again."
            raise Conflict(msg)
        policy = {name: value for name, value in {**project.policy, **changes}.items() if value is not None}
        tx.projects.save(replace(project, policy=policy))

    def link_identity(self, tx: Transaction, name: str, *, issuer: str, subject: str, by: Principal) -> None:
        """Let somebody sign in as this subject of an identity provider."""
        by.require(Permission.MANAGE)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        if not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise InvalidRequest.at("/subject", f"must have 1 to {LONGEST_SUBJECT} visible characters")
        tx.identities.add(issuer, subject, person_id=person.id, by=str(by.actor), now=tx.now())

    def unlink_identity(self, tx: Transaction, name: str, *, issuer: str, subject: str, by: Principal) -> None:
        by.require(Permission.MANAGE)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        tx.identities.remove(issuer, subject, person_id=person.id)
        tx.sessions.remove_all(person.id)

    def issue_token(self, tx: Transaction, new: NewToken, *, project: str, by: Principal) -> tuple[Token, str]:
        """Make a token as an admin, who never reaches beyond what is theirs to give."""
        by.require(Permission.MANAGE)
        if project != by.project and not by.everywhere:
            msg = f"There is no project {project}."
            raise NotFound(msg)
        token, plain = self.create_token(tx, new, project=project, by=str(by.actor))
        if not by.everywhere and token.person_id is not None and EVERYWHERE in tx.people.grants(token.person_id):
            msg = "This person has roles in all projects; only an admin of all projects may make them a token."
            raise Forbidden(msg)
        return token, plain

    def revoke_token(self, tx: Transaction, token_id: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.tokens.revoke(token_id, project=by.project, now=tx.now())

    def create_token(self, tx: Transaction, new: NewToken, *, project: str, by: str) -> tuple[Token, str]:
        """Return the token and, this once, its secret."""
        tx.projects.get(project)
        kind = Kind.AGENT if new.kind == "agent" else Kind.SERVICE if new.kind == "metrics" else Kind.PERSON
        person, roles = self._holder(tx, new, project) if kind is Kind.PERSON else (None, frozenset[Role]())
        now = tx.now()
        token = Token(
            id=tx.new_id("tok"),
            project=project,
            kind=kind,
            name=new.name,
            person_id=person.id if person else None,
            roles=roles,
            gates=new.gates,
            agent_ids=new.agent_ids,
            creates_per_minute=new.creates_per_minute,
            created_at=now,
            created_by=by,
            expires_at=now + (new.expires_in * SECOND if new.expires_in else TOKEN_LIFE),
        )
        plain = secret(kind.value, self._random(32))
        tx.tokens.add(token, secret_hash=secret_hash(plain))
        return token, plain

    def _holder(self, tx: Transaction, new: NewToken, project: str) -> tuple[Person, frozenset[Role]]:
        """A person's token carries that person's roles, or fewer."""
        owner_id = tx.projects.get(project).owner_id
        person = tx.people.get_by_name(new.person) if new.person else tx.people.find(owner_id or "")
        if person is None:
            raise InvalidRequest.at("/person", "name the person this token is for")
        grants = tx.people.grants(person.id)
        held = grants.get(project, frozenset()) | grants.get(EVERYWHERE, frozenset())
        asked = new.roles if new.roles is not None else held & _roles_of(new.kind)
        if not asked or asked - held:
            have = ", ".join(sorted(held)) or "no role"
            raise InvalidRequest.at("/kind", f"{person.name} has {have} in {project}, which is less than was asked for")
        return person, asked

    def sign_in(self, tx: Transaction, name: str, password: str) -> Person:
        person = tx.people.find_by_name(name)
        known = person is not None and person.active and person.password_hash is not None
        stored = person.password_hash if known and person else None
        try:
            _hasher.verify(stored or NOBODY, password)
        except VerificationError as error:
            msg = "The name or the password is wrong."
            raise Unauthenticated(msg) from error
        if person is None or not known:
            msg = "The name or the password is wrong."
            raise Unauthenticated(msg)
        return person

    def create_link(self, tx: Transaction, person_id: str, *, purpose: str) -> str:
        plain = secret("link", self._random(32))
        tx.sessions.add_link(secret_hash(plain), person_id, purpose=purpose, expires_at=tx.now() + LINK_LIFE)
        return plain

    def use_link(self, tx: Transaction, plain: str) -> tuple[str, str]:
        """Sign in by a one-time link: return a session's secret and its form key."""
        person_id = tx.sessions.use_link(secret_hash(plain), now=tx.now())
        person = tx.people.find(person_id) if person_id else None
        if person is None or not person.active:
            msg = "This link was used already or is too old. Make a new one with: assent user link NAME"
            raise Unauthenticated(msg)
        return self.open_session(tx, person.id)

    def open_session(self, tx: Transaction, person_id: str) -> tuple[str, str]:
        plain, csrf = secret("session", self._random(32)), self._random(16).hex()
        now = tx.now()
        tx.sessions.add(secret_hash(plain), person_id, csrf=csrf, now=now, expires_at=now + SESSION_LIFE)
        return plain, csrf

    def open_session_for(self, tx: Transaction, person: Person) -> str:
        """Open a session for somebody whose password was checked, unless it changed in the meantime."""
        current = tx.people.find(person.id)
        if current is None or not current.active or current.password_hash != person.password_hash:
            msg = "The name or the password is wrong."
            raise Unauthenticated(msg)
        return self.open_session(tx, person.id)[0]

    def prove_password(self, tx: Transaction, person_id: str, *, old: str) -> Person:
        """Return the person if this is their password; somebody without one has nothing to prove."""
        person = tx.people.find(person_id)
        if person is None or not person.active:
            msg = "This account is closed."
            raise Unauthenticated(msg)
        if person.password_hash is not None:
            try:
                _hasher.verify(person.password_hash, old)
            except VerificationError as error:
                raise InvalidRequest.at("/old", "the old password is wrong") from error
        return person

    def set_password(self, tx: Transaction, person: Person, *, hashed: str) -> str:
        """Set a password that was proved to be theirs to set, end all sessions, and return the secret of a new one."""
        current = tx.people.find(person.id)
        if current is None or not current.active or current.password_hash != person.password_hash:
            msg = "The password was changed meanwhile. Try again."
            raise Conflict(msg)
        tx.people.save(replace(current, password_hash=hashed))
        tx.sessions.remove_all(person.id)
        return self.open_session(tx, person.id)[0]

    def projects_of(self, tx: Transaction, *, by: Principal) -> list[Project]:
        """Return the projects that a person has a role in."""
        grants = tx.people.grants(by.id)
        return [each for each in tx.projects.every() if EVERYWHERE in grants or each.id in grants]

    def choose_project(self, tx: Transaction, plain: str, project: str, *, by: Principal) -> None:
        if project not in {each.id for each in self.projects_of(tx, by=by)}:
            msg = f"There is no project {project[:64]}."
            raise NotFound(msg)
        tx.sessions.choose(secret_hash(plain), by.id, project)

    def link_holder(self, tx: Transaction, plain: str) -> Person | None:
        """Return whom a one-time link would sign in; looking does not use it up."""
        person_id = tx.sessions.link_holder(secret_hash(plain), now=tx.now())
        person = tx.people.find(person_id) if person_id else None
        return person if person is not None and person.active else None

    def session_principal(self, tx: Transaction, plain: str) -> tuple[Principal, BrowserSession] | None:
        found = tx.sessions.find(secret_hash(plain), now=tx.now())
        if found is None:
            return None
        grants = tx.people.grants(found.person_id)
        everywhere = grants.get(EVERYWHERE, frozenset())
        projects = [project for project in grants if project != EVERYWHERE]
        project = DEFAULT_PROJECT if everywhere or not projects else projects[0]
        if found.project is not None and (everywhere or found.project in projects):
            project = found.project
        principal = Principal(
            kind=Kind.PERSON,
            id=found.person_id,
            name=found.person,
            project=project,
            roles=grants.get(project, frozenset()) | everywhere,
            everywhere=Role.ADMIN in everywhere,
            expires_at=found.expires_at,
            policy=tx.projects.get(project).policy,
        )
        return principal, found


def password_hash(password: str) -> str:
    return _hasher.hash(password)


def refuse_unbound(kind: str, *, gates: object, agent_ids: object, person: object) -> None:
    """A limit that this kind of token does not have must not look as if it held."""
    if kind != "agent":
        for name, given in (("gates", gates), ("agentIds", agent_ids)):
            if given is not None:
                raise InvalidRequest.at(f"/{name}", f"limits agent tokens; a token of kind {kind} has no such limit")
    if kind in {"agent", "metrics"} and person is not None:
        raise InvalidRequest.at("/person", f"a token of kind {kind} belongs to nobody")


def _works_here(tx: Transaction, person: Person, by: Principal) -> bool:
    """Somebody with roles in other projects only is not there; without any role, one must be able to get one again."""
    grants = tx.people.grants(person.id)
    return by.everywhere or not grants or not {by.project, EVERYWHERE}.isdisjoint(grants)


def _roles_of(kind: str) -> frozenset[Role]:
    """What a token of a kind carries at most; an admin's, everything the person has."""
    return EVERY_ROLE if kind == "admin" else frozenset({Role(kind)})


def _require_everywhere(by: Principal) -> None:
    by.require(Permission.MANAGE)
    if not by.everywhere:
        msg = "Only an admin of all projects may do this."
        raise Forbidden(msg)
