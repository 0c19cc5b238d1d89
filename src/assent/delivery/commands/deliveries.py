"""Commands that list, show and retry deliveries through the API."""

import time
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from assent.console import output
from assent.console.output import Json
from assent.console.session import gathered, session
from assent.contracts.deliveries import Attempt, Delivery, DeliveryPage
from assent.contracts.shape import plain
from assent.sdk.client import Assent
from assent.sdk.protocol import DeliveryFilters

app = typer.Typer()
delivery = typer.Typer(no_args_is_help=True, help="Inspect and retry notification deliveries.")
app.add_typer(delivery, name="delivery")

State = Literal["pending", "sending", "sent", "answered", "superseded", "dead"]
Id = Annotated[str, typer.Argument(metavar="ID", help="Delivery ID")]


@delivery.command("list")
def delivery_list(
    *,
    breakpoint_id: Annotated[
        str | None, typer.Option("--breakpoint", metavar="ID", help="Breakpoint to filter by")
    ] = None,
    state: Annotated[State | None, typer.Option(help="State to filter by")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results")] = 50,
    as_json: Json = False,
) -> None:
    """List deliveries, newest first."""
    with session() as assent:
        found = _pages(assent, DeliveryFilters(breakpoint_id=breakpoint_id, state=state), limit)
    if as_json:
        output.emit(plain(found))
        return
    now = time.time()
    columns = ("id", "state", "type", "breakpoint", "attempts", "next", "recipient", "last error")
    rows = [_row(each, now) for each in found.items]
    output.table(columns, rows, wide=("breakpoint", "attempts"), empty="No deliveries.")
    if found.next_cursor:
        output.remark(f"More results are available. Use --limit {limit * 2} to see more.")


def _pages(assent: Assent, filters: DeliveryFilters, limit: int) -> DeliveryPage:
    def read(most: int, cursor: str | None) -> tuple[list[Delivery], str | None]:
        page = assent.deliveries(**(filters | DeliveryFilters(limit=most, cursor=cursor)))
        return page.items, page.next_cursor

    items, cursor = gathered(read, limit)
    return DeliveryPage(items=items, next_cursor=cursor)


def _row(each: Delivery, now: float) -> Sequence[str]:
    return (
        each.id,
        each.state,
        each.type,
        each.breakpoint_id,
        str(each.attempts),
        output.until(each.next_attempt_at, now=now),
        each.recipient,
        each.last_error or "",
    )


@delivery.command("show")
def delivery_show(delivery_id: Id, *, as_json: Json = False) -> None:
    """Show a delivery and its attempts."""
    with session() as assent:
        found = assent.delivery(delivery_id)
    if as_json:
        output.emit(plain(found))
        return
    output.fields(
        {
            "id": found.id,
            "state": found.state,
            "event": f"{found.type} ({found.seq})",
            "breakpoint": found.breakpoint_id,
            "channel": found.channel,
            "recipient": found.recipient,
            "created": found.created_at,
            "next attempt": found.next_attempt_at,
            "last error": found.last_error,
        }
    )
    rows = [_attempt_row(each) for each in found.log]
    output.table(("attempt", "at", "took", "status", "error", "worker"), rows, empty="No attempts yet.")


def _attempt_row(each: Attempt) -> Sequence[str]:
    took = f"{each.milliseconds} ms" if each.milliseconds is not None else ""
    status = str(each.status) if each.status is not None else ""
    return (str(each.n), each.at, took, status, each.error or "", each.worker)


@delivery.command("retry")
def delivery_retry(delivery_id: Id, *, as_json: Json = False) -> None:
    """Retry a dead delivery, or resend a callback or webhook. Only admins can do this."""
    with session() as assent:
        revived = assent.retry_delivery(delivery_id)
    if as_json:
        output.emit(plain(revived))
    else:
        output.say(f"{revived.id} is {output.visible(revived.state)}. A worker will send it shortly.")
