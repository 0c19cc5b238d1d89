"""The open transaction that a use case works with, and the modules of the store in it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from assent.domain.access import TIMEOUT, Principal
from assent.domain.breakpoint import Outline
from assent.ports import Clock, Ended, Hint, Ids, Jobs, Session
from assent.store.absent_agents import AbsentAgents
from assent.store.admin_log import AdminLog
from assent.store.audit import Audit
from assent.store.audit_export import AuditExport
from assent.store.backtest import Backtests
from assent.store.breakpoints import Breakpoints
from assent.store.channels import Channels
from assent.store.checkpoints import Checkpoints
from assent.store.deliveries import Deliveries
from assent.store.epochs import Epochs
from assent.store.event_log import EventLog
from assent.store.files import Files
from assent.store.firings import Firings
from assent.store.heard import Heard
from assent.store.held_answers import HeldAnswers
from assent.store.history import History
from assent.store.idempotency import Idempotency
from assent.store.identities import Identities
from assent.store.imports import Imports
from assent.store.links import Links
from assent.store.metrics import Metrics
from assent.store.pace import Paces
from assent.store.people import People
from assent.store.preferences import PreferenceStore
from assent.store.projects import Projects
from assent.store.receipts import Receipts
from assent.store.retention import Holds, Retention
from assent.store.routes import Routes
from assent.store.routings import Routings
from assent.store.rules import Rules
from assent.store.runs import Runs
from assent.store.secrets import Secrets
from assent.store.sessions import Sessions
from assent.store.sources import Sources
from assent.store.tokens import Tokens
from assent.store.triage import Triage
from assent.store.trigger_events import TriggerEvents
from assent.store.triggers import Triggers
from assent.store.unsent_answers import UnsentAnswers
from assent.store.views import Views
from assent.store.workers import Workers


class Transaction:
    """Use cases never commit: the database does when the use case returns."""

    def __init__(self, session: Session, clock: Clock, ids: Ids, jobs: Jobs) -> None:
        self.session = session
        self.hints: list[Hint] = []
        self.by: Principal | None = None
        """The principal that admin events are recorded for; None means the system."""
        self._clock = clock
        self._ids = ids
        self._jobs = jobs

    def now(self) -> int:
        return self._clock.now()

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._clock.now())

    def id_at(self, prefix: str, at: int) -> str:
        """Return an id as it would have been created at that time, as a position in the order of ids."""
        return self._ids.new(prefix, at)

    def changed(self, breakpoint_: Outline, *, quietly: bool = False) -> None:
        """After the commit, wake clients that wait for this breakpoint, or `quietly` only inboxes that show it."""
        events, self.session.recorded = self.session.recorded, 0
        self.hints.append(
            Hint(
                breakpoint_.project,
                breakpoint_.id,
                breakpoint_.status,
                breakpoint_.version,
                events,
                _end(breakpoint_) if breakpoint_.ended_at is not None else None,
                quietly,
            )
        )

    def enqueue(self, job: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Queue a job that a worker runs only after the commit; the same key is queued only once."""
        self.session.dirty = True
        self._jobs.put(self.session.alchemy(), job, key=key, payload=payload, delay=delay)

    def open_jobs(self, job: str) -> frozenset[str]:
        """Return the keys of unfinished jobs of this name."""
        return self._jobs.open(self.session.alchemy(), job)

    def acting(self, by: Principal) -> None:
        """Record the admin events of this use case as actions of this principal."""
        self.by = by

    @cached_property
    def admin_log(self) -> AdminLog:
        return AdminLog(self.session, self.now, lambda: self.by)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self.session)

    @cached_property
    def audit_export(self) -> AuditExport:
        return AuditExport(self.session)

    @cached_property
    def backtests(self) -> Backtests:
        return Backtests(self.session)

    @cached_property
    def breakpoints(self) -> Breakpoints:
        return Breakpoints(self.session, self.deliveries, self.routings, self.runs)

    @cached_property
    def channels(self) -> Channels:
        return Channels(self.session, self.admin_log)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.session, self.admin_log)

    @cached_property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.session, self.new_id, self.enqueue)

    @cached_property
    def workers(self) -> Workers:
        return Workers(self.session)

    @cached_property
    def epochs(self) -> Epochs:
        return Epochs(self.session, self.admin_log)

    @cached_property
    def event_log(self) -> EventLog:
        return EventLog(self.session)

    @cached_property
    def files(self) -> Files:
        return Files(self.session)

    @cached_property
    def firings(self) -> Firings:
        return Firings(self.session)

    @cached_property
    def heard(self) -> Heard:
        return Heard(self.session)

    @cached_property
    def held_answers(self) -> HeldAnswers:
        return HeldAnswers(self.session)

    @cached_property
    def history(self) -> History:
        return History(self.session)

    @cached_property
    def holds(self) -> Holds:
        return Holds(self.session, self.admin_log)

    @cached_property
    def idempotency(self) -> Idempotency:
        return Idempotency(self.session)

    @cached_property
    def imports(self) -> Imports:
        return Imports(self.session, self.breakpoints, self.new_id, self.admin_log)

    @cached_property
    def links(self) -> Links:
        return Links(self.session, self.admin_log)

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(self.session)

    @cached_property
    def identities(self) -> Identities:
        return Identities(self.session, self.admin_log)

    @cached_property
    def people(self) -> People:
        return People(self.session, self.admin_log)

    @cached_property
    def preferences(self) -> PreferenceStore:
        return PreferenceStore(self.session, self.admin_log)

    @cached_property
    def projects(self) -> Projects:
        return Projects(self.session, self.admin_log)

    @cached_property
    def receipts(self) -> Receipts:
        return Receipts(self.session, self.admin_log)

    @cached_property
    def routings(self) -> Routings:
        return Routings(self.session)

    @cached_property
    def paces(self) -> Paces:
        return Paces(self.session)

    @cached_property
    def routes(self) -> Routes:
        return Routes(self.session, self.admin_log)

    @cached_property
    def rules(self) -> Rules:
        return Rules(self.session, self.admin_log)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.session, self.enqueue)

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self.session, self.admin_log)

    @cached_property
    def retention(self) -> Retention:
        return Retention(self.session)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.session)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.session, self.admin_log)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self.session, self.admin_log)

    @cached_property
    def absent_agents(self) -> AbsentAgents:
        return AbsentAgents(self.session)

    @cached_property
    def triage(self) -> Triage:
        return Triage(self.session)

    @cached_property
    def trigger_events(self) -> TriggerEvents:
        return TriggerEvents(self.session)

    @cached_property
    def triggers(self) -> Triggers:
        return Triggers(self.session, self.admin_log)

    @cached_property
    def unsent_answers(self) -> UnsentAnswers:
        return UnsentAnswers(self.session)

    @cached_property
    def views(self) -> Views:
        return Views(self.session)


def _end(ended: Outline) -> Ended:
    assert ended.ended_at is not None, "ended breakpoints have an end time"
    assert ended.ended_by is not None, "ended breakpoints have an actor"
    return Ended(
        decision=ended.decision.value if ended.decision else None,
        by=ended.ended_by.kind.value,
        after=ended.ended_at - ended.created_at,
        late=ended.ended_at - ended.due_at if ended.ended_by == TIMEOUT else None,
    )
