"""Checks of a server's responses: whether it is reachable and ready, and whether its clock and version match."""

import email.utils
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from assent.agents.doctor.findings import Finding, Place, fine, problem, warning

TOLERATED_SKEW = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A server's response, and this machine's time before and after the request. Without a response, status is None."""

    url: str
    status: int | None = None
    detail: str = ""
    date: str = ""
    sent: float = 0.0
    received: float = 0.0


def reached(seen: Seen) -> Finding:
    place = Place(seen.url)
    if seen.status is None:
        what = f"The server cannot be reached: {seen.detail}."
        return problem("server", place, what, "Start it with assent serve, or set ASSENT_URL to its URL.")
    if seen.status == HTTPStatus.OK and seen.detail.strip() == "ready":
        return fine("server", place, "The server is running and ready.")
    if seen.status == HTTPStatus.SERVICE_UNAVAILABLE:
        what = f"The server is running, but not ready: {seen.detail or 'the reason is unknown'}"
        return problem("server", place, what, "See the server's log. Until the server is ready, gates block all calls.")
    what = f"The URL responds with status {seen.status}, but does not appear to belong to an Assent server."
    return problem("server", place, what, "Set ASSENT_URL to the URL of the Assent server.")


def skew(seen: Seen) -> float | None:
    """Return how many seconds the server's clock is at least ahead (or behind, if negative), or None without a date."""
    try:
        date = email.utils.parsedate_to_datetime(seen.date).timestamp()
    except (ValueError, OverflowError):
        return None
    # The server set the date between the two times. The date is in whole seconds and may be up to a second old.
    if date - seen.received > 0:
        return date - seen.received
    return min(0.0, date + 2 - seen.sent)


def clock(seen: Seen) -> Iterator[Finding]:
    ahead = skew(seen)
    place = Place(seen.url)
    if ahead is None:
        what = "The server does not send a valid Date header, so the clocks could not be compared."
        yield warning(
            "clock", place, what, "If a proxy removes the Date header, configure it to pass the header through."
        )
    elif abs(ahead) > TOLERATED_SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        what = (
            f"The server's clock is {abs(ahead):.0f} s {which} this machine's, so deadlines and receipts may appear "
            "invalid."
        )
        yield warning("clock", place, what, "Synchronize both clocks with NTP.")
    else:
        yield fine("clock", place, "The server's clock and this machine's clock are in sync.")


def versions(url: str, theirs: str | None, ours: str) -> Iterator[Finding]:
    """Compare the versions of the server and of this command: the first two numbers must be equal."""
    place = Place(url)
    if theirs is None:
        what = "The server does not report its version."
        yield warning("version", place, what, "Check that it is an Assent server and that it is up to date.")
    elif theirs.split(".")[:2] != ours.split(".")[:2]:
        what = f"The server is version {theirs[:30]}, but this command is version {ours}."
        yield warning("version", place, what, "Install the same version on both.")
    else:
        yield fine("version", place, f"The server is version {theirs[:30]}, compatible with this command.")
