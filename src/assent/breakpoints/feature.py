"""Breakpoints: created by agents, decided by people, and ended by their deadline."""

import asyncio
import sys
from functools import partial

from assent.breakpoints.absent_agents import AbsentAgentWatch
from assent.breakpoints.store.breakpoints import SELECT_NEXT_DUE
from assent.breakpoints.store.idempotency import Idempotency
from assent.breakpoints.store.undo_window import SELECT_NEXT_DUE as SELECT_NEXT_HELD
from assent.breakpoints.usecases.history import HistoryService
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import SWEEP, BreakpointService
from assent.breakpoints.usecases.metrics import MetricsService
from assent.breakpoints.usecases.triage import TriageService
from assent.breakpoints.usecases.undo_window import GIVE_BATCH, HoldingService
from assent.breakpoints.usecases.views import ViewService
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.platform.due_jobs import DueJob
from assent.platform.registry import Registry
from assent.policy.usecases.rules import RuleService

RECHECK_SECONDS = 10.0
FORGET_SECONDS = 3600.0
IDEMPOTENCY_LIFE = 30 * 24 * 3600 * SECOND
RECHECKED_AT_ONCE = 1000


def register(node: Registry) -> None:
    lifecycle = node.add(BreakpointService(node[RuleService]))
    undo_window = node.add(HoldingService(lifecycle, node.settings.undo_seconds))
    node.add(TriageService(lifecycle))
    node.add(ViewService())
    inbox = node.add(InboxService(node.database, node.clock, lifecycle))
    node.add(HistoryService(node.database, inbox))
    node.add(MetricsService(node.database))
    node.add(AbsentAgentWatch(node.database, node.hub))
    node.due_jobs += [
        DueJob("sweep", lifecycle.time_out_due, batch=SWEEP, next_due=SELECT_NEXT_DUE),
        DueJob("undo", undo_window.commit_due, batch=GIVE_BATCH, next_due=SELECT_NEXT_HELD),
        # A single statement deletes all old keys, so the job never needs a second batch.
        DueJob("forget-keys", _forget_keys, batch=sys.maxsize, every=FORGET_SECONDS),
    ]
    node.upkeep["absent_agents"] = node[AbsentAgentWatch].look
    # With SQLite, a single server makes all changes and wakes its own clients.
    if node.database.dialect == "postgresql":
        node.loops.append(partial(_recheck, node, inbox))


async def _recheck(node: Registry, inbox: InboxService) -> None:
    """Wake clients whose breakpoints were ended by a node that died between the commit and the notification."""
    while True:
        await asyncio.sleep(RECHECK_SECONDS)
        with node.patient("recheck"):
            waited_for = node.hub.waited_for()
            for start in range(0, len(waited_for), RECHECKED_AT_ONCE):
                node.hub.wake_ids(await inbox.reader.ended_among(waited_for[start : start + RECHECKED_AT_ONCE]))


def _forget_keys(tx: Transaction) -> int:
    return tx[Idempotency].forget(tx.now() - IDEMPOTENCY_LIFE)
