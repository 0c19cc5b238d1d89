"""A worker as a separate process."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.cli.commands import environment, here, start
from tests.sdk.scripted import Say, scripted
from tests.support.nodes import Node, running_node


def worker(settings: Settings, *arguments: str) -> subprocess.Popen[str]:
    assert settings.database_url is not None
    assert settings.secret_keys is not None
    env = environment(
        ASSENT_DATABASE_URL=settings.database_url,
        ASSENT_SECRET_KEYS=",".join(settings.secret_keys),
        ASSENT_OUTBOUND_ALLOW="127.0.0.0/8",
    )
    return start("worker", *arguments, env=env)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


async def sent(node: Node, breakpoint_id: str) -> dict[str, Any]:
    """Wait until a breakpoint's delivery has succeeded."""
    admin = await node.token("admin")
    while True:
        path = f"/api/deliveries?breakpointId={breakpoint_id}&state=sent"
        found = (await node.call("GET", path, admin)).json()["items"]
        if found:
            whole: dict[str, Any] = (await node.call("GET", f"/api/deliveries/{found[0]['id']}", admin)).json()
            return whole


async def test_a_worker_performs_queued_jobs_and_shuts_down_cleanly(postgres_settings: Settings) -> None:
    settings = postgres_settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    process = worker(settings, "--json")
    try:
        told = json.loads(first_line(process))
        with scripted([Say(200, {})]) as receiver:
            async with running_node(settings) as node:
                delivery = await sent(node, (await node.create(callbackUrl=f"{receiver.url}/hook"))["id"])
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)

    assert (process.returncode, out) == (0, ""), err
    assert [each["worker"] for each in delivery["log"]] == [told["worker"]]
    assert f":{process.pid}:" in told["worker"]
    assert receiver.heard[0].headers["webhook-id"] == delivery["id"]
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_prints_one_line_when_it_is_ready(postgres_settings: Settings, number: signal.Signals) -> None:
    process = worker(postgres_settings)
    said = first_line(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)

    assert f":{process.pid}:" in said
    assert (process.returncode, out) == (0, ""), err
    assert "Traceback" not in err


def test_starting_a_worker_on_sqlite_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    done = here("worker", "--data", str(tmp_path / "data"))

    assert (done.exit_code, done.stdout) == (1, "")
    assert "ASSENT_DATABASE_URL" in done.stderr
    assert "assent serve" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    done = here("worker", ASSENT_DATABASE_URL="postgresql://ann:hunter2@127.0.0.1:1/x")

    assert done.exit_code == 1
    assert "PostgreSQL cannot be used" in done.stderr
    assert "hunter2" not in done.output
