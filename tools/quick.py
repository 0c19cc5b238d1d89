"""Check what changed, in about a minute: `make quick`.

Runs ruff and mypy on the changed files, import-linter, the plain-English check, and the tests of the changed modules:
changed test files first, then test files that import a changed module, then the pure tests of the core. Tests that do
not start within the time limit are left to `make test`.
"""

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST_SECONDS = 45
BASE = os.environ.get("BASE", "HEAD")
"""The commit to compare with; uncommitted and untracked files always count."""
_SLOW = ("browser", "conformance", "deploy", "doors", "faults", "mutation", "soak")
"""Folders of tests that start servers, browsers or agents."""


def git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603  # our own commands
    return done.stdout.splitlines()


def changed() -> list[str]:
    """Return the Python files that differ from BASE, or if none do, the files that the last commit changed."""
    found = {*git("diff", "--name-only", BASE), *git("ls-files", "--others", "--exclude-standard")}
    found = found or {*git("diff", "--name-only", "HEAD~1", "HEAD")}
    return sorted(name for name in found if name.endswith(".py") and (ROOT / name).exists())


def modules(names: Iterable[str]) -> set[str]:
    """Return the names of the modules in these files: `assent.core.rules` for `src/assent/core/rules.py`."""
    return {
        name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in names
        if name.startswith("src/")
    }


def imported(source: str) -> Iterator[str]:
    """Yield the modules that a file imports, and the names it imports from them as if they were modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def tests_of(names: Iterable[str]) -> list[str]:
    """Return the test files to run: changed ones, those that import a changed module, then the core's."""
    names = list(names)
    own = [name for name in names if Path(name).name.startswith("test_")]
    wanted = modules(names)
    affected = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not set(_SLOW).intersection(path.parts) and wanted.intersection(imported(path.read_text("utf-8")))
    ]
    return list(dict.fromkeys([*own, *affected, "tests/core", "tests/tools"]))


def step(name: str, *command: str) -> bool:
    """Run a command, print how long it took, and show its output if it failed."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603  # our own commands
    verdict = "ok" if done.returncode == 0 else "FAILED"
    sys.stdout.write(f"{name:14} {verdict:6} {time.monotonic() - started:5.1f} s\n")
    if done.returncode:
        sys.stdout.write(done.stdout[-8000:] + done.stderr[-4000:])
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    names = changed()
    sys.stdout.write(f"{len(names)} changed Python files\n")
    python = sys.executable
    good = [
        step("ruff", python, "-m", "ruff", "check", *(names or ["tools"])),
        step("format", python, "-m", "ruff", "format", "--check", *(names or ["tools"])),
        step("layers", str(Path(python).with_name("lint-imports"))),
        step("plain English", python, "-m", "tools.prose", "--check"),
        step("mypy", python, "-m", "mypy", *(names or ["tools"])),
        step(
            "tests", python, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "--lane", "test",
            f"--session-timeout={TEST_SECONDS}", *tests_of(names),
        ),
    ]  # fmt: skip
    return not all(good)


if __name__ == "__main__":
    sys.exit(main())
