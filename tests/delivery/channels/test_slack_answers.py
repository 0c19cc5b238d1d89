"""Answers from Slack: only signed requests count, and each becomes an answer or opens a form."""

import hashlib
import hmac
import html
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.breakpoint import Breakpoint, Status
from assent.core.errors import AssentError, Conflict, InvalidRequest, RejectionPending, TicketRequired, Unauthenticated
from assent.core.terms import Answer, Terms
from assent.core.timestamps import SECOND
from assent.delivery.channels.slack.blocks import message
from assent.delivery.channels.slack.channel import SOCKET, SlackChannel
from assent.delivery.channels.slack.modal import modal, notice
from assent.delivery.ports import Heard, Told, Wish
from assent.kernel.outbound import Outbound
from assent.kernel.ports import Incoming
from tests.delivery.channels.slack_kit import BASE, DIGEST, LOOPBACK, ROOM, note, now, raised, speaking, tools
from tests.support.slack import TEAM, FakeSlack, Message, View, invalid, texts

AT = 1_800_000_000
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "budget": {"type": "integer", "title": "Budget", "minimum": 0.5, "maximum": 100},
        "rate": {"type": "number"},
        "urgent": {"type": "boolean"},
        "size": {"type": "integer", "enum": [1, 2, 3]},
        "why": {"type": "string", "maxLength": 50, "default": "because"},
    },
    "required": ["budget"],
}


def asked(**changes: Any) -> Breakpoint:
    return raised(**changes)[0]


def made(settings: dict[str, Any] | None = None) -> tuple[FakeSlack, SlackChannel]:
    slack = FakeSlack()
    slack.now = lambda: AT
    return slack, SlackChannel(settings or ROOM, tools(slack, Outbound(allow=LOOPBACK)))


def shown(current: Breakpoint | None = None) -> Message:
    content = message(note(current or asked()))
    return Message("C0ROOM", "1.1", content["text"], content["blocks"], {})


def over_http(slack: FakeSlack, payload: dict[str, Any], *, at: int = AT) -> Incoming:
    headers, body = slack.signed(payload, at=at)
    return Incoming(headers, body, AT * SECOND)


def the_one(channel: SlackChannel, incoming: Incoming) -> Heard:
    (heard,) = channel.hear(incoming)
    return heard


def filled(current: Breakpoint, values: dict[str, str | None], *, approve: bool = True) -> Answer | None:
    slack, channel = made()
    view = View("V1", modal(current, "dl_1", approve=approve), "U1")
    return channel.answer(the_one(channel, over_http(slack, slack.submitted("U1", view, values))), current)


def test_a_click_identifies_the_delivery_and_the_person() -> None:
    slack, channel = made()
    heard = the_one(channel, over_http(slack, slack.clicked("U1", shown(), "Approve")))

    assert (heard.wish, heard.identity, heard.delivery_id) == (Wish.ANSWER, f"{TEAM}:U1", "dl_1")
    assert heard.said["shownAs"] == "@u1 in acme"
    assert channel.answer(heard, asked()) == Answer(approved=True, digest=DIGEST)


@pytest.mark.parametrize("label", ["Approve…", "Reject…"])
def test_a_click_that_requires_input_opens_a_form(label: str) -> None:
    slack, channel = made()
    current = asked(payload={"options": ["a"]})
    heard = the_one(channel, over_http(slack, slack.clicked("U1", shown(current), label)))

    assert heard.wish is Wish.FORM
    assert channel.answer(heard, current) is None


@pytest.mark.parametrize("changes", [{"payload": {"options": ["a"]}}, {"payload": {"form": FORM}}, {"risk": "high"}])
def test_an_approval_without_the_required_input_does_not_count(changes: dict[str, Any]) -> None:
    slack, channel = made()
    heard = the_one(channel, over_http(slack, slack.clicked("U1", shown(), "Approve")))

    assert channel.answer(heard, asked(**changes)) is None


def test_opening_the_link_or_closing_a_form_is_ignored() -> None:
    slack, channel = made()

    assert channel.hear(over_http(slack, slack.clicked("U1", shown(), "Review"))) == ()
    assert channel.hear(over_http(slack, {"type": "view_closed"})) == ()


def test_a_person_from_another_workspace_has_a_different_identity() -> None:
    slack, channel = made()
    heard = the_one(channel, over_http(slack, slack.clicked("U1", shown(), "Approve", team="T0OTHER")))

    assert heard.identity == "T0OTHER:U1"


def test_a_click_has_a_unique_key_that_is_the_same_on_every_transport() -> None:
    slack, channel = made()
    payload = slack.clicked("U1", shown(), "Approve")
    body = json.dumps(payload).encode()
    over_socket = Incoming({SOCKET: channel._mark(body)}, body, AT * SECOND)
    keys = {the_one(channel, each).key for each in (over_http(slack, payload), over_http(slack, payload), over_socket)}

    assert len(keys) == 1
    assert the_one(channel, over_http(slack, slack.clicked("U1", shown(), "Approve"))).key not in keys
    assert the_one(channel, over_http(slack, slack.clicked("U2", shown(), "Approve"))).key not in keys


def test_a_corrected_form_counts_as_a_new_submission() -> None:
    slack, channel = made()
    view = View("V1", modal(asked(), "dl_1", approve=False), "U1")
    one, same, other = (
        the_one(channel, over_http(slack, slack.submitted("U1", view, {"comment": text}))).key
        for text in ("no", "no", "not yet")
    )

    assert one == same != other


def test_a_message_without_a_content_hash_cannot_be_answered() -> None:
    slack, channel = made()
    payload = slack.clicked("U1", shown(), "Approve") | {"message": {"blocks": []}}

    with pytest.raises(InvalidRequest, match="Review"):
        channel.answer(the_one(channel, over_http(slack, payload)), asked())


def test_the_answer_refers_to_the_content_that_was_shown() -> None:
    slack, channel = made()
    heard = the_one(channel, over_http(slack, slack.clicked("U1", shown(), "Approve")))

    answer = channel.answer(heard, asked(digest="e" * 64))
    assert answer is not None
    assert answer.digest == DIGEST


GOOD_SLACK, CHANNEL = made()
GOOD = over_http(GOOD_SLACK, GOOD_SLACK.clicked("U1", shown(), "Approve"))
SIGNED_HEADERS = ("x-slack-signature", "x-slack-request-timestamp")


@given(st.integers(0, len(GOOD.body) - 1), st.integers(1, 255))
def test_changing_any_byte_of_the_body_invalidates_a_request(place: int, change: int) -> None:
    body = bytearray(GOOD.body)
    body[place] ^= change

    with pytest.raises(Unauthenticated):
        CHANNEL.hear(replace(GOOD, body=bytes(body)))


@given(st.sampled_from(SIGNED_HEADERS), st.data())
def test_changing_any_character_of_a_header_invalidates_a_request(name: str, data: st.DataObject) -> None:
    value = GOOD.headers[name]
    place = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters().filter(lambda char: char != value[place]))
    changed = value[:place] + other + value[place + 1 :]

    with pytest.raises(Unauthenticated):
        CHANNEL.hear(replace(GOOD, headers=dict(GOOD.headers) | {name: changed}))


@given(st.binary(max_size=200))
def test_adding_or_removing_bytes_invalidates_a_request(more: bytes) -> None:
    for body in (GOOD.body + b"&" + more, more + GOOD.body + b"=", GOOD.body[: -1 - len(more)]):
        with pytest.raises(Unauthenticated):
            CHANNEL.hear(replace(GOOD, body=body))


@pytest.mark.parametrize("name", SIGNED_HEADERS)
def test_a_request_without_its_signature_is_rejected(name: str) -> None:
    headers = {key: value for key, value in GOOD.headers.items() if key != name}

    with pytest.raises(Unauthenticated):
        CHANNEL.hear(replace(GOOD, headers=headers))


@pytest.mark.parametrize(("age", "taken"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)])
def test_a_request_is_valid_for_five_minutes(age: int, *, taken: bool) -> None:
    late = replace(GOOD, at=(AT + age) * SECOND)
    if taken:
        assert len(CHANNEL.hear(late)) == 1
        return
    with pytest.raises(Unauthenticated):
        CHANNEL.hear(late)


def test_a_request_signed_with_another_secret_is_rejected() -> None:
    slack, channel = made()
    slack.signing_secret = "another"
    request = over_http(slack, slack.clicked("U1", shown(), "Approve"))
    slack.signing_secret = FakeSlack.signing_secret

    with pytest.raises(Unauthenticated):
        channel.hear(request)


@pytest.mark.parametrize("secret", ["", None])
def test_without_a_signing_secret_every_http_request_is_rejected(secret: str | None) -> None:
    settings = {name: value for name, value in ROOM.items() if name != "signingSecret" or secret is not None}
    slack, channel = made(settings)
    slack.signing_secret = secret or ""  # anyone can compute a MAC with an empty key
    request = over_http(slack, slack.clicked("U1", shown(), "Approve"))

    with pytest.raises(Unauthenticated):
        channel.hear(request)


@given(st.text(max_size=80) | st.just("") | st.sampled_from(["0" * 64, "true"]))
def test_a_caller_cannot_impersonate_the_socket_connection(mark: str) -> None:
    body = json.dumps(GOOD_SLACK.clicked("U1", shown(), "Approve")).encode()

    for incoming in (Incoming({SOCKET: mark}, body, GOOD.at), replace(GOOD, headers={**GOOD.headers, SOCKET: mark})):
        with pytest.raises(Unauthenticated):
            CHANNEL.hear(incoming)


def test_a_socket_mark_is_valid_only_for_one_body() -> None:
    body = json.dumps(GOOD_SLACK.clicked("U1", shown(), "Approve")).encode()
    mark = CHANNEL._mark(body)

    assert len(CHANNEL.hear(Incoming({SOCKET: mark}, body, GOOD.at))) == 1
    with pytest.raises(Unauthenticated):
        CHANNEL.hear(Incoming({SOCKET: mark}, body.replace(b'"U1"', b'"U2"'), GOOD.at))


def test_no_socket_mark_is_valid_without_an_app_token() -> None:
    _, channel = made({"token": "env:SLACK_TOKEN", "signingSecret": "env:SLACK_SIGNING"})

    with pytest.raises(Unauthenticated):
        channel.hear(Incoming({SOCKET: "0" * 64}, b"{}", GOOD.at))


@pytest.mark.parametrize(
    "changes",
    [
        {"user": {"id": "U1:U2", "team_id": TEAM}},
        {"user": {"id": "", "team_id": TEAM}},
        {"user": "U1", "team": None},
        {"actions": [{"action_id": "assent_approve", "value": "", "action_ts": "1.1"}]},
        {"actions": [{"action_id": "assent_approve", "value": "dl_1"}]},
        {"actions": [{"action_id": "assent_approve", "value": {"id": "dl_1"}, "action_ts": "1.1"}]},
    ],
)
def test_a_signed_click_with_an_unknown_structure_is_rejected(changes: dict[str, Any]) -> None:
    slack, channel = made()

    with pytest.raises(InvalidRequest):
        channel.hear(over_http(slack, slack.clicked("U1", shown(), "Approve") | changes))


@pytest.mark.parametrize("body", [b"", b"payload", b"payload=%7B", b"payload=[]", b"payload={}&payload={}", b"a=1"])
def test_an_unreadable_signed_body_is_rejected(body: bytes) -> None:
    mac = hmac.new(FakeSlack.signing_secret.encode(), f"v0:{AT}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={mac}", "x-slack-request-timestamp": str(AT)}

    with pytest.raises(InvalidRequest):
        CHANNEL.hear(Incoming(headers, body, AT * SECOND))


def test_text_that_a_database_cannot_store_is_rejected() -> None:
    slack, channel = made()
    view = View("V1", modal(asked(), "dl_1", approve=False), "U1")

    with pytest.raises(InvalidRequest):
        channel.hear(over_http(slack, slack.submitted("U1", view, {"comment": "a\0b"})))


def test_form_values_are_converted_to_their_types() -> None:
    current = asked(payload={"form": FORM, "options": ["eu", "us"]})
    answer = filled(
        current,
        {
            "option": "us",
            "field-0": "42",
            "field-1": "0.5",
            "field-2": "no",
            "field-3": "3",
            "field-4": "it must",
            "comment": "ok",
        },
    )

    assert answer == Answer(
        approved=True,
        comment="ok",
        option="us",
        answers={"budget": 42, "rate": 0.5, "urgent": False, "size": 3, "why": "it must"},
        digest=DIGEST,
    )
    Terms.of(current.gate, current.payload).check(answer)


def test_empty_fields_are_omitted() -> None:
    answer = filled(asked(payload={"form": FORM}), {"field-0": "1"})

    assert answer is not None
    assert answer.answers == {"budget": 1}
    assert answer.comment is None


def test_a_rejection_includes_its_reason() -> None:
    current = asked(payload={"form": FORM, "options": ["a"]})

    assert filled(current, {"comment": "Not today"}, approve=False) == Answer(
        approved=False, comment="Not today", digest=DIGEST
    )


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("1.5", "whole number"),
        ("many", "whole number"),
        ("nan", "whole number"),
        ("9" * 16, "too large"),
        ("١", "whole"),
    ],
)
def test_an_invalid_number_is_reported_for_its_field(typed: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        filled(asked(payload={"form": FORM}), {"field-0": typed})

    assert caught.value.details["errors"][0]["pointer"] == "/answers/budget"  # type: ignore[index]


def test_the_form_shows_the_question_and_all_inputs() -> None:
    view = modal(asked(payload={"question": "How much?", "form": FORM, "options": ["a", "b"]}), "dl_1", approve=True)
    elements = {block["block_id"]: block["element"] for block in view["blocks"] if block["type"] == "input"}

    assert view["private_metadata"] == "dl_1"
    assert "How much?" in texts(view["blocks"])
    assert list(elements) == ["option", "field-0", "field-1", "field-2", "field-3", "field-4", "comment"]
    assert (elements["field-0"]["min_value"], elements["field-0"]["max_value"]) == ("1", "100")
    assert not elements["field-0"]["is_decimal_allowed"]
    assert elements["field-1"]["is_decimal_allowed"]
    assert (
        elements["field-4"] | {"initial_value": "because", "multiline": False, "max_length": 50} == elements["field-4"]
    )
    optional = {block["block_id"]: block["optional"] for block in view["blocks"] if block["type"] == "input"}
    assert [name for name, may in optional.items() if not may] == ["option", "field-0"]


@pytest.mark.parametrize("typed", [None, "", "  \n"])
def test_a_rejection_requires_a_reason(typed: str | None) -> None:
    view = modal(asked(), "dl_1", approve=False)
    assert [block["optional"] for block in view["blocks"] if block["type"] == "input"] == [False]
    with pytest.raises(InvalidRequest, match="required when rejecting") as caught:
        filled(asked(), {"comment": typed}, approve=False)
    assert caught.value.details["errors"][0]["pointer"] == "/comment"  # type: ignore[index]


def test_a_default_with_invisible_characters_is_not_prefilled() -> None:
    form = {"type": "object", "properties": {"a": {"type": "string", "default": "x\u200by"}}}
    view = modal(asked(payload={"form": form}), "dl_1", approve=True)

    assert "initial_value" not in json.dumps(view)


async def heard_after(slack: FakeSlack, channel: SlackChannel, label: str, current: Breakpoint | None = None) -> Heard:
    await channel.send(note(current))
    headers, body = slack.signed(slack.clicked("U1", await slack.posted(), label))
    return the_one(channel, Incoming(headers, body, now()))


async def submitted(slack: FakeSlack, channel: SlackChannel, values: dict[str, str | None]) -> Heard:
    headers, body = slack.signed(slack.submitted("U1", await slack.opened(), values))
    return the_one(channel, Incoming(headers, body, now()))


async def test_a_form_opens_on_a_click_and_closes_when_it_is_submitted() -> None:
    current = asked(payload={"question": "Where?", "options": ["eu", "us"]})
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve…", current)
        assert await channel.reply(heard, Told(done=True, message="", breakpoint=current)) is None
        heard = await submitted(slack, channel, {"option": "eu"})
        assert channel.answer(heard, current) == Answer(approved=True, option="eu", digest=DIGEST)
        ended = current.but(status=Status.RELEASED)
        assert await channel.reply(heard, Told(done=True, message="Taken.", breakpoint=ended)) is None

    assert slack.ephemerals == []
    assert (heard.delivery_id, heard.wish) == ("dl_1", Wish.ANSWER)


async def test_a_rejection_opens_a_form_for_the_reason() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))
        heard = await submitted(slack, channel, {"comment": "No"})

    assert channel.answer(heard, asked()) == Answer(approved=False, comment="No", digest=DIGEST)


async def test_errors_are_shown_next_to_their_fields() -> None:
    current = asked(payload={"form": FORM, "options": ["a"]})
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve…", current)
        await channel.reply(heard, Told(done=True, message="", breakpoint=current))
        heard = await submitted(slack, channel, {})
        problems = {"/answers/rate": "must be less", "/option": "pick one", "/edits/x": "odd", "/comment": "long"}
        told = await channel.reply(heard, Told(done=False, message="", breakpoint=current, problems=problems))

    assert told == {
        "response_action": "errors",
        "errors": {"field-1": "must be less", "option": "pick one", "comment": "odd long"},
    }


@pytest.mark.parametrize(
    "told",
    [
        Told(done=False, message="Too late: it was approved by bob."),
        Told(done=True, message="Your approval was recorded. Waiting for other reviewers.", breakpoint=asked()),
    ],
)
async def test_a_click_without_a_visible_effect_is_confirmed_privately(told: Told) -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve")
        assert await channel.reply(heard, told) is None
        whispered = await slack.whispered()

    assert (whispered["user"], whispered["channel"], whispered["text"]) == ("U1", "C0ROOM", told.message)
    assert len(slack.messages) == 1


async def test_a_decision_gets_no_reply_because_the_message_changes() -> None:
    ended = asked(status=Status.RELEASED)
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve")
        again = Told(done=True, message="Heard before.", error=Conflict("x"))
        for told in (Told(done=True, message="Taken.", breakpoint=ended), again):
            assert await channel.reply(heard, told) is None

    assert slack.ephemerals == []


async def test_a_link_to_assent_in_a_reply_becomes_a_button() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve")
        await channel.reply(heard, Told(done=False, message=f"Say who you are: {BASE}/link/astl_1"))
        whispered = await slack.whispered()

    assert json.loads(whispered["blocks"])[1]["elements"][0]["url"] == f"{BASE}/link/astl_1"


@pytest.mark.parametrize(
    "told", [Told(done=False, message="Too late."), Told(done=True, message="Too late.", error=Conflict("x"))]
)
async def test_a_refused_form_is_replaced_by_the_error_message(told: Told) -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))
        heard = await submitted(slack, channel, {})
        reply = await channel.reply(heard, told)
        closing = await channel.reply(heard, Told(done=True, message="", breakpoint=asked(status=Status.RELEASED)))

    assert reply is not None
    assert reply["response_action"] == "update"
    assert texts(reply["view"]["blocks"]) == ["Too late."]
    assert closing is None


@pytest.mark.parametrize("error", [RejectionPending("bob is rejecting this."), TicketRequired("It needs a ticket.")])
async def test_a_form_that_can_be_resubmitted_keeps_its_text(error: AssentError) -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))
        heard = await submitted(slack, channel, {"comment": "Checked by hand."})
        refused = Told(done=False, message=error.message, breakpoint=asked(), error=error)
        reply = await channel.reply(heard, refused)

    assert reply is not None
    assert reply["response_action"] == "errors"
    assert reply["errors"]["comment"].startswith(error.message)
    assert "try again later" in reply["errors"]["comment"]


async def test_a_permanently_refused_form_returns_the_comment() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))
        heard = await submitted(slack, channel, {"comment": "Not on a <Friday>."})
        reply = await channel.reply(heard, Told(done=False, message="Too late.", error=Conflict("Too late.")))

    assert reply is not None
    assert texts(reply["view"]["blocks"]) == ["Too late.", "You wrote: Not on a &lt;Friday&gt;."]


@pytest.mark.parametrize("known", [True, False])
async def test_a_refused_form_returns_the_submitted_fields(*, known: bool) -> None:
    fields = {
        "note": {"type": "string", "title": "Release note"},
        "sure": {"type": "boolean"},
        "n": {"type": "integer"},
    }
    form = {"type": "object", "properties": fields}
    current = asked(payload={"question": "How?", "form": form, "options": ["a & b", "c"]})
    filled_in: dict[str, str | None] = {
        "option": "a &amp; b",
        "field-0": "Fixes <all>.",
        "field-1": "yes",
        "comment": "At last.",
    }
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve…", current)
        await channel.reply(heard, Told(done=True, message="", breakpoint=current))
        heard = await submitted(slack, channel, filled_in)
        refused = Told(done=False, message="Too late.", breakpoint=current if known else None, error=Conflict("x"))
        reply = await channel.reply(heard, refused)

    assert reply is not None
    first, second = ("Release note", "sure") if known else ("Field 1", "Field 2")
    said = f"You wrote: Option: a &amp; b\n{first}: Fixes &lt;all&gt;.\n{second}: yes\nComment: At last."
    assert texts(reply["view"]["blocks"]) == ["Too late.", said]


@pytest.mark.parametrize(
    "text", ["Line & more <x> " * 180 + "THE END", "<" * 2_993 + "THE END", "ab" * 9_000 + "THE END"]
)
def test_a_refused_form_returns_long_text_in_full(text: str) -> None:
    view = notice("Too late.", "https://a.example", typed=text)
    assert invalid(view["blocks"], most=100) is None
    given_back = "".join(texts(view["blocks"][1:])).removeprefix("You wrote:")
    assert html.unescape(given_back).replace(" ", "") == text.replace(" ", "")


def test_text_too_long_for_slack_ends_with_an_ellipsis() -> None:
    view = notice("Too late.", "https://a.example", typed="word " * 100_000)
    assert invalid(view["blocks"], most=100) is None
    assert texts(view["blocks"])[-1].endswith("word…")


async def test_a_click_on_a_high_risk_message_opens_no_form() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked(risk="high")))
        whispered = await slack.whispered()

    assert "Review" in whispered["text"]
    assert slack.views == []


async def test_a_form_that_cannot_be_opened_in_time_is_reported() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        slack.fail("views.open", "expired_trigger_id")
        await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))
        whispered = await slack.whispered()

    assert "Click again" in whispered["text"]


async def test_a_duplicate_click_opens_a_single_form() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Reject…")
        for _ in range(2):
            await channel.reply(heard, Told(done=True, message="", breakpoint=asked()))

    assert len(slack.views) == 1
    assert slack.ephemerals == []


async def test_a_failed_reply_does_not_fail_the_answer() -> None:
    async with speaking() as (slack, channel):
        heard = await heard_after(slack, channel, "Approve")
        slack.fail("chat.postEphemeral", "user_not_in_channel")
        assert await channel.reply(heard, Told(done=False, message="Too late.")) is None


def test_form_fields_can_have_any_name() -> None:
    form = {"type": "object", "properties": {"a/b~<c>": {"type": "string"}}}

    answer = filled(asked(payload={"form": form}), {"field-0": "x"})
    assert answer is not None
    assert answer.answers == {"a/b~<c>": "x"}
