"""Triggers: external events that start runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.delivery.usecases.channels import ChannelService, Reach
from assent.kernel.ports import Hint
from assent.platform.due_jobs import DueJob
from assent.platform.registry import Registry
from assent.runs.processes import FolderOfProcesses, LastSeen
from assent.runs.usecases.runs import RunService
from assent.triggers.sources.tools import source_tools
from assent.triggers.store.events import SELECT_NEXT_DUE
from assent.triggers.store.sources import SELECT_NEXT_DUE as SELECT_NEXT_TICK
from assent.triggers.store.sources import SELECT_NEXT_SILENT
from assent.triggers.usecases.alerts import LOOK, SilenceService
from assent.triggers.usecases.config_reload import Reloading, Setup
from assent.triggers.usecases.dispatch import BATCH, FORGET_BATCH, TriggeringService
from assent.triggers.usecases.remove_projects import BATCH as CLOSE_BATCH
from assent.triggers.usecases.remove_projects import ProjectService
from assent.triggers.usecases.scheduler import TICK_BATCH, tick_due
from assent.triggers.usecases.sources import SourceService
from assent.triggers.usecases.triggers import TriggerService
from assent.triggers.usecases.watchers import Watching
from assent.triggers.usecases.webhooks import Ingress

FORGET_SECONDS = 3600.0


def register(node: Registry) -> None:
    settings, lifecycle, processes = node.settings, node[BreakpointService], node[FolderOfProcesses]
    tools = source_tools(settings, node.clock, Path.cwd())
    sources_service = node.add(SourceService(tools, node[Reach]))
    node.add(TriggerService(processes))
    removal = node.add(ProjectService(lifecycle))
    # LastSeen, because a transaction must not wait for process files to load.
    dispatch = node.add(TriggeringService(lifecycle, node[RunService], LastSeen(processes)))
    silence = node.add(SilenceService(lifecycle))
    webhooks = node.add(Ingress(node.database, tools, node.clock))
    watchers = node.add(Watching(node.database, tools, node.clock))
    reload = node.add(
        Reloading(
            node.database,
            partial(Setup, channels=node[ChannelService], sources=sources_service),
            processes,
            settings=settings,
            metrics=node.metrics,
            reads_file=node.reads_file,
        )
    )
    node.due_jobs += [
        DueJob("schedules", tick_due, batch=TICK_BATCH, next_due=SELECT_NEXT_TICK),
        DueJob("triggers", dispatch.advance_due, batch=BATCH, next_due=SELECT_NEXT_DUE),
        DueJob("silence", silence.look, batch=LOOK, next_due=SELECT_NEXT_SILENT),
        DueJob("removed-projects", removal.close, batch=CLOSE_BATCH),
        DueJob("forget-events", dispatch.forget, batch=FORGET_BATCH, every=FORGET_SECONDS),
    ]
    node.upkeep["refusals"] = webhooks.note_refusals
    node.before_worker.insert(0, reload.begin)
    node.worker_loops += [reload.run, watchers.run]

    def ended(hints: Sequence[Hint]) -> None:
        # A breakpoint that ends may be the approval for a held firing.
        if dispatch.has_held and any(hint.ended is not None for hint in hints):
            node.nudge("triggers")

    node.on_commit.append(ended)
