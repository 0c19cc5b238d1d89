"""The parts and background jobs of a node, which each feature registers."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import sqlalchemy as sa
from argon2 import PasswordHasher

from assent.db.transaction import Transaction
from assent.http.readiness import Readiness
from assent.http.waiters import Hub
from assent.kernel.keyring import Keyring
from assent.kernel.outbound import Outbound
from assent.kernel.parts import Parts
from assent.kernel.ports import Clock, Database, Hint, Ids
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics
from assent.kernel.telemetry.traces import Untraced
from assent.platform.due_jobs import DueJob

Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
Loop: TypeAlias = Callable[[], Awaitable[Any]]


class Registry(Parts):
    """`registry[RuleService]` returns a part; the attributes are available to every feature."""

    settings: Settings
    clock: Clock
    ids: Ids
    database: Database[Transaction]
    engine: sa.Engine
    hub: Hub
    metrics: Metrics
    traces: Untraced
    keyring: Keyring
    outbound: Outbound
    readiness: Readiness
    hasher: PasswordHasher | None
    reads_file: bool
    worker_id: str | None
    """None on a node without a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.random = secrets.token_bytes
        self.due_jobs: list[DueJob] = []
        self.handlers: dict[str, Handler] = {}
        self.loops: list[Loop] = []
        """Loops that run on every node."""
        self.worker_loops: list[Loop] = []
        """Loops that run on nodes with a worker."""
        self.upkeep: dict[str, Loop] = {}
        """Short tasks that run every few seconds."""
        self.on_commit: list[Callable[[Sequence[Hint]], None]] = []
        self.before_worker: list[Loop] = []
        """Steps that run before the worker takes jobs."""
        self.on_stop: list[Loop] = []

    def nudge(self, job: str) -> None:
        """Run a due job immediately, because something came due unexpectedly."""
        raise NotImplementedError

    def patient(self, job: str) -> AbstractContextManager[None]:
        """Log and count the failure of a background job, so that its loop continues."""
        raise NotImplementedError
