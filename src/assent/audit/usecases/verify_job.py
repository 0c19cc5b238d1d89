"""Runs verifications that are started from a page, one at a time, and tracks their progress and findings."""

import asyncio
import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field

import structlog

from assent.audit.usecases.verify import Audited, AuditService
from assent.core.access import Permission, Principal
from assent.core.errors import Conflict, NotFound
from assent.kernel.ports import Clock, Ids

LONGEST_SECONDS = 15 * 60
REMEMBERED = 50
_log = structlog.get_logger()


@dataclass(slots=True)
class Checking:
    """A verification, kept only in the memory of the node that runs it."""

    id: str
    project: str
    started_by: str
    started_at: int
    so_far: Audited = field(default_factory=Audited)
    ended_at: int | None = None
    trouble: str | None = None

    @property
    def good(self) -> bool:
        return self.ended_at is not None and self.trouble is None and not self.so_far.findings


class CheckingService:
    def __init__(self, audit: AuditService, *, clock: Clock, ids: Ids) -> None:
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._known: OrderedDict[str, Checking] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, by: Principal) -> Checking:
        by.require(Permission.AUDIT)
        if self._task is not None and not self._task.done():
            msg = "Another verification is already running on this server. Wait for it to finish."
            raise Conflict(msg)
        now = self._clock.now()
        made = Checking(self._ids.new("chk", now), by.project, str(by.actor), now)
        self._known[made.id] = made
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        self._task = asyncio.create_task(self._run(made))
        return made

    def get(self, checking_id: str, *, by: Principal) -> Checking:
        by.require(Permission.AUDIT)
        found = self._known.get(checking_id)
        if found is None or found.project != by.project:
            msg = (
                "Verification not found. It may have run on another node, or the server may have restarted. Start a "
                "new one, or run assent audit verify on the server."
            )
            raise NotFound(msg)
        return found

    def latest(self, *, by: Principal) -> Checking | None:
        by.require(Permission.AUDIT)
        return next((each for each in reversed(self._known.values()) if each.project == by.project), None)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, made: Checking) -> None:
        def progress(audited: Audited) -> None:
            made.so_far = audited

        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                made.so_far = await self._audit.verify(project=made.project, progress=progress)
        except TimeoutError:
            minutes = LONGEST_SECONDS // 60
            made.trouble = (
                f"Stopped after {minutes} minutes. Run assent audit verify on the server; it has no time limit."
            )
        except Exception:  # noqa: BLE001  # the last handler of a background task
            _log.exception("verification_failed")
            made.trouble = (
                "The verification could not be completed; see the server log. The remaining checks did not run."
            )
        made.ended_at = self._clock.now()
