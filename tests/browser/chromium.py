"""Finds or installs Chromium for the browser tests: `python -m tests.browser.chromium`."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
LIMIT_SECONDS = 600
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NONE = (
    "There is no Chromium for the browser tests and none could be installed: "
    "install one (apt-get install chromium) so that it is on the PATH, and run the tests again."
)


@functools.cache
def executable() -> str | None:
    """Return the path to Chromium: the one on the PATH, or else Playwright's; None if neither exists."""
    return _on_path() or _from_playwright()


def _on_path() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _from_playwright() -> str | None:
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install() -> str | None:
    """Install a system package, or else download Playwright's Chromium; every command has a timeout."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        _say("No Chromium on the PATH; installing the system's package with apt-get …")
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        if _run(["apt-get", "update", "-q"], **environment):
            _run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"], **environment)
        if found := _on_path():
            return found
    else:
        _say("No Chromium on the PATH, and no apt-get that we may use.")
    _say("Downloading Playwright's own Chromium …")
    _run([sys.executable, "-m", "playwright", "install", "chromium"])
    return _from_playwright()


def _run(command: Sequence[str], **environment: str) -> bool:
    try:
        return subprocess.run(command, check=False, timeout=LIMIT_SECONDS, env=os.environ | environment).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        _say(f"{' '.join(command)}: {error}")
        return False


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> int:
    found = executable() or install()
    if found is None:
        _say(NONE)
        return 1
    sys.stdout.write(f"Chromium for the browser tests: {found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
