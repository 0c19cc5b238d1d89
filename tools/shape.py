"""Measures the shape of the source for `make shape`: sizes, comments, and how features depend on one another."""

import ast
import io
import statistics
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "assent"
FEATURES = frozenset({"people", "breakpoints", "policy", "runs", "delivery", "audit", "triggers", "agents"})
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_WITHOUT_CODE = frozenset(
    {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)  # fmt: skip


@dataclass
class Module:
    name: str
    code: int
    comments: int
    functions: Sequence[int]
    """The number of lines of each function, including its docstring."""
    imports: set[str] = field(default_factory=set[str])

    @property
    def top(self) -> str:
        return self.name.partition(".")[2].partition(".")[0]


def module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def measure(source: str, name: str) -> Module:
    """Count lines of code (without blank lines, comments and docstrings), comments and the lengths of functions."""
    tree = ast.parse(source)
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    comments = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        comments += token.type == tokenize.COMMENT
        if token.type not in _WITHOUT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1 for node in ast.walk(tree) if isinstance(node, FUNCTIONS)
    ]
    return Module(name, len(code - docstrings), comments, functions)


def imported(source: str, known: set[str]) -> Iterator[str]:
    """Yield the known modules that a module imports when it is loaded."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in known else node.module


def modules(package: Path) -> list[Module]:
    sources = {module_name(path, package): path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    found = [measure(source, name) for name, source in sources.items()]
    for each in found:
        each.imports = {name for name in imported(sources[each.name], set(sources)) if name in sources} - {each.name}
    return found


def cycle(found: Sequence[Module]) -> Sequence[str]:
    """Return the modules of one import cycle, or nothing if there is none."""
    try:
        TopologicalSorter({each.name: each.imports for each in found}).prepare()
    except CycleError as error:
        loop: list[str] = error.args[1]
        return loop
    return ()


def inside(found: Sequence[Module]) -> float:
    """Return the share of imports between feature modules that stay within a single feature."""
    tops = {each.name: each.top for each in found}
    pairs = [
        (each.top, tops[name])
        for each in found
        for name in each.imports
        if each.top in FEATURES and tops[name] in FEATURES
    ]
    return sum(a == b for a, b in pairs) / max(len(pairs), 1)


def percentile(values: Sequence[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def upward(pyproject: Mapping[str, Any]) -> int:
    """Return how many imports that violate the order of the layers are still allowed."""
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    return sum(len(each.get("ignore_imports", ())) for each in contracts)


def report(package: Path) -> list[tuple[str, str, str]]:
    """Return each figure with its goal."""
    found = modules(package)
    code = sum(each.code for each in found)
    lengths = [length for each in found for length in each.functions]
    folders = Counter(path.parent.relative_to(package).as_posix() for path in package.rglob("*.py"))
    largest, size = folders.most_common(1)[0]
    loop = cycle(found)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [
        ("Python files", f"{len(found):,}", "≤ 290"),
        ("lines of code", f"{code:,}", "≤ 45,000"),
        ("functions", f"{len(lengths):,}", ""),
        ("lines per function, median", f"{statistics.median(lengths):.0f}", "7–10"),
        ("lines per function, p90", f"{percentile(lengths, 0.9)}", "≤ 28"),
        ("lines per function, p99", f"{percentile(lengths, 0.99)}", "≤ 80"),
        ("modules in the largest folder", f"{size} ({largest})", "≤ 25"),
        ("import cycles", " > ".join(loop) if loop else "0", "0"),
        ("feature imports within a single feature", f"{inside(found):.0%}", "≥ 85%"),
        ("imports that still point up", f"{upward(pyproject)}", "0"),
        ("comments per 100 lines of code", f"{100 * sum(each.comments for each in found) / code:.1f}", "3–6"),
    ]


def main() -> int:
    for figure, value, goal in report(PACKAGE):
        sys.stdout.write(f"{figure:42} {value:>14}  {goal}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
