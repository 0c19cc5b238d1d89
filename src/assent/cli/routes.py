"""Routes by command, through the API: written, removed, and asked where a breakpoint would go."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from assent.cli import output
from assent.cli.output import Json
from assent.cli.rules import pointing_at
from assent.cli.session import session
from assent.sdk.channel_values import Route, RouteCheck, RouteStep
from assent.sdk.values import plain

app = typer.Typer()
route = typer.Typer(no_args_is_help=True, help="Routes: who is told what, and where.")
app.add_typer(route, name="route")

NOTHING = "There are no routes; nobody is told, and people see what waits in the inbox."
_A_BREAKPOINT = "bp_"


@route.command("list")
def route_list(*, as_json: Json = False) -> None:
    """List the routes, in their order: the first that matches counts."""
    with session() as assent:
        found = assent.routes()
    if as_json:
        output.emit({"items": plain(found)})
        return
    columns = ("id", "pattern", "channels", "to", "while nobody answers", "state", "source")
    output.table(columns, [_row(each) for each in found], wide=("source", "while nobody answers"), empty=NOTHING)


def _row(each: Route) -> Sequence[str]:
    return (
        each.id,
        each.pattern,
        ", ".join(each.channels),
        ", ".join(each.to),
        "; ".join(_later(each)),
        "enabled" if each.enabled else "disabled",
        each.source,
    )


def _later(each: Route) -> list[str]:
    said = [f"remind after {', '.join(each.remind)}"] if each.remind else []
    said += [f"tell {', '.join(level['to'])} after {level['after']}" for level in each.escalate]
    return said + ([f"{each.timeout['then']} after {each.timeout['after']}"] if each.timeout else [])


@route.command("add")
def route_add(  # noqa: PLR0913  # the options of the command
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Which breakpoints, as in deploy.*")],
    *,
    channel: Annotated[list[str], typer.Option(metavar="NAME", help="Where they are told; repeat it.")],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="WHO", help="experts (default), owner, group:NAME or person:NAME; repeat it."),
    ] = None,
    fallback: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Where to try if a channel fails; repeat it.")
    ] = None,
    remind: Annotated[list[str] | None, typer.Option(metavar="TIME", help="Remind after 30m, 2h …; repeat it.")] = None,
    escalate: Annotated[
        list[str] | None, typer.Option(metavar="TIME=WHO,…", help="Tell others too, as in 1h=owner; repeat it.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME=END", help="End it, as in 1d=expire or 1d=reject.")
    ] = None,
    any_hour: Annotated[bool, typer.Option("--any-hour", help="Tell people in their quiet hours too.")] = False,
    note: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    as_json: Json = False,
) -> None:
    """Write a route, after those there are."""
    given: dict[str, Any] = {
        "to": to,
        "fallback": fallback,
        "remind": remind,
        "escalate": [_level(each) for each in escalate or ()],
        "timeout": _end(timeout) if timeout is not None else None,
        "note": note,
    }
    fields: Any = {name: value for name, value in given.items() if value} | ({"quiet": False} if any_hour else {})
    with pointing_at(pattern), session() as assent:
        made = assent.add_route(pattern.strip(), channel, **fields)
    if as_json:
        output.emit(plain(made))
    else:
        output.say(f"{made.id} is written.")


def _level(text: str) -> dict[str, Any]:
    after, to = _pair(text, "--escalate")
    return {"after": after, "to": [each.strip() for each in to.split(",") if each.strip()]}


def _end(text: str) -> dict[str, str]:
    after, then = _pair(text, "--timeout")
    return {"after": after, "then": then}


def _pair(text: str, option: str) -> tuple[str, str]:
    before, equals, after = text.partition("=")
    if not equals or not before or not after:
        msg = f"{output.visible(text)!r} is not TIME=…, as in 1h=…"
        raise typer.BadParameter(msg, param_hint=option)
    return before, after


@route.command("remove")
def route_remove(
    route_id: Annotated[str, typer.Argument(metavar="ID", help="The route's id.")], *, as_json: Json = False
) -> None:
    """Remove a route; what was sent by it goes on."""
    with session() as assent:
        assent.remove_route(route_id)
    if as_json:
        output.emit({"removed": route_id})
    else:
        output.say(f"{route_id} is removed.")


@route.command("check")
def route_check(  # the options of the command
    about: Annotated[str, typer.Argument(metavar="GATE|ID", help="A gate, or the id of a breakpoint that waits.")],
    *,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeat it.")] = None,
    expert: Annotated[list[str] | None, typer.Option(help="Whom it asks; repeat it.")] = None,
    agent: Annotated[str, typer.Option(help="Which agent asks.")] = "somebody",
    risk: Annotated[Literal["low", "medium", "high"] | None, typer.Option(help="Its risk.")] = None,
    as_json: Json = False,
) -> None:
    """Tell who would be told, where and when; nobody is told anything."""
    with session() as assent:
        if about.startswith(_A_BREAKPOINT):
            found = assent.check_routes(about)
        else:
            payload: dict[str, Any] = {"breakpointId": about, "question": about}
            payload |= {"expert": expert} if expert else {}
            payload |= {"risk": risk} if risk else {}
            found = assent.check_routes(supposed={"agentId": agent, "tags": tag or [], "payload": payload})
    if as_json:
        output.emit(plain(found))
    else:
        _print_check(found)


def _print_check(found: RouteCheck) -> None:
    if found.pattern is not None:
        output.say(f"It would take {output.visible(found.route_id or 'no route')} ({output.visible(found.pattern)}).")
    for step in found.steps:
        output.say(f"{step.at[:19]}  {step.kind:<9} {output.visible(_what(step))}")
    for warning in found.warnings:
        output.say(f"! {output.visible(warning)}", style="yellow")


def _what(step: RouteStep) -> str:
    if step.then is not None:
        return step.then
    told = [
        (f"{each.person} on {each.channel}" if each.person else each.channel)
        + (f" (not before {each.not_before[:19]})" if each.not_before else "")
        for each in step.told
    ]
    return ", ".join(told) or "nobody"
