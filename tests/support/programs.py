"""Programs of the system that tests need: on the PATH, or installed by the package manager within its time."""

import functools
import os
import shutil
import subprocess

LIMIT_SECONDS = 300


@functools.cache
def program(name: str, *, package: str) -> str:
    """Return where a program is; install its package if it is nowhere and we may."""
    found = shutil.which(name, path=_path()) or _installed(name, package)
    assert found is not None, (
        f"there is no {name}, and none could be installed: apt-get install {package}, and try again"
    )
    return found


def _path() -> str:
    # What only root needs is often not on the PATH of others.
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _installed(name: str, package: str) -> str | None:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return None
    install = ("install", "-y", "-q", "--no-install-recommends", package)
    # Once more with new lists: those of an image are often older than what the mirrors still have.
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
