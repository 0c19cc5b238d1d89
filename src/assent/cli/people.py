"""Commands that manage tokens, people and groups directly in the data."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import ValidationError

from assent.cli.data import ACTOR, Data, on_data, operator, settings_with, sign_in_link
from assent.console import output
from assent.console.output import Json
from assent.console.session import session
from assent.contracts import people as wire
from assent.contracts.models import read
from assent.contracts.shape import json_of, plain
from assent.contracts.tokens import CreateToken
from assent.core.access import Role
from assent.core.errors import InvalidRequest
from assent.core.seats import OWNER
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.node import Node
from assent.people.store.people import People, Person
from assent.people.store.projects import Projects
from assent.people.store.tokens import Tokens
from assent.people.usecases.people import DEFAULT_PROJECT, PeopleService
from assent.people.views import asked_token, token_body

app = typer.Typer()
token = typer.Typer(no_args_is_help=True, help="Manage tokens for agents, people and services.")
user = typer.Typer(no_args_is_help=True, help="Manage people and how they sign in.")
group = typer.Typer(no_args_is_help=True, help="Manage groups, each of which counts as one expert.")
app.add_typer(token, name="token")
app.add_typer(user, name="user")
app.add_typer(group, name="group")

Model = TypeVar("Model")
DAY = 24 * 3600
Project = Annotated[str, typer.Option(help="Project ID")]
Name = Annotated[str, typer.Argument(help="Username")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input")
]


def checked(model: type[Model], **given: Any) -> Model:  # noqa: ANN401  # a body as the API receives it
    """Validate command-line arguments in the same way as the API's requests."""
    try:
        return read(model, {name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        msg = f"{' '.join(map(str, first['loc']))}: {first['msg']}."
        raise InvalidRequest(msg) from error


@token.command("create")
def token_create(  # noqa: PLR0913  # the options of the command
    *,
    kind: Annotated[
        Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"],
        typer.Option(help="Kind of token; a person's token is limited to that person's roles"),
    ],
    name: Annotated[str, typer.Option(help="Label for the token")],
    person: Annotated[str | None, typer.Option(help="Person who owns the token (default: the project owner)")] = None,
    project: Project = DEFAULT_PROJECT,
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Gates that the agent may use (repeatable; default: all)"),
    ] = None,
    agent_id: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Agent IDs that the agent may claim (repeatable; default: all)"),
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Processes that the agent may start (repeatable; default: all, or none with --gate)"
        ),
    ] = None,
    same_agent_as: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="ID (tok_…) of an older token of the same agent; its limits become the defaults"
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=366, help="Number of days until the token expires (default: 90)")
    ] = None,
    signed_in: Annotated[
        bool,
        typer.Option(
            "--signed-in", help="Create a token for yourself through the API, with ASSENT_URL and ASSENT_TOKEN"
        ),
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Create a token. Its secret is shown only once."""
    if signed_in:
        _create_own(kind, name, days, [person, gate, agent_id, process, same_agent_as, data], as_json=as_json)
        return
    asked = checked(
        CreateToken,
        kind=kind,
        name=name,
        person=person,
        gates=gate,
        agentIds=agent_id,
        processes=process,
        sameAgentAs=same_agent_as,
        expiresInSeconds=days * DAY if days else None,
    )
    new = asked_token(asked)

    def use_case(node: Node, tx: Transaction) -> dict[str, Any]:
        made, secret = node[PeopleService].create_token(tx, new, project=project, by=ACTOR)
        return {"token": secret, **token_body(made, _names(tx)), "kind": kind, "project": project}

    made = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"token": made["token"], "id": made["id"], "kind": kind} | made)
    else:
        output.say(made["token"])
        output.remark(f"{made['id']} is valid until {made['expiresAt']}. The token will not be shown again.")


def _create_own(kind: str, name: str, days: int | None, unused: Sequence[object], *, as_json: bool) -> None:
    """Create a token through the API for the person who owns ASSENT_TOKEN."""
    # Ignoring these options would create a token with different limits than intended.
    if any(each is not None for each in unused):
        msg = "This option creates a token for yourself on the server. Omit --person, --data and the agent limits."
        raise typer.BadParameter(msg, param_hint="--signed-in")
    with session() as assent:
        made = assent.create_token(kind, name, expires_in_seconds=days * DAY if days else None)
    if as_json:
        output.emit(plain(made))
    else:
        output.say(made.token)
        output.remark(f"{made.id} is valid until {made.expires_at}. The token will not be shown again.")


@token.command("list")
def token_list(*, project: Project = DEFAULT_PROJECT, data: Data = None, as_json: Json = False) -> None:
    """List a project's tokens, without their secrets."""

    def use_case(_: Node, tx: Transaction) -> list[dict[str, Any]]:
        tx[Projects].get(project)
        return [token_body(each, _names(tx)) for each in tx[Tokens].every(project)]

    found = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"items": found})
        return
    columns = ("id", "kind", "name", "person", "roles", "expires", "last used", "revoked")
    output.table(columns, [_token_row(each) for each in found], empty="No tokens.")


def _token_row(each: dict[str, Any]) -> Sequence[str]:
    moments = [(each[name] or "")[:10] for name in ("expiresAt", "lastUsedAt", "revokedAt")]
    return (each["id"], each["kind"], each["name"], each["person"] or "", ", ".join(each["roles"]), *moments)


@token.command("revoke")
def token_revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Token ID (tok_…), not the secret")],
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Revoke a token. Running servers stop accepting it within seconds."""
    on_data(settings_with(data), lambda _, tx: tx[Tokens].revoke(token_id, project=project, now=tx.now()))
    _done({"id": token_id, "revoked": True}, f"Revoked {token_id}.", as_json=as_json)


@user.command("create")
def user_create(  # noqa: PLR0913  # the options of the command
    name: Name,
    *,
    role: Annotated[list[Role], typer.Option(help="Role (repeatable)")],
    project: Annotated[
        str, typer.Option(help="Project in which the roles apply; '*' means all projects")
    ] = DEFAULT_PROJECT,
    email: Annotated[str | None, typer.Option(help="Email address")] = None,
    display_name: Annotated[str | None, typer.Option(help="Display name")] = None,
    password_stdin: PasswordStdin = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Create a person and print a one-time sign-in link that is valid for one day."""
    password = _password() if password_stdin else None
    asked = checked(
        wire.CreatePerson,
        name=name,
        displayName=display_name,
        email=email,
        password=password,
        roles=[each.value for each in role],
    )
    settings = settings_with(data)

    def use_case(node: Node, tx: Transaction) -> dict[str, Any]:
        person = node[PeopleService].create_person(
            tx,
            asked.name,
            project=project,
            roles=frozenset(role),
            display_name=asked.display_name,
            email=asked.email,
            password=asked.password,
        )
        link = node[PeopleService].create_link(tx, person.id, purpose="invitation")
        return _person_body(tx, person) | {"signInLink": sign_in_link(settings, link)}

    made = on_data(settings, use_case)
    _done(made, made["signInLink"], as_json=as_json)


@user.command("list")
def user_list(*, data: Data = None, as_json: Json = False) -> None:
    """List all people with their roles in each project."""
    found = on_data(settings_with(data), lambda _, tx: [_person_body(tx, person) for person in tx[People].every()])
    if as_json:
        output.emit({"items": found})
        return
    rows = [
        (
            each["name"],
            each["displayName"],
            each["email"] or "",
            _spoken(each["roles"]),
            "" if each["active"] else "closed",
        )
        for each in found
    ]
    output.table(("name", "display name", "email", "roles", "account"), rows, empty="No people.")


def _spoken(roles: dict[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(names)} in {project}" for project, names in roles.items())


@user.command("link")
def user_link(name: Name, *, data: Data = None, as_json: Json = False) -> None:
    """Create a one-time sign-in link for a person."""
    settings = settings_with(data)

    def use_case(node: Node, tx: Transaction) -> str:
        # The owner of a single-user installation signs in only with such links.
        purpose = "start" if name == OWNER else "reset"
        return node[PeopleService].create_link(tx, tx[People].get_by_name(name).id, purpose=purpose)

    link = sign_in_link(settings, on_data(settings, use_case))
    _done({"name": name, "signInLink": link}, link, as_json=as_json)


@user.command("password")
def user_password(
    name: Name, *, password_stdin: PasswordStdin = False, data: Data = None, as_json: Json = False
) -> None:
    """Set a person's password and sign them out everywhere."""
    password = _password() if password_stdin else _typed_password()
    changes = json_of(checked(wire.ChangePerson, password=password))

    def use_case(node: Node, tx: Transaction) -> None:
        node[PeopleService].change_person(tx, name, changes, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done({"name": name, "changed": True}, f"Changed the password for {output.visible(name)}.", as_json=as_json)


@user.command("confirm")
def user_confirm(name: Name, *, data: Data = None, as_json: Json = False) -> None:
    """Confirm a person's access after an admin has set it up or reset it. Check with the person first."""

    def use_case(node: Node, tx: Transaction) -> None:
        node[PeopleService].confirm_reset(tx, name, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done({"name": name, "confirmed": True}, f"Confirmed access for {output.visible(name)}.", as_json=as_json)


@user.command("home")
def user_home(
    name: Name,
    project: Annotated[str, typer.Argument(help="Project whose admins manage the account; '*' means all projects")],
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Set a person's home project, whose admins manage the account."""

    def use_case(node: Node, tx: Transaction) -> None:
        node[PeopleService].move_home(tx, name, project, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done(
        {"name": name, "home": project},
        f"Set the home project for {output.visible(name)} to {project}.",
        as_json=as_json,
    )


def _password() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _typed_password() -> str:
    if not sys.stdin.isatty():
        msg = "Without a terminal, this option is required. Pass the password on standard input."
        raise typer.BadParameter(msg, param_hint="--password-stdin")
    typed: str = typer.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


@group.command("set")
def group_set(
    name: Annotated[str, typer.Argument(help="Group name")],
    members: Annotated[list[str] | None, typer.Argument(help="Usernames of all members")] = None,
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Create a group, or replace its members."""
    asked = checked(wire.PutGroup, members=list(members or ()))
    checked(wire.CreatePerson, name=name)

    def use_case(node: Node, tx: Transaction) -> list[str]:
        tx[Projects].get(project)
        node[PeopleService].put_group(tx, name, asked.members, by=operator(project))
        return tx[People].groups(project)[name]

    kept = on_data(settings_with(data), use_case)
    _done({"name": name, "members": kept}, f"{name}: {', '.join(kept) or 'no members'}", as_json=as_json)


@group.command("list")
def group_list(*, project: Project = DEFAULT_PROJECT, data: Data = None, as_json: Json = False) -> None:
    """List a project's groups."""
    found = on_data(settings_with(data), lambda _, tx: tx[People].groups(tx[Projects].get(project).id))
    if as_json:
        output.emit({"items": [{"name": name, "members": members} for name, members in found.items()]})
        return
    rows = [(name, ", ".join(members)) for name, members in found.items()]
    output.table(("name", "members"), rows, empty="No groups.")


@group.command("remove")
def group_remove(
    name: Annotated[str, typer.Argument(help="Group name")],
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove a group. Its members keep their accounts."""
    on_data(settings_with(data), lambda _, tx: tx[People].remove_group(project, name))
    _done({"name": name, "removed": True}, f"Removed {output.visible(name)}.", as_json=as_json)


def _done(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(value)
    else:
        output.say(sentence)


def _names(tx: Transaction) -> dict[str, str]:
    return {person.id: person.name for person in tx[People].every()}


def _person_body(tx: Transaction, person: Person) -> dict[str, Any]:
    grants = tx[People].grants(person.id)
    return {
        "id": person.id,
        "name": person.name,
        "displayName": person.display_name,
        "email": person.email,
        "active": person.active,
        "home": person.home,
        "resetBy": person.reset_by,
        "roles": {project: sorted(role.value for role in held) for project, held in grants.items()},
        "createdAt": iso(person.created_at),
    }
