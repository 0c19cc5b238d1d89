"""Reloads the parts of assent.yaml that can change while a node runs: all of them, or nothing."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import structlog
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

from assent.domain.access import Principal, system
from assent.domain.canonical import Json
from assent.domain.yaml_file import Unreadable
from assent.ports import Database, ProcessRegistry
from assent.services.channels import ChannelService
from assent.services.config_file import NAME, PARTS, ConfigFile, Given, Misplaced, Problems, read_file, unreadable
from assent.services.configuration import Configuration
from assent.services.sources import SourceService
from assent.services.trigger_configuration import TriggerConfiguration
from assent.settings import Settings
from assent.store.transaction import Transaction
from assent.telemetry import Metrics

LOOK_SECONDS = 5.0
"""Seconds between checks, because some file systems do not report changes, or report them late."""
QUIET_MS = 200
"""Milliseconds without changes after which a file that was being written is read."""
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
    """Watches the file and the folder of processes; `run` until cancelled."""

    def __init__(  # noqa: PLR0913  # the parts of a node
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
        """`reads_file` is False for a command that needs nothing that assent.yaml configures."""
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
        """Why the file was not applied, to be shown to people; the last valid configuration stays in effect."""
        self._failing = False
        if self.setup.problems.found:
            raise Misplaced("; ".join(self.setup.problems.told()))

    async def begin(self) -> None:
        """Apply the file when a node starts; if a trigger does not fit its process, all triggers stay as they were."""
        self.problems = await asyncio.to_thread(self.setup.unfit, self._processes)
        await self._database.write(partial(self.setup.apply, triggers=not self.problems))
        if self.problems:
            _log.error("triggers_not_applied", problems=self.problems)

    async def run(self) -> None:
        while True:
            try:
                await self._watch(self._folders())
            except Exception:  # noqa: BLE001  # the worker loop
                if not self._failing:
                    _log.exception("reloading_failed")
                self._failing = True
                await self._pause(LOOK_SECONDS)

    async def look(self) -> None:
        """Apply what has changed, if anything has."""
        stamp = await asyncio.to_thread(self._stamp)
        if stamp == self._seen:
            return
        if stamp[0] != self._seen[0] or self.setup.triggered.triggers:
            await self.reload()
        self._seen = stamp

    async def reload(self) -> bool:
        """Read, validate and apply the file; an invalid file changes nothing and is reported."""
        try:
            file = await asyncio.to_thread(read_file, self._path)
        except (Unreadable, OSError) as error:
            return self._refused([str(unreadable(NAME, error))])
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
        """Return the problems; the file concerns all projects, so only their admins see the details."""
        if by.everywhere or not self.problems:
            return list(self.problems)
        return [f"{NAME} is invalid and was not applied. An admin with access to all projects can see the details."]

    def _refused(self, problems: Sequence[str]) -> bool:
        self.problems = list(problems)
        self._metrics.config_reloaded("refused")
        _log.error("config_refused", problems=self.problems)
        return False

    async def _watch(self, folders: Sequence[Path]) -> None:
        """Check after each change in the folders and at least every LOOK_SECONDS, until the set of folders changes."""
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
        """Return the existing folders to watch; not the file, because files are often replaced instead of written."""
        return [each for each in (self._path.parent, self._settings.process_folder.absolute()) if each.is_dir()]

    def _stamp(self) -> tuple[Status, list[tuple[str, Status]]]:
        """Return a value that differs once the file or a process has changed."""
        processes = sorted(self._settings.process_folder.glob("*.py"))
        return _status(self._path), [(each.name, _status(each)) for each in processes]


def elsewhere(settings: Settings, file: ConfigFile | None) -> frozenset[str]:
    """Return the parts given by an environment variable, or with the settings, which the file does not change."""
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
    """Read the file only for its line numbers: the settings have read it already, or were given without it."""
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
