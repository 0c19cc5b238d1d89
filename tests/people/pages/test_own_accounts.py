"""People manage their own accounts: they accept invitations, set passwords and create tokens."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.tokens import Tokens
from tests.delivery.usecases.delegating import EMAIL, channel
from tests.support.mail import Letter, MailServer, mail_server
from tests.support.nodes import Node, running_node
from tests.support.until import until
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in, visitor

NEW = {"new": "a password of my own", "again": "a password of my own"}
SET = "/account/new-password"


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
async def mailing(settings: Settings, mail: MailServer) -> AsyncIterator[Node]:
    """A node with a worker and an email channel."""
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, worker=True) as node:
        await channel(node, "mail", "email", **(EMAIL | {"port": mail.port}))
        yield node


async def invited(admin: Visitor, name: str, **typed: str) -> str:
    """Invite a person without an email address, and return the path of the link on the page."""
    answer = await admin.send("/admin/people", "/admin/people", **({"name": name, "role-reviewer": "1"} | typed))
    assert answer.status_code == 200, answer.text
    return "/sign-in/" + Page(answer.text).text.split("/sign-in/")[1].split()[0]


async def arrived(mail: MailServer, count: int) -> list[Letter]:
    assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) >= count)
    return mail.letters


def link_in(letter: Letter) -> str:
    found = re.search(r"https?://[^/\s]+(/sign-in/\S+)", letter.text)
    assert found is not None, letter.text
    return found[1]


async def stored(node: Node, name: str) -> Any:
    return await node.assent.database.read(lambda tx: tx[People].get_by_name(name))


async def test_an_invited_person_must_set_a_password_before_opening_other_pages(node: Node) -> None:
    path = await invited(await signed_in(node, "ada", "admin"), "bea")
    bea = visitor(node)
    assert (await bea.post(path, {})).status_code == 303
    for closed in ("/", "/account", "/runs", "/rules"):
        answer = await bea.get(closed)
        assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, SET)
    refused = await bea.send(SET, SET, **(NEW | {"again": "another password"}))
    assert refused.status_code == 422
    csrf = (await bea.page(SET)).form(SET).fields["csrf"]
    assert (
        (await bea.post("/account/project", {"csrf": csrf, "project": "default"})).headers["location"].startswith(SET)
    )

    answer = await bea.send(SET, SET, **NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await bea.get("/")).status_code == 200
    assert (await bea.get(SET)).headers["location"] == "/"
    again = visitor(node)
    assert (await again.sign_in("bea", NEW["new"])).headers["location"] == "/"


async def test_an_invited_person_is_redirected_to_the_requested_page(node: Node) -> None:
    path = await invited(await signed_in(node, "ada", "admin"), "bea")
    bea = visitor(node)
    first = await bea.post(path, {"next": "/breakpoints/bp_1"})
    there = await bea.get(first.headers["location"])
    assert there.headers["location"] == f"{SET}?next=%2Fbreakpoints%2Fbp_1"
    done = await bea.send(there.headers["location"], SET, **NEW)
    assert done.headers["location"] == "/breakpoints/bp_1"


async def test_a_link_shown_to_an_admin_marks_the_account_as_reset_until_another_admin_confirms_it(node: Node) -> None:
    ada, cem = await signed_in(node, "ada", "admin"), await signed_in(node, "cem", "admin")
    await invited(ada, "bea")
    assert (await stored(node, "bea")).reset_by == "ada"
    assert "Confirm access" not in (await ada.page("/admin/people/bea")).text
    assert (await cem.send("/admin/people/bea", "/confirm")).status_code == 303
    assert (await stored(node, "bea")).reset_by is None


async def test_a_reset_invalidates_the_old_password_and_requires_a_new_one(node: Node) -> None:
    ada = await signed_in(node, "ada", "admin")
    await person(node, "bea", "reviewer")
    bea = visitor(node)
    assert (await bea.sign_in("bea")).status_code == 303
    made = await ada.send("/admin/people/bea", "/link")
    path = "/sign-in/" + Page(made.text).text.split("/sign-in/")[1].split()[0]
    assert (await visitor(node).sign_in("bea")).status_code == 401
    back = visitor(node)
    assert (await back.post(path, {})).status_code == 303
    assert (await back.get("/")).headers["location"].startswith(SET)
    assert (await back.send(SET, SET, **NEW)).status_code == 303
    assert "set up or reset your account" in (await back.page("/account")).text


async def test_a_person_can_create_and_revoke_their_own_token(node: Node) -> None:
    bea = await signed_in(node, "bea", "reviewer")
    made = await bea.send("/account", "/account/tokens", name="laptop", kind="reviewer")
    assert made.status_code == 200, made.text
    secret = next(word for word in Page(made.text).text.split() if word.startswith("astp_"))
    created = await node.create()
    assert (await node.feedback(created["id"], secret, approved=True)).json()["decision"] == "approved"
    page = await bea.page("/account")
    assert "laptop" in page.text
    assert secret not in page.text
    for kind in ("agent", "auditor"):
        assert (await bea.send("/account", "/account/tokens", name="more", kind=kind)).status_code == 422
    assert (await bea.send("/account", "/account/tokens/revoke")).status_code == 303
    assert (await node.call("GET", "/api/people", secret)).status_code == 401


async def test_the_account_page_cannot_revoke_another_persons_token(node: Node) -> None:
    ann = await node.person("ann", "reviewer")
    bea = await signed_in(node, "bea", "reviewer")
    (token,) = await node.assent.database.read(
        lambda tx: [each.id for each in tx[Tokens].every("default") if each.name == "ann"]
    )
    csrf = (await bea.page("/account")).form("/sign-out").fields["csrf"]
    assert (await bea.post("/account/tokens/revoke", {"csrf": csrf, "token": token})).status_code == 404
    assert (await node.call("GET", "/api/people", ann)).status_code == 200


async def test_an_invitation_is_emailed_and_not_shown_to_the_admin(mailing: Node, mail: MailServer) -> None:
    ada = await signed_in(mailing, "ada", "admin")
    answer = await ada.send(
        "/admin/people", "/admin/people", **{"name": "bea", "email": "bea@example.org", "role-reviewer": "1"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/people/bea?done=mailed")
    letters = await arrived(mail, 2)
    (letter,) = [each for each in letters if "/sign-in/" in each.text]
    assert letter.recipients == ("bea@example.org",)
    bea = visitor(mailing)
    assert (await bea.post(link_in(letter), {})).status_code == 303
    assert (await bea.send(SET, SET, **NEW)).status_code == 303
    assert (await stored(mailing, "bea")).reset_by is None, "the person's own mailbox confirms it"


async def test_a_reset_is_emailed_to_the_person_and_admins_cannot_set_a_password(
    mailing: Node, mail: MailServer
) -> None:
    ada = await signed_in(mailing, "ada", "admin")
    await person(mailing, "bea", "reviewer")
    await mailing.assent.database.write(_with_address)
    admin = await mailing.person("ann", "admin")
    refused = await mailing.call("PATCH", "/api/people/bea", admin, json={"password": "planted password"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/password")

    assert (await ada.send("/admin/people/bea", "/link")).headers["location"] == "/admin/people/bea?done=mailed"
    letters = await arrived(mail, 2)
    assert {each.recipients for each in letters} == {("bea@example.org",)}
    assert any("ada reset your access" in each.text for each in letters)
    assert (await visitor(mailing).sign_in("bea")).status_code == 401
    assert (await stored(mailing, "bea")).reset_by == "ada"
    (letter,) = [each for each in letters if "/sign-in/" in each.text]
    assert (await visitor(mailing).post(link_in(letter), {})).status_code == 303
    assert (await stored(mailing, "bea")).reset_by is None


async def test_an_address_set_by_an_admin_is_reported_to_the_old_address_and_cannot_confirm_a_reset(
    mailing: Node, mail: MailServer
) -> None:
    ada = await signed_in(mailing, "ada", "admin")
    await person(mailing, "bea", "reviewer")
    await mailing.assent.database.write(_with_address)
    assert (await ada.send("/admin/people/bea", "/details", email="ada@second.example")).status_code == 303
    (told,) = await arrived(mail, 1)
    assert told.recipients == ("bea@example.org",)
    assert "changed your account's email address" in told.text

    assert (await ada.send("/admin/people/bea", "/link")).status_code == 303
    letters = await arrived(mail, 3)
    (letter,) = [each for each in letters if "/sign-in/" in each.text]
    assert letter.recipients == ("ada@second.example",)
    assert (await visitor(mailing).post(link_in(letter), {})).status_code == 303
    assert (await stored(mailing, "bea")).reset_by == "ada"


async def mail_channel_of(node: Node, admin: str, name: str, mail: MailServer) -> None:
    """Create an email channel as an admin, who can choose any mail server."""
    body = {"name": name, "type": "email", "settings": EMAIL | {"port": mail.port}}
    made = await node.call("POST", "/api/channels", admin, json=body)
    assert made.status_code == 201, made.text


@pytest.fixture
async def reachable(settings: Settings) -> AsyncIterator[Node]:
    """A node with a worker and a person with an email address, but without an email channel."""
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, worker=True) as node:
        await person(node, "bea", "reviewer")
        await node.assent.database.write(_with_address)
        yield node


async def reset_and_used(node: Node, admin: Visitor, mail: MailServer) -> None:
    """Send a reset link by email and open it, as the operator of the mail server could."""
    assert (await admin.send("/admin/people/bea", "/link")).headers["location"] == "/admin/people/bea?done=mailed"
    assert await asyncio.to_thread(mail.wait, lambda letters: any("/sign-in/" in each.text for each in letters))
    (letter,) = [each for each in mail.letters if "/sign-in/" in each.text]
    assert (await visitor(node).post(link_in(letter), {})).status_code == 303


@pytest.mark.parametrize(("setter", "mark"), [("ada", "ada"), ("cem", "ada, cem")])
async def test_a_link_emailed_through_an_admins_own_channel_does_not_confirm_a_reset(
    reachable: Node, mail: MailServer, setter: str, mark: str
) -> None:
    ada = await signed_in(reachable, "ada", "admin")
    tokens = {"cem": await reachable.person("cem", "admin"), "ada": await own_token(reachable, "ada")}
    await mail_channel_of(reachable, tokens[setter], "mail", mail)
    await reset_and_used(reachable, ada, mail)
    assert (await stored(reachable, "bea")).reset_by == mark


async def test_a_link_sent_through_a_server_once_set_by_the_resetting_admin_does_not_confirm_a_reset(
    reachable: Node, mail: MailServer
) -> None:
    ada = await signed_in(reachable, "ada", "admin")
    cem, own = await reachable.person("cem", "admin"), await own_token(reachable, "ada")
    body = {"name": "mail", "type": "email", "settings": EMAIL | {"port": 9}}
    path = f"/api/channels/{(await reachable.call('POST', '/api/channels', cem, json=body)).json()['id']}"
    for token, settings in ((own, {"port": mail.port}), (cem, {"from": "assent@example.org"})):
        changed = await reachable.call("PATCH", path, token, json={"settings": settings})
        assert changed.status_code == 200, changed.text
    await reset_and_used(reachable, ada, mail)
    assert (await stored(reachable, "bea")).reset_by == "ada, cem"


async def test_an_admin_sees_that_an_invitation_email_failed(mailing: Node) -> None:
    ada = await signed_in(mailing, "ada", "admin")
    sent = {"name": "bea", "email": "bad@example.org", "role-reviewer": "1"}
    assert (await ada.send("/admin/people", "/admin/people", **sent)).status_code == 303
    page = await until(lambda: ada.page("/admin/people/bea"), lambda page: "Could not send a message" in page.text)
    assert "through channel mail (" in page.text
    assert "550" in page.text
    assert "account-message-failed" in (await ada.page("/admin/audit")).text


async def test_links_are_not_sent_through_a_second_channel_of_the_resetting_admin(
    mailing: Node, mail: MailServer
) -> None:
    ada = await signed_in(mailing, "ada", "admin")
    await person(mailing, "bea", "reviewer")
    await mailing.assent.database.write(_with_address)
    with mail_server() as trap:
        await mail_channel_of(mailing, await own_token(mailing, "ada"), "a-trap", trap)
        await reset_and_used(mailing, ada, mail)
        assert trap.letters == []
    assert (await stored(mailing, "bea")).reset_by is None


async def own_token(node: Node, name: str) -> str:
    return await node.token("admin", person=name)


def _with_address(tx: Transaction) -> None:
    tx[People].save(replace(tx[People].get_by_name("bea"), email="bea@example.org"))


@pytest.mark.parametrize("host", ["evil.example", "assent.test.evil.example", "8.8.8.8"])
@pytest.mark.parametrize("fetched", [None, "same-origin"])
async def test_a_forged_host_header_does_not_pass_the_origin_check(node: Node, host: str, fetched: str | None) -> None:
    await person(node, "ann", "reviewer")
    headers = {"host": host, "origin": f"http://{host}"} | ({"sec-fetch-site": fetched} if fetched else {})
    sent = {"name": "ann", "password": "a long enough password"}
    answer = await visitor(node).client.post("/sign-in", data=sent, headers=headers)
    assert answer.status_code == 403
    assert "ASSENT_PUBLIC_URL" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["localhost:7373", "127.0.0.1:7373", "[::1]:7373", "192.168.1.20:7373"])
async def test_the_servers_own_host_names_are_accepted(node: Node, host: str) -> None:
    await person(node, "ann", "reviewer")
    headers = {"host": host, "origin": f"http://{host}"}
    sent = {"name": "ann", "password": "a long enough password"}
    assert (await visitor(node).client.post("/sign-in", data=sent, headers=headers)).status_code == 303


async def test_forms_must_come_from_the_public_url_regardless_of_the_host_header(settings: Settings) -> None:
    public = settings.model_copy(update={"public_url": "http://assent.example"})
    async with running_node(public) as node:
        await person(node, "ann", "reviewer")
        sent = {"name": "ann", "password": "a long enough password"}
        for host, origin, status in (
            ("upstream:7373", "http://assent.example", 303),
            ("evil.example", "http://evil.example", 403),
        ):
            headers = {"host": host, "origin": origin}
            answer = await visitor(node).client.post("/sign-in", data=sent, headers=headers)
            assert answer.status_code == status


async def test_the_machines_host_name_is_accepted_when_listening_on_all_addresses(settings: Settings) -> None:
    name = socket.gethostname().lower()
    listening = settings.model_copy(update={"host": "0.0.0.0"})  # the test never binds this address
    async with running_node(listening) as node:
        await person(node, "ann", "reviewer")
        headers = {"host": f"{name}:7373", "origin": f"http://{name}:7373"}
        sent = {"name": "ann", "password": "a long enough password"}
        assert (await visitor(node).client.post("/sign-in", data=sent, headers=headers)).status_code == 303
