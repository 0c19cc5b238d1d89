"""Messages that are to reach somebody: queued with the event they tell of, tried until sent or dead."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assent.domain.breakpoint import Event, Outline
from assent.domain.errors import NotFound
from assent.ports import Session
from assent.store.sql import insert

CALLBACK = "callback"
NOTIFIED = frozenset({"created", "responded", "released", "expired", "cancelled"})
"""The events that whoever gave a callbackUrl hears of."""
STATES = ("pending", "sending", "sent", "answered", "superseded", "dead")
JOB = "deliver"
COLUMNS = (
    "id", "project_id", "breakpoint_id", "channel", "recipient", "seq", "type", "state", "attempts", "next_at",
    "last_error", "created_at", "updated_at",
)  # fmt: skip
_OPEN = "state IN ('pending', 'sending')"
_LISTED = f"SELECT {', '.join(COLUMNS)} FROM assent_deliveries"
_OF_CREATOR = """
    AND EXISTS (SELECT 1 FROM assent_breakpoints AS b
                WHERE b.id = assent_deliveries.breakpoint_id AND b.created_by_id = :created_by_id)"""
INSERT = insert("assent_deliveries", COLUMNS)
SELECT_HEAD = f"""
    {_LISTED} WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND {_OPEN}
    ORDER BY seq LIMIT 1"""
CLAIM = f"""
    UPDATE assent_deliveries SET state = 'sending', attempts = attempts + 1, next_at = :lease, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND next_at <= :now AND {_OPEN}"""
RECORD = """
    UPDATE assent_deliveries SET state = :state, next_at = :next_at, last_error = :error, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND state = 'sending'"""
GIVE_UP = f"""
    UPDATE assent_deliveries SET state = 'dead', last_error = :error, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND {_OPEN}"""
BURY = f"""
    UPDATE assent_deliveries SET state = 'dead', last_error = :error, updated_at = :now
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND {_OPEN}"""
REVIVE = """
    UPDATE assent_deliveries SET state = 'pending', next_at = :now, updated_at = :now
    WHERE id = :id AND project_id = :project_id AND state = 'dead'"""
INSERT_ATTEMPT = insert("assent_attempts", ("delivery_id", "n", "at", "worker", "milliseconds", "status", "error"))
FINISH_ATTEMPT = """
    UPDATE assent_attempts SET milliseconds = :milliseconds, status = :status, error = :error
    WHERE delivery_id = :id AND n = :n"""
SELECT_ATTEMPTS = """
    SELECT n, at, worker, milliseconds, status, error FROM assent_attempts WHERE delivery_id = :id ORDER BY n"""
COUNT_FAILURES = "SELECT count(*) FROM assent_attempts WHERE delivery_id = :id AND error IS NOT NULL"
# Only the first of each line: those behind it wait for it and are not lost.
SELECT_STUCK = f"""
    {_LISTED} AS stuck WHERE {_OPEN} AND next_at < :before AND NOT EXISTS (
        SELECT 1 FROM assent_deliveries AS earlier
        WHERE earlier.breakpoint_id = stuck.breakpoint_id AND earlier.channel = stuck.channel
          AND earlier.recipient = stuck.recipient AND earlier.seq < stuck.seq
          AND earlier.state IN ('pending', 'sending'))
    ORDER BY next_at LIMIT :limit"""


class Enqueue(Protocol):
    def __call__(self, job: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    project: str
    breakpoint_id: str
    channel: str
    recipient: str
    seq: int
    type: str
    state: str
    attempts: int
    next_at: int
    last_error: str | None
    created_at: int
    updated_at: int

    @property
    def line(self) -> dict[str, str]:
        """Which deliveries keep their order among each other."""
        return {"breakpoint_id": self.breakpoint_id, "channel": self.channel, "recipient": self.recipient}


@dataclass(frozen=True, slots=True)
class Attempt:
    n: int
    at: int
    worker: str
    milliseconds: int | None
    status: int | None
    error: str | None


class Deliveries:
    def __init__(self, session: Session, new_id: Callable[[str], str], enqueue: Enqueue) -> None:
        self._session = session
        self._new_id = new_id
        self._enqueue = enqueue

    def tell(self, breakpoint_: Outline, events: Sequence[Event]) -> None:
        """Queue what the events of a breakpoint ask for; inside their own transaction, so that none is lost."""
        if breakpoint_.callback_url is None:
            return
        told = [event for event in events if event.type in NOTIFIED]
        # In order, because those of one instant differ only by chance, and lists go by id.
        ids = sorted(self._new_id("dlv") for _ in told)
        for event, new_id in zip(told, ids, strict=True):
            self._add(new_id, breakpoint_, event, CALLBACK, breakpoint_.callback_url)

    def _add(self, new_id: str, breakpoint_: Outline, event: Event, channel: str, recipient: str) -> None:
        new = Delivery(
            id=new_id,
            project=breakpoint_.project,
            breakpoint_id=breakpoint_.id,
            channel=channel,
            recipient=recipient,
            seq=event.seq,
            type=event.type,
            state="pending",
            attempts=0,
            next_at=event.at,
            last_error=None,
            created_at=event.at,
            updated_at=event.at,
        )
        row = {name: getattr(new, name) for name in COLUMNS if name != "project_id"} | {"project_id": new.project}
        self._session.write(INSERT, [row])
        self.enqueue(new, delay=0)

    def enqueue(self, delivery: Delivery, *, delay: float, why: str = "") -> None:
        """Have a worker look after the line of this delivery."""
        self._enqueue(JOB, key=f"{delivery.id}:{delivery.attempts}{why}", payload=delivery.line, delay=delay)

    def head(self, line: Mapping[str, str]) -> Delivery | None:
        """Return the first of the line that is not done."""
        rows = self._session.all(SELECT_HEAD, line)
        return Delivery(*rows[0]) if rows else None

    def claim(self, delivery: Delivery, *, worker: str, now: int, lease: int) -> bool:
        """Take it for one attempt; False when another worker has it or it is not due."""
        params = {"id": delivery.id, "attempts": delivery.attempts, "now": now, "lease": lease}
        if self._session.change(CLAIM, params) != 1:
            return False
        attempt = {
            "delivery_id": delivery.id,
            "n": delivery.attempts + 1,
            "at": now,
            "worker": worker,
            "milliseconds": None,
            "status": None,
            "error": None,
        }
        self._session.write(INSERT_ATTEMPT, [attempt])
        return True

    def record(self, claimed: Delivery, *, now: int) -> bool:
        """Write down how its attempt ended; False when the claim had run out and another worker has it."""
        params = {
            "id": claimed.id,
            "attempts": claimed.attempts,
            "state": claimed.state,
            "next_at": claimed.next_at,
            "error": claimed.last_error,
            "now": now,
        }
        return self._session.change(RECORD, params) == 1

    def finish_attempt(self, delivery_id: str, attempt: Attempt) -> None:
        row = {
            "id": delivery_id,
            "n": attempt.n,
            "milliseconds": attempt.milliseconds,
            "status": attempt.status,
            "error": attempt.error,
        }
        self._session.write(FINISH_ATTEMPT, [row])

    def give_up(self, delivery: Delivery, *, error: str, now: int) -> None:
        params = {"id": delivery.id, "attempts": delivery.attempts, "error": error, "now": now}
        self._session.write(GIVE_UP, [params])

    def bury(self, delivery: Delivery, *, error: str, now: int) -> None:
        """Give up everything that is still to go to this recipient."""
        self._session.write(BURY, [delivery.line | {"error": error, "now": now}])

    def revive(self, delivery_id: str, *, project: str, now: int) -> bool:
        return self._session.change(REVIVE, {"id": delivery_id, "project_id": project, "now": now}) == 1

    def get(self, delivery_id: str, *, project: str, created_by_id: str | None = None) -> Delivery:
        """Return it, with a creator only if the breakpoint is theirs, or raise NotFound."""
        mine = _OF_CREATOR if created_by_id is not None else ""
        params = {"id": delivery_id, "project_id": project, "created_by_id": created_by_id}
        rows = self._session.all(f"{_LISTED} WHERE id = :id AND project_id = :project_id{mine}", params)
        if not rows:
            msg = f"There is no delivery {delivery_id} in this project."
            raise NotFound(msg)
        return Delivery(*rows[0])

    def attempts(self, delivery_id: str) -> list[Attempt]:
        return [Attempt(*row) for row in self._session.all(SELECT_ATTEMPTS, {"id": delivery_id})]

    def failures(self, delivery_id: str) -> int:
        """How many attempts are known to have failed; of those whose worker died nobody knows."""
        count: int = self._session.all(COUNT_FAILURES, {"id": delivery_id})[0][0]
        return count

    def stuck(self, before: int, *, limit: int) -> list[Delivery]:
        """Return those that should have been looked after before then and were not."""
        rows = self._session.all(SELECT_STUCK, {"before": before, "limit": limit})
        return [Delivery(*row) for row in rows]

    def page(self, project: str, filters: Mapping[str, str], *, after: str, limit: int) -> list[Delivery]:
        """Newest first, those before an id; `created_by_id` among the filters is the breakpoint's creator."""
        wheres = "".join(f" AND {name} = :{name}" for name in ("state", "breakpoint_id", "channel") if name in filters)
        wheres += _OF_CREATOR if "created_by_id" in filters else ""
        before = " AND id < :after" if after else ""
        params = {"project_id": project, "limit": limit, **filters, **({"after": after} if after else {})}
        rows = self._session.all(
            f"{_LISTED} WHERE project_id = :project_id{wheres}{before} ORDER BY id DESC LIMIT :limit", params
        )
        return [Delivery(*row) for row in rows]
