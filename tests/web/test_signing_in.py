"""Signing in and out: one door for people, nothing for anybody else."""

import pytest

from assent.http.sessions import local_path
from assent.settings import Settings
from tests.support.nodes import ManualClock, Node, running_node
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, link, person, signed_in, visitor

COOKIE = "assent_session"


async def test_a_name_and_a_password_open_the_inbox(node: Node) -> None:
    await person(node, "ann", "reviewer")
    browser = visitor(node)
    answer = await browser.sign_in("ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "ann" in (await browser.page("/")).text


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong password"), ("nobody", PASSWORD), ("", ""), ("ann", "")])
async def test_a_wrong_name_or_password_is_refused_in_the_same_words(node: Node, name: str, password: str) -> None:
    await person(node, "ann", "reviewer")
    answer = await visitor(node).sign_in(name, password)
    assert answer.status_code == 401
    assert "Incorrect username or password." in answer.text
    assert "set-cookie" not in answer.headers


async def test_looking_at_a_link_never_uses_it(node: Node) -> None:
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


async def test_a_link_works_once(node: Node) -> None:
    await person(node, "ann", "reviewer")
    path = f"/sign-in/{await link(node, 'ann')}"
    assert (await visitor(node).post(path, {})).status_code == 303
    for answer in (await visitor(node).post(path, {}), await visitor(node).get(path)):
        assert answer.status_code == 401
        assert "This link no longer works" in answer.text


@pytest.mark.parametrize("secret", ["x", "astl_" + "0" * 49, "%00", "astl_%F0%9F%92%A9"])
async def test_a_link_that_cannot_be_one_is_refused(node: Node, secret: str) -> None:
    assert (await visitor(node).get(f"/sign-in/{secret}")).status_code == 401
    assert (await visitor(node).post(f"/sign-in/{secret}", {})).status_code == 401


async def test_a_link_is_too_old_after_a_day(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer", password=None)
    path = f"/sign-in/{await link(node, 'ann')}"
    clock.advance(24 * 3600 + 1)
    assert (await visitor(node).get(path)).status_code == 401
    assert (await visitor(node).post(path, {})).status_code == 401


async def test_signing_in_never_adopts_a_session_somebody_planted(node: Node) -> None:
    planted = await signed_in(node, "mallory", "viewer")
    secret = planted.client.cookies[COOKIE]
    await person(node, "ann", "reviewer")
    browser = visitor(node)
    browser.client.cookies.set(COOKIE, secret)

    await browser.sign_in("ann")

    assert browser.client.cookies.get(COOKIE, domain="assent.test") != secret
    assert (await planted.get("/")).status_code == 303, "the session the browser came with has ended"


async def test_signing_out_ends_the_session_itself(node: Node) -> None:
    browser = await signed_in(node)
    stolen = visitor(node)
    stolen.client.cookies.set(COOKIE, browser.client.cookies[COOKIE])
    assert (await stolen.get("/")).status_code == 200

    answer = await browser.send("/", "/sign-out")

    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert (await stolen.get("/")).headers["location"] == "/sign-in?next=%2F"


async def test_signing_out_needs_the_form_key(node: Node) -> None:
    browser = await signed_in(node)
    assert (await browser.post("/sign-out", {})).status_code == 403
    assert (await browser.get("/")).status_code == 200


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(node: Node) -> None:
    await person(node, "ann", "reviewer")
    cookie = (await visitor(node).sign_in("ann")).headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=astw_")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie
    assert "Domain" not in cookie


async def test_behind_https_the_cookie_is_secure_and_bound_to_the_host(
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


async def test_a_closed_account_is_cut_off(node: Node) -> None:
    browser = await signed_in(node)
    admin = await node.token("admin")
    assert (await browser.get("/")).status_code == 200
    answer = await node.call("PATCH", "/api/people/ann", admin, json={"active": False})
    assert answer.status_code == 200, answer.text
    while (await browser.get("/")).status_code == 200:
        pass


async def test_a_session_ends_after_twelve_hours(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    clock.advance(12 * 3600 - 1)
    assert (await browser.get("/")).status_code == 200
    clock.advance(2)
    assert (await browser.get("/")).status_code == 303


async def test_a_password_changed_while_it_was_checked_opens_nothing(node: Node) -> None:
    await person(node, "ann", "reviewer")
    people = node.assent.people
    checked = await node.assent.database.read(lambda tx: people.sign_in(tx, "ann", PASSWORD))
    admin = await node.token("admin")
    await node.call("PATCH", "/api/people/ann", admin, json={"password": "another long password"})
    with pytest.raises(Exception, match="Incorrect username or password"):
        await node.assent.database.write(lambda tx: people.open_session_for(tx, checked))


async def test_too_many_tries_under_one_name_are_held_up_wherever_they_come_from(node: Node) -> None:
    await person(node, "ann", "reviewer")
    answers = [await visitor(node, address=f"10.0.0.{n}").sign_in("ann", "guess") for n in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "Too many attempts" in answers[-1].text
    assert Page(answers[-1].text).form("/sign-in").method == "post"


@pytest.mark.parametrize("addresses", [["10.0.0.1"] * 11, [f"2001:db8::{n}" for n in range(11)]])
async def test_too_many_tries_from_one_address_are_held_up_whatever_the_name(node: Node, addresses: list[str]) -> None:
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
async def test_another_sites_form_signs_nobody_in(node: Node, headers: dict[str, str]) -> None:
    await person(node, "ann", "reviewer")
    path = f"/sign-in/{await link(node, 'ann')}"
    browser = visitor(node)
    for target, form in (("/sign-in", {"name": "ann", "password": PASSWORD}), (path, {})):
        answer = await browser.client.post(target, data=form, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert (await browser.post(path, {})).status_code == 303, "the link was not used up"


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "same-origin", "origin": "null"}, {"sec-fetch-site": "none"}])
async def test_a_form_of_our_own_page_is_taken(node: Node, headers: dict[str, str]) -> None:
    await person(node, "ann", "reviewer")
    form = {"name": "ann", "password": PASSWORD}
    assert (await visitor(node).client.post("/sign-in", data=form, headers=headers)).status_code == 303


async def test_the_page_that_was_asked_for_is_shown_after_signing_in(node: Node) -> None:
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
def test_nobody_is_sent_anywhere_but_to_our_own_pages(target: str) -> None:
    assert local_path(target) == "/"


async def test_a_target_elsewhere_is_dropped_on_every_way_in(node: Node) -> None:
    await person(node, "ann", "reviewer")
    away = "//evil.example"
    by_name = await visitor(node).sign_in("ann", next=away)
    by_link = await visitor(node).post(f"/sign-in/{await link(node, 'ann')}", {"next": away})
    browser = await signed_in(node, "bea")
    already = await browser.get(f"/sign-in?next={away}")
    assert [answer.headers["location"] for answer in (by_name, by_link, already)] == ["/", "/", "/"]


@pytest.mark.parametrize("kind", ["agent", "admin", "reviewer"])
async def test_tokens_do_not_open_pages(node: Node, kind: str) -> None:
    token = await node.token(kind)
    created = await node.create()
    for path in ("/", f"/breakpoints/{created['id']}", f"/breakpoints/{created['id']}/files/0"):
        assert (await node.call("GET", path, token)).status_code == 303
    as_cookie = visitor(node)
    as_cookie.client.cookies.set(COOKIE, token)
    assert (await as_cookie.get("/")).status_code == 303


async def test_somebody_without_a_role_is_told_so_and_shown_nothing(node: Node) -> None:
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
