"""Audit: verification, signed checkpoints, export, retention and legal holds."""

from functools import partial

from assent.audit.usecases.checkpoints import ANCHOR_JOB, CHECKPOINT_BATCH, CheckpointService
from assent.audit.usecases.event_log import EventLogService
from assent.audit.usecases.publish_checkpoint import AnchorFile, Anchoring
from assent.audit.usecases.retention import PURGE_BATCH, RetentionService
from assent.audit.usecases.verify import AuditService
from assent.audit.usecases.verify_job import CheckingService
from assent.platform.due_jobs import DueJob
from assent.platform.registry import Registry

PURGE_SECONDS = 60.0


def register(node: Registry) -> None:
    settings = node.settings
    verification = node.add(AuditService(node.database, anchor_file=settings.checkpoint_file))
    verify_job = node.add(CheckingService(verification, clock=node.clock, ids=node.ids))
    signer = node.add(CheckpointService(node.keyring, node.random, tells=settings.checkpoint_webhook is not None))
    purge = node.add(RetentionService())
    node.add(EventLogService(node.database))
    publisher = node.add(
        Anchoring(
            node.database,
            node.outbound,
            clock=node.clock,
            file=AnchorFile(settings.checkpoint_file) if settings.checkpoint_file else None,
            webhook=settings.checkpoint_webhook,
            metrics=node.metrics,
        )
    )
    node.due_jobs.append(DueJob("purge", purge.purge_due, batch=PURGE_BATCH, every=PURGE_SECONDS))
    if every := settings.checkpoint_seconds:
        node.due_jobs.append(DueJob("checkpoint", signer.make, batch=CHECKPOINT_BATCH, every=every))
    if settings.checkpoint_file is not None:
        node.loops.append(partial(publisher.run, node.patient))
    node.handlers[ANCHOR_JOB] = publisher.send
    node.on_stop.append(verify_job.stop)
