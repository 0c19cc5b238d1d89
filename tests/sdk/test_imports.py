"""Agents import the SDK and run client commands often: the server must not come along."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import assent

SERVER = ("fastapi", "starlette", "sqlalchemy", "alembic", "uvicorn", "asyncpg", "psycopg", "argon2", "sqlite3",
          "dbos", "prometheus_client", "structlog", "jinja2", "lark", "assent.app", "assent.api", "assent.store",
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


@pytest.mark.parametrize("name", sorted(assent._HOMES))
def test_what_is_named_loads_none_of_the_server(name: str) -> None:
    assert loaded(f"from assent import {name}") == []


def test_the_clients_load_neither_the_terminal_nor_the_receipts() -> None:
    code = "from assent import Assent, AsyncAssent; import sys"
    extra = "; print(*[name for name in ('cryptography', 'rich', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code + extra], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_every_name_is_known_to_type_checkers_and_is_there() -> None:
    told = re.findall(r"^    from (\S+) import (\w+) as \2\b", Path(assent.__file__).read_text(), re.MULTILINE)

    assert {name: home for home, name in told} == assent._HOMES
    assert set(assent._HOMES) <= set(dir(assent))
    assert all(getattr(assent, name) is not None for name in assent._HOMES)


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
