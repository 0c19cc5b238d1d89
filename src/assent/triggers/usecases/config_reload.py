"""Reloads the sections of assent.yaml that can change while a node is running, either completely or not at all."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import structlog
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

from assent.core.access import Principal, system
from assent.core.canonical import Json
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import ChannelService
from assent.delivery.usecases.configuration import Configuration
from assent.kernel.ports import Database
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics
from assent.kernel.yaml_file import Unreadable
from assent.platform.config_file import NAME, PARTS, ConfigFile, Given, Misplaced, Problems, read_file, unreadable
from assent.runs.ports import ProcessRegistry
from assent.triggers.usecases.configuration import TriggerConfiguration
from assent.triggers.usecases.sources import SourceService

LOOK_SECONDS = 5.0
"""Seconds between checks, because some file systems report changes late or not at all."""
QUIET_MS = 200
"""Milliseconds without changes after which a file that is being written is read."""
_EMPTY: Mapping[str, Json] = {}
_log = structlog.get_logger()
Status: TypeAlias = tuple[int, ...]


class Setup:
    """Everything that assent.yaml configures, parsed and validated."""

    def __init__(self, given: Given, channels: ChannelService, sources: SourceService) -> None:
        self.problems = Problems(given)
        self.told = Configuration(channels, self.problems)
        self.triggered = TriggerConfiguration(sources, self.problems)

    def unfit(self, processes: ProcessRegistry) -> list[str]:
        return [str(each) for each in self.triggered.unfit(processes)]

    def apply(self, tx: Transaction, *, triggers: bool = True) -> None:
        tx.acting(system(NAME))
        self.told.apply(tx)
        self.triggered.apply(tx, triggers=triggers)


class Reloading:
    """Watches the file and the process folder; `run` continues until it is cancelled."""

    def __init__(  # noqa: PLR0913  # dependencies of a node
        self,
        database: Database[Transaction],
        make: Callable[[Given], Setup],
        processes: ProcessRegistry,
        *,
        settings: Settings,
        metrics: Metrics,
        reads_file: bool = True,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Pass `reads_file=False` for commands that do not use anything from assent.yaml."""
        self._database = database
        self._make = make
        self._processes = processes
        self._settings = settings
        self._metrics = metrics
        self._pause = pause
        self._path = Path(NAME).absolute()
        self._seen = self._stamp()
        self._file = read_leniently(self._path) if reads_file else None
        self._elsewhere = elsewhere(settings, self._file)
        self.setup = make(given(settings, self._file, self._elsewhere) if reads_file else Given({}))
        self.problems: list[str] = []
        """Why the file was not applied, as displayed to users. The last valid configuration stays in effect."""
        self._failing = False
        if self.setup.problems.found:
            raise Misplaced("; ".join(self.setup.problems.told()))

    async def begin(self) -> None:
        """Apply the file when a node starts. If any trigger does not match its process, no trigger is changed."""
        self.problems = await asyncio.to_thread(self.setup.unfit, self._processes)
        await self._database.write(partial(self.setup.apply, triggers=not self.problems))
        if self.problems:
            _log.error("triggers_not_applied", problems=self.problems)

    async def run(self) -> None:
        while True:
            try:
                await self._watch(self._folders())
            except Exception:  # noqa: BLE001  # the worker loop
                # Log a repeated failure only once.
                if not self._failing:
                    _log.exception("reloading_failed")
                self._failing = True
                await self._pause(LOOK_SECONDS)

    async def look(self) -> None:
        """Apply the changes since the last check, if any."""
        stamp = await asyncio.to_thread(self._stamp)
        if stamp == self._seen:
            return
        # A changed process matters only if triggers from the file depend on it.
        if stamp[0] != self._seen[0] or self.setup.triggered.triggers:
            await self.reload()
        # Not reached if reloading raises an exception, so that the next check tries again.
        self._seen = stamp

    async def reload(self) -> bool:
        """Read, validate and apply the file; an invalid file changes nothing and is reported."""
        try:
            file = await asyncio.to_thread(read_file, self._path)
        except (Unreadable, OSError) as error:
            return self._refused([str(unreadable(NAME, error))])
        # Deleting all configuration because of a missing or half-written file would be worse than keeping it.
        if self._file is not None and (file is None or not file.value):
            return self._refused(
                [f"{NAME} is {'missing' if file is None else 'empty'}; the last valid configuration stays in effect."]
            )
        setup = await asyncio.to_thread(self._make, given(self._settings, file, self._elsewhere))
        problems = setup.problems.told() or await asyncio.to_thread(setup.unfit, self._processes)
        if problems:
            return self._refused(problems)
        try:
            await self._database.write(setup.apply)
        except Misplaced as error:
            return self._refused([error.message])
        self.setup, self._file, self.problems = setup, file, []
        self._metrics.config_reloaded("applied")
        _log.info("config_reloaded")
        return True

    def told_to(self, by: Principal) -> list[str]:
        """Return the problems. The file configures all projects, so only admins of all projects can see the details."""
        if by.everywhere or not self.problems:
            return list(self.problems)
        return [f"{NAME} is invalid and was not applied. An admin with access to all projects can see the details."]

    def _refused(self, problems: Sequence[str]) -> bool:
        self.problems = list(problems)
        self._metrics.config_reloaded("refused")
        _log.error("config_refused", problems=self.problems)
        return False

    async def _watch(self, folders: Sequence[Path]) -> None:
        """Check after each change in the folders, and at least every LOOK_SECONDS, until the set of folders changes."""
        changes = awatch(
            *folders,
            watch_filter=None,
            step=QUIET_MS,
            rust_timeout=round(LOOK_SECONDS * 1000),
            yield_on_timeout=True,
            recursive=False,
        )
        async with contextlib.aclosing(changes):
            await self.look()
            async for _ in changes:
                self._failing = False
                await self.look()
                if self._folders() != folders:
                    return

    def _folders(self) -> list[Path]:
        """Return the existing folders to watch. The file itself is not watched, because editors often replace files."""
        return [each for each in (self._path.parent, self._settings.process_folder.absolute()) if each.is_dir()]

    def _stamp(self) -> tuple[Status, list[tuple[str, Status]]]:
        """Return a value that changes whenever the file or a process changes."""
        processes = sorted(self._settings.process_folder.glob("*.py"))
        return _status(self._path), [(each.name, _status(each)) for each in processes]


def elsewhere(settings: Settings, file: ConfigFile | None) -> frozenset[str]:
    """Return the sections set by environment variables or passed as settings, which the file does not override."""
    variables = {name.upper() for name in os.environ}
    in_file = file.value if file is not None else _EMPTY
    return frozenset(
        part
        for part in PARTS
        if f"ASSENT_{part.upper()}" in variables or (getattr(settings, part) is not None and part not in in_file)
    )


def given(settings: Settings, file: ConfigFile | None, others: frozenset[str]) -> Given:
    in_file = file.value if file is not None else _EMPTY
    parts = {part: getattr(settings, part) if part in others else in_file.get(part) for part in PARTS}
    return Given(parts, file, frozenset(PARTS) - others)


def read_leniently(path: Path) -> ConfigFile | None:
    """Read the file only for its line numbers; the settings have already loaded it, or do not use it."""
    try:
        return read_file(path)
    except (Unreadable, OSError):
        return None


def _status(path: Path) -> Status:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
