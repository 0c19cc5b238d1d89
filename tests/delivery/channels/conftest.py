"""A node with a worker that is allowed to connect to the fake servers."""

from collections.abc import AsyncIterator

import pytest

from assent.kernel.settings import Settings
from tests.support.nodes import Node, running_node
from tests.support.slack import FakeSlack

HOOK_SECRET = "whsec_" + "c2VjcmV0" * 5
SECRETS = {
    "HOOK_SECRET": HOOK_SECRET,
    "SLACK_TOKEN": FakeSlack.token,
    "SLACK_APP": FakeSlack.app_token,
    "SLACK_SIGNING": FakeSlack.signing_secret,
    "JIRA_TOKEN": "jira-token",
    "JIRA_HOOK": "jira-hook-secret",
    "MAIL_REPLY": "mail-reply-secret",
    "MAIL_INBOUND": "mail-inbound-secret",
}


@pytest.fixture
async def working(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, worker=True) as node:
        yield node
