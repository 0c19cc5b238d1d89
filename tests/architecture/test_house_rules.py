"""House rules that no linter checks."""

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# Files whose code may sleep, each with the reason it cannot wait for a signal.
MAY_SLEEP = {
    "tests/support/until.py": "polls for changes that send no signal",
    "tests/support/cluster.py": "polls a starting PostgreSQL until it is ready",
    "tests/faults/kills.py": "kills processes at random times",
    "tests/faults/load.py": "pauses between two requests, as a client does",
    "tests/faults/notifications.py": "decides at random times",
    "tests/faults/test_disk.py": "waits between two attempts, as a client does",
    "tests/faults/disk.py": "waits between two attempts, as a client does",
    "tests/support/nodes.py": "polls a starting server until it is ready",
    "tests/faults/races.py": "waits for a deadline on the real clock",
    "tests/faults/test_ingress.py": "waits between two attempts, as a sender does",
    "tests/faults/waiting.py": "waits between two attempts, as a client does",
    "tests/faults/clocks.py": "sets the clock at random times",
    "tests/doors/kit.py": "polls a list, as a reviewer does",
    "tests/examples/test_examples.py": "polls a list, as a reviewer does",
    "tests/runs/conftest.py": "polls a run, which sends no signal",
    "tests/runs/test_races.py": "polls a run, which sends no signal",
    "tests/runs/test_waking.py": "polls a run, which sends no signal",
    "tests/faults/runs.py": "kills processes at random times",
    "tests/soak/killing.py": "reports its progress periodically",
}


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    """Return the dotted name of the called function, as written."""
    return ast.unparse(call.func)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_import_layers_are_respected() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_no_test_patches_the_code_it_tests() -> None:
    patched = [
        f"{name_of(path)}:{call.lineno} {called(call)}"
        for path in TESTS
        for call in calls(path)
        if re.search(
            r"(^|\.)mock\.|(^|\.)patch(\.object|\.dict)?$|monkeypatch\.(setattr|setitem|delattr)|mocker\.", called(call)
        )
    ]
    assert patched == []


def test_tests_wait_for_signals_instead_of_sleeping() -> None:
    asleep = [
        f"{name_of(path)}:{call.lineno}"
        for path in TESTS
        for call in calls(path)
        if called(call).rpartition(".")[2] == "sleep" and [ast.unparse(each) for each in call.args] != ["0"]
    ]
    assert {each.partition(":")[0] for each in asleep} == set(MAY_SLEEP), asleep


def test_no_thread_in_a_test_waits_without_a_timeout() -> None:
    """Closing an event loop waits for its threads, and a test timeout cannot interrupt that."""
    endless = [
        f"{name_of(path)}:{call.lineno}"
        for path in TESTS
        for call in calls(path)
        if called(call).rpartition(".")[2] == "to_thread"
        and [ast.unparse(each).rpartition(".")[2] for each in call.args] == ["wait"]
    ]
    assert endless == []


def test_every_test_name_is_long_enough_to_state_a_claim() -> None:
    names = [
        f"{name_of(path)}: {node.name}"
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name.split("_")) < 4
    ]
    assert names == [], "the name must state a claim"


def tracked() -> list[tuple[str, str]]:
    """Return every text file known to git, with its content."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    found = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            try:
                found.append((name, path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


def test_no_file_contains_a_path_from_the_developers_machine() -> None:
    nobodys = (Path("/"), Path(tempfile.gettempdir()))
    here = {f"{path}/" for path in (ROOT, ROOT.parent, Path.home()) if path not in nobodys}
    named = [
        f"{name}: {place}"
        for name, text in tracked()
        for place in here
        if re.search(rf"(?<![\w.]){re.escape(place)}\w", text)
    ]
    assert named == []


def test_no_file_names_a_private_package_registry() -> None:
    official = {"pypi.org", "files.pythonhosted.org", "test.pypi.org"}
    registries = re.compile(r"https?://([\w.-]+)(?::\d+)?/(?:[\w./-]*/)?(?:simple|artifactory|nexus|pypi)\b")
    options = re.compile(r"^\s*--(?:extra-)?(?:index-url|find-links)\b", re.MULTILINE)
    found = []
    for name, text in tracked():
        found += [f"{name}: {host}" for host in registries.findall(text) if host not in official]
        if name.startswith("requirements") and (options.search(text) or "file://" in text):
            found.append(f"{name}: an index of its own")
    assert found == []


def test_every_soak_can_be_selected_by_name() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"model", "races"} <= set(re.findall(r"[a-z]+", listed.stdout))
