"""The SDK and client commands must not import the server, because agents start them often."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import assent

FEATURES = ("audit", "breakpoints", "delivery", "people", "policy", "runs", "triggers")
SERVER = (
    "fastapi", "starlette", "sqlalchemy", "alembic", "uvicorn", "asyncpg", "psycopg", "argon2", "sqlite3", "dbos",
    "prometheus_client", "structlog", "jinja2", "lark", "assent.node", "assent.platform", "assent.web", "assent.http",
    "assent.db", "assent.kernel",
    *(f"assent.{feature}.{part}" for feature in FEATURES for part in ("api", "feature", "pages", "store", "usecases")),
)  # fmt: skip
REPORT = f"; import sys; print(*[name for name in {SERVER} if name in sys.modules])"


def loaded(code: str) -> list[str]:
    environment = os.environ | {"ASSENT_URL": "http://127.0.0.1:9", "ASSENT_TOKEN": "t"}
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


def test_importing_assent_loads_no_other_module() -> None:
    code = "import assent, sys; print(*[name for name in sys.modules if name.split('.')[0] in %r])"
    ours = ("assent", "httpx2", "pydantic", "msgspec", "typer", "rich")
    done = subprocess.run([sys.executable, "-c", code % (ours,)], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["assent"]


@pytest.mark.parametrize("name", sorted(assent._HOMES))
def test_importing_a_public_name_loads_no_server_module(name: str) -> None:
    assert loaded(f"from assent import {name}") == []


def test_importing_the_clients_loads_no_terminal_or_receipt_code() -> None:
    code = "from assent import Assent, AsyncAssent; import sys"
    extra = "; print(*[name for name in ('cryptography', 'rich', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code + extra], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_every_public_name_exists_and_is_known_to_type_checkers() -> None:
    told = re.findall(r"^    from (\S+) import (\w+) as \2\b", Path(assent.__file__).read_text(), re.MULTILINE)

    assert {name: home for home, name in told} == assent._HOMES
    assert set(assent._HOMES) <= set(dir(assent))
    assert all(getattr(assent, name) is not None for name in assent._HOMES)


@pytest.mark.parametrize("command", [["inbox"], ["ask", "--help"], ["approve", "bp_1", "--yes"]])
def test_a_client_command_loads_no_server_module(command: list[str]) -> None:
    code = f"""
import contextlib, io, sys
from assent.cli.main import run
sys.argv = ["assent", *{command!r}]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    run()
pass"""
    assert loaded(code) == []


def test_an_unknown_name_raises_attribute_error() -> None:
    said = loaded("import assent\ntry:\n    assent.Nothing\nexcept AttributeError:\n    print('refused')\npass")

    assert said == ["refused"]
