"""A server forked by the zygote is independent of the others and ends like any other process."""

import signal
import subprocess

import httpx2
import pytest

from assent.kernel.settings import Settings
from tests.faults.kills import secured
from tests.support.nodes import environment_of, start_server
from tests.support.zygote import zygote


def test_forked_servers_run_and_die_independently(postgres_settings: Settings) -> None:
    with zygote() as forking:
        one = start_server(postgres_settings, by=forking.start, **secured(postgres_settings))
        other = start_server(postgres_settings, by=forking.start, **secured(postgres_settings))
        assert one.popen.pid != other.popen.pid
        one.kill()
        assert one.popen.poll() == -signal.SIGKILL
        assert httpx2.get(f"{other.url}/readyz", timeout=60).status_code == 200
        assert other.stop() in {0, -signal.SIGTERM}


def test_ending_the_zygote_ends_its_servers(sqlite_settings: Settings) -> None:
    with zygote() as forking:
        left = start_server(sqlite_settings, by=forking.start)
        assert left.popen.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            left.popen.wait(0)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{left.url}/readyz", timeout=60)


def test_a_forked_command_returns_its_exit_code_and_output(sqlite_settings: Settings) -> None:
    environment = environment_of(sqlite_settings)
    with zygote() as forking:
        code, said = forking.run(["fsck", "--json"], environment)
        assert (code, '"ok": true' in said) == (0, True), said
        assert forking.run(["no-such-command"], environment)[0] == 2
