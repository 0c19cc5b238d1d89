"""Logs: one line per event, from Assent and its libraries alike, with correlation IDs and without secrets."""

import contextlib
import logging
import math
import sys
import threading
from collections.abc import Generator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol, TextIO, TypeAlias, cast

import structlog

from assent.kernel.telemetry.redaction import HIDDEN, names_a_secret, redacted

Line: TypeAlias = MutableMapping[str, Any]
Style: TypeAlias = Literal["text", "json"]

LONGEST = 16_000
DEEPEST = 6
# Libraries that add their own handlers unless their loggers already have ours.
TAKEN_OVER = ("dbos", "uvicorn", "uvicorn.error", "uvicorn.asgi")
_FIRST = ("timestamp", "level", "event")
# Characters that a terminal would interpret; a log line must also stay a single line.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
_CONTROLS_IN_TRACEBACKS = {code: shown for code, shown in _CONTROLS.items() if chr(code) not in "\n\t"}


class Subject(Protocol):
    """The current request or job; its fields are computed only when a line is logged."""

    def facts(self) -> Mapping[str, object]: ...


# One variable instead of one per fact, because it is set on every request but rarely read.
subject: ContextVar[Subject | None] = ContextVar("subject", default=None)


class _Facts:
    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[str, object]) -> None:
        self._facts = facts

    def facts(self) -> Mapping[str, object]:
        return self._facts


@contextlib.contextmanager
def about(**facts: object) -> Generator[None, None, None]:
    """Add these facts, such as a job or a breakpoint, to every line logged in the block."""
    outer = subject.get()
    known = {**(outer.facts() if outer is not None else {}), **facts}
    token = subject.set(_Facts({name: value for name, value in known.items() if value is not None}))
    try:
        yield
    finally:
        subject.reset(token)


def configure_logging(style: Style, level: str, *, stream: TextIO | None = None) -> None:
    """Send all log lines of this process, including those of libraries, to one stream in one format."""
    lowest = logging.getLevelNamesMapping()[level.upper()]
    lines = _Lines(stream or sys.stderr)
    common: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_facts,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    last: list[structlog.types.Processor] = [
        # Tracebacks omit local variables, which may contain tokens.
        structlog.processors.format_exc_info,
        partial(_presentable, style=style),
        _renderer(style, colors=(stream or sys.stderr).isatty()),
    ]
    structlog.configure(
        processors=[*common, *last],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    _take_over(
        _Handler(lines, max(lowest, logging.WARNING)),
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name, _add_job],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        ),
    )
    _report_what_nobody_caught()


def _renderer(style: Style, *, colors: bool) -> structlog.types.Processor:
    if style == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


class _Lines:
    """Writes whole lines; a failed write never affects the code that logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def msg(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    # The lines are already filtered by level and formatted when they arrive here.
    debug = info = warning = warn = error = critical = exception = fatal = msg


class _Handler(logging.Handler):
    """Logs warnings and errors from libraries in the same format; records at lower levels may contain URLs."""

    def __init__(self, lines: _Lines, level: int) -> None:
        super().__init__(level)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.msg(self.format(record))
        except Exception:  # noqa: BLE001  # an invalid call, such as one with the wrong number of arguments
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # name defined by the logging module
        structlog.get_logger().warning("log_line_lost", logger=record.name, level_name=record.levelname)


def _take_over(handler: _Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(handler.level)
    for name in TAKEN_OVER:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False


def _report_what_nobody_caught() -> None:
    log = structlog.get_logger()

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("uncaught", exc_info=(kind, error, trace))

    def uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            name = args.thread.name if args.thread else None
            log.critical("uncaught", thread=name, exc_info=(args.exc_type, args.exc_value, args.exc_traceback))

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread


def _add_facts(_: object, __: str, line: Line) -> Line:
    current = subject.get()
    if current is not None:
        for name, value in current.facts().items():
            line.setdefault(name, value)
    return line


def _add_job(_: object, __: str, line: Line) -> Line:
    """Add the ID of the DBOS workflow that logged the record."""
    workflow = getattr(line.get("_record"), "operationUUID", None)
    if workflow:
        line.setdefault("job_id", workflow)
    return line


def _presentable(_: object, __: str, line: Line, *, style: Style) -> Line:
    """Put the fixed fields first, redact secrets, and escape what a terminal would interpret."""
    ordered = {name: line[name] for name in _FIRST if name in line} | dict(line)
    shown = {key: _plain(key, value) for key, value in ordered.items()}
    if style == "text":
        return {key: _visible(key, value) for key, value in shown.items()}
    return shown


def _visible(key: str, value: object) -> object:
    if not isinstance(value, str) or value.isprintable():
        return value
    if key in {"exception", "stack"}:
        # Indent errors, so that no part of an error can look like a separate log line.
        return "\n".join(f"    {part}" for part in value.translate(_CONTROLS_IN_TRACEBACKS).split("\n"))
    return value.translate(_CONTROLS)


def _plain(key: str, value: object, depth: int = 0) -> object:
    """Return a JSON value with secrets redacted; values of other types are converted to text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if names_a_secret(key):
        return HIDDEN
    # In this order, because most values are strings, and checking for a mapping is slow.
    if not isinstance(value, str | bytes) and depth < DEEPEST:
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            return {redacted(str(name)): _plain(str(name), each, depth + 1) for name, each in pairs.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_plain("", each, depth + 1) for each in cast("Sequence[object]", value)]
    return _short(redacted(_text(value)))


def _text(value: object) -> str:
    """Return a value as text; for a subclass of str, return its repr, because it may hide its value."""
    if type(value) is str:
        return value
    return str(value.value) if isinstance(value, Enum) else repr(value)


def _short(text: str) -> str:
    """Truncate long text in the middle, because errors often state their cause at the end."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {len(text) - LONGEST} more … {text[-half:]}"
