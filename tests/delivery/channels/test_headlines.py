"""Messages on every channel start with the action and keep the agent's title."""

import json
from dataclasses import replace
from typing import Any

from assent.delivery.channels.email.letter import as_html, as_text, of_note
from assent.delivery.channels.slack.blocks import listing, message
from assent.delivery.channels.wording import headline
from tests.delivery.channels.notes import many, note

COMMAND = "git push --force origin main"
PUSH: dict[str, Any] = {"tool": "Bash", "arguments": {"command": COMMAND}, "question": "Run Bash?"}


def test_an_email_starts_with_the_command_and_keeps_the_title() -> None:
    letter = of_note(note(asked={"title": "Ship it", "payload": PUSH}))
    assert letter.subject == f"[Approval] {COMMAND} (bp_1)"
    assert f"<bdi>{COMMAND}</bdi></h1>" in as_html(letter)
    assert "Title: Ship it" in as_text(letter)


def test_a_slack_message_starts_with_the_command_and_keeps_the_title() -> None:
    sent = message(note(asked={"title": "Ship it", "payload": PUSH}))
    header = next(each for each in sent["blocks"] if each["type"] == "header")
    assert header["text"]["text"] == COMMAND
    assert sent["text"] == f"Approval needed: {COMMAND}"
    assert '"Title: Ship it"' in json.dumps(sent)


def test_a_command_longer_than_a_slack_header_is_shown_in_full() -> None:
    command = "x" * 400
    sent = message(note(asked={"title": "Bash", "payload": PUSH | {"arguments": {"command": command}}}))
    assert f'"text": "{command}"' in json.dumps(sent)


def test_a_digest_does_not_offer_to_approve_a_truncated_command() -> None:
    payload = PUSH | {"arguments": {"command": "x" * 600}, "question": ""}
    for changes, offered in ((payload, False), (PUSH, True)):
        digest = replace(many(1, payload=changes), deliveries={"bp_0": "dlv_1"})
        assert ("assent_approve" in json.dumps(listing(digest))) is offered


def test_hidden_characters_in_a_command_are_marked() -> None:
    asked = note(asked={"payload": PUSH | {"arguments": {"command": "ls\nrm\u202e -r"}}}).breakpoint
    assert headline(asked) == "ls ⏎ rm⟦U+202E⟧ -r"
