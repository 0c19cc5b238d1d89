"""Starts servers in tenths of a second: a process that has imported everything once forks each new server.

A forked server is like any other, with its own port, database and lifetime; it only shares the imports. The zygote has
no threads and opens nothing, so that forking is safe.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

LOADED = (
    "assent.cli.main",
    "assent.cli.admin",
    "assent.cli.audit",
    "dbos._sys_db_postgres",
    "dbos._sys_db_sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)


class Forked:
    """The part of Popen that tests use, for a process that is not our child."""

    def __init__(self, zygote: "Zygote", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._zygote = zygote
        self._life = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["assent"], timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._life, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        """Return the exit code, or None if the process is still alive after the timeout."""
        if self.returncode is None and select.select([self._life], [], [], timeout)[0]:
            self.returncode = self._zygote.collect(self.pid)
            os.close(self._life)
        return self.returncode


class Zygote:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._turn = threading.Lock()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path | None) -> Forked:
        """Fork an `assent` with these arguments and exactly this environment."""
        wanted = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(Path.cwd()),
            "log": str(log or os.devnull),
        }
        return Forked(self, self._ask(wanted))

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Fork a process and wait for its exit; return its exit code and output."""
        with tempfile.NamedTemporaryFile(suffix=".said") as said:
            return self.start(arguments, environment, Path(said.name)).wait(), Path(said.name).read_text()

    def collect(self, pid: int) -> int:
        return self._ask({"collect": pid})

    def _ask(self, what: Mapping[str, Any]) -> int:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None, "stdin is not a pipe"
        assert answers is not None, "stdout is not a pipe"
        with self._turn:
            requests.write(json.dumps(what) + "\n")
            requests.flush()
            return int(answers.readline())


@contextlib.contextmanager
def zygote() -> Iterator[Zygote]:
    command = [sys.executable, "-m", "tests.support.zygote"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        # When its input is closed, the zygote kills its children and exits.
        yield Zygote(process)


@functools.cache
def shared() -> Zygote:
    """Return this process's shared zygote, which ends when the process does."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(zygote())


def main() -> None:
    for name in LOADED:
        __import__(name)
    me, living = os.getpid(), set[int]()
    try:
        for line in sys.stdin:
            wanted = json.loads(line)
            answer = _collected(wanted["collect"], living) if "collect" in wanted else _forked(wanted, living)
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
    finally:
        # Forked children also get here when they end.
        for pid in living if os.getpid() == me else ():
            os.kill(pid, signal.SIGKILL)


def _collected(pid: int, living: set[int]) -> int:
    living.discard(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _forked(wanted: Mapping[str, Any], living: set[int]) -> int:
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would leave other threads behind"
    pid = os.fork()
    if pid == 0:
        _live(wanted)
    living.add(pid)
    return pid


def _live(wanted: Mapping[str, Any]) -> NoReturn:
    """Run `assent` with these arguments, as if started directly."""
    log = os.open(wanted["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for taken, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(taken, number)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["assent", *wanted["arguments"]]
    from assent.cli.main import run  # noqa: PLC0415  # already imported

    run()
    sys.exit(0)


if __name__ == "__main__":
    main()
