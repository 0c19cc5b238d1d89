"""System programs that tests need: from the PATH, or installed by the package manager within a time limit."""

import functools
import os
import shutil
import subprocess

LIMIT_SECONDS = 300


@functools.cache
def program(name: str, *, package: str) -> str:
    """Return the path of a program; if it is missing, install its package, provided that we have permission."""
    found = shutil.which(name, path=_path()) or _installed(name, package)
    assert found is not None, f"{name} not found and not installable: run apt-get install {package}, and try again"
    return found


def _path() -> str:
    # Programs for root are often missing from other users' PATH.
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _installed(name: str, package: str) -> str | None:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return None
    install = ("install", "-y", "-q", "--no-install-recommends", package)
    # Retry with updated package lists, because the lists in an image may be older than the mirrors.
    if not _apt(*install) and _apt("update", "-q"):
        _apt(*install)
    return shutil.which(name, path=_path())


def _apt(*arguments: str) -> bool:
    try:
        done = subprocess.run(
            ["apt-get", *arguments],
            check=False,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
