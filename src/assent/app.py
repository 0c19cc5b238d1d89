"""The composition root: builds a node, connects its parts, and starts and stops them; `front` adds HTTP."""

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
import structlog
from argon2 import PasswordHasher

from assent.channels.tools import Tools
from assent.clock import SystemClock
from assent.domain.instants import SECOND
from assent.domain.payload_secrets import Redactor
from assent.engine import queue
from assent.engine.processes import FolderOfProcesses, LastSeen
from assent.engine.running import Runner
from assent.engine.worker import Worker
from assent.http.auth import Authenticator
from assent.http.readiness import Readiness
from assent.http.waiting import Hub
from assent.ids import TimeOrderedIds
from assent.keyring import KeyFile, Keyring
from assent.outbound import Outbound
from assent.ports import Clock, Database, Hint, Ids
from assent.services.account_messages import AccountMessages
from assent.services.anchoring import AnchorFile, Anchoring
from assent.services.answering import AnsweringService
from assent.services.audit import AuditService
from assent.services.backtest import BacktestService
from assent.services.breakpoints import SWEEP, BreakpointService
from assent.services.channels import ChannelService, Reach
from assent.services.checking import CheckingService
from assent.services.checkpoints import ANCHOR_JOB, CHECKPOINT_BATCH, CheckpointService
from assent.services.config_file import Given
from assent.services.courier import Courier
from assent.services.delegation import BATCH as DELEGATE_BATCH
from assent.services.delegation import DelegationService
from assent.services.delivery import DeliveryService
from assent.services.history import HistoryService
from assent.services.holding import GIVE_BATCH, HoldingService
from assent.services.inbox import InboxService
from assent.services.ingress import Ingress
from assent.services.links import LinkService
from assent.services.listening import Listeners
from assent.services.oidc import OidcService
from assent.services.people import LINK_JOB, RESET_JOB, PeopleService
from assent.services.preferences import PreferenceService
from assent.services.probing import Prober
from assent.services.projects import BATCH as CLOSE_BATCH
from assent.services.projects import ProjectService
from assent.services.receipts import ReceiptService
from assent.services.reloading import Reloading, Setup
from assent.services.retention import PURGE_BATCH, RetentionService
from assent.services.routes import RouteService
from assent.services.rules import RuleService
from assent.services.runs import WAKE_BATCH, RunService
from assent.services.secrets import SecretService
from assent.services.segments import Desk
from assent.services.sources import SourceService
from assent.services.switchboard import Switchboard
from assent.services.ticking import TICK_BATCH, tick_due
from assent.services.timekeeping import DueJob, Timekeeper
from assent.services.triage import TriageService
from assent.services.trigger_alarms import LOOK as SILENCE_BATCH
from assent.services.trigger_alarms import SilenceService
from assent.services.triggering import BATCH as TRIGGER_BATCH
from assent.services.triggering import FORGET_BATCH as FORGET_EVENTS
from assent.services.triggering import TriggeringService
from assent.services.triggers import TriggerService
from assent.services.views import ViewService
from assent.services.watching import Watching
from assent.services.workers import WorkerPresence
from assent.settings import Settings, resolve
from assent.sources.tools import SourceTools
from assent.store import migrations
from assent.store.breakpoints import SELECT_NEXT_DUE
from assent.store.figures import read_figures
from assent.store.held_answers import SELECT_NEXT_DUE as SELECT_NEXT_HELD
from assent.store.postgres import DatabaseClock, PostgresDatabase, alchemy_url
from assent.store.postgres import engine as postgres_engine
from assent.store.read_only import immutable_engine
from assent.store.routings import SELECT_NEXT_DUE as SELECT_NEXT_STEP
from assent.store.runs import JOB as RUN_JOB
from assent.store.runs import SELECT_NEXT_DUE as SELECT_NEXT_RUN
from assent.store.search_index import index_recent
from assent.store.server_lock import DataInUse, ServerLock, holder_of
from assent.store.sources import SELECT_NEXT_DUE as SELECT_NEXT_TICK
from assent.store.sources import SELECT_NEXT_SILENT
from assent.store.sqlite import SqliteDatabase, WriteLock, create_private, locked_engine, schema_engine
from assent.store.tables import metadata
from assent.store.transaction import Transaction
from assent.store.trigger_events import SELECT_NEXT_DUE as SELECT_NEXT_TRIGGER
from assent.telemetry import Metrics, about, tracing

UPKEEP_SECONDS = 2.0
RECHECK_SECONDS = 10.0
AGENT_GRACE_SECONDS = 20.0
"""A polling agent returns within 10 seconds, and a waiting agent immediately."""
FORGET_SECONDS = 3600.0
PURGE_SECONDS = 60.0
PROCESSES_SECONDS = 1.0
FIGURES_SECONDS = 5.0
HEAL_SECONDS = 30.0
NEVER_FULL = sys.maxsize
"""The batch size of a job that does all of its work at once."""
KEYS_LIFE = 30 * 24 * 3600 * SECOND
HEARD_LIFE = 31 * 24 * 3600 * SECOND
"""Longer than any channel redelivers a message; Jira does so for 30 days."""
_log = structlog.get_logger()


class MissingTables(NamedTuple):
    own: list[str]
    engine: list[str]
    """The tables of DBOS, which stores the jobs."""


@contextlib.contextmanager
def _schema_engine(settings: Settings, *, read_only: bool = False) -> Generator[sa.Engine, None, None]:
    """Open the data independently of a node's connections; on SQLite, hold the write lock unless `read_only`."""
    if settings.database_url:
        yield sa.create_engine(alchemy_url(settings.database_url), poolclass=sa.NullPool)
        return
    if read_only:
        yield immutable_engine(settings.sqlite_path)
        return
    lock = WriteLock(settings.write_lock_path)
    try:
        with lock:
            yield schema_engine(settings.sqlite_path)
    finally:
        lock.close()


def prepare_directory(settings: Settings) -> None:
    """Create the directory of the SQLite file, accessible only to its owner."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)


def serving_alone(settings: Settings) -> contextlib.AbstractContextManager[ServerLock | None]:
    """Take the lock that allows one server per SQLite directory; on PostgreSQL, any number of nodes may run."""
    if settings.database_url:
        return contextlib.nullcontext()
    prepare_directory(settings)
    create_private(settings.sqlite_path)
    return ServerLock(settings.server_lock_path, settings.sqlite_path)


def migrate(settings: Settings) -> None:
    """Migrate the data to the newest schema, creating it if it does not exist."""
    if not settings.database_url:
        prepare_directory(settings)
        _refuse_migrating_under_server(settings)
        create_private(settings.sqlite_path)
    with _schema_engine(settings) as engine:
        migrations.upgrade(engine)
        if settings.database_url:
            with engine.begin() as connection:
                index_recent(connection)
        with migrations.alone(engine):
            queue.prepare(engine, settings.database_url)


def schema(settings: Settings, *, read_only: bool = False) -> tuple[str | None, str | None]:
    """Return the schema version of the data and the newest version, without changing anything."""
    if not settings.database_url and not settings.sqlite_path.exists():
        return None, migrations.newest()
    with _schema_engine(settings, read_only=read_only) as engine:
        return migrations.current(engine), migrations.newest()


def _refuse_migrating_under_server(settings: Settings) -> None:
    """Raise if a server is using an older schema: it would keep writing to the migrated tables."""
    holder = holder_of(settings.server_lock_path)
    if holder is None or holder.pid == os.getpid():
        return
    current, newest = schema(settings)
    if current not in {None, newest}:
        msg = (
            f"The data in {settings.data_dir} must be migrated from version {current} to {newest}, but a server"
            f" running another version is using it ({holder}). Stop that server first."
        )
        raise DataInUse(msg)


def missing_tables(settings: Settings, *, read_only: bool = False) -> MissingTables:
    """Return the tables of the newest schema that the data does not have."""
    with _schema_engine(settings, read_only=read_only) as engine, engine.connect() as connection:
        found = sa.inspect(connection)
        own = set(found.get_table_names())
        jobs = set(found.get_table_names(schema=queue.SCHEMA)) if settings.database_url else own
    return MissingTables(sorted(set(metadata.tables) - own), sorted(queue.TABLES - jobs))


def key_file(settings: Settings) -> KeyFile:
    return KeyFile(settings.key_path, secrets.token_bytes)


def keyring_of(settings: Settings) -> Keyring:
    """Return the keyring: keys from the settings, or on SQLite from a file that is created when first needed."""
    references = settings.secret_keys
    if references is not None:
        return Keyring(lambda: [(each, resolve(each)) for each in references], secrets.token_bytes)
    if settings.database_url:
        # Nodes do not share a disk: if each had its own key, they could not read one another's secrets.
        return Keyring(list, secrets.token_bytes)
    file = key_file(settings)
    return Keyring(file.read, secrets.token_bytes, make=file.make)


def source_tools(settings: Settings, clock: Clock, base: Path) -> SourceTools:
    return SourceTools(resolve, clock.now, base, Redactor(settings.redact_patterns or ()))


def setup_of(settings: Settings, given: Given, *, base: Path) -> Setup:
    """Read channels, routes, sources and triggers without a node; its `problems` list the mistakes in them."""
    outbound = Outbound(allow=settings.outbound_networks)
    clock, reach = SystemClock(), Reach(settings.data_dir)
    tools = Tools(outbound, resolve, clock.now, secrets.token_bytes, settings.base_url)
    sources = SourceService(source_tools(settings, clock, base), reach)
    return Setup(given, ChannelService(tools, reach), sources)


class Assent:
    """One node: the database, the services that use it, and the background jobs."""

    def __init__(  # noqa: PLR0913, PLR0915  # one line per part of the node
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        worker: bool = False,
        reads_file: bool = True,
        read_only: bool = False,
        hasher: PasswordHasher | None = None,
    ) -> None:
        self.settings = settings
        self.hub = Hub()
        self.agent_grace_seconds = AGENT_GRACE_SECONDS
        self.metrics = Metrics()
        self.traces = tracing(settings.otel_endpoint)
        self.clock = clock or (DatabaseClock() if settings.database_url else SystemClock())
        self.ids = ids or TimeOrderedIds()
        self.engine, self.database = self._database(self.ids, read_only=read_only)
        self.database.watch(self.metrics.batch, lambda: self.timekeeper.nudge("triggers"))
        self.rules = RuleService()
        self.breakpoints = BreakpointService(self.rules)
        self.holding = HoldingService(self.breakpoints, settings.undo_seconds)
        self.triage = TriageService(self.breakpoints)
        self.views = ViewService()
        self.people = PeopleService(secrets.token_bytes, hasher)
        self.projects = ProjectService(self.breakpoints)
        self.retention = RetentionService()
        self.audit = AuditService(self.database, anchor_file=settings.checkpoint_file)
        self.checking = CheckingService(self.audit, clock=self.clock, ids=self.ids)
        self.backtests = BacktestService(self.database)
        self.keyring = keyring_of(settings)
        if not read_only:  # a read-only node opens no secrets, and may not be allowed to read the keys
            self.keyring.load()
        self.secrets = SecretService(self.keyring, secrets.token_bytes)
        self.receipts = ReceiptService(self.keyring, secrets.token_bytes, good_for=settings.receipt_seconds)
        self.checkpoints = CheckpointService(
            self.keyring, secrets.token_bytes, tells=settings.checkpoint_webhook is not None
        )
        self.inbox = InboxService(self.database, self.clock, self.breakpoints)
        self.history = HistoryService(self.database, self.inbox)
        self.outbound = Outbound(allow=settings.outbound_networks)
        self.anchoring = Anchoring(
            self.database,
            self.outbound,
            clock=self.clock,
            file=AnchorFile(settings.checkpoint_file) if settings.checkpoint_file else None,
            webhook=settings.checkpoint_webhook,
            metrics=self.metrics,
        )
        self.oidc = (
            OidcService(settings, self.outbound, clock=self.clock, random=secrets.token_bytes)
            if settings.oidc_issuer
            else None
        )
        self.deliveries = DeliveryService(self.secrets, settings.base_url)
        self.delegation = DelegationService()
        tools = Tools(self.outbound, resolve, self.clock.now, secrets.token_bytes, settings.base_url)
        self.switchboard = Switchboard(tools)
        reach = Reach(settings.data_dir, settings.channel_secrets or ())
        self.channels = ChannelService(tools, reach)
        self.links = LinkService(self.people, self.channels, secrets.token_bytes)
        self.answering = AnsweringService(
            self.database,
            self.breakpoints,
            self.switchboard,
            clock=self.clock,
            base_url=settings.base_url,
            links=self.links,
        )
        self.listeners = Listeners(self.database, self.switchboard, self.answering, clock=self.clock)
        self.sources = SourceService(source_tools(settings, self.clock, Path.cwd()), reach)
        self.watching = Watching(self.database, source_tools(settings, self.clock, Path.cwd()), self.clock)
        self.preferences = PreferenceService(self.people)
        self.routes = RouteService()
        self.prober = Prober(
            self.database,
            self.channels,
            self.switchboard,
            clock=self.clock,
            ids=self.ids,
            base_url=settings.base_url,
        )
        self.runs = RunService(self.breakpoints)
        self.processes = FolderOfProcesses(settings.process_folder)
        self.triggers = TriggerService(self.processes)
        self.triggering = TriggeringService(self.breakpoints, self.runs, LastSeen(self.processes))
        self.silence = SilenceService(self.breakpoints)
        self.reloading = Reloading(
            self.database,
            partial(Setup, channels=self.channels, sources=self.sources),
            self.processes,
            settings=settings,
            metrics=self.metrics,
            reads_file=reads_file,
        )
        desk = Desk(self.database, self.breakpoints, self.clock)
        self.runner = Runner(desk, self.processes, settings.data_dir / "runs")
        self.timekeeper = Timekeeper(self.database, self.clock, self._due_jobs(), patient=self._patient)
        self.ingress = Ingress(self.database, source_tools(settings, self.clock, Path.cwd()), self.clock)
        self.authenticator = Authenticator(self.database, self.clock)
        self.readiness = Readiness(
            self.database,
            self.hub,
            folder=None if settings.database_url else settings.data_dir,
            min_free_mb=settings.min_free_mb,
            keys_missing=settings.keys_missing,
        )
        self.worker = self._worker() if worker else None
        if self.worker is not None:
            self.readiness.worker_is_well = self.worker.is_well
        self._tasks: list[asyncio.Task[None]] = []
        self.start_error: BaseException | None = None
        """Why `start` failed; `serve` raises it."""

    def _database(self, ids: Ids, *, read_only: bool) -> tuple[sa.Engine, Database[Transaction]]:
        """Return the engine that DBOS uses, and Assent's own connections to the same database."""
        if self.settings.database_url:
            engine = postgres_engine(self.settings.database_url)
            return engine, PostgresDatabase(
                self.settings.database_url,
                clock=self.clock,
                ids=ids,
                jobs=queue.JobQueue(engine, self.traces.traceparent),
                on_commit=self._committed,
                on_hint=self.hub.wake,
            )
        lock = WriteLock(None if read_only else self.settings.write_lock_path)
        engine = locked_engine(self.settings.sqlite_path, lock)
        return engine, SqliteDatabase(
            self.settings.sqlite_path,
            lock=lock,
            clock=self.clock,
            ids=ids,
            jobs=queue.JobQueue(engine, self.traces.traceparent),
            on_commit=self._committed,
            read_only=read_only,
        )

    def _worker(self) -> Worker:
        """Return the worker, which takes jobs of all nodes."""
        worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        courier = Courier(
            self.database,
            self.deliveries,
            self.outbound,
            switchboard=self.switchboard,
            worker=worker_id,
            metrics=self.metrics,
        )
        courier.on_said = self.answering.take_reply
        messages = AccountMessages(self.database, self.people, self.switchboard, base_url=self.settings.base_url)
        return Worker(
            self.engine,
            worker_id=worker_id,
            handlers={
                "deliver": courier.deliver,
                "digest": courier.digest,
                RUN_JOB: self.runner.advance,
                ANCHOR_JOB: self.anchoring.send,
                LINK_JOB: messages.mail_link,
                RESET_JOB: messages.tell_reset,
            },
            presence=WorkerPresence(self.database, host=socket.gethostname(), pid=os.getpid()),
            telemetry=(self.metrics, self.traces),
        )

    def _committed(self, hints: Sequence[Hint]) -> None:
        self.hub.wake(hints)
        self.metrics.committed(hints)
        if self.delegation.has_channels:
            self.timekeeper.nudge("delegate")
        if self.triggering.has_held and any(hint.ended is not None for hint in hints):
            self.timekeeper.nudge("triggers")

    async def start(self) -> None:
        await self.database.start()
        jobs = (self._warm(), self.timekeeper.run(), self._upkeep(), self._watch(), self._look_at_processes())
        self._tasks = [asyncio.create_task(job) for job in jobs]
        if self.settings.checkpoint_file is not None:
            self._tasks.append(asyncio.create_task(self.anchoring.run(self._patient)))
        if self.database.dialect == "postgresql":
            self._tasks.append(asyncio.create_task(self._recheck()))
        if self.worker is not None:
            await self.reloading.begin()
            if self.database.dialect == "sqlite":
                await self.database.write(self.runs.abandon)
            await self.worker.start()
            watchers = (self.listeners.run(), self.reloading.run(), self.watching.run())
            self._tasks += [asyncio.create_task(job) for job in watchers]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.worker is not None:
            await self.worker.stop(patience=self.settings.drain_seconds)
            await self.runner.stop()
        await self.checking.stop()
        await self.outbound.close()
        self.engine.dispose()
        await self.database.stop()
        await self.traces.stop()

    def _due_jobs(self) -> list[DueJob]:
        """Return the jobs that run at a certain time, independently of requests."""
        jobs = [
            DueJob("sweep", self.breakpoints.time_out_due, batch=SWEEP, next_due=SELECT_NEXT_DUE),
            DueJob("undo", self.holding.commit_due, batch=GIVE_BATCH, next_due=SELECT_NEXT_HELD),
            DueJob("runs", self.runs.wake_due, batch=WAKE_BATCH, next_due=SELECT_NEXT_RUN),
            DueJob("delegate", self.delegation.advance_due, batch=DELEGATE_BATCH, next_due=SELECT_NEXT_STEP),
            DueJob("schedules", tick_due, batch=TICK_BATCH, next_due=SELECT_NEXT_TICK),
            DueJob("triggers", self.triggering.advance_due, batch=TRIGGER_BATCH, next_due=SELECT_NEXT_TRIGGER),
            DueJob("silence", self.silence.look, batch=SILENCE_BATCH, next_due=SELECT_NEXT_SILENT),
            DueJob("removed-projects", self.projects.close, batch=CLOSE_BATCH),
            DueJob("heal", self.deliveries.heal, batch=NEVER_FULL, every=HEAL_SECONDS),
            DueJob("purge", self.retention.purge_due, batch=PURGE_BATCH, every=PURGE_SECONDS),
            DueJob("forget-events", self.triggering.forget, batch=FORGET_EVENTS, every=FORGET_SECONDS),
            DueJob("forget", _forget_keys, batch=NEVER_FULL, every=FORGET_SECONDS),
        ]
        if every := self.settings.checkpoint_seconds:
            jobs.append(DueJob("checkpoint", self.checkpoints.make, batch=CHECKPOINT_BATCH, every=every))
        return jobs

    async def _warm(self) -> None:
        """Load the rules before the first request needs them."""
        with self._patient("rules"):
            await self.database.read(self.rules.warm)

    async def _look_at_processes(self) -> None:
        """Load new processes in a separate thread, so that a run that starts finds its process loaded."""
        while True:
            with self._patient("processes"):
                await asyncio.to_thread(self.processes.every)
            await asyncio.sleep(PROCESSES_SECONDS)

    async def _upkeep(self) -> None:
        """Record used tokens and absent agents, and close the connections of revoked tokens."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            with self._patient("upkeep"):
                used = self.authenticator.take_used()
                if used:
                    await self.database.write(partial(_touch, used=used))
                await self.ingress.note_refusals()
                for token in self.hub.tokens():
                    if token.startswith("tok_") and not await self.authenticator.still_valid(token):
                        self.hub.cut(token)
            with self._patient("absent_agents"):
                await self.note_absent_agents(self.agent_grace_seconds)

    async def _recheck(self) -> None:
        """Wake clients whose breakpoints were ended by a node that died between its commit and its notification."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            with self._patient("recheck"):
                waited_for = self.hub.waited_for()
                for start in range(0, len(waited_for), 1000):
                    self.hub.wake_ids(await self.inbox.reader.ended_among(waited_for[start : start + 1000]))

    async def note_absent_agents(self, grace: float = AGENT_GRACE_SECONDS) -> None:
        """Mark breakpoints whose agents have left this node, and unmark those whose agents are connected to it."""
        absent = self.hub.take_absent(grace)
        present = sorted(set(self.hub.present()))
        back = await self.database.read(lambda tx: list(tx.absent_agents.since(present))) if present else []
        absent = sorted(set(absent).difference(present))
        if absent or back:
            await self.database.write(partial(_note_absent_agents, absent=absent, back=back))

    async def _watch(self) -> None:
        """Refresh the metrics that come from the database, so that reading them never waits for it."""
        while True:
            with self._patient("figures"):
                await self.measure()
            await asyncio.sleep(FIGURES_SECONDS)

    async def measure(self) -> None:
        self.metrics.figures(await read_figures(self.database, self.clock.now()))

    @contextlib.contextmanager
    def _patient(self, job: str) -> Generator[None, None, None]:
        """Log and count the failure of a background job, so that its loop continues."""
        with about(job=job):
            try:
                yield
            except Exception:  # noqa: BLE001  # the loop must continue
                self.metrics.job_failed(job)
                _log.exception("background_job_failed")


def _touch(tx: Transaction, *, used: Sequence[tuple[str, int]]) -> None:
    tx.tokens.touch(used)


def _note_absent_agents(tx: Transaction, *, absent: Sequence[str], back: Sequence[str]) -> None:
    tx.hints += tx.absent_agents.mark(absent, now=tx.now())
    tx.hints += tx.absent_agents.unmark(back)


def _forget_keys(tx: Transaction) -> int:
    """Delete idempotency keys, link offers and deduplication records that are no longer needed."""
    tx.heard.forget(tx.now() - HEARD_LIFE)
    tx.links.forget_offers(tx.now())
    return tx.idempotency.forget(tx.now() - KEYS_LIFE)
