"""People, their roles in projects, and their groups."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from assent.core.access import Role, roles
from assent.core.errors import Conflict, NotFound
from assent.core.seats import OWNER, Directory
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

EVERYWHERE = "*"
"""The project of roles that apply to all projects."""

COLUMNS = (
    "id", "name", "display_name", "email", "password_hash", "active", "created_at", "home_project", "reset_by",
    "reset_at", "reset_way", "theme", "time_zone",
)  # fmt: skip
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_people"
INSERT = insert("assent_people", COLUMNS, suffix="ON CONFLICT (name) DO NOTHING")
UPDATE = """
    UPDATE assent_people
    SET display_name = :display_name, email = :email, password_hash = :password_hash, active = :active,
        home_project = :home_project, reset_by = :reset_by, reset_at = :reset_at, reset_way = :reset_way,
        theme = :theme, time_zone = :time_zone
    WHERE id = :id"""
INSERT_GRANT = insert("assent_grants", ("person_id", "project_id", "role"), suffix="ON CONFLICT DO NOTHING")
DELETE_GRANTS = "DELETE FROM assent_grants WHERE person_id = :person_id AND project_id = :project_id"
SELECT_GRANTS = "SELECT project_id, role FROM assent_grants WHERE person_id = :person_id ORDER BY project_id, role"
# A revoked or expired token grants no role, even if it was valid when the request arrived. In a removed project, people
# have no roles, so they cannot decide or claim anything.
SELECT_LIVE_ROLES = """
    SELECT DISTINCT g.role, p.reset_by FROM assent_grants g JOIN assent_people p ON p.id = g.person_id
    WHERE p.id = :person_id AND p.active = 1 AND g.project_id IN (:project_id, '*')
      AND NOT EXISTS (
        SELECT 1 FROM assent_tokens t
        WHERE t.id = :token_id AND (t.revoked_at IS NOT NULL OR t.expires_at <= :now))
      AND NOT EXISTS (SELECT 1 FROM assent_projects o WHERE o.id = :project_id AND o.removed_at IS NOT NULL)"""
_REVIEWER = """
    SELECT 1 FROM assent_grants g
    WHERE g.person_id = p.id AND g.role = 'reviewer' AND g.project_id IN (:project_id, '*')"""
SELECT_REVIEWER = f"SELECT p.name FROM assent_people p WHERE p.name = :name AND p.active = 1 AND EXISTS ({_REVIEWER})"
SELECT_GROUP_REVIEWERS = f"""
    SELECT p.name FROM assent_group_members m JOIN assent_people p ON p.id = m.person_id
    WHERE m.project_id = :project_id AND m.group_name = :name AND p.active = 1 AND EXISTS ({_REVIEWER})"""
SELECT_GROUP = "SELECT name FROM assent_groups WHERE project_id = :project_id AND name = :name"
INSERT_GROUP = insert("assent_groups", ("project_id", "name", "created_at"), suffix="ON CONFLICT DO NOTHING")
DELETE_GROUP = "DELETE FROM assent_groups WHERE project_id = :project_id AND name = :name"
DELETE_MEMBERS = "DELETE FROM assent_group_members WHERE project_id = :project_id AND group_name = :name"
INSERT_MEMBER = insert("assent_group_members", ("project_id", "group_name", "person_id"))
SELECT_OWNER = f"""
    SELECT p.name FROM assent_projects o JOIN assent_people p ON p.id = o.owner_id
    WHERE o.id = :project_id AND p.active = 1 AND EXISTS ({_REVIEWER})"""
SELECT_KNOWN = """
    SELECT p.name, p.display_name FROM assent_people p
    WHERE p.active = 1 AND (p.home_project = :project_id OR EXISTS (
      SELECT 1 FROM assent_grants g WHERE g.person_id = p.id AND g.project_id IN (:project_id, '*')))
    ORDER BY p.name LIMIT :limit"""
SELECT_REVIEWERS = f"""
    SELECT p.name, p.display_name FROM assent_people p WHERE p.active = 1 AND EXISTS ({_REVIEWER})
    ORDER BY p.name LIMIT :limit"""
SELECT_GROUPS_OF = """
    SELECT group_name FROM assent_group_members WHERE project_id = :project_id AND person_id = :person_id"""


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    display_name: str
    email: str | None
    password_hash: str | None
    active: bool
    created_at: int
    home: str = EVERYWHERE
    """The project whose admins manage the account."""
    reset_by: str | None = None
    """Names of the admins who set up or reset the access (`ann, bob`), until the access is confirmed."""
    reset_at: int | None = None
    """Start of the unconfirmed reset; confirmation revokes what was created in the person's name since then."""
    reset_way: str | None = None
    """How access was reset; some changes persist after a new password, so only another admin can confirm them."""
    theme: str | None = None
    """`light` or `dark`; None means the browser's theme."""
    time_zone: str | None = None
    """The IANA name of the time zone for display; None means the browser's time zone, or UTC if it is unknown."""


class People(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, person: Person) -> None:
        with self._log.changes("person", person.id, project=EVERYWHERE):
            if self._session.change(INSERT, _row(person)) != 1:
                # Do not reveal that the name belongs to a person in another project.
                msg = f"The name {person.name} is not available. Choose another name."
                raise Conflict(msg)

    def save(self, person: Person) -> None:
        row = _row(person)
        del row["name"], row["created_at"]
        with self._log.changes("person", person.id, project=EVERYWHERE):
            self._session.change(UPDATE, row)

    def find_by_name(self, name: str) -> Person | None:
        rows = self._session.all(f"{SELECT} WHERE name = :name", {"name": name})
        return person_of(rows[0]) if rows else None

    def get_by_name(self, name: str) -> Person:
        person = self.find_by_name(name)
        if person is None:
            msg = f"Person {name} not found."
            raise NotFound(msg)
        return person

    def find(self, person_id: str) -> Person | None:
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": person_id})
        return person_of(rows[0]) if rows else None

    def every(self) -> list[Person]:
        return [person_of(row) for row in self._session.all(f"{SELECT} ORDER BY name", {})]

    def names(self, project: str, *, reviewers: bool, limit: int) -> list[tuple[str, str]]:
        """Return the usernames and full names of a project's active people, or only of its reviewers."""
        statement = SELECT_REVIEWERS if reviewers else SELECT_KNOWN
        return [(row[0], row[1]) for row in self._session.all(statement, {"project_id": project, "limit": limit})]

    def anyone(self) -> bool:
        return bool(self._session.all("SELECT 1 FROM assent_people LIMIT 1", {}))

    def grant(self, person_id: str, project: str, granted: Iterable[Role]) -> None:
        """Replace a person's roles in a project."""
        rows = [{"person_id": person_id, "project_id": project, "role": role.value} for role in sorted(set(granted))]
        with self._log.changes("roles", person_id, project=project, act="roles-changed"):
            self._session.change(DELETE_GRANTS, {"person_id": person_id, "project_id": project})
            if rows:
                self._session.write(INSERT_GRANT, rows)

    def grants(self, person_id: str) -> dict[str, frozenset[Role]]:
        found: dict[str, set[str]] = defaultdict(set)
        for project, role in self._session.all(SELECT_GRANTS, {"person_id": person_id}):
            found[project].add(role)
        return {project: roles(names) for project, names in found.items()}

    def live_roles(self, person_id: str, *, project: str, token_id: str | None, now: int) -> frozenset[Role]:
        """Return a person's current roles, read in the transaction that makes the decision."""
        return self.live_standing(person_id, project=project, token_id=token_id, now=now)[0]

    def live_standing(
        self, person_id: str, *, project: str, token_id: str | None, now: int
    ) -> tuple[frozenset[Role], str | None]:
        """Return a person's current roles, and the admins of an unconfirmed reset."""
        params = {"person_id": person_id, "project_id": project, "token_id": token_id or "", "now": now}
        rows = self._session.all(SELECT_LIVE_ROLES, params)
        return roles(row[0] for row in rows), rows[0][1] if rows else None

    def directory(self, project: str, names: Iterable[str]) -> Directory:
        """Return the people and groups that these expert names refer to, and the owner."""
        people: set[str] = set()
        groups: dict[str, frozenset[str]] = {}
        owner = self._names(SELECT_OWNER, project)
        people |= owner
        for name in names:
            if name == OWNER:
                continue  # resolved above
            params = {"project_id": project, "name": name}
            # A name belongs either to a group or to a person, never to both in the same project.
            if self._session.all(SELECT_GROUP, params):
                groups[name] = self._names(SELECT_GROUP_REVIEWERS, project, name)
                people |= groups[name]
            else:
                people |= self._names(SELECT_REVIEWER, project, name)
        return Directory(frozenset(people), groups, next(iter(owner), None))

    def _names(self, statement: str, project: str, name: str | None = None) -> frozenset[str]:
        params = {"project_id": project} if name is None else {"project_id": project, "name": name}
        return frozenset(row[0] for row in self._session.all(statement, params))

    def is_group(self, name: str, *, project: str | None) -> bool:
        """Return whether a project has a group with this name; None checks all projects."""
        statement = "SELECT 1 FROM assent_groups WHERE name = :name" + (" AND project_id = :project" if project else "")
        return bool(self._session.all(f"{statement} LIMIT 1", {"name": name, "project": project}))

    def group_names(self, person_id: str, *, project: str) -> list[str]:
        rows = self._session.all(SELECT_GROUPS_OF, {"project_id": project, "person_id": person_id})
        return [row[0] for row in rows]

    def put_group(self, project: str, name: str, member_ids: Sequence[str], *, at: int) -> None:
        """Create a group or replace its members."""
        key = {"project_id": project, "name": name}
        rows = [
            {"project_id": project, "group_name": name, "person_id": member} for member in dict.fromkeys(member_ids)
        ]
        with self._log.changes("group", name, project=project):
            self._session.change(INSERT_GROUP, key | {"created_at": at})
            self._session.change(DELETE_MEMBERS, key)
            if rows:
                self._session.write(INSERT_MEMBER, rows)

    def groups(self, project: str) -> dict[str, list[str]]:
        statement = """
            SELECT g.name, p.name FROM assent_groups g
            LEFT JOIN assent_group_members m ON m.project_id = g.project_id AND m.group_name = g.name
            LEFT JOIN assent_people p ON p.id = m.person_id
            WHERE g.project_id = :project_id ORDER BY g.name, p.name"""
        found: dict[str, list[str]] = {}
        for group, member in self._session.all(statement, {"project_id": project}):
            found.setdefault(group, []).extend([member] if member else [])
        return found

    def remove_group(self, project: str, name: str) -> None:
        key = {"project_id": project, "name": name}
        with self._log.changes("group", name, project=project):
            if self._session.change(DELETE_GROUP, key) != 1:
                msg = f"Group {name} not found."
                raise NotFound(msg)


def _row(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "name": person.name,
        "display_name": person.display_name,
        "email": person.email,
        "password_hash": person.password_hash,
        "active": int(person.active),
        "created_at": person.created_at,
        "home_project": person.home,
        "reset_by": person.reset_by,
        "reset_at": person.reset_at,
        "reset_way": person.reset_way,
        "theme": person.theme,
        "time_zone": person.time_zone,
    }


def person_of(row: Sequence[Any]) -> Person:
    value: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    value["active"] = bool(value["active"])
    value["home"] = value.pop("home_project")
    return Person(**value)
