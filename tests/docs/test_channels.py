"""The examples on the pages about channels and routes work unchanged."""

import base64
import re
import shlex

import pytest
import yaml

from assent.cli.main import loaded
from assent.delivery.channels.pacing import DIGEST, MESSAGES, SECONDS
from assent.delivery.routes_file import _KEYS
from assent.delivery.usecases.configuration import _CHANNEL_KEYS
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.triggers.usecases.config_reload import Reloading
from tests.docs.pages import fences, read, rows

CHANNELS, ROUTES = read("how-to/channels.md"), read("how-to/routes.md")
OTHERS = [read(f"how-to/{name}.md") for name in ("apprise", "email", "jira", "slack", "webhooks")]
SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()


def every(language: str) -> list[str]:
    return [each for page in (CHANNELS, ROUTES, *OTHERS) for each in fences(page, language)]


def first_cells(text: str) -> set[str]:
    return {row[0].strip("`") for row in rows(text)}


def test_every_channel_and_route_key_is_documented() -> None:
    assert first_cells(CHANNELS) == _CHANNEL_KEYS | {MESSAGES, SECONDS, DIGEST}
    assert first_cells(ROUTES) == _KEYS | {"project", "enabled"}


def test_every_example_file_is_valid(sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in every("yaml"):
        for name in re.findall(r"env:([A-Z_]+)", text):
            monkeypatch.setenv(name, SECRET)
        sections = yaml.safe_load(text)
        found = ServerNode(sqlite_settings.model_copy(update=sections))[Reloading].setup.told
        assert len(found.channels) + len(found.routes) == sum(map(len, sections.values()))


def test_every_command_and_its_options_exist() -> None:
    for text in every("sh"):
        for line in filter(re.compile("assent ").match, re.sub(r"\\\n", "", text).splitlines()):
            name, command, *given = shlex.split(line.removeprefix("assent "))
            found = loaded(name).commands[command]  # type: ignore[union-attr]
            known = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
            assert {each for each in given if each.startswith("--")} <= known, line
