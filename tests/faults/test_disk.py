"""Full and failing disks: acknowledged requests are stored, and requests that cannot be stored are refused."""

import asyncio
import contextlib
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from tests.faults.disk import FAULTS, SYNCS, WRITES, Asker, Disk, Report, after_a_cut, compiler, trial
from tests.faults.kills import checked, secured, tokens_of
from tests.faults.load import PATH, all_of, due, judge, misdelivered, stored
from tests.support.nodes import Process, interpreter, server, start_server
from tests.support.receiver import receiving

CALLS = 60
PATIENCE = 300.0
"""Seconds after which a test gives up; no shorter time is asserted."""
LARGE = 50_000

needs_a_compiler = pytest.mark.skipif(compiler() is None, reason="there is no gcc to build the failing disk with")


def until(true: Callable[[], bool]) -> bool:
    """Poll until the condition holds; return False if it does not hold in time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)  # the server does not signal the change
    return False


@needs_a_compiler
@pytest.mark.timeout(600)
def test_no_failed_write_or_sync_loses_an_acknowledged_request(
    sqlite_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens, report, chance = asyncio.run(tokens_of(sqlite_settings)), Report(), random.Random()
    disk = Disk(tmp_path / "disk", sqlite_settings)
    with receiving() as receiver:
        with (
            server(sqlite_settings, by=interpreter, **secured(sqlite_settings), **disk.environment) as process,
            closing(Asker(process.url, tokens, report, callback=receiver.url(PATH))) as asker,
        ):
            for fault in FAULTS:
                for at in range(1, CALLS + 1) if fault.kind == WRITES else range(1, 9):
                    trial(disk, asker, fault, at=at)
                after_a_cut(disk, asker, f"{fault.name}, in the end")
            # With large writes, the faults also occur during checkpoints, which copy the log to the main file.
            asker.size = LARGE
            for fault in FAULTS:
                for _ in range(3):
                    trial(disk, asker, fault, at=chance.randrange(1, 1_000 if fault.kind == WRITES else 40))
            wanted = due(stored(sqlite_settings))
            receiver.wait(all_of(wanted), seconds=PATIENCE)
            process.kill()
        report.wrong += judge(asker.ledger, stored(sqlite_settings))
        report.wrong += misdelivered(receiver, stored(sqlite_settings))
        told = f"{len(wanted)} effects, {receiver.repeats()} of them told again"
    with server(sqlite_settings, **secured(sqlite_settings)):
        report.wrong += judge(asker.ledger, stored(sqlite_settings))
    report.wrong += checked(sqlite_settings, asker.ledger)
    with capsys.disabled():
        sys.stdout.write(f"\n{report.told()}; {told}\n")
    assert report.wrong == []
    assert report.faults >= 4 * CALLS


@needs_a_compiler
@pytest.mark.timeout(PATIENCE)
def test_a_server_that_cannot_write_is_not_ready_until_it_recovers(sqlite_settings: Settings, tmp_path: Path) -> None:
    tokens, report = asyncio.run(tokens_of(sqlite_settings)), Report()
    disk = Disk(tmp_path / "disk", sqlite_settings)
    lasting = [fault for fault in FAULTS if fault.times < 0]
    assert {fault.kind for fault in lasting} == {WRITES, SYNCS}
    with (
        server(sqlite_settings, by=interpreter, **secured(sqlite_settings), **disk.environment) as process,
        closing(Asker(process.url, tokens, report, callback="")) as asker,
    ):
        for fault in lasting:
            assert asker.ask()
            disk.fail(fault, at=1)
            assert until(asker.blames_the_disk), fault.name
            assert not asker.ask()
            disk.mend()
            assert until(asker.ready), fault.name
            assert asker.finish()
    assert report.wrong == []
    assert judge(asker.ledger, stored(sqlite_settings)) == []


@contextlib.contextmanager
def small_filesystem(folder: Path, *, megabytes: int) -> Iterator[None]:
    """Mount a real filesystem that is small enough to fill up."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode != 0:
        pytest.skip(f"nothing may be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(asker: Asker) -> None:
    """Create breakpoints until the disk is full."""
    asker.size = LARGE
    for _ in range(1_000):
        if not asker.ask():
            return
    pytest.fail("the disk never got full")


def refused_then_taken(
    process: Process, tokens: dict[str, str], make_room: Callable[[], object]
) -> tuple[Asker, Report]:
    """Fill the disk until requests are refused, free some space, and retry with the same keys."""
    report = Report()
    with closing(Asker(process.url, tokens, report, callback="")) as asker:
        fill(asker)
        for _ in range(3):
            asker.ask()
        make_room()
        assert until(asker.finish), "requests are still refused after space was freed"
    report.faults = report.refused.total()
    return asker, report


@pytest.mark.timeout(PATIENCE)
def test_a_full_filesystem_loses_no_acknowledged_request(
    sqlite_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = asyncio.run(tokens_of(sqlite_settings))
    small = Settings(data_dir=tmp_path / "small")
    small.data_dir.mkdir()
    with small_filesystem(small.data_dir, megabytes=8):
        ballast = small.data_dir / "ballast"
        ballast.write_bytes(bytes(4_000_000))
        small.sqlite_path.write_bytes(sqlite_settings.sqlite_path.read_bytes())
        process = start_server(small, **secured(small), min_free_mb="0")
        try:
            asker, report = refused_then_taken(process, tokens, ballast.unlink)
        finally:
            process.kill()
        report.wrong += [*judge(asker.ledger, stored(small)), *checked(small, asker.ledger)]
    with capsys.disabled():
        sys.stdout.write(f"\nfull filesystem, {report.told()}\n")
    assert report.wrong == []


@pytest.mark.timeout(PATIENCE)
def test_a_file_size_limit_loses_no_acknowledged_request(
    sqlite_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = asyncio.run(tokens_of(sqlite_settings))
    process = start_server(sqlite_settings, **secured(sqlite_settings))
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
        asker, report = refused_then_taken(
            process, tokens, lambda: resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, unlimited)
        )
    finally:
        process.kill()
    report.wrong += [*judge(asker.ledger, stored(sqlite_settings)), *checked(sqlite_settings, asker.ledger)]
    with capsys.disabled():
        sys.stdout.write(f"\nfile size limit, {report.told()}\n")
    assert report.wrong == []
