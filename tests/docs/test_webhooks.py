"""The program in the how-to guide answers real questions, and the guide lists the channel's settings."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from assent.delivery.api.callbacks import PER_MINUTE
from assent.delivery.channels.webhook.channel import EVENTS, KNOWN
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.delivery.usecases.delegating import channel, route
from tests.docs.pages import code_words, fences, read, rows
from tests.support.nodes import free_port, prepared, running_node, server

PAGE = read("how-to/webhooks.md")
SECRET = "whsec_" + "c2VjcmV0" * 5


def test_the_program_approves_routine_requests_and_ignores_others(sqlite_settings: Settings, tmp_path: Path) -> None:
    (agent_token,) = prepared(sqlite_settings, "agent")
    port = free_port()
    hook = f"http://127.0.0.1:{port}/assent"

    async def set_up() -> None:
        async with running_node(sqlite_settings) as node:
            await node.person("ops-bot", "reviewer")
            await channel(node, "ops-hook", "webhook", url=hook, secrets=["env:OPS_HOOK_SECRET"], answersAs="ops-bot")
            await route(node, "ops-hook")

    asyncio.run(set_up())
    (code,) = fences(PAGE, "python")
    program = tmp_path / "program.py"
    program.write_text(code)
    env = os.environ | {"OPS_HOOK_SECRET": SECRET, "PORT": str(port)}
    receiving = subprocess.Popen(
        [sys.executable, str(program)], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    here = free_port()
    try:
        assert unsigned(hook) == 401
        where = {"outbound_allow": "127.0.0.0/8", "public_url": f"http://127.0.0.1:{here}", "OPS_HOOK_SECRET": SECRET}
        with server(sqlite_settings, port=here, **where) as process, Assent(process.url, agent_token) as agent:
            other = agent.create("And this?", agent_id="a", tags=["rare"])
            routine = agent.create("Shall I?", agent_id="a", tags=["routine"])
            risky = agent.create("Really?", agent_id="a", tags=["routine"], risk="high")
            assert receiving.stdout is not None
            said = sorted(receiving.stdout.readline() for _ in range(2))
            found = [agent.get(each.id) for each in (routine, other, risky)]
    finally:
        receiving.send_signal(signal.SIGTERM)
        receiving.communicate(timeout=300)
    assert [each.decision for each in found] == ["approved", None, None]
    assert said[0].startswith("This breakpoint is high risk. Sign in to approve or reject it: ")
    assert said[1] == "Your approval was recorded. The breakpoint is approved.\n"


def unsigned(url: str) -> int:
    """Send an unsigned request as soon as the program is listening."""
    while True:
        try:
            return httpx2.post(url, content=b"{}", timeout=30).status_code
        except httpx2.ConnectError:
            continue


def test_every_setting_and_event_is_documented() -> None:
    table = {row[0].strip("`?"): row[1] for row in rows(PAGE)}
    assert table.keys() >= KNOWN
    assert set(EVENTS) <= code_words(table["events"])
    assert f"{PER_MINUTE} messages per minute" in PAGE
    assert f"{PER_MINUTE} messages per minute" in read("explanation/answers-from-channels.md")
