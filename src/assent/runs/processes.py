"""Finds processes in a folder; each file is loaded separately, so that a broken file does not affect the others."""

import hashlib
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from assent.core.canonical import Json
from assent.runs.ports import FoundProcess
from assent.runs.signatures import misfit
from assent.sdk import context
from assent.sdk.context import NAME, Process, described

PACKAGE = "assent_process_"
PLAIN = "process"
"""A function with this name makes its file a process that is named after the file."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    stamp: tuple[int, int]
    version: str
    found: Sequence[FoundProcess]


class FolderOfProcesses:
    """Checks the folder on every call. A changed file becomes a new version, which runs use from their next step."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._loaded: dict[Path, _Loaded] = {}
        self._lock = threading.Lock()
        self.seen: Sequence[FoundProcess] | None = None
        """The result of the last call."""

    def find(self, name: str) -> FoundProcess | None:
        return _find(self.every(), name)

    def every(self) -> Sequence[FoundProcess]:
        with self._lock:
            # Requests and runs call this from several threads, but a module must be loaded only once.
            self.seen = _without_doubles(self._look())
            return self.seen

    def problem(self, name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
        return _problem(self.every(), name, inputs, complete=complete)

    def _look(self) -> list[FoundProcess]:
        if self._folder is None or not self._folder.is_dir():
            return []
        # Hidden files include editors' lock files, which may be broken links.
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
    """The most recently found processes. The methods never load files, so a slow file does not delay the caller."""

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
    """Disable processes with the same name, because it would be ambiguous which one to run."""
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
    # Do not execute a file again if only its modification time changed.
    if known is not None and known.version == version:
        return _Loaded(stamp, version, known.found)
    before = len(context.registered)
    try:
        module = _module(path, source, version)
        found = context.registered[before:] or _plain(module, path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # user code can raise anything
        problem = f"{type(error).__name__}: {error}"
        return _Loaded(stamp, version, [FoundProcess(path.stem, path.name, version, "", problem)])
    finally:
        # The decorator registers processes in a global list, which must be empty for the next file.
        del context.registered[before:]
    return _Loaded(
        stamp,
        version,
        [FoundProcess(each.name, path.name, version, each.description, None, each) for each in found],
    )


def _module(path: Path, source: bytes, version: str) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # so that processes can import neighboring modules
    module = ModuleType(f"{PACKAGE}{path.stem}_{version}")
    module.__file__ = str(path)
    # Registered under its name, which dataclasses and pickle require. Compiled here, because Python's bytecode cache
    # misses an edit within the same second.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  # the operator put this code here to be executed
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
