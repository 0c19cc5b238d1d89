"""Servers with a wrong clock."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator

from assent.kernel.settings import Settings
from tests.support.nodes import Process, free_port, ready

AHEAD, BACK = signal.SIGUSR1, signal.SIGUSR2


@contextlib.contextmanager
def off_by(settings: Settings, seconds: int) -> Generator[Process, None, None]:
    """Run a server on a machine whose clock is off by this many seconds; AHEAD and BACK move it by another hour."""
    port = free_port()
    environment = os.environ | {"ASSENT_DATA_DIR": str(settings.data_dir)}
    if settings.database_url:
        environment["ASSENT_DATABASE_URL"] = settings.database_url
        environment["ASSENT_SECRET_KEYS"] = ",".join(settings.secret_keys or ())
    command = [sys.executable, "-m", "tests.support.wrong_clock", str(seconds), "serve", "--port", str(port)]
    process = Process(f"http://127.0.0.1:{port}", subprocess.Popen(command, env=environment))
    try:
        assert ready(process.url, process.popen), "the server did not become ready"
        yield process
    finally:
        process.stop()
