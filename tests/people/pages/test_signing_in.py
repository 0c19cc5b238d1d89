"""Signing in and out with a password or a one-time link."""

import pytest

from assent.http.sessions import local_path
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from tests.support.nodes import ManualClock, Node, running_node
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, link, person, signed_in, visitor

COOKIE = "assent_session"


async def test_signing_in_with_a_password_opens_the_inbox(node: Node) -> None:
    await person(node, "ann", "reviewer")
    browser = visitor(node)
    answer = await browser.sign_in("ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "ann" in (await browser.page("/")).text


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong password"), ("nobody", PASSWORD), ("", ""), ("ann", "")])
async def test_a_wrong_username_and_a_wrong_password_give_the_same_error(node: Node, name: str, password: str) -> None:
    await person(node, "ann", "reviewer")
    answer = await visitor(node).sign_in(name, password)
    assert answer.status_code == 401
    assert "Incorrect username or password." in answer.text
    assert "set-cookie" not in answer.headers


async def test_opening_a_sign_in_link_does_not_use_it_up(node: Node) -> None:
    await person(node, "ann", "reviewer")
    path = f"/sign-in/{await link(node, 'ann')}"
    scanner = visitor(node)
    for method in ("GET", "HEAD", "GET"):
        answer = await scanner.client.request(method, path)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
    assert "Sign in as ann" in (await scanner.page(path)).text

    answer = await scanner.send(path, path)

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_a_sign_in_link_works_only_once(node: Node) -> None:
    await person(node, "ann", "reviewer")
    path = f"/sign-in/{await link(node, 'ann')}"
    assert (await visitor(node).post(path, {})).status_code == 303
    for answer in (await visitor(node).post(path, {}), await visitor(node).get(path)):
        assert answer.status_code == 401
        assert "This link no longer works" in answer.text


@pytest.mark.parametrize("secret", ["x", "astl_" + "0" * 49, "%00", "astl_%F0%9F%92%A9"])
async def test_a_malformed_sign_in_link_is_rejected(node: Node, secret: str) -> None:
    assert (await visitor(node).get(f"/sign-in/{secret}")).status_code == 401
    assert (await visitor(node).post(f"/sign-in/{secret}", {})).status_code == 401


async def test_a_sign_in_link_expires_after_a_day(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer", password=None)
    path = f"/sign-in/{await link(node, 'ann')}"
    clock.advance(24 * 3600 + 1)
    assert (await visitor(node).get(path)).status_code == 401
    assert (await visitor(node).post(path, {})).status_code == 401


async def test_signing_in_replaces_a_planted_session(node: Node) -> None:
    planted = await signed_in(node, "mallory", "viewer")
    secret = planted.client.cookies[COOKIE]
    await person(node, "ann", "reviewer")
    browser = visitor(node)
    browser.client.cookies.set(COOKIE, secret)

    await browser.sign_in("ann")

    assert browser.client.cookies.get(COOKIE, domain="assent.test") != secret
    assert (await planted.get("/")).status_code == 303, "the session the browser came with has ended"


async def test_signing_out_ends_the_session_on_the_server(node: Node) -> None:
    browser = await signed_in(node)
    stolen = visitor(node)
    stolen.client.cookies.set(COOKIE, browser.client.cookies[COOKIE])
    assert (await stolen.get("/")).status_code == 200

    answer = await browser.send("/", "/sign-out")

    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert (await stolen.get("/")).headers["location"] == "/sign-in?next=%2F"


async def test_signing_out_requires_a_csrf_token(node: Node) -> None:
    browser = await signed_in(node)
    assert (await browser.post("/sign-out", {})).status_code == 403
    assert (await browser.get("/")).status_code == 200


async def test_the_session_cookie_is_inaccessible_to_scripts_and_other_sites(node: Node) -> None:
    await person(node, "ann", "reviewer")
    cookie = (await visitor(node).sign_in("ann")).headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=astw_")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie
    assert "Domain" not in cookie


async def test_the_session_cookie_is_secure_and_host_bound_over_https(
    sqlite_settings: Settings, clock: ManualClock
) -> None:
    settings = sqlite_settings.model_copy(update={"public_url": "https://assent.example"})
    async with running_node(settings, clock=clock) as node:
        await person(node, "ann", "reviewer")
        browser = visitor(node, origin="https://assent.example")
        answer = await browser.post("/sign-in", {"name": "ann", "password": PASSWORD}, origin="https://assent.example")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"__Host-{COOKIE}=astw_")
        assert "Secure" in cookie
        assert (await browser.get("/")).status_code == 200
        assert (await visitor(node, origin="https://assent.example").get("/")).status_code == 303


async def test_closing_an_account_ends_its_sessions(node: Node) -> None:
    browser = await signed_in(node)
    admin = await node.token("admin")
    assert (await browser.get("/")).status_code == 200
    answer = await node.call("PATCH", "/api/people/ann", admin, json={"active": False})
    assert answer.status_code == 200, answer.text
    while (await browser.get("/")).status_code == 200:
        pass


async def test_a_session_expires_after_twelve_hours(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    clock.advance(12 * 3600 - 1)
    assert (await browser.get("/")).status_code == 200
    clock.advance(2)
    assert (await browser.get("/")).status_code == 303


async def test_signing_in_opens_no_session_if_the_password_changes_during_verification(node: Node) -> None:
    await person(node, "ann", "reviewer")
    people = node.assent[PeopleService]
    checked = await node.assent.database.read(lambda tx: people.sign_in(tx, "ann", PASSWORD))
    admin = await node.token("admin")
    await node.call("PATCH", "/api/people/ann", admin, json={"password": "another long password"})
    with pytest.raises(Exception, match="Incorrect username or password"):
        await node.assent.database.write(lambda tx: people.open_session_for(tx, checked))


async def test_attempts_for_one_username_are_rate_limited_across_addresses(node: Node) -> None:
    await person(node, "ann", "reviewer")
    answers = [await visitor(node, address=f"10.0.0.{n}").sign_in("ann", "guess") for n in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "Too many attempts" in answers[-1].text
    assert Page(answers[-1].text).form("/sign-in").method == "post"


@pytest.mark.parametrize("addresses", [["10.0.0.1"] * 11, [f"2001:db8::{n}" for n in range(11)]])
async def test_attempts_from_one_address_are_rate_limited_across_usernames(node: Node, addresses: list[str]) -> None:
    answers = [await visitor(node, address=address).sign_in(f"name{n}", "x") for n, address in enumerate(addresses)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://assent.test.evil.example"},
        {"origin": "http://assent.test:8080"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://assent.test"},
    ],
)
async def test_a_form_on_another_site_cannot_sign_a_person_in(node: Node, headers: dict[str, str]) -> None:
    await person(node, "ann", "reviewer")
    path = f"/sign-in/{await link(node, 'ann')}"
    browser = visitor(node)
    for target, form in (("/sign-in", {"name": "ann", "password": PASSWORD}), (path, {})):
        answer = await browser.client.post(target, data=form, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert (await browser.post(path, {})).status_code == 303, "the link was not used up"


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "same-origin", "origin": "null"}, {"sec-fetch-site": "none"}])
async def test_a_form_on_our_own_page_is_accepted(node: Node, headers: dict[str, str]) -> None:
    await person(node, "ann", "reviewer")
    form = {"name": "ann", "password": PASSWORD}
    assert (await visitor(node).client.post("/sign-in", data=form, headers=headers)).status_code == 303


async def test_signing_in_redirects_to_the_requested_page(node: Node) -> None:
    created = await node.create()
    await person(node, "ann", "reviewer")
    browser = visitor(node)
    for path in (f"/breakpoints/{created['id']}", "/?status=released&tag=a%20b&tag=c"):
        sent_to = (await browser.get(path)).headers["location"]
        answer = await browser.send(sent_to, "/sign-in", name="ann", password=PASSWORD)
        assert answer.headers["location"] == path
        await browser.send("/", "/sign-out")


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "/%0d%0aSet-Cookie:x",
        "javascript:alert(1)", "/\tevil", "/ /evil.example", "evil", "", "/breakpoints/\r\nX: y", "/sign-in",
        "/api/breakpoints", "/../etc", "/?" + "x" * 3000, "/breakpoints/\u202e",
    ],
)  # fmt: skip
def test_redirect_targets_outside_our_pages_are_replaced_with_the_inbox(target: str) -> None:
    assert local_path(target) == "/"


async def test_every_sign_in_method_ignores_an_external_redirect_target(node: Node) -> None:
    await person(node, "ann", "reviewer")
    away = "//evil.example"
    by_name = await visitor(node).sign_in("ann", next=away)
    by_link = await visitor(node).post(f"/sign-in/{await link(node, 'ann')}", {"next": away})
    browser = await signed_in(node, "bea")
    already = await browser.get(f"/sign-in?next={away}")
    assert [answer.headers["location"] for answer in (by_name, by_link, already)] == ["/", "/", "/"]


@pytest.mark.parametrize("kind", ["agent", "admin", "reviewer"])
async def test_tokens_do_not_give_access_to_pages(node: Node, kind: str) -> None:
    token = await node.token(kind)
    created = await node.create()
    for path in ("/", f"/breakpoints/{created['id']}", f"/breakpoints/{created['id']}/files/0"):
        assert (await node.call("GET", path, token)).status_code == 303
    as_cookie = visitor(node)
    as_cookie.client.cookies.set(COOKIE, token)
    assert (await as_cookie.get("/")).status_code == 303


async def test_a_person_without_a_role_sees_only_an_access_error(node: Node) -> None:
    created = await node.create(title="Secret plan")
    await person(node, "guest", "viewer")
    await node.call("PATCH", "/api/people/guest", await node.token("admin"), json={"roles": []})
    fresh = visitor(node)
    await fresh.sign_in("guest")
    for path in ("/", f"/breakpoints/{created['id']}"):
        answer = await fresh.get(path)
        assert answer.status_code == 403
        assert "You don’t have access to this project" in answer.text
        assert "Secret plan" not in answer.text
    assert Page(answer.text).form("/sign-out").method == "post"
