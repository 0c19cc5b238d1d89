"""The email channel against a real mail server: contents, recipients and failures."""

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.delivery.channels.email.channel import EmailChannel, personal
from assent.delivery.channels.email.letter import as_html, as_text, of_note
from assent.delivery.channels.email.markup import TAGS
from assent.delivery.message import Addressee, Purpose
from assent.kernel.outbound import Permanent, Transient
from tests.delivery.channels.notes import AT, PLACE, REVIEW, TO_ANN, asked, closing, expiring, many, note, tools
from tests.kernel.outbound.receivers import certificate
from tests.support.mail import PASSWORD, USER, MailServer, mail_server


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


def channel(server: MailServer, **settings: Any) -> EmailChannel:
    given = {"host": "127.0.0.1", "port": server.port, "tls": "none", "from": "assent@example.com"}
    return EmailChannel(given | settings, tools())


async def test_an_email_has_text_and_html_and_a_single_link(mail: MailServer) -> None:
    posted = await channel(mail).send(note())
    (letter,) = mail.letters
    assert letter.sender == "assent@example.com"
    assert letter.recipients == ("ann@example.com",)
    assert letter.message["To"] == "Ann Archer <ann@example.com>"
    assert letter.message["From"] == "Assent <assent@example.com>"
    assert letter.message["Subject"] == "[Approval] Deploy to production (bp_1)"
    assert "Shall I **deploy** build 7?" in letter.text
    assert "Gate: deploy" in letter.text
    assert letter.text.count("https://") == 1
    assert REVIEW in letter.text
    assert links(letter.html) == [REVIEW]
    assert posted.trace == {"messageId": letter.message["Message-ID"]}


async def test_an_email_has_a_date_header(mail: MailServer) -> None:
    await channel(mail).send(note())
    (letter,) = mail.letters
    assert letter.message["Date"].datetime.tzinfo is not None


async def test_the_review_link_follows_the_title(mail: MailServer) -> None:
    await channel(mail).send(note())
    (letter,) = mail.letters
    paragraphs = letter.text.replace("\r\n", "\n").split("\n\n")
    place = paragraphs.index("Deploy to production")
    assert paragraphs[place + 1] == f"Review: {REVIEW}"
    assert letter.html.index("Deploy to production") < letter.html.index("Review</a>") < letter.html.index("Shall I")


def test_markdown_is_rendered_in_the_html_part() -> None:
    question = "# Plan\n\nShall I **deploy** `7`?\n\n- it passed\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nrm x\n```"
    html = as_html(of_note(note(asked={"payload": {"question": question}})))
    for expected in (
        *("<p><strong>Plan</strong></p>", "<strong>deploy</strong>", "<code>7</code>", "<li>it passed</li>"),
        *("<td>1</td>", "<pre><code>rm x"),
    ):
        assert expected in html


def test_links_and_images_in_agent_text_become_plain_text() -> None:
    question = "[Review](https://evil.example/x) ![logo](https://evil.example/p.png) <https://evil.example> <b>x</b>"
    html = as_html(of_note(note(asked={"payload": {"question": question}})))
    assert links(html) == [REVIEW]
    assert "Review (https://evil.example/x)" in html
    assert "<img" not in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", None, "Not/There"])
def test_times_are_shown_in_the_readers_time_zone(zone: str | None) -> None:
    shown = {"Europe/Berlin": "2027-01-15 09:00 CET", "Asia/Kolkata": "2027-01-15 13:30 IST"}
    expected = shown.get(zone or "", "2027-01-15 08:00 UTC")
    letter = of_note(note(replace(TO_ANN, zone=zone), asked={"due_at": AT}))
    assert f"Answer by: {expected}" in as_text(letter)
    assert expected in as_text(of_note(closing(replace(TO_ANN, zone=zone))))


async def test_an_email_is_marked_as_automated(mail: MailServer) -> None:
    await channel(mail).send(note())
    (letter,) = mail.letters
    assert letter.message["Auto-Submitted"] == "auto-generated"
    assert letter.message["X-Auto-Response-Suppress"] == "All"
    assert "Reply-To" not in letter.message


async def test_every_attempt_uses_the_same_message_id(mail: MailServer) -> None:
    mail.drop()
    with pytest.raises(Transient, match="the connection was lost"):
        await channel(mail).send(note())
    await channel(mail).send(note(attempt=2))
    ids = {letter.message["Message-ID"] for letter in mail.letters}
    assert len(mail.letters) == 2
    assert ids == {"<dlv_1@example.com>"}


@pytest.mark.parametrize("purpose", [Purpose.REMIND, Purpose.ESCALATE])
async def test_reminders_and_escalations_continue_the_thread(mail: MailServer, purpose: Purpose) -> None:
    first = await channel(mail).send(note())
    await channel(mail).send(note(purpose=purpose, id="dlv_2", thread=first.trace))
    letter = mail.letters[-1].message
    assert letter["In-Reply-To"] == letter["References"] == "<dlv_1@example.com>"
    assert letter["Message-ID"] == "<dlv_2@example.com>"
    assert letter["Subject"] == "Re: [Approval] Deploy to production (bp_1)"


async def test_the_outcome_is_sent_in_the_same_thread(mail: MailServer) -> None:
    first = await channel(mail).send(note())
    await channel(mail).close(closing(thread=first.trace))
    await channel(mail).close(expiring(thread=first.trace))
    approved, expired = mail.letters[1:]
    assert "Approved by ann (web), 2027-01-15 08:00 UTC." in approved.text
    assert "Expired: no one responded in time" in expired.text
    assert approved.message["In-Reply-To"] == "<dlv_1@example.com>"
    assert "Shall I" not in approved.text


async def test_a_digest_is_sent_as_one_email(mail: MailServer) -> None:
    await channel(mail).digest(many(137))
    (letter,) = mail.letters
    assert "137 approvals pending" in letter.message["Subject"]
    assert "Open the inbox (117 more)" in letter.text
    assert "3 ended since the last message." in letter.text
    assert len(links(letter.html)) == 21


async def test_each_item_of_a_digest_shows_its_deadline_in_the_readers_time_zone(mail: MailServer) -> None:
    await channel(mail).digest(many(2, replace(TO_ANN, zone="Europe/Berlin"), due_at=AT + 3_600 * SECOND))
    await channel(mail).digest(many(2))
    dated, undated = mail.letters
    for n in range(2):
        assert f"Question {n} (answer by 2027-01-15 10:00 CET)" in dated.text
        assert f"Question {n} (answer by 2027-01-15 10:00 CET)" in dated.html
    assert "answer by" not in undated.text


async def test_a_person_without_an_email_address_is_named_in_the_error(mail: MailServer) -> None:
    with pytest.raises(Permanent, match="ann does not have an email address"):
        await channel(mail).send(note(Addressee(name="ann")))
    assert mail.connections == 0


@pytest.mark.parametrize(
    "address", ["a b@example.com", "x@example.com\r\nRCPT TO:<y@z>", "<x@y.z>", "x@y.z,q@r.s", "@", "x"]
)
async def test_an_invalid_address_is_rejected_before_connecting(mail: MailServer, address: str) -> None:
    with pytest.raises(Permanent):
        await channel(mail).send(note(Addressee(name="ann", email=address)))
    assert mail.connections == 0


async def test_a_refused_address_is_reported_while_the_others_receive_the_email(mail: MailServer) -> None:
    team = channel(mail, addresses=["ops@example.com", "bad@example.com", "later@example.com"])
    posted = await team.send(note(PLACE))
    assert mail.letters[0].recipients == ("ops@example.com",)
    assert "bad@example.com: 550" in posted.trace["refused"]
    assert "later@example.com: 450" in posted.trace["refused"]


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        (["bad@example.com"], Permanent),
        (["later@example.com"], Transient),
        (["bad@example.com", "later@example.com"], Transient),
    ],
)
async def test_sending_fails_if_every_address_is_refused(
    mail: MailServer, addresses: list[str], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await channel(mail, addresses=addresses).send(note(PLACE))
    assert mail.letters == []


@pytest.mark.parametrize(
    ("answer", "kind"), [("451 Try again later", Transient), ("552 Too big", Permanent), ("554 Spam", Permanent)]
)
async def test_the_servers_reply_determines_whether_sending_is_retried(
    mail: MailServer, answer: str, kind: type[Permanent | Transient]
) -> None:
    mail.answer(answer)
    with pytest.raises(kind, match=answer) as failed:
        await channel(mail).send(note())
    assert failed.value.status == int(answer[:3])
    await channel(mail).send(note(attempt=2))
    assert len(mail.letters) == 1


async def test_an_unreachable_server_is_a_transient_failure() -> None:
    with mail_server() as gone:
        away = channel(gone)
    with pytest.raises(Transient, match="Cannot connect") as failed:
        await away.send(note())
    assert failed.value.unsent


async def test_a_slow_server_times_out(mail: MailServer) -> None:
    mail.hold()
    settings = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.com"}
    with pytest.raises(Transient, match="timed out") as failed:
        await EmailChannel(settings, tools(), patience=0.5).send(note())
    assert not failed.value.unsent


async def test_the_channel_signs_in_with_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with mail_server(signing_in=True) as server:
        known = channel(server, user=USER, password="env:MAIL_PASSWORD")
        await known.send(note())
        assert "accepts assent's password" in await known.check()
        assert len(server.letters) == 1


async def test_a_wrong_password_is_a_permanent_failure_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "close sesame")
    with mail_server(signing_in=True) as server:
        with pytest.raises(Permanent, match=r"rejected the credentials for assent\. Check the user setting") as failed:
            await channel(server, user=USER, password="env:MAIL_PASSWORD").send(note())
        assert server.letters == []
    assert "close sesame" not in str(failed.value)
    assert failed.value.unsent


async def test_a_channel_check_does_not_send_an_email(mail: MailServer) -> None:
    assert await channel(mail).check() == f"127.0.0.1 accepts connections on port {mail.port} without TLS."
    assert mail.letters == []


async def test_emails_are_encrypted_in_transit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    with mail_server(tls=shown.server) as server:
        await channel(server, host="localhost", tls="starttls").send(note())
        assert server.letters[0].encrypted
        assert "with TLS" in await channel(server, host="localhost", tls="starttls").check()


async def test_an_untrusted_certificate_prevents_sending(tmp_path: Path) -> None:
    with mail_server(tls=certificate(tmp_path, "localhost").server) as server:
        with pytest.raises(Transient, match="its certificate is not valid") as failed:
            await channel(server, host="localhost", tls="starttls").send(note())
        assert server.letters == []
    assert failed.value.unsent


async def test_emails_are_not_sent_to_a_server_without_tls_unless_tls_is_off(mail: MailServer) -> None:
    with pytest.raises(Permanent, match="STARTTLS"):
        await channel(mail, tls="starttls").send(note())
    assert mail.letters == []


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"host": ""}, "/settings/host"),
        ({"tls": "maybe"}, "/settings/tls"),
        ({"port": "25"}, "/settings/port"),
        ({"from": "nobody"}, "/settings/from"),
        ({"from": "a@b.c\r\nBcc: d@e.f"}, "/settings/from"),
        ({"user": "ann"}, "/settings/password"),
        ({"password": "hunter2", "user": "ann"}, "/settings/password"),
        ({"password": "env:NOT_SET_AT_ALL", "user": "ann"}, "/settings/password"),
        ({"addresses": ["x"]}, "/settings/addresses/0"),
        ({"replyDomain": "in.example.com"}, "/settings/replyDomain"),
        ({"colour": "red"}, "/settings/colour"),
    ],
)
def test_the_error_for_an_invalid_setting_points_to_it(settings: dict[str, Any], pointer: str) -> None:
    good = {"host": "mail.example.com", "from": "assent@example.com"}
    with pytest.raises(InvalidRequest, match=pointer) as refused:
        EmailChannel(good | settings, tools())
    assert "hunter2" not in str(refused.value)


def test_a_channel_with_fixed_addresses_is_not_personal() -> None:
    assert personal({"addresses": []})
    assert not personal({"addresses": ["ops@example.com"]})


async def test_a_title_cannot_inject_headers_or_hide_text(mail: MailServer) -> None:
    title = "Deploy\r\nBcc: eve@example.com\r\n\r\n<b>\u202egpj.exe " + "x" * 300
    await channel(mail).send(note(asked={"title": title}))
    (letter,) = mail.letters
    assert "Bcc" not in letter.message
    assert letter.recipients == ("ann@example.com",)
    assert "\u202e" not in letter.text + letter.html + letter.message["Subject"]
    assert "⟦U+202E⟧" in letter.text
    assert "<b>" not in letter.html
    assert len(letter.message["Subject"]) < 150


@given(st.text(max_size=60), st.text(max_size=200))
def test_agent_text_never_becomes_markup(title: str, question: str) -> None:
    letter = of_note(note(asked={"title": title or None, "payload": {"question": question + "<script>x</script>"}}))
    parser = Tags()
    parser.feed(as_html(letter))
    ours = {*("html", "head", "meta", "body", "p", "h1", "bdi", "div", "table", "tr", "th", "td", "a")}
    assert parser.tags <= ours | TAGS
    assert parser.links == [REVIEW]
    assert "\r" not in as_text(letter)


async def test_a_long_question_is_truncated_with_a_notice(mail: MailServer) -> None:
    await channel(mail).send(note(asked={"payload": {"question": "word " * 4000}}))
    assert "Open Review to read the full text" in mail.letters[0].text
    assert len(mail.letters[0].text) < 4000


async def test_non_ascii_text_is_preserved_in_emails(mail: MailServer) -> None:
    await channel(mail).send(note(asked={"title": "部署 Größe", "payload": {"question": "ça va? 🚀\n.\n.."}}))
    (letter,) = mail.letters
    assert "部署 Größe" in letter.message["Subject"]
    assert "ça va? 🚀" in letter.text
    assert letter.raw.isascii()


def test_options_and_files_are_listed_by_name() -> None:
    payload = {"question": "Which?", "options": ["blue", "green"], "context": {"files": [{"path": "plan.md"}]}}
    text = as_text(of_note(note(TO_ANN, asked={"payload": payload, "risk": "high"})))
    assert "Options: blue, green" in text
    assert "Files: plan.md" in text
    assert "Risk: high" in text
    assert text.index("Files: ") < text.index(f"Content hash: {asked()[0].digest[:12]}\n\n-- "), "not the last detail"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action", "formaction"}]


def links(html: str) -> list[str]:
    parser = Tags()
    parser.feed(html)
    return parser.links
