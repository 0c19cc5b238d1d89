"""The Apprise channel, with the real package and a real receiver."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.delivery.channels.apprise import AppriseChannel
from assent.delivery.message import Purpose
from assent.kernel.outbound import Permanent, Transient
from tests.delivery.channels.notes import AT, PLACE, REVIEW, closing, many, note, tools
from tests.support.receiver import Answer, Receiver, receiving

ROOT = Path(__file__).parents[3]
# The package imports all of its services at once, and some of them use deprecated modules.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def urls(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """References to two URLs of the receiver: `/first` and `/second`."""
    for name in ("first", "second"):
        monkeypatch.setenv(f"APPRISE_{name.upper()}", receiver.url(f"/{name}").replace("http://", "json://"))
    return ["env:APPRISE_FIRST", "env:APPRISE_SECOND"]


async def test_a_message_has_a_title_and_a_review_link(receiver: Receiver, urls: list[str]) -> None:
    assert (await AppriseChannel({"urls": urls[:1]}, tools()).send(note(PLACE))).trace == {}
    (call,) = receiver.calls
    assert call.json["title"] == "Deploy to production"
    assert f"Review: {REVIEW}" in call.json["message"]
    assert "Gate: deploy" in call.json["message"]
    assert call.json["message"].count("https://") == 1


async def test_agent_text_never_becomes_a_mention_or_link(receiver: Receiver, urls: list[str]) -> None:
    text = "@everyone <!channel> <@U1> [here](x) \u202eevil"
    await AppriseChannel({"urls": urls[:1]}, tools()).send(
        note(PLACE, Purpose.REMIND, asked={"title": text, "payload": {"question": text}})
    )
    (call,) = receiver.calls
    said = call.json["title"] + call.json["message"]
    assert not set("@<[\u202e") & set(said)
    assert "Reminder: agent-1 is still waiting for approval." in said


async def test_a_refused_message_is_retried(receiver: Receiver, urls: list[str]) -> None:
    receiver.answer("/first", Answer(500), Answer(204))
    channel = AppriseChannel({"urls": urls[:1]}, tools())
    with pytest.raises(Transient, match="No Apprise service accepted"):
        await channel.send(note(PLACE))
    await channel.send(note(PLACE, attempt=2))
    assert len(receiver.calls) == 2


async def test_a_failing_service_does_not_cause_duplicates_on_the_other_services(
    receiver: Receiver, urls: list[str]
) -> None:
    receiver.answer("/second", Answer(500))
    posted = await AppriseChannel({"urls": urls}, tools()).send(note(PLACE))
    assert posted.trace == {"refused": "urls/1"}
    assert len(receiver.to("/first")) == 1


async def test_a_hanging_service_times_out(receiver: Receiver, urls: list[str]) -> None:
    receiver.hold("/first")
    with pytest.raises(Transient, match="in time"):
        await AppriseChannel({"urls": urls[:1]}, tools(), patience=0.3).send(note(PLACE))
    receiver.let_go("/first")


async def test_a_digest_is_sent_as_one_message(receiver: Receiver, urls: list[str]) -> None:
    await AppriseChannel({"urls": urls[:1]}, tools()).digest(many(30, PLACE))
    (call,) = receiver.calls
    assert call.json["title"] == "30 approvals pending. 3 ended since the last message."
    assert "And 10 more." in call.json["message"]
    assert call.json["message"].count("https://assent.example.com/breakpoints/") == 20


async def test_each_item_of_a_digest_shows_its_deadline(receiver: Receiver, urls: list[str]) -> None:
    await AppriseChannel({"urls": urls[:1]}, tools()).digest(many(2, PLACE, due_at=AT + 3_600 * SECOND))
    (call,) = receiver.calls
    assert call.json["message"].count("(answer by 2027-01-15 09:00 UTC): https://") == 2


async def test_neither_closing_nor_checking_sends_a_message(receiver: Receiver, urls: list[str]) -> None:
    channel = AppriseChannel({"urls": urls}, tools())
    assert await channel.close(closing(PLACE)) is None
    assert "Apprise supports all configured URLs (JSON" in await channel.check()
    assert receiver.calls == []


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({}, "/settings/urls"),
        ({"urls": []}, "/settings/urls"),
        ({"urls": ["json://127.0.0.1/"]}, "/settings/urls/0"),
        ({"urls": ["env:NO_SUCH_THING_AT_ALL"]}, "/settings/urls/0"),
        ({"urls": "env:APPRISE_FIRST"}, "/settings/urls"),
        ({"urls": ["env:APPRISE_FIRST"], "to": "x"}, "/settings/to"),
    ],
)
def test_the_error_for_an_invalid_setting_points_to_it(settings: dict[str, Any], pointer: str, urls: list[str]) -> None:
    assert urls
    with pytest.raises(InvalidRequest, match=pointer):
        AppriseChannel(settings, tools())


async def test_an_unsupported_url_is_reported_without_revealing_it(
    urls: list[str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPRISE_ODD", "nothing-like-this://hunter2")
    channel = AppriseChannel({"urls": [urls[0], "env:APPRISE_ODD"]}, tools())
    for tried in (channel.check(), channel.send(note(PLACE))):
        with pytest.raises(Permanent, match="urls/1") as refused:
            await tried
        assert "hunter2" not in str(refused.value)
    assert receiver.to("/second") == []


def test_without_the_extra_the_error_says_what_to_install(urls: list[str]) -> None:
    program = f"""
import sys
sys.modules["apprise"] = None
from assent.delivery.channels.apprise import AppriseChannel
from tests.delivery.channels.notes import tools
AppriseChannel({{"urls": {urls!r}}}, tools())
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "install assent[apprise]" in ran.stderr
