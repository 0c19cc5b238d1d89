"""The receiver in the how-to guide verifies real callbacks, and the documented retry delays match the code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from assent.delivery.usecases.outbox import LADDER
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import here_json
from tests.docs.pages import fences, read
from tests.support.nodes import free_port, prepared, server

PAGE = read("how-to/callbacks.md")


@pytest.fixture
def receiver(tmp_path: Path) -> Path:
    (code,) = fences(PAGE, "python")
    path = tmp_path / "receiver.py"
    path.write_text(code)
    return path


def test_the_receiver_accepts_signed_callbacks_and_rejects_others(sqlite_settings: Settings, receiver: Path) -> None:
    (agent_token,) = prepared(sqlite_settings, "agent")
    secret = here_json("project", "callback-secret", "--data", str(sqlite_settings.data_dir))["items"][0]["secret"]
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    env = os.environ | {"ASSENT_CALLBACK_SECRET": secret, "PORT": str(port)}
    receiving = subprocess.Popen(
        [sys.executable, str(receiver)], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        # Wait until the receiver is listening, because a failed first attempt is retried only after five seconds.
        assert _unsigned(url) == 401
        with server(sqlite_settings, outbound_allow="127.0.0.0/8") as process:
            with Assent(process.url, agent_token) as agent:
                asked = agent.create("Shall I?", agent_id="a", callback_url=url)
                agent.cancel(asked.id)
            assert receiving.stdout is not None
            said = [receiving.stdout.readline().split() for _ in range(2)]
    finally:
        receiving.send_signal(signal.SIGTERM)
        receiving.communicate(timeout=300)

    assert said == [
        ["breakpoint.created", asked.id, "wait", "or", "stop"],
        ["breakpoint.cancelled", asked.id, "wait", "or", "stop"],
    ]


def _unsigned(url: str) -> int:
    headers = {"webhook-id": "dlv_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    while True:
        try:
            return httpx2.post(url, content=json.dumps({"type": "x"}), headers=headers, timeout=30).status_code
        except httpx2.ConnectError:
            continue


def test_the_documented_retry_delays_match_the_code() -> None:
    page = " ".join(PAGE.split())
    told = "5 seconds, 5 minutes, 30 minutes, then 2, 5, 10, 14, 20 and 24 hours"
    hours = [hours * 3600 for hours in (2, 5, 10, 14, 20, 24)]

    assert told in page
    assert [5, 300, 1800, *hours] == list(LADDER)
    assert "ten attempts in about three days" in page
    assert (len(LADDER) + 1, sum(LADDER) // 86400) == (10, 3)
