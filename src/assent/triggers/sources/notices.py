"""Collects the operating system's notifications about changes in a folder until the changes stop."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

from watchfiles import watch

STEP = 50
"""Interval in milliseconds between checks for notifications."""
BREATH = 200
LONGEST_NOISE = 30.0
"""Seconds after which changes are returned even if they have not stopped."""
LOOK_SECONDS = 30.0
"""Seconds without changes after which `gathered` returns, so that callers can check the folder's identity."""


class Notices:
    """Collects changed paths; `gathered` waits for them."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._bell = asyncio.Event()
        self._failed: Exception | None = None

    def ring(self, paths: set[str]) -> None:
        self._paths |= paths
        self._bell.set()

    def fail(self, error: Exception) -> None:
        self._failed = error
        self._bell.set()

    async def gathered(self, quiet: float) -> set[str]:
        """Wait for changes, then for `quiet` seconds without any. Return an empty set if none occur in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._bell.wait()
        if self._bell.is_set():
            await self._until_quiet(quiet)
        self.check()
        found, self._paths = self._paths, set()
        self._bell.clear()
        return found

    def check(self) -> None:
        if self._failed is not None:
            raise self._failed

    async def _until_quiet(self, quiet: float) -> None:
        # A folder that never stops changing must still be reported.
        last = asyncio.get_running_loop().time() + LONGEST_NOISE
        while self._failed is None:
            self._bell.clear()
            until = min(asyncio.get_running_loop().time() + quiet, last)
            try:
                async with asyncio.timeout_at(until):
                    await self._bell.wait()
            except TimeoutError:
                return


@contextlib.asynccontextmanager
async def notices(folder: Path, *, poll: bool, recursive: bool = True) -> AsyncGenerator[Notices]:
    """Watch a folder in a separate thread. No change is missed once this context has been entered.

    Raise OSError if the folder cannot be watched.
    """
    loop = asyncio.get_running_loop()
    found, begun, stopped = Notices(), asyncio.Event(), threading.Event()

    def tell(paths: set[str]) -> None:
        begun.set()
        if paths:
            found.ring(paths)

    def failed(error: Exception) -> None:
        found.fail(error)
        begun.set()

    def run() -> None:
        try:
            changes = watch(
                folder,
                watch_filter=None,
                debounce=BREATH,
                step=STEP,
                rust_timeout=BREATH,
                yield_on_timeout=True,
                force_polling=poll or None,
                recursive=recursive,
                raise_interrupt=False,
            )
            for batch in changes:
                if stopped.is_set():
                    return
                loop.call_soon_threadsafe(tell, {path for _, path in batch})
        except Exception as error:  # noqa: BLE001  # raised again in the waiting task
            with contextlib.suppress(RuntimeError):  # the event loop may already be closed
                loop.call_soon_threadsafe(failed, _words(error, folder))

    thread = threading.Thread(target=run, name="watching", daemon=True)
    thread.start()
    try:
        await begun.wait()
        found.check()
        yield found
    finally:
        stopped.set()


def _words(error: Exception, folder: Path) -> OSError:
    """Return an error whose message explains what to do."""
    text = str(error)
    if "watch limit" in text or "No space left" in text or "os error 28" in text:
        msg = (
            f"Too many folders to watch in {folder}. Raise fs.inotify.max_user_watches, "
            "watch a smaller folder, or set `poll: true`."
        )
        return OSError(msg)
    if "os error 24" in text or "Too many open files" in text:
        msg = f"No inotify instances left for {folder}. Raise fs.inotify.max_user_instances, or set `poll: true`."
        return OSError(msg)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"Folder not found: {folder}.")
    if isinstance(error, PermissionError):
        msg = f"Permission denied: the user that runs Assent cannot read {folder} or one of its subfolders."
        return PermissionError(msg)
    return OSError(f"Cannot watch {folder}: {text}.")
