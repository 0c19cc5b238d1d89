"""Collects the tests in a parent process, and tries each fault in a child process that runs the relevant tests.

A fault in the body of a function is inserted by replacing the function's code object, which is fast. If the fault takes
effect during import, or if its function was called during collection, all modules are imported again.
"""

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Self

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.mutants import Mutant, functions, mutants
from tests.mutation.quick import OPTIONS, quicken, warm_up

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "assent"
PURE = sorted(
    [
        *(PACKAGE / "core").rglob("*.py"),
        *(PACKAGE / "agents/doctor").glob("*_checks.py"),
        *(
            PACKAGE / f"{name}.py"
            for name in (
                "agents/doctor/claude_settings", "agents/doctor/findings", "audit/chain_checks", "audit/checkpoint",
                "audit/log_checks", "audit/merkle", "audit/routing_checks", "audit/rule_checks",
                "breakpoints/saved_views", "breakpoints/search_words", "breakpoints/undo_window", "delivery/message",
                "delivery/routes", "delivery/routes_file", "kernel/yaml_file", "people/preferences",
                "platform/admin_events", "policy/backtest", "policy/rule_warnings", "runs/model", "triggers/event",
                "triggers/file_format", "triggers/model", "triggers/payload_secrets", "triggers/schedules",
                "triggers/templates", "triggers/traces",
            )
        ),
    ]
)  # fmt: skip
"""Modules without I/O: the core, and the models of the features."""
LONGEST = 1.5
"""Maximum CPU time per test, in seconds. Slower tests are skipped."""
ENOUGH = 2.0
"""CPU time per fault, in seconds, after which slower tests of other modules are skipped."""
OWN = {
    "breakpoint": "lifecycle", "expressions": "patterns", "grammar": "patterns", "pattern": "patterns",
    "timestamps": "instants", "safe_text": "visible", "seats": "routing", "chain_checks": "audit",
    "log_checks": "audit_log", "routing_checks": "audit_routing", "rule_checks": "audit_rules",
    "checkpoint": "checkpoints", "findings": "checkup", "claude_checks": "claude_checkup",
    "mcp_checks": "mcp_checkup", "server_checks": "server_checkup", "undo_window": "holding", "message": "notes",
    "admin_events": "audit", "event": "trigger_events", "file_format": "triggers_file", "traces": "trigger_traces",
}  # fmt: skip
"""Names that test files use for a module, if they differ from the module's name."""
MEMORY = 3 * 2**30
SURVIVED, NOTICED, CRASHED = 0, 1, 70


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    tree: ast.Module
    functions: dict[str, range]

    @classmethod
    def of(cls, path: Path) -> "Module":
        tree = ast.parse(path.read_text())
        return cls(path, tree, functions(tree))

    @property
    def name(self) -> str:
        return ".".join(("assent", *self.path.relative_to(PACKAGE).with_suffix("").parts))

    def owns(self, test: pytest.Item) -> bool:
        stem = self.path.stem
        return test.path.name.startswith(tuple(f"test_{name}" for name in (stem, OWN.get(stem, stem), "words")))

    def function_at(self, line: int) -> str | None:
        return next((name for name, lines in self.functions.items() if line in lines), None)

    def live(self) -> dict[str, FunctionType]:
        """Return the imported module's functions, including those wrapped by classmethod, property or lru_cache."""
        return {each.__qualname__: each for each in _functions_in(importlib.import_module(self.name), self.name)}


def _functions_in(holder: Any, module: str) -> Iterator[FunctionType]:
    for value in vars(holder).values():
        plain = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
        if isinstance(plain, FunctionType) and plain.__module__ == module:
            yield plain
        elif inspect.isclass(value) and value.__module__ == module:
            yield from _functions_in(value, module)


class Calls:
    """Records the names of called domain functions as `module.function`."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._modules = {str(module.path): module for module in modules}
        self._seen: set[CodeType] = set()

    def __enter__(self) -> Self:
        self._seen.clear()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, *_: object) -> None:
        if frame.f_code.co_filename in self._modules:
            self._seen.add(frame.f_code)

    def names(self) -> set[str]:
        found: set[str] = set()
        for code in self._seen:
            module = self._modules[code.co_filename]
            function = module.function_at(code.co_firstlineno)
            if function is not None:
                found.add(f"{module.path.stem}.{function}")
        return found


@dataclass(slots=True)
class Score:
    module: str
    of: int = 0
    messages: int = 0
    killed: Counter[str] = field(default_factory=Counter[str])
    survivors: list[str] = field(default_factory=list[str])

    @property
    def tried(self) -> int:
        return self.killed.total() + len(self.survivors)

    @property
    def rate(self) -> float:
        return self.killed.total() / self.tried if self.tried else 1.0

    def interval(self) -> tuple[float, float]:
        """Return the 95% Wilson score interval, or the rate itself if all faults were tried."""
        if self.tried in {0, self.of}:
            return self.rate, self.rate
        z, n, p = 1.96, self.tried, self.rate
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


@dataclass(frozen=True, slots=True)
class Told:
    """The result of running a test without a fault."""

    seconds: float
    passed: bool
    called: frozenset[str]


class Runner:
    """A pytest plugin that runs the collected tests for each fault instead of once."""

    def __init__(
        self, modules: Sequence[Module], *, sample: int | None, seed: int, jobs: int, again: frozenset[str] | None
    ) -> None:
        self.modules = modules
        self.scores: list[Score] = []
        self._sample, self._seed, self._jobs, self._again = sample, seed, jobs, again
        self._calls = Calls([Module.of(path) for path in PURE])
        self._early: set[str] = set()
        self._items: dict[str, pytest.Item] = {}
        self._told: dict[str, Told] = {}
        self._started = time.monotonic()
        self._running: dict[int, tuple[Score, str]] = {}

    def pytest_collection(self) -> None:
        self._calls.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._calls.__exit__()
        self._early = self._calls.names()
        quicken(session.items)
        warm_up()
        self._items = {item.nodeid: item for item in session.items}
        # Garbage collection of shared objects would make each child process copy their memory pages.
        gc.collect()
        gc.freeze()
        self._told = self._baseline()
        for module in self.modules:
            self._module(module)
        return True

    def _baseline(self) -> dict[str, Told]:
        """Run every test once in a child process, so that tests cannot change the state of this process."""
        with tempfile.NamedTemporaryFile("r", prefix="assent-mutation-") as file:
            os.waitpid(_forked(lambda: Path(file.name).write_text(json.dumps(list(self._tell()))) and 0), 0)
            return {name: Told(seconds, passed, frozenset(called)) for name, seconds, passed, called in json.load(file)}

    def _tell(self) -> Iterator[tuple[str, float, bool, list[str]]]:
        for name, item in self._items.items():
            started = time.process_time()
            with self._calls as calls:
                passed = _passes([item])
            yield name, time.process_time() - started, passed, sorted(calls.names())

    @cached_property
    def _usable(self) -> dict[str, Told]:
        usable = {name: told for name, told in self._told.items() if told.passed and told.seconds <= LONGEST}
        say(f"{len(usable)} tests, {sum(told.seconds for told in usable.values()):.0f} s of processor time for all")
        for name in self._told.keys() - usable.keys():
            told = self._told[name]
            say(f"left out: {name} " + (f"({told.seconds:.0f} s)" if told.passed else "(it fails without a fault)"))
        return usable

    def _module(self, module: Module) -> None:
        score = Score(module.path.name)
        self.scores.append(score)
        found = mutants(module.tree)
        faults = [each for each in found if not each.message]
        score.of, score.messages = len(faults), len(found) - len(faults)
        chosen = faults
        if self._again is not None:
            chosen = [each for each in faults if f"{score.module}:{each}" in self._again]
        elif self._sample is not None and self._sample < len(faults):
            chance = random.Random(f"{self._seed} {score.module}")
            chosen = [faults[n] for n in sorted(chance.sample(range(len(faults)), self._sample))]
        self._unchanged(module)
        for mutant in chosen:
            self._try(module, mutant, score)
        while self._running:
            self._wait()
        took = time.monotonic() - self._started
        say(f"{score.module}: {score.killed.total()} of {score.tried} killed, {score.rate:.1%} ({took:.0f} s)")

    def _unchanged(self, module: Module) -> None:
        """Insert the unchanged module in both ways; if tests then fail, this tool has a bug."""
        code = compile(module.tree, str(module.path), "exec")
        tests = self._tests(module, None)

        def exchanged() -> int:
            bodies = _bodies(code)
            for name, function in module.live().items():
                function.__code__ = bodies.get(name, function.__code__)
            return self._noticed(tests)

        ways = (exchanged, lambda: self._noticed_anew(module, code, tests))
        if any(os.waitpid(_forked(way), 0)[1] for way in ways):
            msg = f"{module.path.name} fails its tests without a fault in it"
            raise RuntimeError(msg)

    def _try(self, module: Module, mutant: Mutant, score: Score) -> None:
        name = f"{score.module}:{mutant}"
        code = mutant.compiled(module.tree, str(module.path))
        at_import = mutant.function is None or f"{module.path.stem}.{mutant.function}" in self._early
        tests = self._tests(module, None if at_import else mutant.function)
        if not tests:
            self._survived(score, name)
            return
        while len(self._running) >= self._jobs:
            self._wait()

        def changed() -> int:
            self._limit(tests)
            body = None if at_import else _bodies(code).get(str(mutant.function))
            live = module.live().get(str(mutant.function))
            # A code object can be replaced only by one with the same free variables.
            if body is None or live is None or body.co_freevars != live.__code__.co_freevars:
                return self._noticed_anew(module, code, tests)
            live.__code__ = body
            return self._noticed(tests)

        self._running[_forked(changed)] = score, name

    def _tests(self, module: Module, function: str | None) -> list[str]:
        """Return the tests that called a function, or any function in the module, with the module's own tests first."""
        stem = module.path.stem

        def concerns(name: str, told: Told) -> bool:
            if function is not None:
                return f"{stem}.{function}" in told.called
            return module.owns(self._items[name]) or any(each.startswith(f"{stem}.") for each in told.called)

        usable = [name for name, told in self._usable.items() if concerns(name, told)]
        usable.sort(key=lambda name: (not module.owns(self._items[name]), self._usable[name].seconds))
        spent = list(accumulate(self._usable[name].seconds for name in usable))
        return [
            name for name, until in zip(usable, spent, strict=True) if until <= ENOUGH or module.owns(self._items[name])
        ]

    def _limit(self, tests: Sequence[str]) -> None:
        """Limit CPU time rather than elapsed time, because the machine may be busy."""
        seconds = 5 + math.ceil(4 * sum(self._told[name].seconds for name in tests))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def _noticed(self, tests: Sequence[str]) -> int:
        return SURVIVED if _passes([self._items[name] for name in tests]) else NOTICED

    def _noticed_anew(self, module: Module, code: CodeType, tests: Sequence[str]) -> int:
        for name in list(sys.modules):
            if name.startswith(("assent.", "tests.")) and not name.startswith("tests.mutation"):
                del sys.modules[name]
        sys.meta_path.insert(0, _Instead(module, code))
        files: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for name in tests:
            files[module.owns(self._items[name])][str(self._items[name].path)] = None
        for some in files.values():
            arguments = [*OPTIONS, "-x", *some]
            if some and pytest.main(arguments, plugins=[_Chosen(tests, self._told.keys())]) != pytest.ExitCode.OK:
                return NOTICED
        return SURVIVED

    def _wait(self) -> None:
        pid, status = os.wait()
        score, name = self._running.pop(pid)
        if os.WIFSIGNALED(status):
            score.killed["hung"] += 1
        elif os.WEXITSTATUS(status) == NOTICED:
            score.killed["noticed"] += 1
        elif os.WEXITSTATUS(status) == SURVIVED:
            self._survived(score, name)
        else:
            score.killed["crashed"] += 1

    def _survived(self, score: Score, name: str) -> None:
        score.survivors.append(name)
        say(f"survived {name}")


class _Chosen:
    """Selects the chosen tests after a second collection, and any new tests, because names can depend on the fault."""

    def __init__(self, tests: Sequence[str], known: Any) -> None:
        self._order = {name: n for n, name in enumerate(tests)}
        self._known = known

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        quicken(items)
        kept = [item for item in items if item.nodeid in self._order or item.nodeid not in self._known]
        items[:] = sorted(kept, key=lambda item: self._order.get(item.nodeid, -1))


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the module with the fault instead of the original module."""

    def __init__(self, module: Module, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._module.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def _bodies(code: CodeType) -> dict[str, CodeType]:
    """Return the code objects of all functions in a module's code, by qualified name."""
    found: dict[str, CodeType] = {}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= {each.co_qualname: each} | _bodies(each)
    return found


def _passes(items: Sequence[pytest.Item]) -> bool:
    following = [*items[1:], None]
    return all(
        not report.failed
        for n, item in enumerate(items)
        for report in runtestprotocol(item, log=False, nextitem=following[n])
    )


def _forked(work: Callable[[], int]) -> int:
    """Run the work in a silent child process that exits with the result as its status; return the process ID."""
    pid = os.fork()
    if pid:
        return pid
    status = CRASHED
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        status = work()
    finally:
        os._exit(status)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
