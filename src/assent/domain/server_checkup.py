"""What a server's answers tell: whether it is there, is ready, knows the token, and has the same time."""

import email.utils
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from assent.domain.checkup import Finding, Place, fine, problem, warning

TOLERATED_SKEW = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An answer of a server, with this machine's time before and after; no status when there was none."""

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
        return problem("server", place, what, "Start it with assent serve, or set ASSENT_URL to where it is.")
    if seen.status == HTTPStatus.OK and seen.detail.strip() == "ready":
        return fine("server", place, "The server is there and ready.")
    if seen.status == HTTPStatus.SERVICE_UNAVAILABLE:
        what = f"The server is there, but not ready: {seen.detail or 'it does not say why'}"
        return problem("server", place, what, "See its log; until it is ready, every gate blocks.")
    what = f"Something answers with status {seen.status}, but not as Assent does."
    return problem("server", place, what, "Set ASSENT_URL to the server of Assent.")


def skew(seen: Seen) -> float | None:
    """Return by how many seconds the server is ahead, as far as an answer can tell; None when it does not say."""
    try:
        date = email.utils.parsedate_to_datetime(seen.date).timestamp()
    except (ValueError, OverflowError):
        return None
    # It was some time between sending and receiving; the header leaves out the fraction, and may be a second old.
    if date - seen.received > 0:
        return date - seen.received
    return min(0.0, date + 2 - seen.sent)


def clock(seen: Seen) -> Iterator[Finding]:
    ahead = skew(seen)
    place = Place(seen.url)
    if ahead is None:
        what = "The server does not tell its time, so the clocks could not be compared."
        yield warning("clock", place, what, "Let the header Date through, if a proxy takes it out.")
    elif abs(ahead) > TOLERATED_SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        what = f"The server's clock is {abs(ahead):.0f} s {which} this machine's: deadlines and receipts look wrong."
        yield warning("clock", place, what, "Set both clocks by NTP.")
    else:
        yield fine("clock", place, "The server and this machine have the same time.")


def versions(url: str, theirs: str | None, ours: str) -> Iterator[Finding]:
    """Compare what is served with what is installed here: the first two numbers must agree."""
    place = Place(url)
    if theirs is None:
        what = "The server does not tell its version."
        yield warning("version", place, what, "See that it is Assent, and up to date.")
    elif theirs.split(".")[:2] != ours.split(".")[:2]:
        what = f"The server is version {theirs[:30]}, this command is {ours}."
        yield warning("version", place, what, "Install the same version on both sides.")
    else:
        yield fine("version", place, f"The server is version {theirs[:30]}, as fits this command.")
