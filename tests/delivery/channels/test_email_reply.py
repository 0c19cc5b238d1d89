"""Answers by email: the required authentication, and how the text is parsed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest, Unauthenticated
from assent.delivery.channels.email.channel import NO_REASON, EmailChannel, reply_address
from assent.delivery.channels.email.letter import MARKER
from assent.delivery.channels.email.reply import verdict
from assent.delivery.message import Purpose
from assent.delivery.ports import Heard, Told, Wish
from assent.kernel.ports import Incoming
from tests.delivery.channels.notes import AT, asked, note, tools
from tests.support.mail import MailServer, mail_server

INBOUND, SECRET = "inbound-secret-of-our-mail-server", "what-the-addresses-are-proven-with"
BEARER = f"Bearer {INBOUND}"
PROOF = "mx.example.com; spf=pass smtp.mailfrom=example.com; dmarc=pass (p=reject dis=none) header.from=example.com"
TO = reply_address("dlv_1", "in.example.com", SECRET)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_INBOUND", INBOUND)
    monkeypatch.setenv("MAIL_REPLY", SECRET)


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


def channel(port: int = 25, **settings: Any) -> EmailChannel:
    given = {
        "host": "127.0.0.1",
        "port": port,
        "tls": "none",
        "from": "assent@example.com",
        "replyDomain": "in.example.com",
        "replySecret": "env:MAIL_REPLY",
        "inboundSecret": "env:MAIL_INBOUND",
        "authserv": "mx.example.com",
    }
    return EmailChannel(given | settings, tools())


def letter(body: str = "approve", **headers: str | None) -> Incoming:
    """Return an authenticated email; `auto_submitted="x"` sets a header, and None removes it."""
    found: dict[str, str | None] = {
        "authentication-results": PROOF,
        "from": "Ann Archer <Ann@Example.com>",
        "to": TO,
        "message-id": "<1@example.com>",
        "content-type": "text/plain; charset=utf-8",
    }
    found |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in found.items() if value is not None]
    return Incoming({"authorization": BEARER}, ("\r\n".join(lines) + "\r\n\r\n" + body).encode(), AT)


def hears(incoming: Incoming) -> Heard:
    (heard,) = channel().hear(incoming)
    return heard


async def test_an_email_can_be_answered_if_replies_are_enabled(mail: MailServer) -> None:
    await channel(mail.port).send(note())
    (sent,) = mail.letters
    assert sent.message["Reply-To"] == TO
    assert MARKER in sent.text
    assert "Reply with “approve”, or with “reject” and a reason." in sent.text
    quoted = "\n".join(f"> {each}" for each in sent.text.splitlines())
    heard = hears(
        letter(
            f"Approve, well done.\n\nOn Monday, Assent <assent@example.com> wrote:\n{quoted}",
            to=sent.message["Reply-To"],
        )
    )
    assert (heard.wish, heard.delivery_id, heard.identity) == (Wish.ANSWER, "dlv_1", "ann@example.com")
    answer = channel().answer(heard, asked()[0])
    assert answer is not None
    assert (answer.approved, answer.comment, answer.digest) == (True, "well done.", "d" * 64)


async def test_high_risk_and_ended_breakpoints_cannot_be_answered_by_email(mail: MailServer) -> None:
    await channel(mail.port).send(note(asked={"risk": "high"}))
    await channel(mail.port).close(note(purpose=Purpose.CLOSE))
    for sent in mail.letters:
        assert "Reply-To" not in sent.message
        assert MARKER not in sent.text


async def test_a_question_with_options_points_to_the_review_link(mail: MailServer) -> None:
    await channel(mail.port).send(note(asked={"payload": {"question": "Which?", "options": ["blue", "green"]}}))
    assert "To approve, open Review." in mail.letters[0].text


def test_a_reply_address_is_a_valid_mailbox_name() -> None:
    local = reply_address("dlv_" + "v" * 26, "in.example.com", SECRET).partition("@")[0]
    assert len(local) <= 64
    assert local == local.lower()


@pytest.mark.parametrize("bearer", ["", "Bearer ", "Bearer wrong", INBOUND, BEARER + "x", BEARER.lower()])
def test_only_our_own_mail_server_can_submit_replies(bearer: str) -> None:
    with pytest.raises(Unauthenticated):
        channel().hear(Incoming({"authorization": bearer}, letter().body, AT))


def test_replies_are_rejected_if_the_channel_does_not_enable_them() -> None:
    off = EmailChannel({"host": "127.0.0.1", "from": "assent@example.com"}, tools())
    with pytest.raises(Unauthenticated):
        off.hear(letter())


@pytest.mark.parametrize(
    "headers",
    [
        {"to": "assent@in.example.com"},
        {"to": TO.replace("dlv_1", "dlv_2")},
        {"to": TO.replace("in.example.com", "in.example.com.evil.org")},
        {"to": TO.replace("in.example.com", "example.com")},
        {"to": f"{TO}, {reply_address('dlv_2', 'in.example.com', SECRET)}"},
        {"to": reply_address("dlv_1", "in.example.com", "another secret altogether")},
        {"from": None},
        {"from": "ann@example.com, eve@evil.org"},
        {"from": "ann@example.com <eve@evil.org>"},
        {"from": "eve@evil.org"},
        {"from": '"ann@example.com" <eve@evil.org>'},
        {"from": "Ann <ann@example.com> <eve@evil.org>"},
        {"authentication_results": None},
        {"authentication_results": PROOF.replace("dmarc=pass", "dmarc=fail")},
        {"authentication_results": PROOF.replace("dmarc=pass", "dmarc=none")},
        {"authentication_results": PROOF.replace("header.from=example.com", "header.from=evil.org")},
        {"authentication_results": PROOF.replace(" header.from=example.com", "")},
        {"authentication_results": "mx.evil.org; dmarc=pass header.from=example.com"},
        {"authentication_results": "mx.example.com; spf=pass (; dmarc=pass header.from=example.com)"},
        {"authentication_results": "mx.example.com; none"},
        {"authentication_results": PROOF + "; dmarc=fail header.from=example.com"},
        {"authentication_results": PROOF + "; dmarc/1 = fail header.from=example.com"},
        {"authentication_results": PROOF + " header.from=evil.org"},
        {"authentication_results": 'mx.example.com; spf=pass smtp.mailfrom="; dmarc=pass header.from=example.com;"'},
        {"authentication_results": 'mx.example.com; spf=pass (" (; dmarc=pass header.from=example.com) ")'},
        {"authentication_results": r'mx.example.com; a=b c="\"; dmarc=pass header.from=example.com; \""'},
        {"authentication_results": 'mx.example.com; dmarc=pass header.from="example.com"'},
        {"authentication_results": PROOF + '; reason="'},
        {"authentication_results": PROOF + "; (("},
        {"authentication_results": PROOF + ")"},
        {"authentication_results": PROOF + "\\"},
        {"authentication_results": PROOF + "; a=" + "b" * 2_000},
        {"authentication_results": "mx.example.com.evil.org" + PROOF[14:]},
        {"auto_submitted": "auto-replied"},
        {"auto_submitted": "auto-generated"},
        {"precedence": "bulk"},
        {"x_autoreply": "yes"},
        {"return_path": "<>"},
        {"content_type": "multipart/report; boundary=x"},
        {"content_type": "multipart/mixed; boundary=x"},
    ],
)
def test_an_email_without_sufficient_authentication_is_ignored(headers: dict[str, str | None]) -> None:
    assert channel().hear(letter("approve", **headers)) == ()


@pytest.mark.parametrize(
    "results",
    [
        '(ours) mx.example.com (it is " here) 1; dmarc = pass (p=none (so (far))) header.from = example.com',
        'MX.example.com; dmarc/1=pass reason="all; (is well" header.from=Example.com',
        r'mx.example.com; spf=fail smtp.mailfrom="a\"; dmarc=fail"@b.test;dmarc=pass(\() header.from=example.com',
    ],
)
def test_authentication_results_are_parsed_according_to_their_grammar(results: str) -> None:
    assert hears(letter(authentication_results=results)).said["approved"] is True


def test_an_email_with_two_senders_is_ignored() -> None:
    twice = letter()
    body = b"From: eve@evil.org\r\n" + twice.body
    assert channel().hear(Incoming(twice.headers, body, AT)) == ()


def test_only_the_topmost_result_of_our_mail_server_counts() -> None:
    good = letter()
    forged = b"Authentication-Results: mx.example.com; dmarc=fail header.from=example.com\r\n" + good.body
    assert channel().hear(Incoming(good.headers, forged, AT)) == ()
    other = b"Authentication-Results: relay.example.com; dmarc=fail header.from=example.com\r\n" + good.body
    assert channel().hear(Incoming(good.headers, other, AT)) != ()


@given(st.integers(0, len(TO.partition("@")[0]) - 1), st.characters(codec="ascii", categories=["Ll", "Nd"]))
def test_replies_to_a_modified_reply_address_are_ignored(place: int, char: str) -> None:
    changed = TO[:place] + char + TO[place + 1 :]
    if changed != TO:
        live = EmailChannel(
            {
                "host": "127.0.0.1",
                "from": "assent@example.com",
                "replyDomain": "in.example.com",
                "replySecret": "env:MAIL_REPLY",
                "inboundSecret": "env:MAIL_INBOUND",
                "authserv": "mx.example.com",
            },
            tools(),
        )
        assert live.hear(letter(to=changed)) == ()


@given(st.binary(max_size=400))
def test_arbitrary_bytes_cause_no_errors(body: bytes) -> None:
    for head in (b"", letter().body.partition(b"\r\n\r\n")[0] + b"\r\n"):
        channel().hear(Incoming({"authorization": BEARER}, head + body, AT))


def test_deeply_nested_parts_are_ignored() -> None:
    boxes = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n" for n in range(2000))
    raw = letter(content_type=None).body.partition(b"\r\n\r\n")[0] + b"\r\n" + boxes.encode()
    assert channel().hear(Incoming({"authorization": BEARER}, raw, AT)) == ()


@pytest.mark.parametrize(
    ("said", "approved", "comment"),
    [
        ("approve", True, ""),
        ("Approved!", True, ""),
        ("LGTM - ship it", True, "ship it"),
        ("  *yes*  ", True, ""),
        ("yes, go on\nsecond line", True, "go on\nsecond line"),
        ("reject: too late in the day", False, "too late in the day"),
        ("No.\n\nNot before Monday.", False, "Not before Monday."),
        ("rejected", False, ""),
        ("no problem, go ahead", None, "no problem, go ahead"),
        ("yes but not today", None, "yes but not today"),
        ("approve?", None, "approve?"),
        ("Approve what exactly?", None, "Approve what exactly?"),
        ("not approved", None, "not approved"),
        ("I approve", None, "I approve"),
        ("approval", None, "approval"),
        ("What is this?", None, "What is this?"),
    ],
)
def test_the_first_word_of_a_reply_decides(said: str, approved: bool | None, comment: str) -> None:  # noqa: FBT001
    assert verdict(said) == (approved, comment)


@pytest.mark.parametrize(
    "body",
    [
        "> Shall I?\n> reject\n\nApprove\n",
        "Approve\n\nOn Mon, 16 Nov 2026 at 10:00, Assent <assent@example.com>\nwrote:\n> reject it?\n",
        "Approve\n\nAm Montag schrieb Assent <assent@example.com>:\n> reject\n",
        "Approve\n\n-----Original Message-----\nFrom: Assent\nreject\n",
        "Approve\n\n________________________________\nFrom: Assent <assent@example.com>\nreject\n",
        f"Approve\n\n{MARKER}\nreject\n",
        "Approve\n-- \nAnn Archer\nHead of Operations\n",
    ],
)
def test_quoted_text_is_ignored(body: str) -> None:
    heard = hears(letter(body))
    assert heard.said["approved"] is True
    assert heard.comment is None


def test_an_email_with_only_html_is_parsed() -> None:
    html = "<html><head><title>no</title><style>no{}</style></head><body><div>Approve</div><div>Fine &amp; good</div>"
    heard = hears(letter(html + "<blockquote>reject</blockquote></body></html>", content_type="text/html"))
    assert (heard.said["approved"], heard.comment) == (True, "Fine & good")


def test_the_plain_text_part_takes_precedence_over_html() -> None:
    both = (
        "--x\r\nContent-Type: text/plain; charset=no-such-thing\r\n\r\nApprove: ok\r\n"
        "--x\r\nContent-Type: text/html\r\n\r\n<p>Reject</p>\r\n--x--\r\n"
    )
    heard = hears(letter(both, content_type="multipart/alternative; boundary=x"))
    assert (heard.said["approved"], heard.comment) == (True, "ok")


def parts(*each: str) -> str:
    return "".join(f"--x\r\n{part}\r\n" for part in each) + "--x--\r\n"


LETTER = "Content-Type: message/rfc822\r\n\r\nFrom: eve@evil.org\r\nContent-Type: text/plain\r\n\r\napprove"
HTML = "Content-Type: text/html\r\n\r\n<p>Reject: read what they wrote</p>"


@pytest.mark.parametrize(
    "attached",
    [
        LETTER,
        LETTER.replace("\r\n\r\n", "\r\nContent-Disposition: inline\r\n\r\n", 1),
        "Content-Type: multipart/digest; boundary=y\r\n\r\n--y\r\n\r\nSubject: a\r\n\r\napprove\r\n--y--",
        "Content-Type: text/plain; name=notes.txt\r\n\r\napprove",
        "Content-Type: text/plain\r\nContent-Disposition: inline; filename=notes.txt\r\n\r\napprove",
        "Content-Type: text/plain\r\nContent-Disposition: form-data\r\n\r\napprove",
        "Content-Type: text/plain\r\n\r\napprove",
    ],
)
def test_attachments_are_ignored(attached: str) -> None:
    heard = hears(letter(parts(HTML, attached), content_type="multipart/mixed; boundary=x"))
    assert (heard.said["approved"], heard.comment) == (False, "read what they wrote")
    if attached != "Content-Type: text/plain\r\n\r\napprove":
        assert channel().hear(letter(parts(attached), content_type="multipart/mixed; boundary=x")) == ()


def test_an_email_that_only_forwards_another_is_ignored() -> None:
    assert channel().hear(letter("Subject: a\r\n\r\napprove", content_type="message/rfc822")) == ()


def test_plain_text_takes_precedence_at_any_depth() -> None:
    inner = parts("Content-Type: text/plain\r\n\r\nApprove: ok", HTML).replace("--x", "--y")
    body = parts(f"Content-Type: multipart/alternative; boundary=y\r\n\r\n{inner}", LETTER)
    heard = hears(letter(body, content_type="multipart/mixed; boundary=x"))
    assert (heard.said["approved"], heard.comment) == (True, "ok")


def test_text_without_a_verdict_is_a_comment() -> None:
    heard = hears(letter("Who asked for this?"))
    assert (heard.wish, heard.comment) == (Wish.COMMENT, "Who asked for this?")


def test_an_email_with_only_quoted_text_is_ignored() -> None:
    assert channel().hear(letter("> quoted only")) == ()


def test_a_rejection_requires_a_reason() -> None:
    with pytest.raises(InvalidRequest, match="/comment"):
        channel().answer(hears(letter("reject")), asked()[0])


def test_a_redelivered_email_has_the_same_deduplication_key() -> None:
    assert hears(letter()).key == hears(letter()).key
    assert hears(letter()).key != hears(letter(message_id="<2@example.com>")).key


async def test_the_sender_is_notified_of_a_refused_reply(mail: MailServer) -> None:
    heard = hears(letter())
    assert await channel(mail.port).reply(heard, Told(done=True, message="The breakpoint is approved.")) is None
    assert mail.letters == []
    problems = {"/comment": "say why"}
    await channel(mail.port).reply(heard, Told(done=False, message="It has <ended>.", problems=problems))
    (sent,) = mail.letters
    assert sent.recipients == ("ann@example.com",)
    assert sent.message["In-Reply-To"] == "<1@example.com>"
    assert sent.message["Auto-Submitted"] == "auto-replied"
    assert re.search(r"It has <ended>\.\s+comment: say why", sent.text)
    assert "&lt;ended&gt;" in sent.html


async def test_rejecting_without_a_reason_reports_the_problem_only_once(mail: MailServer) -> None:
    refused = InvalidRequest.at("/comment", NO_REASON)
    told = Told(done=False, message=refused.message, problems={"/comment": NO_REASON}, error=refused)
    await channel(mail.port).reply(hears(letter("Reject")), told)
    (sent,) = mail.letters
    assert sent.message["Subject"] == "Re: [Approval] Your reply was not counted"
    assert sent.text.count(NO_REASON) == 1
    assert "/comment" not in sent.text


async def test_a_failure_to_notify_the_sender_is_ignored() -> None:
    with mail_server() as gone:
        away = channel(gone.port)
    assert await away.reply(hears(letter()), Told(done=False, message="It has ended.")) is None


@pytest.mark.parametrize(
    "settings",
    [{"addresses": ["ops@example.com"]}, {"authserv": None}, {"replyDomain": "a b"}, {"replySecret": "env:SHORT"}],
)
def test_reply_settings_must_be_complete_and_valid(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "short")
    with pytest.raises(InvalidRequest, match="/settings/reply"):
        channel(**settings)
