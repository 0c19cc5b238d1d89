"""Processes found in a folder: every file loaded by itself, so that a broken one spoils none of the others."""

import hashlib
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from assent.domain.canonical import Json
from assent.engine.signatures import misfit
from assent.ports import FoundProcess
from assent.sdk import context
from assent.sdk.context import NAME, Process, described

PACKAGE = "assent_process_"
PLAIN = "process"
"""The function that makes a file a process by itself, under the file's name."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    stamp: tuple[int, int]
    version: str
    found: Sequence[FoundProcess]


class FolderOfProcesses:
    """Looks again whenever it is asked: a changed file is a new version, from the next step on."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._loaded: dict[Path, _Loaded] = {}
        self._lock = threading.Lock()
        self.seen: Sequence[FoundProcess] | None = None
        """What was there when somebody last looked."""

    def find(self, name: str) -> FoundProcess | None:
        return _find(self.every(), name)

    def every(self) -> Sequence[FoundProcess]:
        with self._lock:
            self.seen = _without_doubles(self._look())
            return self.seen

    def problem(self, name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
        return _problem(self.every(), name, inputs, complete=complete)

    def _look(self) -> list[FoundProcess]:
        if self._folder is None or not self._folder.is_dir():
            return []
        files = sorted(path for path in self._folder.glob("*.py") if not path.name.startswith(("_", ".")))
        for gone in set(self._loaded) - set(files):
            del self._loaded[gone]
        for path in files:
            stamp = _stamp(path)
            known = self._loaded.get(path)
            if known is None or known.stamp != stamp:
                self._loaded[path] = _load(path, stamp, known)
        return [each for path in files for each in self._loaded[path].found]


class LastSeen:
    """The processes as somebody last saw them. Asking loads nothing: a file that takes long holds nobody up."""

    def __init__(self, folder: FolderOfProcesses) -> None:
        self._folder = folder

    def find(self, name: str) -> FoundProcess | None:
        return _find(self.every(), name)

    def every(self) -> Sequence[FoundProcess]:
        return self._folder.seen or ()

    def problem(self, name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
        return _problem(self.every(), name, inputs, complete=complete)


def _find(found: Sequence[FoundProcess], name: str) -> FoundProcess | None:
    return next((each for each in found if each.name == name and each.process is not None), None)


def _problem(found: Sequence[FoundProcess], name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
    known = _find(found, name)
    if known is None or known.process is None:
        broken = next((each for each in found if each.name == name), None)
        return f"the process {name} cannot be run: {broken.file} {broken.problem}" if broken else _unknown(found, name)
    wrong = misfit(known.process.function, inputs, complete=complete)
    return f"the process {name} {wrong}" if wrong is not None else None


def _unknown(found: Sequence[FoundProcess], name: str) -> str:
    known = ", ".join(sorted(each.name for each in found if each.process is not None)) or "none"
    return f"process {name} not found; available: {known}"


def _without_doubles(found: Sequence[FoundProcess]) -> list[FoundProcess]:
    """Of two with one name neither is run: nobody could tell which."""
    places: dict[str, list[str]] = {}
    for each in found:
        places.setdefault(each.name, []).append(each.file)
    return [
        each
        if len(places[each.name]) == 1
        else FoundProcess(
            each.name,
            each.file,
            each.version,
            each.description,
            f"is defined in both {' and '.join(places[each.name])}",
        )
        for each in found
    ]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _load(path: Path, stamp: tuple[int, int], known: _Loaded | None) -> _Loaded:
    try:
        source = path.read_bytes()
    except OSError as error:
        return _Loaded(stamp, "", [FoundProcess(path.stem, path.name, "", "", f"cannot be read: {error.strerror}")])
    version = hashlib.sha256(source).hexdigest()[:12]
    if known is not None and known.version == version:
        return _Loaded(stamp, version, known.found)
    before = len(context.registered)
    try:
        module = _module(path, source, version)
        found = context.registered[before:] or _plain(module, path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever somebody's file does
        problem = f"{type(error).__name__}: {error}"
        return _Loaded(stamp, version, [FoundProcess(path.stem, path.name, version, "", problem)])
    finally:
        del context.registered[before:]
    return _Loaded(
        stamp,
        version,
        [FoundProcess(each.name, path.name, version, each.description, None, each) for each in found],
    )


def _module(path: Path, source: bytes, version: str) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # so that a process can import what lies beside it
    module = ModuleType(f"{PACKAGE}{path.stem}_{version}")
    module.__file__ = str(path)
    # Known by its name, as dataclasses and pickles want it; compiled here, because Python's own cache takes an edit
    # within the same second for none.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  # what the operator put there to be run
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _plain(module: ModuleType, path: Path) -> list[Process]:
    function = getattr(module, PLAIN, None)
    if function is None or function is context.process:
        return []
    name = path.stem.lower().replace("_", "-")
    return [described(function, name if NAME.fullmatch(name) else path.stem)]
