"""Commands that list, add, remove and check routes through the API."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.renamed import OldAgent
from assent.console.session import session
from assent.contracts.channels import Route, RouteCheck, RouteStep
from assent.contracts.shape import plain
from assent.policy.commands.rules import pointing_at

app = typer.Typer()
route = typer.Typer(no_args_is_help=True, help="Manage routes, which determine who is notified and where.")
app.add_typer(route, name="route")

NOTHING = "No routes. No notifications are sent; pending breakpoints appear only in the inbox."
_A_BREAKPOINT = "bp_"


@route.command("list")
def route_list(*, as_json: Json = False) -> None:
    """List the routes in evaluation order. The first match applies."""
    with session() as assent:
        found = assent.routes()
    if as_json:
        output.emit({"items": plain(found)})
        return
    columns = ("id", "pattern", "channels", "to", "if unanswered", "state", "source")
    output.table(columns, [_row(each) for each in found], wide=("source", "if unanswered"), empty=NOTHING)


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
    said += [f"notify {', '.join(level['to'])} after {level['after']}" for level in each.escalate]
    return said + ([f"{each.timeout['then']} after {each.timeout['after']}"] if each.timeout else [])


@route.command("add")
def route_add(  # noqa: PLR0913  # the options of the command
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Breakpoint pattern, such as deploy.*")],
    *,
    channel: Annotated[list[str], typer.Option(metavar="NAME", help="Channel to use (repeatable)")],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="WHO", help="Recipient: experts (default), owner, group:NAME or person:NAME (repeatable)"),
    ] = None,
    fallback: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Channel to use if another fails (repeatable)")
    ] = None,
    remind: Annotated[
        list[str] | None,
        typer.Option(metavar="DURATION", help="Delay before a reminder, such as 30m or 2h (repeatable)"),
    ] = None,
    escalate: Annotated[
        list[str] | None,
        typer.Option(metavar="DURATION=WHO,…", help="Delay and additional recipients, such as 1h=owner (repeatable)"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION=END", help="Timeout and its outcome, such as 1d=expire or 1d=reject")
    ] = None,
    any_hour: Annotated[bool, typer.Option("--any-hour", help="Notify people even during their quiet hours")] = False,
    note: Annotated[str | None, typer.Option(help="Note about the route")] = None,
    as_json: Json = False,
) -> None:
    """Add a route to the end of the list."""
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
        output.say(f"Created {made.id}.")


def _level(text: str) -> dict[str, Any]:
    after, to = _pair(text, "--escalate")
    return {"after": after, "to": [each.strip() for each in to.split(",") if each.strip()]}


def _end(text: str) -> dict[str, str]:
    after, then = _pair(text, "--timeout")
    return {"after": after, "then": then}


def _pair(text: str, option: str) -> tuple[str, str]:
    before, equals, after = text.partition("=")
    if not equals or not before or not after:
        msg = f"{output.visible(text)!r} is invalid. Expected DURATION=…, such as 1h=…"
        raise typer.BadParameter(msg, param_hint=option)
    return before, after


@route.command("remove")
def route_remove(
    route_id: Annotated[str, typer.Argument(metavar="ID", help="Route ID")], *, as_json: Json = False
) -> None:
    """Remove a route. Pending breakpoints that already use it are not affected."""
    with session() as assent:
        assent.remove_route(route_id)
    if as_json:
        output.emit({"removed": route_id})
    else:
        output.say(f"Removed {route_id}.")


@route.command("check")
def route_check(  # noqa: PLR0913  # the options of the command
    about: Annotated[str, typer.Argument(metavar="GATE|ID", help="Gate, or ID of a pending breakpoint")],
    *,
    tag: Annotated[list[str] | None, typer.Option(help="Tag (repeatable)")] = None,
    expert: Annotated[list[str] | None, typer.Option(help="Expert assigned to the breakpoint (repeatable)")] = None,
    agent_id: Annotated[str, typer.Option(help="ID of the requesting agent")] = "unknown",
    risk: Annotated[Literal["low", "medium", "high"] | None, typer.Option(help="Risk level")] = None,
    agent: OldAgent = None,
    as_json: Json = False,
) -> None:
    """Show who would be notified about a breakpoint, where and when (dry run)."""
    with session() as assent:
        # The argument is either a gate or a breakpoint ID, which is recognized by its prefix.
        if about.startswith(_A_BREAKPOINT):
            found = assent.check_routes(about)
        else:
            payload: dict[str, Any] = {"breakpointId": about, "question": about}
            payload |= {"expert": expert} if expert else {}
            payload |= {"risk": risk} if risk else {}
            found = assent.check_routes(supposed={"agentId": agent or agent_id, "tags": tag or [], "payload": payload})
    if as_json:
        output.emit(plain(found))
    else:
        _print_check(found)


def _print_check(found: RouteCheck) -> None:
    if found.pattern is not None:
        output.say(f"Matching route: {output.visible(found.route_id or 'none')} ({output.visible(found.pattern)}).")
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
    return ", ".join(told) or "no one"
