"""The composition root: builds everything, connects it, starts and drains it."""

import asyncio
import contextlib
import gc
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from functools import partial
from types import FrameType

import sqlalchemy as sa
import structlog
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from assent.api.breakpoints import breakpoints
from assent.api.fastlane import HOT_ROUTES, FastLane
from assent.api.files import files
from assent.api.openapi import document
from assent.api.operations import operations
from assent.api.people import people
from assent.api.projects import projects
from assent.api.routing import Services
from assent.api.tokens import tokens
from assent.domain.errors import AssentError, Internal, MethodNotAllowed
from assent.domain.instants import SECOND
from assent.http.auth import Authenticator, Door
from assent.http.edge import Edge
from assent.http.limits import RateLimit
from assent.http.problems import allowed_methods, from_http_exception, from_validation, problem
from assent.http.sessions import Sessions
from assent.http.views import Rendered
from assent.http.waiting import Hub
from assent.ports import Clock, Database, Hint, Ids
from assent.services.breakpoints import SWEEP, BreakpointService
from assent.services.inbox import InboxService
from assent.services.people import PeopleService
from assent.settings import Settings
from assent.store import migrations
from assent.store.postgres import DatabaseClock, PostgresDatabase
from assent.store.sqlite import SqliteDatabase, WriteLock
from assent.store.transaction import Transaction
from assent.telemetry import Metrics, configure_logging
from assent.web.frame import error_page, wants_page
from assent.web.pages import Site
from assent.web.pages import routes as pages

SWEEP_SECONDS = 1.0
UPKEEP_SECONDS = 2.0
RECHECK_SECONDS = 10.0
FORGET_SECONDS = 3600.0
KEYS_LIFE = 7 * 24 * 3600 * SECOND
SIGN_INS_PER_MINUTE = 10
_log = structlog.get_logger()
_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1000


class TimeOrderedIds:
    """48 bits of milliseconds and 80 of chance, in digits and letters that sort as they count."""

    def new(self, prefix: str, at: int) -> str:
        number = ((at // 1000) << 80) | secrets.randbits(80)
        # Two letters at a time: the library's base32 takes ten times as long.
        return f"{prefix}_{''.join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])}"


@contextlib.contextmanager
def _schema_engine(settings: Settings) -> Generator[sa.Engine, None, None]:
    """Open the data outside the database's own connections; on SQLite, as the only writer."""
    if settings.database_url:
        url = settings.database_url.replace("postgres://", "postgresql://", 1)
        yield sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1), poolclass=sa.NullPool)
        return
    lock = WriteLock(settings.sqlite_path.with_suffix(".lock"))
    try:
        with lock:
            yield sa.create_engine(f"sqlite:///{settings.sqlite_path}", poolclass=sa.NullPool)
    finally:
        lock.close()


def migrate(settings: Settings) -> None:
    """Bring the data to the newest schema, creating it where there is none."""
    if not settings.database_url:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _schema_engine(settings) as engine:
        migrations.upgrade(engine)


def schema(settings: Settings) -> tuple[str | None, str | None]:
    """Return the schema's version in the data, and the newest there is; look, but change nothing."""
    if not settings.database_url and not settings.sqlite_path.exists():
        return None, migrations.newest()
    with _schema_engine(settings) as engine:
        return migrations.current(engine), migrations.newest()


class Assent:
    """One node: the database, the services over it, and the application in front."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, ids: Ids | None = None) -> None:
        self.settings = settings
        self.hub = Hub()
        self.metrics = Metrics()
        self.clock = clock or (DatabaseClock() if settings.database_url else SystemClock())
        self.database = self._database(ids or TimeOrderedIds())
        self.breakpoints = BreakpointService()
        self.people = PeopleService(secrets.token_bytes)
        self.inbox = InboxService(self.database, self.clock, self.breakpoints)
        self.authenticator = Authenticator(self.database, self.clock)
        self.services = Services(
            settings=settings,
            clock=self.clock,
            database=self.database,
            breakpoints=self.breakpoints,
            inbox=self.inbox,
            people=self.people,
            authenticator=self.authenticator,
            hub=self.hub,
            metrics=self.metrics,
            creates=RateLimit(settings.creates_per_minute),
            sign_ins=RateLimit(SIGN_INS_PER_MINUTE),
            rendered=Rendered(entries=4_096, largest=16_384),
            summaries=Rendered(entries=16_384, largest=4_096),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _database(self, ids: Ids) -> Database[Transaction]:
        if self.settings.database_url:
            return PostgresDatabase(
                self.settings.database_url,
                clock=self.clock,
                ids=ids,
                on_commit=self._committed,
                on_hint=self.hub.wake,
            )
        return SqliteDatabase(self.settings.sqlite_path, clock=self.clock, ids=ids, on_commit=self._committed)

    def _committed(self, hints: Sequence[Hint]) -> None:
        self.hub.wake(hints)
        for hint in hints:
            if hint.status != "waiting":
                self.metrics.decisions.labels(hint.status.value).inc()

    async def start(self) -> None:
        await self.database.start()
        self._tasks = [asyncio.create_task(job) for job in (self._sweep(), self._upkeep(), self._forget())]
        if self.database.dialect == "postgresql":
            self._tasks.append(asyncio.create_task(self._recheck()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.database.stop()

    async def _sweep(self) -> None:
        """End what is overdue, whether anybody looks at it or not."""
        while True:
            with _patient("sweep"):
                while await self.database.write(self.breakpoints.time_out_due) == SWEEP:
                    pass
            await asyncio.sleep(SWEEP_SECONDS)

    async def _upkeep(self) -> None:
        """Note which tokens were used, and cut what revoked ones hold open."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            with _patient("upkeep"):
                used = self.authenticator.take_used()
                if used:
                    await self.database.write(partial(_touch, used=used))
                for token in self.hub.tokens():
                    if token.startswith("tok_") and not await self.authenticator.still_valid(token):
                        self.hub.cut(token)

    async def _recheck(self) -> None:
        """Cover a node that died between its commit and its notification."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            with _patient("recheck"):
                waited_for = self.hub.waited_for()
                for start in range(0, len(waited_for), 1000):
                    self.hub.wake_ids(await self.inbox.reader.ended_among(waited_for[start : start + 1000]))

    async def _forget(self) -> None:
        """Let go of idempotency keys that nobody will repeat any more."""
        while True:
            with _patient("forget"):
                await self.database.write(_forget_keys)
            await asyncio.sleep(FORGET_SECONDS)

    def application(self) -> ASGIApp:
        app = FastAPI(
            title="Assent",
            version="0.1.0",
            description="Agents stop and ask; people answer.",
            docs_url=None,
            redoc_url=None,
            openapi_url="/openapi.json",
            lifespan=self._lifespan,
            redirect_slashes=False,
        )
        app.router.routes.extend(HOT_ROUTES)
        for routes in (breakpoints, files, people, projects, tokens, operations):
            app.include_router(routes)
        app.router.routes.extend(pages(self._site()))
        app.add_exception_handler(AssentError, _domain_error)
        app.add_exception_handler(RequestValidationError, _validation_error)
        app.add_exception_handler(HTTPException, _http_error)
        app.add_exception_handler(Exception, _internal_error)
        app.openapi = partial(document, app)  # type: ignore[method-assign]
        lane = FastLane(app, self.services)
        return Edge(Door(lane, self.authenticator), metrics=self.metrics, access_log=self.settings.access_log)

    def _site(self) -> Site:
        sessions = Sessions(
            self.database,
            self.people,
            clock=self.clock,
            settings=self.settings,
            sign_ins=self.services.sign_ins,
        )
        return Site(self.clock, self.database, self.breakpoints, self.inbox, self.people, sessions)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncGenerator[None, None]:
        await self.start()
        yield
        await self.stop()


@contextlib.contextmanager
def _patient(job: str) -> Generator[None, None, None]:
    """A background job that fails is logged and tried again."""
    try:
        yield
    except Exception:  # noqa: BLE001  # the worker loop
        _log.exception("background_job_failed", job=job)


def _touch(tx: Transaction, *, used: Sequence[tuple[str, int]]) -> None:
    tx.tokens.touch(used)


def _forget_keys(tx: Transaction) -> None:
    tx.idempotency.forget(tx.now() - KEYS_LIFE)


async def _domain_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, AssentError), "registered for it"
    return problem(error)


async def _validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered for it"
    return problem(from_validation(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    found = from_http_exception(error)
    headers = allowed_methods(request) if isinstance(found, MethodNotAllowed) else None
    return error_page(found) if wants_page(request) else problem(found, headers)


async def _internal_error(request: Request, _: Exception) -> Response:
    """Answer before Starlette does in plain text; it raises the error again, and the edge logs it."""
    request_id: str = request.scope["request_id"]
    return problem(Internal(f"Something went wrong on our side; the log has it under {request_id}."))


class DrainingServer(uvicorn.Server):
    """Answers its waiters as soon as it is told to stop; ASGI's own shutdown comes too late for them."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hub.drain)
        super().handle_exit(sig, frame)


def serve(settings: Settings) -> None:
    """Run a node until it is told to stop."""
    configure_logging(settings.log_format, settings.log_level)
    node = Assent(settings)
    config = uvicorn.Config(
        node.application(),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=round(settings.drain_seconds),
        access_log=False,
        log_level="warning",
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
        server_header=False,
        lifespan="on",
        backlog=4096,
    )
    # What was built stays: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    DrainingServer(config, node.hub).run()
