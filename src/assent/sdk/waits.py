"""Waiting for an answer with long polls or the event stream; both continue after restarts and never spin."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from assent.contracts.breakpoints import Breakpoint, Event, Events, Feedback, Status
from assent.sdk.errors import AlreadyEnded, IdempotencyMismatch, ProjectRemoved, StillWaiting, UnexpectedAnswer
from assent.sdk.protocol import (
    LONGEST_PAUSE,
    NOT_ASSENT,
    Deed,
    Flow,
    Lines,
    Lost,
    Outcome,
    Pace,
    Pause,
    Reply,
    Request,
    Said,
    Tell,
    address,
    answers,
    asking_status,
    commenting,
    given_up,
    parsed,
    performed,
    problem,
    reading,
    retry_after,
    trouble,
)

SLICE_SECONDS = 25.0
SILENCE_SECONDS = 45.0
"""A stream that is silent for this long is broken, because the server sends a keep-alive every 15 seconds."""
QUICK_ANSWERS = 20
"""How many early responses in a row are accepted as news before pausing."""
ENDINGS = frozenset({"released", "expired", "cancelled"})


@dataclass(slots=True, kw_only=True)
class Audience:
    """The listeners of a wait; each event and each comment is reported once, starting with the first."""

    on_event: Callable[[Event], object] | None = None
    on_comment: Callable[[Feedback], object] | None = None
    """Called only for comments by people, so that an agent does not answer itself; a returned string is the reply."""
    _told: int = 0
    _read: set[str] = field(default_factory=set[str])

    def hear(self, breakpoint_id: str, status: Status, *, pace: Pace, patience: float) -> Flow[None]:
        if self.on_event is not None:
            request = reading(address(breakpoint_id, "events"))
            # Read all events, because the status says that something happened, but not what.
            events = yield from performed(request, Events, pace=pace, patience=patience)
            for event in events.items[self._told :]:
                self._told += 1
                yield Tell(self.on_event, event)
        # Comments submitted with the decision are in the result, and it is too late to reply to them.
        comments = () if status.ended else status.feedback or ()
        for comment in comments:
            if self.on_comment is not None and comment.id not in self._read and not _by_agent(comment):
                self._read.add(comment.id)
                said = yield Tell(self.on_comment, comment)
                if isinstance(said, Said) and isinstance(said.answer, str):
                    yield from _replied(comment, said.answer, pace=pace, patience=patience)


def _replied(to: Feedback, text: str, *, pace: Pace, patience: float) -> Flow[None]:
    # The key comes from the comment, so that waiting again, such as after a crash, does not send a second reply.
    request = commenting(to.breakpoint_id, text, key=f"reply-{to.id}")
    # A reply that comes too late, or that differs from the one already sent, does not affect the decision.
    with contextlib.suppress(AlreadyEnded, IdempotencyMismatch, ProjectRemoved):
        yield from performed(request, Breakpoint, pace=pace, patience=patience)


def _by_agent(comment: Feedback) -> bool:
    return comment.author.startswith("agent:")


def waiting(
    breakpoint_id: str, *, pace: Pace, patience: float, timeout: float | None = None, audience: Audience | None = None
) -> Flow[Status]:
    """Wait until the breakpoint has ended, even if the server restarts meanwhile."""
    watch = _Watch(pace, patience, ends=None if timeout is None else pace.now() + timeout)
    # Comments from before this wait, or made while a listener runs, would not end a long poll, so look first.
    look = audience is not None
    while True:
        wait = watch.slice(look=look)
        outcome = yield asking_status(breakpoint_id, wait=wait)
        if answers(outcome):
            status = parsed(outcome, Status)
            look = audience is not None and watch.is_news(status)
            if audience is not None and look:
                yield from audience.hear(breakpoint_id, status, pace=pace, patience=patience)
            if status.ended:
                return status
            pause = watch.heard(status, outcome, asked_for=wait)
        else:
            pause = watch.lost(outcome)
        if watch.over():
            msg = f"Timed out after {timeout:g} s; {breakpoint_id} is still waiting."
            raise StillWaiting(msg, breakpointId=breakpoint_id)
        # Pause only after checking the timeout, so that a wait that is over returns immediately.
        if pause is not None:
            yield pause


class _Watch:
    """The state of a wait between its requests."""

    def __init__(self, pace: Pace, patience: float, *, ends: float | None) -> None:
        self._pace = pace
        self._patience = patience
        self._ends = ends
        self._asked = self._heard = pace.now()
        self._failures = self._quick = 0
        self._seen: str | None = None

    def slice(self, *, look: bool) -> float:
        self._asked = self._pace.now()
        return 0.0 if look else self._within(SLICE_SECONDS)

    def over(self) -> bool:
        return self._ends is not None and self._pace.now() >= self._ends

    def is_news(self, status: Status) -> bool:
        return status.updated_at != self._seen

    def heard(self, status: Status, reply: Reply, *, asked_for: float) -> Pause | None:
        """Continue at once after a full slice or news; pause if the server responds early without news."""
        self._heard = self._pace.now()
        # Comments and votes also end a long poll. Before the first response, news cannot be recognized.
        news = self._seen is not None and self.is_news(status) and "retry-after" not in reply.headers
        self._seen = status.updated_at
        # The server held the request, so the next request can follow without a pause.
        if asked_for and self._heard - self._asked >= asked_for / 2:
            self._failures = self._quick = 0
            return None
        # Too many early responses in a row are not news: the timestamp must be changing with every request.
        self._quick += 1
        if (news or not asked_for) and self._quick <= QUICK_ANSWERS:
            return None
        self._failures += 1
        return self._pause(retry_after(reply), "the server responded early")

    def lost(self, outcome: Outcome) -> Pause:
        self._failures += 1
        pause = self._pause(retry_after(outcome), trouble(outcome))
        if self._pace.now() + pause.seconds - self._heard > self._patience:
            raise given_up(outcome)
        return pause

    def _pause(self, at_least: float, because: str) -> Pause:
        return Pause(self._within(self._pace.pause(self._failures, at_least=at_least)), because)

    def _within(self, seconds: float) -> float:
        return seconds if self._ends is None else min(seconds, max(0.0, self._ends - self._pace.now()))


@dataclass(frozen=True, slots=True)
class Listen:
    """Open a stream and leave it open; a successful reply without a body confirms that it is open."""

    request: Request


@dataclass(frozen=True, slots=True)
class Hear:
    """Read the next bytes of the open stream."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Bytes of the stream; empty when it has ended."""

    chunk: bytes


StreamStep: TypeAlias = Deed | Listen | Hear | Event
StreamOutcome: TypeAlias = Outcome | Heard
Following: TypeAlias = Generator[StreamStep, StreamOutcome, None]


def following(breakpoint_id: str, *, after: int, pace: Pace, patience: float) -> Following:
    """Yield every event up to the one that ends the breakpoint; a broken stream resumes where it stopped."""
    tries, over = _Tries(pace, patience), False
    while True:
        last, why = yield from _listened(breakpoint_id, after, tries)
        if why is None or (over and last == after):
            return
        over = False
        if last == after and why == _QUIET:
            # A node that is stopping ends its streams, but so does a node that has no more events to send.
            over = yield from _ended(breakpoint_id, tries)
        after = last
        yield tries.pause(why)


def _listened(
    breakpoint_id: str, after: int, tries: "_Tries"
) -> Generator[StreamStep, StreamOutcome, tuple[int, Reply | Lost | None]]:
    """Read one stream; return the last event's number and why it stopped, or None if the breakpoint has ended."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    request = Request(method="GET", path=address(breakpoint_id, "stream"), headers=headers, patient_for=SILENCE_SECONDS)
    outcome = yield Listen(request)
    if isinstance(outcome, Heard) or not answers(outcome):
        return after, outcome if isinstance(outcome, Reply | Lost) else _QUIET
    _check_stream(outcome)
    lines = _EventLines()
    # Any byte counts as a sign of life, including the keep-alive comments between events.
    while isinstance(heard := (yield Hear()), Heard) and heard.chunk:
        tries.alive()
        for event in lines.add(heard.chunk):
            after = event.seq
            yield event
            if event.type in ENDINGS:
                return after, None
    return after, heard if isinstance(heard, Lost) else _QUIET


_QUIET = Lost("the stream ended", sent=True)


def _check_stream(reply: Reply) -> None:
    if reply.status != HTTPStatus.OK:
        raise problem(reply)
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        raise UnexpectedAnswer(NOT_ASSENT)


def _ended(breakpoint_id: str, tries: "_Tries") -> Generator[StreamStep, StreamOutcome, bool]:
    outcome = yield asking_status(breakpoint_id)
    if isinstance(outcome, Heard) or not answers(outcome):
        return False
    tries.alive()
    return parsed(outcome, Status).ended


class _Tries:
    """Decides when to reconnect and when to give up."""

    def __init__(self, pace: Pace, patience: float) -> None:
        self._pace = pace
        self._patience = patience
        self._heard = self._paused = pace.now()
        self._failures = 0

    def alive(self) -> None:
        self._heard = self._pace.now()

    def pause(self, why: Reply | Lost) -> Pause:
        now = self._pace.now()
        # After a stream that lasted for a while, start counting failures again.
        self._failures = 1 if now - self._paused > 2 * LONGEST_PAUSE else self._failures + 1
        seconds = self._pace.pause(self._failures, at_least=retry_after(why))
        if now + seconds - self._heard > self._patience:
            raise given_up(why)
        # Measured from the end of the pause, which does not count as time that the stream lasted.
        self._paused = now + seconds
        return Pause(seconds, trouble(why))


class _EventLines:
    """Parses the events in a stream's bytes; keep-alives and unknown fields are ignored."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._said: list[bytes] = []

    def add(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        for line in self._lines.add(chunk):
            if line.startswith(b"data:"):
                self._said.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and self._said:
                events.append(_event(b"\n".join(self._said)))
                self._said = []
        return events


def _event(said: bytes) -> Event:
    try:
        return msgspec.json.decode(said, type=Event)
    except msgspec.MsgspecError as error:
        msg = "The stream contains an unknown event. This client may be older than the server."
        raise UnexpectedAnswer(msg) from error
