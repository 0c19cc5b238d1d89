"""A full or failing disk under a server on SQLite: everything that the server acknowledges must be stored."""

import contextlib
import errno
import fcntl
import mmap
import shutil
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from assent.kernel.settings import Settings
from tests.faults.load import Ask, Ledger, judge, rows, stored

SOURCE = Path(__file__).with_name("disk.c")
WRITES, SYNCS = 1, 2
FOR_EVER = -1
_CONTROL = struct.Struct("8i")
TRIES = 100


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


@dataclass(frozen=True)
class Fault:
    """Which calls fail, how, and how often."""

    name: str
    kind: int
    error: int
    times: int = 1
    partly: bool = False


FAULTS = (
    Fault("no space for one write", WRITES, errno.ENOSPC),
    Fault("no space in the middle of a write", WRITES, errno.ENOSPC, times=2, partly=True),
    Fault("one write fails", WRITES, errno.EIO),
    Fault("no space, for long", WRITES, errno.ENOSPC, times=FOR_EVER),
    Fault("one sync fails", SYNCS, errno.EIO),
    Fault("syncs fail, for long", SYNCS, errno.EIO, times=FOR_EVER),
)


class Disk:
    """Controls the shim in front of the C library, and reconstructs the files that a power cut would leave."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir()
        self._folder = folder
        self._library = folder / "disk.so"
        compile_with = compiler()
        assert compile_with is not None, "check compiler() first"
        command = [compile_with, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        (folder / "control").write_bytes(bytes(_CONTROL.size))
        shutil.copy(settings.sqlite_path, folder / "left.db")
        with (folder / "control").open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _CONTROL.size)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "DISK_FOLDER": str(self._folder)}

    def fail(self, fault: Fault, *, at: int) -> None:
        """Inject the fault into the call with this number, counting from now."""
        self._control[:] = _CONTROL.pack(0, at, fault.times, fault.error, fault.partly, 0, 0, 0)
        self._control[:4] = struct.pack("i", fault.kind)

    def mend(self) -> None:
        self._control[:4] = struct.pack("i", 0)

    @property
    def failed(self) -> int:
        """The number of calls that have failed since the fault was set."""
        count: int = _CONTROL.unpack(self._control[:])[5]
        return count

    @contextlib.contextmanager
    def power_cut(self) -> Iterator[Settings]:
        """Yield settings for a copy of the data that would remain after a power cut now."""
        left = self._folder / "left"
        left.mkdir()
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in ("left.db", "left.db-wal"):
                shutil.copy(self._folder / name, left / name.replace("left", "assent"))
        try:
            yield Settings(data_dir=left)
        finally:
            shutil.rmtree(left)


@dataclass
class Report:
    faults: int = 0
    """How many times a disk failed."""
    refused: Counter[str] = field(default_factory=Counter[str])
    acknowledged: int = 0
    unready: int = 0
    cuts: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def told(self) -> str:
        answers = ", ".join(f"{what}: {count}" for what, count in sorted(self.refused.items())) or "none"
        return (
            f"disk: {self.faults} faults, {self.cuts} power cuts, {self.acknowledged} acknowledged; refusals {answers};"
            f" {self.unready} times not ready; {len(self.wrong)} wrong"
            f" (0 bounds the rate at {3 / max(1, self.faults):.1e} per fault, 95 %)"
        )


class Asker:
    """A client that sends one request at a time and records the responses."""

    def __init__(self, url: str, tokens: dict[str, str], report: Report, *, callback: str) -> None:
        self.ledger = Ledger()
        self.report = report
        self._client = httpx2.Client(base_url=url, timeout=60)
        self._tokens = tokens
        self._callback = callback
        self.size = 0
        """Size of the notes in each question; large notes fill the log sooner, which triggers checkpoints."""

    def ask(self) -> bool:
        """Create a breakpoint and approve it; return False if either request was refused."""
        number = len(self.ledger.asks)
        ask = Ask(str(number), "approve", callback=bool(self._callback) and number % 4 == 0)
        self.ledger.asks.append(ask)
        return self.create(ask) and self.approve(ask)

    def create(self, ask: Ask) -> bool:
        body: dict[str, object] = {"agentId": "disk", "title": ask.key, "payload": {"notes": "x" * self.size}}
        if ask.callback:
            body["callbackUrl"] = self._callback
        answer = self._post("agent", "", body, f"ask-{ask.key}")
        if answer is not None:
            ask.id = answer.json()["id"]
        return answer is not None

    def approve(self, ask: Ask) -> bool:
        answer = self._post("ann", f"/{ask.id}/feedback", {"approved": True}, f"vote-{ask.key}")
        if answer is not None:
            ask.votes, ask.ended = ["ann"], ("released", answer.json()["decision"])
        return answer is not None

    def finish(self) -> bool:
        """Retry the refused requests with the same keys."""
        return all(
            (ask.id is not None or self.create(ask)) and (ask.ended is not None or self.approve(ask))
            for ask in self.ledger.asks
        )

    def ready(self) -> bool:
        return self._client.get("/readyz").status_code == 200

    def blames_the_disk(self) -> bool:
        """Return whether the server reports that it is not ready because of the disk."""
        answer = self._client.get("/readyz")
        return answer.status_code == 503 and "disk" in answer.json()["detail"]

    def close(self) -> None:
        self._client.close()

    def _post(self, who: str, path: str, body: dict[str, object], key: str) -> httpx2.Response | None:
        headers = {"authorization": f"Bearer {self._tokens[who]}", "idempotency-key": key}
        answer = self._client.post(f"/api/breakpoints{path}", json=body, headers=headers)
        if answer.status_code in {200, 201}:
            self.report.acknowledged += 1
            return answer
        self.report.refused[str(answer.status_code)] += 1
        if answer.status_code not in {500, 503} or answer.headers["content-type"] != "application/problem+json":
            self.report.wrong.append(f"{key}: answered {answer.status_code} {answer.text[:200]}")
        return None


def trial(disk: Disk, asker: Asker, fault: Fault, *, at: int) -> None:
    """Make the disk fail during a request, check what a power cut would leave, and continue with a working disk.

    The data that this trial leaves behind is included in the next trial's power cut.
    """
    report = asker.report
    disk.fail(fault, at=at)
    for _ in range(at + 10):
        asker.ask()
        if disk.failed:
            break
    report.faults += bool(disk.failed)
    if fault.times == FOR_EVER:
        _lasting(asker, fault)
    after_a_cut(disk, asker, f"{fault.name}, call {at}")
    disk.mend()
    _recovered(asker, f"{fault.name}, call {at}")


def _lasting(asker: Asker, fault: Fault) -> None:
    """Check that nothing is acknowledged while nothing can be written."""
    for _ in range(3):
        if asker.ask():
            asker.report.wrong.append(f"{fault.name}: acknowledged, although nothing can be written")


def _recovered(asker: Asker, when: str) -> None:
    """Check that the server either accepts writes again or reports that it is not ready."""
    for _ in range(TRIES):
        if asker.finish():
            return
        time.sleep(0.1)  # a client also pauses between attempts
    if asker.ready():
        asker.report.wrong.append(f"{when}: says that it is ready, and refuses to write")
    else:
        asker.report.unready += 1


def after_a_cut(disk: Disk, asker: Asker, when: str) -> None:
    asker.report.cuts += 1
    with disk.power_cut() as left:
        sound = [row[0] for row in rows(left, "PRAGMA integrity_check")]
        found = judge(asker.ledger, stored(left)) if sound == ["ok"] else sound
    asker.report.wrong += [f"{when}, after a power cut: {what}" for what in found]
