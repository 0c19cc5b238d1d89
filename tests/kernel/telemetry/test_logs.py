"""Every log line is structured, names its subject, and contains no secrets."""

import io
import json
import logging
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import pytest
import structlog

from assent.kernel.settings import Settings
from assent.kernel.telemetry import about, configure_logging
from assent.kernel.telemetry.logs import LONGEST, TAKEN_OVER
from tests.cli.commands import environment
from tests.kernel.telemetry.talkative import SECRETS
from tests.support.nodes import free_port, prepared, ready

ROOT = Path(__file__).parents[3]
STYLES: tuple[Literal["text", "json"], ...] = ("text", "json")


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """Return the output of the talkative program in each log style."""
    found: dict[str, str] = {}
    for style in STYLES:
        run = subprocess.run(
            [sys.executable, "-m", "tests.kernel.telemetry.talkative", style],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 1, run.stderr
        assert run.stdout == ""
        found[style] = run.stderr
    return found


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_is_logged(said: dict[str, str], style: str, kind: str) -> None:
    assert SECRETS[kind] not in said[style]
    # The end must not be logged either, because the part after the prefix is the actual secret.
    assert SECRETS[kind][-20:] not in said[style]


def test_text_next_to_a_secret_is_still_logged(said: dict[str, str]) -> None:
    for style in STYLES:
        for word in ("db.example.com", "postgresql://assent:", "RuntimeError", "ValueError", "in failing", "uncaught"):
            assert word in said[style], word


def test_json_logs_have_one_object_per_line_from_every_logger(said: dict[str, str]) -> None:
    lines = [json.loads(line) for line in said["json"].splitlines()]
    for line in lines:
        assert list(line)[:3] == ["timestamp", "level", "event"]
        assert isinstance(line["event"], str)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["timestamp"])
    assert {"uvicorn.error", "sqlalchemy.engine", "dbos", "py.warnings", "asyncio"} <= {
        line.get("logger") for line in lines
    }


def test_a_traceback_is_logged_as_a_single_field(said: dict[str, str]) -> None:
    lines = [json.loads(line) for line in said["json"].splitlines()]
    failed = [line for line in lines if "exception" in line and line.get("logger") != "asyncio"]
    for line in failed:
        assert line["exception"].startswith("Traceback (most recent call last):")
        assert "Error: " in line["exception"]
    assert {"failed", "request_failed", "uncaught"} <= {line["event"] for line in failed}
    assert {line.get("thread") for line in failed if line["event"] == "uncaught"} == {None, "writer-0"}


def test_only_warnings_and_errors_of_libraries_are_logged(said: dict[str, str]) -> None:
    for style in STYLES:
        assert "not to be seen" not in said[style]
    lines = [json.loads(line) for line in said["json"].splitlines()]
    assert {line["level"] for line in lines if "logger" in line} <= {"warning", "error", "critical"}
    assert "log_line_lost" in {line["event"] for line in lines}


def test_a_log_line_contains_the_job_id(said: dict[str, str]) -> None:
    lines = [json.loads(line) for line in said["json"].splitlines()]
    assert {line.get("job_id") for line in lines if line["event"] == "about"} == {"job-1"}
    assert {
        line.get("job_id") for line in lines if line.get("logger") == "dbos" and line["event"].startswith("said")
    } == {"job-2"}


def test_long_values_are_truncated_in_the_middle(said: dict[str, str]) -> None:
    odd = next(line for line in map(json.loads, said["json"].splitlines()) if line["event"] == "odd")
    assert len(odd["long"]) < LONGEST + 100
    assert "84000 more" in odd["long"]
    assert odd["number"] == "nan"


@pytest.fixture
def restored() -> Iterator[None]:
    """Restore the logging configuration afterwards."""
    loggers = [logging.getLogger(name) for name in (None, *TAKEN_OVER)]
    found = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    hooks = sys.excepthook, threading.excepthook
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook = hooks
    for logger, handlers, level, propagate in found:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def configured(style: Literal["text", "json"]) -> tuple[io.StringIO, Any]:
    stream = io.StringIO()
    configure_logging(style, "info", stream=stream)
    return stream, structlog.get_logger()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("sent", ["a\nERROR forged", "\x1b[2Jgone", "a\rb", "\x9b31m", "\u2028x", "\u202egnp"])
def test_logged_values_cannot_forge_log_lines_or_move_the_cursor(style: Literal["text", "json"], sent: str) -> None:
    stream, log = configured(style)
    log.info(sent, path=sent, list=[sent])
    logging.getLogger("uvicorn.error").warning(sent)
    written = stream.getvalue()
    assert written.count("\n") == 2
    assert len(written.splitlines()) == 2
    assert not {"\x1b", "\r", "\x9b", "\u2028", "\u202e"} & set(written)


@pytest.mark.usefixtures("restored")
def test_error_text_cannot_look_like_a_separate_log_line() -> None:
    stream, log = configured("text")
    msg = "x\n2026-01-01T00:00:00Z [info] approved\x1b[2J"
    log.error("failed", exc_info=ValueError(msg))
    first, *rest = stream.getvalue().splitlines()
    assert "failed" in first
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.usefixtures("restored")
def test_log_context_can_be_nested_and_ends_with_its_block() -> None:
    stream, log = configured("json")
    with about(job="deliver", job_id="j1"):
        with about(breakpoint_id="bp_1", nothing=None):
            log.info("inside")
        log.info("between", job_id="said here")
    log.info("outside")
    inside, between, outside = (json.loads(line) for line in stream.getvalue().splitlines())
    assert {name: inside[name] for name in ("job", "job_id", "breakpoint_id")} == {
        "job": "deliver",
        "job_id": "j1",
        "breakpoint_id": "bp_1",
    }
    assert "nothing" not in inside
    assert (between["job_id"], "breakpoint_id" in between) == ("said here", False)
    assert "job" not in outside


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.usefixtures("restored")
def test_a_failure_to_write_a_log_line_raises_no_error() -> None:
    configure_logging("json", "info", stream=Full())
    structlog.get_logger().info("lost")
    logging.getLogger("uvicorn.error").error("lost")
    closed = io.StringIO()
    configure_logging("text", "info", stream=closed)
    closed.close()
    structlog.get_logger().info("lost")


def test_a_server_logs_only_valid_json_lines(sqlite_settings: Settings, tmp_path: Path) -> None:
    (agent,) = prepared(sqlite_settings, "agent")
    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        serving = subprocess.Popen(
            [sys.executable, "-m", "assent", "serve", "--port", str(port), "--data", str(sqlite_settings.data_dir)],
            env=environment(ASSENT_LOG_FORMAT="json", ASSENT_ACCESS_LOG="true", ASSENT_LOG_LEVEL="debug"),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        assert ready(url, serving), log.read_text()
        body = {"agentId": "a", "payload": {"question": "Go?"}}
        headers = {"authorization": f"Bearer {agent}"}
        made = httpx2.post(f"{url}/api/breakpoints", json=body, headers=headers | {"x-request-id": "made-1"}).json()
        httpx2.get(f"{url}/api/breakpoints/{made['id']}", headers=headers)
        httpx2.get(f"{url}/api/breakpoints/{agent}", headers=headers)
        httpx2.get(f"{url}/sign-in")
        with socket.create_connection((urlsplit(url).hostname, port), timeout=30) as raw:
            raw.sendall(b"\x00 nonsense\r\n\r\n")
            raw.recv(1000)
    finally:
        serving.terminate()
        assert serving.wait(300) is not None
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    asked = [line for line in lines if line["event"] == "request"]
    created = next(line for line in asked if line["request_id"] == "made-1")
    assert (created["method"], created["route"], created["status"]) == ("POST", "/api/breakpoints", 201)
    assert created["principal"].startswith("tok_")
    assert created["ms"] > 0
    read = next(line for line in asked if line.get("breakpoint_id") == made["id"])
    assert (read["route"], read["status"]) == ("/api/breakpoints/{breakpoint_id}", 200)
    assert "/sign-in" in {line["route"] for line in asked}
    assert "Invalid HTTP request received." in {line["event"] for line in lines}
    assert agent not in text
