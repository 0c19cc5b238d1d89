"""People, groups, projects, tokens and sign-in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from assent.core.access import ANYTHING, EVERY_ROLE, Actor, Kind, Permission, Principal, Role, system
from assent.core.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from assent.core.seats import OWNER
from assent.core.secrets import form_key, secret, secret_hash
from assent.core.strategies import resetters
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.http.sessions import SESSION_LIFE
from assent.people.store.identities import Identities
from assent.people.store.people import EVERYWHERE, People, Person
from assent.people.store.projects import Project, Projects
from assent.people.store.sessions import BrowserSession, Sessions
from assent.people.store.tokens import Token, Tokens
from assent.platform.admin_events import fingerprint
from assent.platform.admin_log import AdminLog
from assent.policy.store.rules import Rules

DEFAULT_PROJECT = "default"
TOKEN_LIFE = 90 * 24 * 3600 * SECOND
LINK_LIFE = 24 * 3600 * SECOND
LONGEST_SUBJECT = 255
"""The maximum length of a subject in OpenID Connect Core, section 2."""
MAX_SUGGESTED = 500
"""Maximum number of people that a form suggests; other names can still be typed."""
LINK_JOB = "account-link"
"""Emails a person their one-time link."""
RESET_JOB = "account-reset"
"""Notifies a person, on every channel, that an admin reset or changed their access."""
MAILED = "mailed-"
"""Prefix for the purpose of a link that was sent only to the person's own mailbox."""
LASTING_WAYS = frozenset({"email", "identity", "channel", "answers"})
"""Changes that persist after a new password: only another admin can confirm them."""
IMPERSONAL = frozenset({"agent", "metrics"})
OIDC = system("oidc")
"""The actor of changes made when a person signs in through the identity provider."""
# The hash of random text that was discarded. It is verified if the person does not exist, so that the response takes
# as long as for a wrong password. It is a constant because computing it would delay every command by 0.1 seconds.
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$C+tUt5UENycvtez8E10PWQ$pQuClz6lBpNAiyUBSABMCWLDC59Gr5duj0uTKq4kS2g"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    kind: str
    name: str
    person: str | None = None
    roles: frozenset[Role] | None = None
    gates: tuple[str, ...] | None = None
    agent_ids: tuple[str, ...] | None = None
    processes: tuple[str, ...] | None = None
    """None means all processes, or no processes if the token is limited to certain gates."""
    same_agent_as: str | None = None
    """Another token of the same agent, from which missing limits are inherited."""
    creates_per_minute: int | None = None
    expires_in: int | None = None


class PeopleService:
    def __init__(self, random: Callable[[int], bytes], hasher: PasswordHasher | None = None) -> None:
        self._random = random
        self._hasher = hasher or PasswordHasher()

    def bootstrap(self, tx: Transaction, *, owner: str = OWNER) -> Person:
        """Create the default project and its owner, who has every role, if the database is new."""
        existing = tx[People].find_by_name(owner)
        if existing is not None:
            tx[AdminLog].baseline()
            return existing
        now = tx.now()
        person = Person(
            tx.new_id("per"), owner, owner.capitalize(), None, None, active=True, created_at=now, home=EVERYWHERE
        )
        tx[People].add(person)
        tx[People].grant(person.id, EVERYWHERE, EVERY_ROLE)
        tx[Projects].add(Project(DEFAULT_PROJECT, "Default", person.id, {}, now))
        tx[AdminLog].baseline()
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
        by: Principal | None = None,
    ) -> Person:
        """Add a person whose home is this project; `by` is the admin, or None for the operator."""
        if name == OWNER and tx[People].anyone():
            raise InvalidRequest.at("/name", f"{OWNER!r} is reserved for the project owner; choose another name")
        _refuse_group_name(tx, name, project)
        if project != EVERYWHERE:
            tx[Projects].get_open(project)
        hashed = self.password_hash(password) if password else None
        now = tx.now()
        person = Person(
            tx.new_id("per"), name, display_name or name, email, hashed, active=True, created_at=now, home=project
        )
        if password and by is not None and by.kind is Kind.PERSON:
            # The admin knows this password and could sign in as the person.
            person = replace(person, reset_by=by.name, reset_at=now, reset_way="password")
        tx[People].add(person)
        tx[People].grant(person.id, project, roles)
        return person

    def everybody(self, tx: Transaction, *, by: Principal) -> list[Person]:
        """Return the people known to the caller's project."""
        by.require(Permission.READ_PEOPLE)
        return [person for person in tx[People].every() if _works_here(tx, person, by)]

    def suggested(self, tx: Transaction, *, by: Principal, reviewers: bool = False) -> list[tuple[str, str]]:
        """Return the usernames and full names of people known to this project, as suggestions for a form."""
        if not by.may(Permission.READ_PEOPLE):
            return []
        return tx[People].names(by.project, reviewers=reviewers, limit=MAX_SUGGESTED)

    def known(self, tx: Transaction, name: str, *, by: Principal) -> Person:
        person = self.find_known(tx, name, by=by)
        if person is None:
            msg = f"Person {name} not found."
            raise NotFound(msg)
        return person

    def find_known(self, tx: Transaction, name: str, *, by: Principal) -> Person | None:
        """Return a person known to this project; None for people of other projects."""
        person = tx[People].find_by_name(name)
        return person if person is not None and _works_here(tx, person, by) else None

    def change_person(self, tx: Transaction, name: str, changes: Mapping[str, Any], *, by: Principal) -> Person:
        """Change the given fields: displayName, email, password, active, roles (in the caller's project)."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        person = self.known(tx, name, by=by)
        # Roles in the caller's project may be changed even if another project manages the account.
        if changes.keys() - {"roles"}:
            self.refuse_foreign(tx, person, by)
            person = self._change_account(tx, person, changes, by=by)
        if "roles" in changes:
            self.set_roles(tx, person, by.project, frozenset(Role(role) for role in changes["roles"]), by=by)
        return person

    def _change_account(self, tx: Transaction, person: Person, changes: Mapping[str, Any], *, by: Principal) -> Person:
        if changes.get("active") is False and person.id == by.id:
            raise InvalidRequest.at("/active", "you cannot close your own account")
        password, email = changes.get("password"), changes.get("email", person.email)
        if password and _acts_on_another(person, by):
            if self.mail_channel(tx, person, project=by.project) is not None:
                raise InvalidRequest.at(
                    "/password", f"cannot be set by admins here; send {person.name} a reset link by email instead"
                )
            person = self._reset(tx, person, way="password", by=by)
        if email != person.email:
            # Sign-in links will be sent to the new address, which may belong to the admin.
            person = mark_reset(tx, person, way="email", by=by)
        changed = replace(
            person,
            display_name=changes.get("displayName", person.display_name),
            email=email,
            active=changes.get("active", person.active),
            password_hash=self.password_hash(password) if password else person.password_hash,
        )
        tx[People].save(changed)
        if not changed.active or password:
            tx[Sessions].remove_all(person.id)
        return changed

    def set_roles(
        self, tx: Transaction, person: Person, project: str, granted: frozenset[Role], *, by: Principal
    ) -> None:
        """Set roles; reject a first grant outside the home project while another admin's reset is unconfirmed."""
        is_first = project not in tx[People].grants(person.id)
        if granted and is_first:
            _refuse_group_name(tx, person.name, project)
            own = {by.name} if by.kind is Kind.PERSON else set[str]()
            if project != person.home and {*resetters(person.reset_by)} - own:
                msg = (
                    f"{person.reset_by} set up access for {person.name}, but this has not been confirmed yet. "
                    "Confirm it on the People page first, or on the server with: assent user confirm NAME"
                )
                raise Conflict(msg)
        tx[People].grant(person.id, project, granted)

    def manages(self, tx: Transaction, person: Person, *, by: Principal) -> bool:
        try:
            self.refuse_foreign(tx, person, by)
        except Forbidden:
            return False
        return by.may(Permission.MANAGE)

    def refuse_foreign(self, tx: Transaction, person: Person, by: Principal) -> None:
        """Raise Forbidden unless the caller may change the account; admins of other projects may only grant roles."""
        if by.everywhere:
            return
        if person.home != by.project:
            msg = (
                f"{person.name}'s account is managed in another project. Here, you can only change this person's roles."
            )
            raise Forbidden(msg)
        if EVERYWHERE in tx[People].grants(person.id):
            msg = (
                f"{person.name} has a role that applies to all projects. Ask an admin with access to all projects to "
                "change the account."
            )
            raise Forbidden(msg)

    def grant(self, tx: Transaction, name: str, project: str, roles: frozenset[Role], *, by: Principal) -> None:
        """Set a person's roles in a project; only admins of all projects can do this for other projects."""
        if project == by.project:
            self.change_person(tx, name, {"roles": sorted(roles)}, by=by)
            return
        _require_everywhere(by)
        tx.acting(by)
        self.set_roles(tx, tx[People].get_by_name(name), tx[Projects].get(project).id, roles, by=by)

    def move_home(self, tx: Transaction, name: str, project: str, *, by: Principal) -> Person:
        """Hand an account over to the admins of another project."""
        _require_everywhere(by)
        tx.acting(by)
        if project != EVERYWHERE:
            tx[Projects].get_open(project)
        moved = replace(tx[People].get_by_name(name), home=project)
        tx[People].save(moved)
        return moved

    def invite(self, tx: Transaction, name: str, *, purpose: str, by: Principal) -> str | None:
        """Email the person a one-time link, or return the link if no email channel reaches the person."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        if not person.active:
            raise InvalidRequest.at("/name", f"{name}'s account is closed; reopen it first")
        if not _acts_on_another(person, by):
            return self.create_link(tx, person.id, purpose=purpose)
        person = self._reset(tx, person, way=purpose, by=by)
        channel = self.mail_channel(tx, person, project=by.project)
        if channel is None:
            return self.create_link(tx, person.id, purpose=purpose)
        payload = {"person": person.id, "purpose": purpose, "channel": channel.id, "by": by.name}
        tx.enqueue(LINK_JOB, key=tx.new_id("job"), payload=payload)
        return None

    def mail_channel(self, tx: Transaction, person: Person, *, project: str) -> StoredChannel | None:
        """Return the home project's email channel for the person, if any.

        Channels configured by an admin who reset the person's access are used only if there are no others.
        """
        if not person.email:
            return None
        home = project if person.home == EVERYWHERE else person.home
        found = [each for each in tx[Channels].in_project(home) if each.type == "email" and each.enabled]
        if len(found) > 1:
            resetting = _actors(person)
            setters = {each.id: tx[Channels].setters(each) for each in found}
            found.sort(key=lambda each: (not resetting.isdisjoint(setters[each.id]), bool(setters[each.id])))
        return next(iter(found), None)

    def create_mailed_link(self, tx: Transaction, person: Person, channel: StoredChannel, *, purpose: str) -> str:
        """Create a link to email, and mark the account with the channel's admins, because they could read the link."""
        setters = tx[Channels].setters(channel) - {f"{Kind.PERSON}:{person.name}"}
        if not setters:
            return self.create_link(tx, person.id, purpose=MAILED + purpose)
        names = {Actor.parse(each).name for each in setters} | {*resetters(person.reset_by)}
        since, way = person.reset_at or tx.now(), person.reset_way or purpose
        tx[People].save(replace(person, reset_by=", ".join(sorted(names)), reset_at=since, reset_way=way))
        return self.create_link(tx, person.id, purpose=purpose)

    def _reset(self, tx: Transaction, person: Person, *, way: str, by: Principal) -> Person:
        """Revoke the person's sessions, links, tokens and password; mark the account until the reset is confirmed."""
        if not _acts_on_another(person, by):
            return person
        if person.reset_way not in LASTING_WAYS:
            # The mark of an earlier reset is replaced, so revoke what was created in the person's name since then.
            _end_ways_in(tx, person)
        marked = replace(mark_reset(tx, person, way=way, by=by), password_hash=None)
        tx[People].save(marked)
        tx[Sessions].remove_all(person.id)
        tx[Sessions].void_links(person.id, now=tx.now())
        tx[Tokens].revoke_all(person.id, now=tx.now())
        return marked

    def confirm_reset(self, tx: Transaction, name: str, *, by: Principal) -> Person:
        """Confirm that a reset reached the person; the admin who made the reset cannot confirm it."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        if person.reset_by is None:
            msg = f"{name}'s access does not need to be confirmed."
            raise Conflict(msg)
        if by.kind is Kind.PERSON and by.name in {*resetters(person.reset_by), person.name}:
            msg = (
                f"Confirmation must come from an admin other than {person.reset_by}, or from the operator "
                "with: assent user confirm NAME"
            )
            raise Forbidden(msg)
        return self._confirmed(tx, person, in_person=False)

    def confirm_by_identity(self, tx: Transaction, person: Person, *, issuer: str, subject: str) -> None:
        """Confirm a reset if the person signs in with an identity that was linked before the reset.

        Identities that were linked by an admin who made the reset do not count.
        """
        if person.reset_by is None or person.reset_at is None or person.reset_way in LASTING_WAYS:
            return
        for at_issuer, known_as, linked_at, linked_by in tx[Identities].of(person.id):
            own = linked_at < person.reset_at and linked_by not in _actors(person)
            if (at_issuer, known_as) == (issuer, subject) and own:
                self._confirmed(tx, person, in_person=True)

    def _confirmed(self, tx: Transaction, person: Person, *, in_person: bool) -> Person:
        """Remove the reset mark; revoke what others may know or have created in the person's name since the reset.

        `in_person` means that the person has just proved their identity without a password, so a password that was set
        since the reset is removed. Accounts and identities that admins linked are also confirmed, and are kept.
        """
        if person.reset_by is None:
            return person
        setter = _password_setter(tx, person)
        keeps = setter is None or setter.kind is not Kind.PERSON or (setter.name == person.name and not in_person)
        hashed = person.password_hash if keeps else None
        _end_ways_in(tx, person)
        confirmed = replace(person, reset_by=None, reset_at=None, reset_way=None, password_hash=hashed)
        tx[People].save(confirmed)
        return confirmed

    def put_group(self, tx: Transaction, name: str, members: Sequence[str], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        if name == OWNER or self.find_known(tx, name, by=by) is not None:
            raise InvalidRequest.at("/name", "is already the name of a person; people and groups cannot share a name")
        tx[Projects].get_open(by.project)
        people = [self.find_known(tx, member, by=by) for member in members]
        for member, person in zip(members, people, strict=True):
            if person is None:
                raise InvalidRequest.at("/members", f"person {member} not found")
        tx[People].put_group(by.project, name, [person.id for person in people if person], at=tx.now())

    def remove_group(self, tx: Transaction, name: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[People].remove_group(by.project, name)

    def expert_names(self, tx: Transaction, *, by: Principal) -> list[str]:
        """Return the expert names that refer to the caller: their own, `owner` if applicable, and their groups."""
        owner = [OWNER] if tx[Projects].get(by.project).owner_id == by.id else []
        return [by.name, *owner, *tx[People].group_names(by.id, project=by.project)]

    def create_project(self, tx: Transaction, project_id: str, name: str, owner: str | None, *, by: Principal) -> None:
        _require_everywhere(by)
        tx.acting(by)
        person = tx[People].get_by_name(owner) if owner else None
        tx[Projects].add(Project(project_id, name, person.id if person else by.id, {}, tx.now()))

    def change_project(self, tx: Transaction, project_id: str, changes: Mapping[str, Any], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        if project_id != by.project and not by.everywhere:
            # The same error, whether or not the project exists.
            msg = f"Project {project_id} not found."
            raise NotFound(msg)
        project = tx[Projects].get_open(project_id)
        owner = self.known(tx, changes["owner"], by=by).id if changes.get("owner") else project.owner_id
        tx[Projects].save(replace(project, name=changes.get("name") or project.name, owner_id=owner))

    def put_policy(self, tx: Transaction, policy: Mapping[str, Any], *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Rules].turn_page(by.project)  # rules are cached together with the policy
        tx[Projects].save(replace(tx[Projects].get(by.project), policy=policy))

    def change_policy(
        self,
        tx: Transaction,
        changes: Mapping[str, Any],
        *,
        unchanged: Callable[[Mapping[str, Any]], bool],
        by: Principal,
    ) -> None:
        """Set these fields of the policy (None removes a field) if the policy is still the one that the caller read."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Rules].turn_page(by.project)
        project = tx[Projects].get(by.project)
        if not unchanged(project.policy):
            msg = (
                "The policy has been changed since you opened it. Review the current version, then make your "
                "change again."
            )
            raise Conflict(msg)
        policy = {name: value for name, value in {**project.policy, **changes}.items() if value is not None}
        tx[Projects].save(replace(project, policy=policy))

    def link_identity(self, tx: Transaction, name: str, *, issuer: str, subject: str, by: Principal) -> None:
        """Link a person to a subject at the identity provider, so that they can sign in with it."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        if not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise InvalidRequest.at("/subject", f"must be 1 to {LONGEST_SUBJECT} visible characters")
        # The admin may control this identity and could sign in as the person.
        mark_reset(tx, person, way="identity", by=by)
        tx[Identities].add(issuer, subject, person_id=person.id, by=str(by.actor), now=tx.now())

    def unlink_identity(self, tx: Transaction, name: str, *, issuer: str, subject: str, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        person = self.known(tx, name, by=by)
        self.refuse_foreign(tx, person, by)
        tx[Identities].remove(issuer, subject, person_id=person.id)
        tx[Sessions].remove_all(person.id)

    def issue_token(self, tx: Transaction, new: NewToken, *, project: str, by: Principal) -> tuple[Token, str]:
        """Create a token. Only admins can create agent and metrics tokens; people create their own personal tokens."""
        tx.acting(by)
        if new.kind in IMPERSONAL:
            by.require(Permission.MANAGE)
        elif by.kind is not Kind.PERSON or new.person not in {None, by.name}:
            whose = new.person or "a person"
            msg = f"Only {whose} can create this token. Sign in and open the Account page."
            raise Forbidden(msg)
        if project != by.project and not by.everywhere:
            msg = f"Project {project} not found."
            raise NotFound(msg)
        if new.kind not in IMPERSONAL:
            # A token never has more roles than the token or session that created it.
            carried = roles_of(new.kind) & by.roles & _held(tx, by.id, project)
            new = replace(new, person=by.name, roles=carried)
        return self.create_token(tx, new, project=project, by=str(by.actor))

    def tokens_of(self, tx: Transaction, *, by: Principal) -> list[Token]:
        """Return the project's tokens, or only the caller's own tokens if the caller is not an admin."""
        if by.kind is not Kind.PERSON:
            by.require(Permission.MANAGE)
        found = tx[Tokens].every(by.project)
        return found if by.may(Permission.MANAGE) else [each for each in found if each.person_id == by.id]

    def revoke_token(self, tx: Transaction, token_id: str, *, by: Principal) -> None:
        tx.acting(by)
        if token_id not in {each.id for each in self.tokens_of(tx, by=by)}:
            # The same error, whether the token belongs to another person or does not exist.
            msg = f"Token {token_id} not found, or no longer active."
            raise NotFound(msg)
        tx[Tokens].revoke(token_id, project=by.project, now=tx.now())

    def create_token(self, tx: Transaction, new: NewToken, *, project: str, by: str) -> tuple[Token, str]:
        """Create a token; return it with its secret, which is not stored."""
        tx[Projects].get_open(project)
        kind = Kind.AGENT if new.kind == "agent" else Kind.SERVICE if new.kind == "metrics" else Kind.PERSON
        person, roles = self._holder(tx, new, project) if kind is Kind.PERSON else (None, frozenset[Role]())
        now = tx.now()
        new, agent = _with_limits(tx, new, project)
        token = Token(
            id=tx.new_id("tok"),
            project=project,
            kind=kind,
            name=new.name,
            person_id=person.id if person else None,
            roles=roles,
            gates=new.gates or ANYTHING,
            agent_ids=new.agent_ids or ANYTHING,
            processes=ANYTHING if new.processes is None else new.processes,
            agent=agent,
            creates_per_minute=new.creates_per_minute,
            created_at=now,
            created_by=by,
            expires_at=now + (new.expires_in * SECOND if new.expires_in else TOKEN_LIFE),
        )
        plain = secret(kind.value, self._random(32))
        tx[Tokens].add(token, secret_hash=secret_hash(plain))
        return token, plain

    def _holder(self, tx: Transaction, new: NewToken, project: str) -> tuple[Person, frozenset[Role]]:
        """Return the person and the roles of a personal token; the roles are a subset of the person's roles."""
        owner_id = tx[Projects].get(project).owner_id
        person = tx[People].get_by_name(new.person) if new.person else tx[People].find(owner_id or "")
        if person is None:
            raise InvalidRequest.at("/person", "is required: specify the person this token is for")
        held = _held(tx, person.id, project)
        asked = new.roles if new.roles is not None else held & roles_of(new.kind)
        if not asked or asked - held:
            have = ", ".join(sorted(held)) or "none"
            raise InvalidRequest.at(
                "/kind", f"{person.name}'s roles in {project} ({have}) do not include the requested roles"
            )
        return person, asked

    def password_hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def sign_in(self, tx: Transaction, name: str, password: str) -> Person:
        person = tx[People].find_by_name(name)
        known = person is not None and person.active and person.password_hash is not None
        stored = person.password_hash if known and person else None
        try:
            self._hasher.verify(stored or NOBODY, password)
        except VerificationError as error:
            msg = "Incorrect username or password."
            raise Unauthenticated(msg) from error
        if person is None or not known:
            msg = "Incorrect username or password."
            raise Unauthenticated(msg)
        return person

    def create_link(self, tx: Transaction, person_id: str, *, purpose: str) -> str:
        plain = secret("link", self._random(32))
        expires_at = tx.now() + LINK_LIFE
        tx[Sessions].add_link(secret_hash(plain), person_id, purpose=purpose, expires_at=expires_at)
        person = tx[People].find(person_id)
        subject = f"sign-in-link:{person.name if person else person_id}"
        after = {"purpose": purpose, "expiresAt": expires_at}
        tx[AdminLog].record("sign-in-link-created", subject, project=EVERYWHERE, after=after)
        return plain

    def use_link(self, tx: Transaction, plain: str) -> tuple[str, str]:
        """Sign in with a one-time link; return the session's secret and its CSRF token."""
        person_id, purpose = tx[Sessions].use_link(secret_hash(plain), now=tx.now()) or (None, "")
        person = tx[People].find(person_id) if person_id else None
        if person is None or not person.active:
            msg = "This link has expired or was already used. Create a new one with: assent user link NAME"
            raise Unauthenticated(msg)
        if purpose.startswith(MAILED) and person.reset_way not in LASTING_WAYS:
            # The link was sent only to the person's own mailbox, so its use confirms the reset.
            tx.acting(Principal(kind=Kind.PERSON, id=person.id, name=person.name, project=person.home))
            person = self._confirmed(tx, person, in_person=True)
        # Without a password or an identity, the person could not sign in again after this session.
        needs_password = person.password_hash is None and not tx[Identities].of(person.id)
        asks = needs_password and purpose.removeprefix(MAILED) in {"invitation", "reset"}
        return self.open_session(tx, person.id, must_set_password=asks)

    def open_session(self, tx: Transaction, person_id: str, *, must_set_password: bool = False) -> tuple[str, str]:
        plain = secret("session", self._random(32))
        csrf = form_key(self._random(16), self._random(16), person_id)
        now = tx.now()
        session = BrowserSession(
            secret_hash(plain), person_id, "", csrf, now, now, now + SESSION_LIFE, must_set_password=must_set_password
        )
        tx[Sessions].add(session)
        return plain, csrf

    def open_session_for(self, tx: Transaction, person: Person) -> str:
        """Open a session for a person whose password was verified, unless the password has changed since then."""
        current = tx[People].find(person.id)
        if current is None or not current.active or current.password_hash != person.password_hash:
            msg = "Incorrect username or password."
            raise Unauthenticated(msg)
        return self.open_session(tx, person.id)[0]

    def prove_password(self, tx: Transaction, person_id: str, *, old: str) -> Person:
        """Return the person if the password is correct; a person without a password has nothing to prove."""
        person = tx[People].find(person_id)
        if person is None or not person.active:
            msg = "This account is closed."
            raise Unauthenticated(msg)
        if person.password_hash is not None:
            try:
                self._hasher.verify(person.password_hash, old)
            except VerificationError as error:
                raise InvalidRequest.at("/old", "the current password is incorrect") from error
        return person

    def set_password(self, tx: Transaction, person: Person, *, hashed: str, by: Principal) -> str:
        """Set the password of a person from `prove_password`, end all sessions, and return the secret of a new one."""
        current = tx[People].find(person.id)
        if current is None or not current.active or current.password_hash != person.password_hash:
            msg = "The password was changed in the meantime. Try again."
            raise Conflict(msg)
        tx.acting(replace(by, project=EVERYWHERE))
        tx[People].save(replace(current, password_hash=hashed))
        tx[Sessions].remove_all(person.id)
        return self.open_session(tx, person.id)[0]

    def projects_of(self, tx: Transaction, *, by: Principal) -> list[Project]:
        """Return the projects in which a person has a role."""
        grants = tx[People].grants(by.id)
        return [each for each in tx[Projects].every() if EVERYWHERE in grants or each.id in grants]

    def choose_project(self, tx: Transaction, plain: str, project: str, *, by: Principal) -> None:
        if project not in {each.id for each in self.projects_of(tx, by=by)}:
            msg = f"Project {project[:64]} not found."
            raise NotFound(msg)
        tx[Sessions].choose(secret_hash(plain), by.id, project)

    def close_session(self, tx: Transaction, plain: str) -> None:
        tx[Sessions].remove(secret_hash(plain))

    def close_sessions(self, tx: Transaction, person_id: str) -> None:
        tx[Sessions].remove_all(person_id)

    def link_holder(self, tx: Transaction, plain: str) -> Person | None:
        """Return the person that a one-time link would sign in, without using up the link."""
        person_id = tx[Sessions].link_holder(secret_hash(plain), now=tx.now())
        person = tx[People].find(person_id) if person_id else None
        return person if person is not None and person.active else None

    def session_principal(self, tx: Transaction, plain: str) -> tuple[Principal, BrowserSession] | None:
        found = tx[Sessions].find(secret_hash(plain), now=tx.now())
        if found is None:
            return None
        grants = tx[People].grants(found.person_id)
        everywhere = grants.get(EVERYWHERE, frozenset())
        projects = [project for project in grants if project != EVERYWHERE]
        # The person may have lost their roles in the project that they had chosen.
        chosen = found.project if everywhere or found.project in projects else None
        shown = tx[Projects].get(chosen) if chosen is not None else _first(tx, [] if everywhere else projects)
        project = shown.id
        principal = Principal(
            kind=Kind.PERSON,
            id=found.person_id,
            name=found.person,
            project=project,
            roles=grants.get(project, frozenset()) | everywhere,
            everywhere=Role.ADMIN in everywhere,
            expires_at=found.expires_at,
            session_id=found.id_hash[:16],
            policy=shown.policy,
            project_removed=shown.removed_at is not None,
        )
        return principal, found


def _first(tx: Transaction, projects: Sequence[str]) -> Project:
    """Return the initial project for a person who has not chosen a project; prefer a project that is not removed."""
    found = map(tx[Projects].get, projects or [DEFAULT_PROJECT])
    first = next(found)
    return first if first.removed_at is None else next((each for each in found if each.removed_at is None), first)


def refuse_unbound(new: NewToken) -> None:
    """Reject limits that have no effect on this kind of token."""
    if new.kind != "agent":
        limits = {
            "gates": new.gates,
            "agentIds": new.agent_ids,
            "processes": new.processes,
            "sameAgentAs": new.same_agent_as,
        }
        for name, given in limits.items():
            if given is not None:
                what = f"applies only to agent tokens, not to {new.kind} tokens"
                raise InvalidRequest.at(f"/{name}", what)
    if new.kind in IMPERSONAL and new.person is not None:
        raise InvalidRequest.at("/person", f"{new.kind} tokens cannot be assigned to a person")


def _with_limits(tx: Transaction, new: NewToken, project: str) -> tuple[NewToken, str | None]:
    """Fill in missing limits from another token of the same agent, or based on the gates."""
    agent: str | None = None
    if new.same_agent_as is not None:
        other = tx[Tokens].get(new.same_agent_as, project=project)
        if other.kind is not Kind.AGENT:
            raise InvalidRequest.at("/sameAgentAs", "must be an agent token")
        agent = other.agent or other.id
        new = replace(
            new,
            gates=new.gates or other.gates,
            agent_ids=new.agent_ids or other.agent_ids,
            processes=_processes_beside(new, other),
        )
    if new.processes is None and new.gates not in {None, ANYTHING}:
        new = replace(new, processes=())
    return new, agent


def _processes_beside(new: NewToken, other: Token) -> tuple[str, ...] | None:
    """Return the token's processes; a token with its own gates does not inherit the other token's processes."""
    if new.processes is not None:
        return new.processes
    return () if new.gates else other.processes


def _works_here(tx: Transaction, person: Person, by: Principal) -> bool:
    """Return whether the person belongs to the caller's project; for admins of all projects, everyone does."""
    return by.everywhere or is_known(tx, person, by.project)


def is_known(tx: Transaction, person: Person, project: str) -> bool:
    return person.home == project or not {project, EVERYWHERE}.isdisjoint(tx[People].grants(person.id))


def find_in_project(tx: Transaction, name: str, project: str) -> Person | None:
    """Return a person by name, or None if the person is known only to other projects."""
    person = tx[People].find_by_name(name)
    return person if person is not None and is_known(tx, person, project) else None


def _held(tx: Transaction, person_id: str, project: str) -> frozenset[Role]:
    grants = tx[People].grants(person_id)
    return grants.get(project, frozenset()) | grants.get(EVERYWHERE, frozenset())


def mark_reset(tx: Transaction, person: Person, *, way: str, by: Principal) -> Person:
    """Mark that an admin could act as this person, and queue messages that notify the person."""
    if not _acts_on_another(person, by):
        return person
    names, now = {by.name}, tx.now()
    since = now
    if way in LASTING_WAYS or person.reset_way in LASTING_WAYS:
        # Changes by other admins are still in effect, and so is everything created since the first reset.
        names |= {*resetters(person.reset_by)}
        since = now if person.reset_at is None else person.reset_at
    kept = person.reset_way if person.reset_way in LASTING_WAYS else way
    marked = replace(person, reset_by=", ".join(sorted(names)), reset_at=since, reset_way=kept)
    tx[People].save(marked)
    if person.email or tx[Links].of_person(person.id):
        about = {"person": person.id, "way": way, "by": by.name, "at": now}
        payload = {**about, "email": person.email, "project": by.project}
        tx.enqueue(RESET_JOB, key=tx.new_id("job"), payload=payload)
    return marked


def _end_ways_in(tx: Transaction, person: Person) -> None:
    """Revoke sessions, unused links, and everything created in the person's name since an unconfirmed reset."""
    if person.reset_at is None:
        return
    now, since = tx.now(), person.reset_at
    own = {f"{Kind.PERSON}:{person.name}", str(OIDC.actor)}
    tx[Sessions].remove_all(person.id)
    tx[Sessions].void_links(person.id, now=now)
    tx[Tokens].revoke_made(person.id, since=since, by=own, now=now)
    for issuer, subject, linked_at, linked_by in tx[Identities].of(person.id):
        if linked_at >= since and linked_by in own:
            tx[Identities].remove(issuer, subject, person_id=person.id)
    for link in tx[Links].of_person(person.id):
        if link.linked_at >= since and link.linked_by in own:
            tx[Links].unlink(link.channel_id, link.identity)


def _password_setter(tx: Transaction, person: Person) -> Actor | None:
    """Return the actor who set the password, if it was set after the access was reset."""
    if person.password_hash is None:
        return None
    # Admin events contain a fingerprint of the password hash, never the hash itself.
    now_kept = fingerprint(person.password_hash)
    for event in reversed(tx[AdminLog].about(f"person:{person.name}", project=EVERYWHERE)):
        if event.differs("password") and event.states[1].get("password") == now_kept:
            return event.actor if event.at >= (person.reset_at or 0) else None
    return None


def _actors(person: Person) -> frozenset[str]:
    """Return the admins who reset a person's access, in the form used by events."""
    return frozenset(f"{Kind.PERSON}:{name}" for name in resetters(person.reset_by))


def _acts_on_another(person: Person, by: Principal) -> bool:
    """Return whether an admin acts on another person; False for the operator, who can access all data anyway."""
    return by.kind is Kind.PERSON and by.id != person.id


def _refuse_group_name(tx: Transaction, name: str, project: str) -> None:
    # Experts are identified by name only, so a name must not refer to both a person and a group.
    if tx[People].is_group(name, project=None if project == EVERYWHERE else project):
        raise InvalidRequest.at("/name", "is already the name of a group; people and groups cannot share a name")


def roles_of(kind: str) -> frozenset[Role]:
    """Return the roles that a kind of token can have; an admin token can have all of its person's roles."""
    return EVERY_ROLE if kind == "admin" else frozenset({Role(kind)})


def _require_everywhere(by: Principal) -> None:
    by.require(Permission.MANAGE)
    if not by.everywhere:
        msg = "Only an admin with access to all projects can do this."
        raise Forbidden(msg)
