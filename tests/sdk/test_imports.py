"""Agents import the SDK and run client commands often: the server must not come along."""

import os
import subprocess
import sys

import pytest

SERVER = ("fastapi", "starlette", "sqlalchemy", "alembic", "uvicorn", "asyncpg", "psycopg", "argon2", "sqlite3",
          "prometheus_client", "structlog", "jinja2", "lark", "assent.app", "assent.api", "assent.store",
          "assent.services", "assent.http", "assent.settings")  # fmt: skip
REPORT = f"; import sys; print(*[name for name in {SERVER} if name in sys.modules])"


def loaded(code: str) -> list[str]:
    environment = os.environ | {"ASSENT_URL": "http://127.0.0.1:9", "ASSENT_TOKEN": "t"}
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


def test_import_assent_loads_nothing_else() -> None:
    code = "import assent, sys; print(*[name for name in sys.modules if name.split('.')[0] in %r])"
    ours = ("assent", "httpx2", "pydantic", "msgspec", "typer", "rich")
    done = subprocess.run([sys.executable, "-c", code % (ours,)], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["assent"]


def test_the_client_loads_none_of_the_server() -> None:
    assert loaded("from assent import Assent, AssentError, Breakpoint, Unreachable") == []


@pytest.mark.parametrize("command", [["inbox"], ["ask", "--help"], ["approve", "bp_1", "--yes"]])
def test_a_client_command_loads_none_of_the_server(command: list[str]) -> None:
    code = f"""
import contextlib, io, sys
from assent.cli.main import run
sys.argv = ["assent", *{command!r}]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    run()
pass"""
    assert loaded(code) == []


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    said = loaded("import assent\ntry:\n    assent.Nothing\nexcept AttributeError:\n    print('refused')\npass")

    assert said == ["refused"]
