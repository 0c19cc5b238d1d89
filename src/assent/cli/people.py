"""Who may do what, directly on the data: token, user, group."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from assent.app import Assent
from assent.cli import output
from assent.cli.data import ACTOR, Data, on_data, operator, settings_with, sign_in_link
from assent.cli.output import Json
from assent.cli.session import session
from assent.domain.access import Role
from assent.domain.errors import InvalidRequest
from assent.domain.instants import iso
from assent.domain.routing import OWNER
from assent.http.bodies import asked_token, token_body
from assent.sdk.values import plain
from assent.services.people import DEFAULT_PROJECT
from assent.store.people import Person
from assent.store.transaction import Transaction
from assent.wire import people as wire
from assent.wire.tokens import CreateToken

app = typer.Typer()
token = typer.Typer(no_args_is_help=True, help="Tokens of agents, people and services.")
user = typer.Typer(no_args_is_help=True, help="People, and how they sign in.")
group = typer.Typer(no_args_is_help=True, help="Groups, which are asked as one expert.")
app.add_typer(token, name="token")
app.add_typer(user, name="user")
app.add_typer(group, name="group")

Model = TypeVar("Model", bound=BaseModel)
DAY = 24 * 3600
Project = Annotated[str, typer.Option(help="The project it belongs to.")]
Name = Annotated[str, typer.Argument(help="The person's name.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read a password from the first line of stdin.")]


def checked(model: type[Model], **given: Any) -> Model:  # noqa: ANN401  # a body as the API would get it
    """Hold the command line to what the API holds its callers to."""
    try:
        return model.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        msg = f"{' '.join(map(str, first['loc']))}: {first['msg']}."
        raise InvalidRequest(msg) from error


@token.command("create")
def token_create(  # noqa: PLR0913  # the options of the command
    *,
    kind: Annotated[
        Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"],
        typer.Option(help="What it may do; a person's token carries that person's roles, or fewer."),
    ],
    name: Annotated[str, typer.Option(help="What to call it.")],
    person: Annotated[str | None, typer.Option(help="Whose it is; the project's owner if left out.")] = None,
    project: Project = DEFAULT_PROJECT,
    gate: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Gates an agent may raise.")] = None,
    agent_id: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Names an agent may use.")] = None,
    process: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Processes an agent may start.")] = None,
    same_agent_as: Annotated[
        str | None, typer.Option(metavar="ID", help="Another token of the same agent, for rotation.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=366, help="How long it is valid; 90 if left out.")] = None,
    signed_in: Annotated[
        bool, typer.Option("--signed-in", help="Create your own on the server (ASSENT_URL, ASSENT_TOKEN).")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Create a token; its secret is shown only once."""
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

    def use_case(node: Assent, tx: Transaction) -> dict[str, Any]:
        made, secret = node.people.create_token(tx, new, project=project, by=ACTOR)
        return {"token": secret, **token_body(made, _names(tx)), "kind": kind, "project": project}

    made = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"token": made["token"], "id": made["id"], "kind": kind} | made)
    else:
        output.say(made["token"])
        output.remark(f"{made['id']}, valid until {made['expiresAt']}; it is not shown again.")


def _create_own(kind: str, name: str, days: int | None, unused: Sequence[object], *, as_json: bool) -> None:
    """Create a token as the person behind ASSENT_TOKEN, over HTTP."""
    if any(each is not None for each in unused):
        msg = "creates your own token on the server; leave out --person, --data and the limits of agents"
        raise typer.BadParameter(msg, param_hint="--signed-in")
    with session() as assent:
        made = assent.create_token(kind, name, expires_in_seconds=days * DAY if days else None)
    if as_json:
        output.emit(plain(made))
    else:
        output.say(made.token)
        output.remark(f"{made.id}, valid until {made.expires_at}; it is not shown again.")


@token.command("list")
def token_list(*, project: Project = DEFAULT_PROJECT, data: Data = None, as_json: Json = False) -> None:
    """List the tokens of a project, without their secrets."""

    def use_case(_: Assent, tx: Transaction) -> list[dict[str, Any]]:
        tx.projects.get(project)
        return [token_body(each, _names(tx)) for each in tx.tokens.every(project)]

    found = on_data(settings_with(data), use_case)
    if as_json:
        output.emit({"items": found})
        return
    columns = ("id", "kind", "name", "person", "roles", "expires", "last used", "revoked")
    output.table(columns, [_token_row(each) for each in found], empty="There are no tokens.")


def _token_row(each: dict[str, Any]) -> Sequence[str]:
    moments = [(each[name] or "")[:10] for name in ("expiresAt", "lastUsedAt", "revokedAt")]
    return (each["id"], each["kind"], each["name"], each["person"] or "", ", ".join(each["roles"]), *moments)


@token.command("revoke")
def token_revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id (tok_…), not its secret.")],
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Revoke a token; a running server refuses it within seconds."""
    on_data(settings_with(data), lambda _, tx: tx.tokens.revoke(token_id, project=project, now=tx.now()))
    _done({"id": token_id, "revoked": True}, f"{token_id} is revoked.", as_json=as_json)


@user.command("create")
def user_create(  # noqa: PLR0913  # the options of the command
    name: Name,
    *,
    role: Annotated[list[Role], typer.Option(help="What they may do; repeat it.")],
    project: Annotated[str, typer.Option(help="Where they may do it; '*' is everywhere.")] = DEFAULT_PROJECT,
    email: Annotated[str | None, typer.Option(help="Their address.")] = None,
    display_name: Annotated[str | None, typer.Option(help="Their name as others see it.")] = None,
    password_stdin: PasswordStdin = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Add somebody, and print a link by which they sign in once."""
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

    def use_case(node: Assent, tx: Transaction) -> dict[str, Any]:
        person = node.people.create_person(
            tx,
            asked.name,
            project=project,
            roles=frozenset(role),
            display_name=asked.display_name,
            email=asked.email,
            password=asked.password,
        )
        link = node.people.create_link(tx, person.id, purpose="invitation")
        return _person_body(tx, person) | {"signInLink": sign_in_link(settings, link)}

    made = on_data(settings, use_case)
    _done(made, made["signInLink"], as_json=as_json)


@user.command("list")
def user_list(*, data: Data = None, as_json: Json = False) -> None:
    """List everybody, with their roles in each project."""
    found = on_data(settings_with(data), lambda _, tx: [_person_body(tx, person) for person in tx.people.every()])
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
    output.table(("name", "called", "email", "roles", "account"), rows, empty="There is nobody.")


def _spoken(roles: dict[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(names)} in {project}" for project, names in roles.items())


@user.command("link")
def user_link(name: Name, *, data: Data = None, as_json: Json = False) -> None:
    """Make a new link by which somebody signs in once."""
    settings = settings_with(data)

    def use_case(node: Assent, tx: Transaction) -> str:
        # The owner of a single-user start signs in by such links alone.
        purpose = "start" if name == OWNER else "reset"
        return node.people.create_link(tx, tx.people.get_by_name(name).id, purpose=purpose)

    link = sign_in_link(settings, on_data(settings, use_case))
    _done({"name": name, "signInLink": link}, link, as_json=as_json)


@user.command("password")
def user_password(
    name: Name, *, password_stdin: PasswordStdin = False, data: Data = None, as_json: Json = False
) -> None:
    """Set somebody's password, and sign them out everywhere."""
    password = _password() if password_stdin else _typed_password()
    changes = checked(wire.ChangePerson, password=password).model_dump(exclude_none=True)

    def use_case(node: Assent, tx: Transaction) -> None:
        node.people.change_person(tx, name, changes, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done({"name": name, "changed": True}, f"{output.visible(name)} has a new password.", as_json=as_json)


@user.command("confirm")
def user_confirm(name: Name, *, data: Data = None, as_json: Json = False) -> None:
    """Confirm access that an admin set up or reset, after asking the person."""

    def use_case(node: Assent, tx: Transaction) -> None:
        node.people.confirm_reset(tx, name, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done({"name": name, "confirmed": True}, f"The access of {output.visible(name)} is confirmed.", as_json=as_json)


@user.command("home")
def user_home(
    name: Name,
    project: Annotated[str, typer.Argument(help="The project whose admins manage the account; '*' is all projects.")],
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Set the home project of a person, whose admins manage the account."""

    def use_case(node: Assent, tx: Transaction) -> None:
        node.people.move_home(tx, name, project, by=operator(DEFAULT_PROJECT))

    on_data(settings_with(data), use_case)
    _done({"name": name, "home": project}, f"{output.visible(name)} is at home in {project}.", as_json=as_json)


def _password() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _typed_password() -> str:
    if not sys.stdin.isatty():
        msg = "there is no terminal to type a password on; send it with --password-stdin"
        raise typer.BadParameter(msg, param_hint="--password-stdin")
    typed: str = typer.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


@group.command("set")
def group_set(
    name: Annotated[str, typer.Argument(help="The group's name.")],
    members: Annotated[list[str] | None, typer.Argument(help="Everybody in it.")] = None,
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a group, or set its members to exactly these."""
    asked = checked(wire.PutGroup, members=list(members or ()))
    checked(wire.CreatePerson, name=name)

    def use_case(node: Assent, tx: Transaction) -> list[str]:
        tx.projects.get(project)
        node.people.put_group(tx, name, asked.members, by=operator(project))
        return tx.people.groups(project)[name]

    kept = on_data(settings_with(data), use_case)
    _done({"name": name, "members": kept}, f"{name}: {', '.join(kept) or 'nobody'}", as_json=as_json)


@group.command("list")
def group_list(*, project: Project = DEFAULT_PROJECT, data: Data = None, as_json: Json = False) -> None:
    """List the groups of a project."""
    found = on_data(settings_with(data), lambda _, tx: tx.people.groups(tx.projects.get(project).id))
    if as_json:
        output.emit({"items": [{"name": name, "members": members} for name, members in found.items()]})
        return
    rows = [(name, ", ".join(members)) for name, members in found.items()]
    output.table(("name", "members"), rows, empty="There are no groups.")


@group.command("remove")
def group_remove(
    name: Annotated[str, typer.Argument(help="The group's name.")],
    *,
    project: Project = DEFAULT_PROJECT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove a group; its members stay."""
    on_data(settings_with(data), lambda _, tx: tx.people.remove_group(project, name))
    _done({"name": name, "removed": True}, f"{output.visible(name)} is removed.", as_json=as_json)


def _done(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(value)
    else:
        output.say(sentence)


def _names(tx: Transaction) -> dict[str, str]:
    return {person.id: person.name for person in tx.people.every()}


def _person_body(tx: Transaction, person: Person) -> dict[str, Any]:
    grants = tx.people.grants(person.id)
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
