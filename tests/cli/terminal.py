"""A person at a real pseudo-terminal who reads a program's output and types."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

CTRL_C, CTRL_D = "\x03", "\x04"


def _takes_the_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Seat:
    """A program in its own terminal; with `piped`, its standard output is not the terminal."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, piped: bool = False
    ) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=subprocess.PIPE if piped else slave,
            stderr=slave,
            env={**env, "TERM": "xterm", "COLUMNS": "120"},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_takes_the_terminal,  # noqa: PLW1509  # safe, because it makes one system call and takes no lock
        )
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

    def until(self, text: str) -> str:
        """Read until the text appears, and return everything that was shown since the previous call."""
        start = len(self.shown)
        while text not in self.shown[start:]:
            more = self._more()
            assert more, f"It ended without showing {text!r}: {self.shown}"
        return self.shown[start:]

    def types(self, text: str, *, after: str) -> None:
        """Wait for a prompt, then type a line."""
        self.until(after)
        os.write(self._master, f"{text}\n".encode())

    def presses(self, key: str, *, after: str) -> None:
        self.until(after)
        os.write(self._master, key.encode())

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int:
        """Read to the end, and return the exit code."""
        while self._more():
            pass
        return self.process.wait(timeout=300)

    def _more(self) -> str:
        try:
            more = os.read(self._master, 65536).decode("utf-8", "replace")
        except OSError:  # the program closed its end of the terminal
            return ""
        self.shown += more
        return more
