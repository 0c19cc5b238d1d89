"""Faults of every kind are generated and distinguished, and code without an effect is skipped."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.__main__ import table
from tests.mutation.mutants import functions, mutants
from tests.mutation.runner import PURE, Module, Score

ROOT = Path(__file__).parents[2]


def faults(source: str) -> list[str]:
    """Return the source code of the module with each fault."""
    tree = ast.parse(source)
    found: list[str] = []
    for each in mutants(tree):
        before = each._put(each.instead)
        found.append(ast.unparse(tree))
        each._put(before)
    assert ast.unparse(tree) == ast.unparse(ast.parse(source))
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a is b", {"x = a is not b"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = a + b", {"x = a - b"}),
        ("x = not a", {"x = a"}),
        ("x = True", {"x = False"}),
        ("x = 5", {"x = 6", "x = 4"}),
        ("x = ''", {"x = 'XX'"}),
        ("x = 'a'", {"x = 'XXa'"}),
        ("f(a=b)", {"f()", "pass"}),
        ("a.b = c", {"pass"}),
        ("raise a", {"pass"}),
        ("a += b", {"pass", "a -= b"}),
        ("if a:\n    b = c", {"if not a:\n    b = c"}),
        ("for a in b:\n    continue", {"for a in b:\n    break"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f(a=1):\n    ...", {"def f(a=2):\n    ...", "def f(a=0):\n    ..."}),
    ],
)
def test_every_kind_of_fault_is_generated(source: str, expected: set[str]) -> None:
    assert set(faults(source)) == {ast.unparse(ast.parse(each)) for each in expected}


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "def f(a: 'int') -> 'int':\n    '''Say nothing.'''",
        "X: TypeAlias = 'int'",
        "__all__ = ['a']",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "assert isinstance(a, int)",
        "del a",
        "T = TypeVar('T', bound='A')",
        "x = isinstance(a, int | float)",
    ],
)
def test_no_faults_are_generated_for_code_without_a_runtime_effect(source: str) -> None:
    assert faults(source) == []


def test_messages_are_distinguished_from_values() -> None:
    tree = ast.parse("x = 'auto-approve'\ny = 'must be a number'\nz = f'{a} is not one of {b}'\nw = f'{a}-{b}'")
    assert [(each.line, each.message) for each in mutants(tree)] == [
        (1, False), (2, True), (3, True), (4, False),
    ]  # fmt: skip


def test_a_fault_is_attributed_to_its_outermost_function() -> None:
    source = "A = 1\nclass B:\n    C = 1\n    def d(self, e=1):\n        def f(): return 1\n        return g\n"
    tree = ast.parse(source)
    assert {(each.line, each.function) for each in mutants(tree)} == {
        (1, None), (3, None), (4, None), (5, "B.d"), (6, "B.d"),
    }  # fmt: skip
    assert functions(tree) == {"B.d": range(4, 7)}


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_compiling_a_fault_leaves_the_module_unchanged(path: Path) -> None:
    module = Module.of(path)
    before = ast.dump(module.tree)
    for each in mutants(module.tree)[::20]:
        each.compiled(module.tree, str(path))
    assert ast.dump(module.tree) == before


def test_only_a_sampled_score_has_a_confidence_interval() -> None:
    score = Score("a.py", of=10)
    score.killed.update(noticed=4)
    score.survivors.append("a")
    low, high = score.interval()
    assert low < 0.8 < high
    score.of = 5
    assert score.interval() == (0.8, 0.8)
    assert "| a.py | 5 | 5 | 4 | 0 | 1 | 80.0% |" in table([score])


def test_a_run_counts_detected_faults_and_lists_undetected_ones(tmp_path: Path) -> None:
    """The only test that runs is weak: it uses literal globs without stars."""
    weak = tmp_path / "test_globs_weakly.py"
    weak.write_text(
        "from assent.core.patterns.globs import glob_matches\n\n\n"
        "def test_literals() -> None:\n    assert glob_matches('a', 'a')\n    assert not glob_matches('a', 'b')\n"
    )
    command = [sys.executable, "-m", "tests.mutation", "--module", "globs.py", "--tests", str(weak)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)
    assert "Glob.matches: return _matches(self.pieces, text) → return None" in found.stdout
    assert "Eq → NotEq in text == head" not in found.stdout
    assert found.returncode == 1, "too few faults are detected"
