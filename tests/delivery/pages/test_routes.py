"""Route pages: creating, describing, reordering, testing and removing routes."""

from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.delivery.pages.routes import Typed, does
from assent.delivery.routes_file import checked, written
from assent.delivery.store.routes import Routes, StoredRoute
from assent.kernel.settings import Settings
from assent.people.store.people import People
from tests.delivery.usecases import delegating
from tests.support.nodes import Node
from tests.web.corpus import XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in

FULL = {
    "pattern": "deploy.*",
    "channels": "chat, hook",
    "to": "experts\ngroup:release team",
    "fallback": "mail",
    "remind": "30m 2h",
    "escalate-0-after": "4h",
    "escalate-0-to": "owner, person:ann",
    "escalate-2-after": "8h",
    "escalate-2-to": "person:bea",
    "escalate-2-channels": "mail",
    "timeout": "1d",
    "then": "reject",
    "note": "Releases wake people.",
    "enabled": "yes",
}
BODY = {
    "pattern": "deploy.*",
    "channels": ["chat", "hook"],
    "to": ["experts", "group:release team"],
    "fallback": ["mail"],
    "remind": ["30m", "2h"],
    "escalate": [
        {"after": "4h", "to": ["owner", "person:ann"]},
        {"after": "8h", "to": ["person:bea"], "channels": ["mail"]},
    ],
    "timeout": {"after": "1d", "then": "reject"},
    "quiet": False,
    "note": "Releases wake people.",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def rita(node: Node) -> Visitor:
    for name in ("ann", "bea"):
        await person(node, name, "reviewer", password=None)
    for name, kind in (("mail", "email"), ("hook", "webhook")):
        await delegating.channel(node, name, kind)
    await delegating.channel(node, "chat", "slack", token="env:SLACK_TOKEN")
    await node.assent.database.write(lambda tx: tx[People].put_group("default", "release team", [], at=tx.now()))
    return await signed_in(node, "rita", "rule-admin")


async def kept(node: Node) -> list[StoredRoute]:
    return await node.assent.database.read(lambda tx: tx[Routes].in_project("default"))


async def write(browser: Visitor, pattern: str, **typed: str) -> None:
    given = {"pattern": pattern, "channels": "mail", "to": "experts", "enabled": "yes", "quiet": "yes"} | typed
    answer = await browser.send("/admin/routes/new", "/admin/routes", **given)
    assert answer.status_code == 303, Page(answer.text).text


async def test_a_route_can_be_created_described_changed_and_removed(node: Node) -> None:
    browser = await rita(node)
    assert "No routes yet" in (await browser.page("/admin/routes")).text
    answer = await browser.send("/admin/routes/new", "/admin/routes", **FULL)
    assert answer.headers["location"] == "/admin/routes?done=created", Page(answer.text).text
    (found,) = await kept(node)
    assert written(found.route) == BODY
    assert (found.enabled, found.created_by) == (True, "person:rita")
    said = " ".join((await browser.page("/admin/routes")).text.split())
    for words in (
        "Notifies the assigned reviewers and the group release team on chat and hook, even during quiet hours",
        "If that fails, tries mail",
        "Sends reminders after 30m and 2h",
        "After 4h, also notifies the owner and ann",
        "After 8h, also notifies bea on mail",
        "After 1d, it is rejected",
        "Releases wake people.",
    ):
        assert words in said, words

    one = f"/admin/routes/{found.id}"
    page = await browser.page(one)
    shown = {each["id"]: each.get("value", "") for each in page.all("input") if each.get("id") in FULL}
    assert shown["escalate-0-to"] == "owner, person:ann"
    typed = {"pattern": "deploy.api", "channels": "mail", "to": "owner", "quiet": "yes"}
    answer = await browser.post(one, page.form(one).fields | typed)
    assert answer.status_code == 303, Page(answer.text).text
    (found,) = await kept(node)
    assert written(found.route) == {"pattern": "deploy.api", "channels": ["mail"], "to": ["owner"]}
    assert not found.enabled, "its box was not ticked"

    assert "no notifications are sent" in (await browser.page(f"{one}/remove")).text
    assert (await browser.send(f"{one}/remove", "/remove")).headers["location"] == "/admin/routes?done=removed"
    assert await kept(node) == []


@pytest.mark.parametrize(
    ("typed", "control", "said"),
    [
        ({"pattern": "deploy.("}, "pattern", ""),
        ({"channels": ""}, "channels", "must be a list of 1 to 20 items"),
        ({"channels": "pigeon"}, "channels", "channel pigeon not found"),
        ({"to": "person:nobody"}, "to", "person nobody not found"),
        ({"to": "everybody"}, "to", "must be experts, owner"),
        ({"remind": "2h 30m"}, "remind", "must be later than the previous step at 2h"),
        ({"remind": "soon"}, "remind", "must be a duration"),
        ({"escalate-2-after": "1h"}, "escalate-2-after", "must be later than the previous step at 4h"),
        ({"escalate-2-to": "group:nobodies"}, "escalate-2-to", "group nobodies not found"),
        ({"escalate-2-channels": "pigeon"}, "escalate-2-channels", "channel pigeon not found"),
        ({"timeout": "never"}, "timeout", "must be a duration"),
        ({"then": "approve"}, "then", "a timeout never approves"),
    ],
)
async def test_an_invalid_route_is_not_saved_and_the_error_is_next_to_its_field(
    node: Node, typed: dict[str, str], control: str, said: str
) -> None:
    browser = await rita(node)
    answer = await browser.send("/admin/routes/new", "/admin/routes", **(FULL | typed))
    assert answer.status_code == 422
    page = Page(answer.text)
    assert said in page.text
    (wrong,) = [attributes for _, attributes in page.elements if attributes.get("aria-invalid") == "true"]
    assert wrong["id"] == control
    assert f"#{control}" in page.links()
    assert await kept(node) == []


async def test_an_outdated_route_form_is_rejected(node: Node) -> None:
    browser = await rita(node)
    await write(browser, "a")
    (found,) = await kept(node)
    one = f"/admin/routes/{found.id}"
    form = (await browser.page(one)).form(one)
    first = form.fields | {"pattern": "first", "channels": "mail", "to": "owner"}
    assert (await browser.post(one, first)).status_code == 303
    answer = await browser.post(one, first | {"pattern": "second"})
    assert answer.status_code == 412
    assert "This route has changed since you opened the page" in answer.text
    assert [each.route.pattern for each in await kept(node)] == ["first"]


async def test_routes_can_be_moved_up_and_down(node: Node) -> None:
    browser = await rita(node)
    for pattern in ("a", "b", "c"):
        await write(browser, pattern)

    async def moved(pattern: str, direction: str) -> list[str]:
        found = next(each for each in await kept(node) if each.route.pattern == pattern)
        key = (await browser.page("/admin/routes")).form(f"/admin/routes/{found.id}/move").fields
        answer = await browser.post(f"/admin/routes/{found.id}/move", key | {"direction": direction})
        assert answer.status_code == 303
        return [each.route.pattern for each in await kept(node)]

    assert await moved("c", "up") == ["a", "c", "b"]
    assert await moved("a", "down") == ["c", "a", "b"]
    assert await moved("c", "up") == ["c", "a", "b"], "the first stays"
    key = (await browser.page("/admin/routes")).form("/sign-out").fields
    assert (await browser.post("/admin/routes/rt_nothing/move", key)).status_code == 404


async def test_a_dry_run_shows_the_notifications_without_sending_them(node: Node) -> None:
    browser = await rita(node)
    await write(browser, "deploy.*", to="person:ann", remind="30m", timeout="1d", then="expire")
    page = await browser.page("/admin/routes/try?gate=deploy.api")
    said = " ".join(page.text.split())
    assert "Matches the route deploy.*" in said
    assert "Immediately: ann on mail is notified" in said
    assert "After 30m: ann on mail is reminded" in said
    assert "After 1d: it expires" in said
    nothing = await browser.page("/admin/routes/try?gate=refund.send&tags=money&risk=high&agent=shop")
    assert "No route matches" in nothing.text
    assert "no notifications are sent" in nothing.text
    created = await node.create(payload={"question": "?", "breakpointId": "deploy.web"})
    assert "Matches the route" in (await browser.page(f"/admin/routes/try?breakpoint={created['id']}")).text
    for query in ("", "gate=x&risk=huge", "breakpoint=bp_00000000000000000000000000", f"gate={'x' * 999}"):
        answer = await browser.get(f"/admin/routes/try?{query}")
        assert answer.status_code in {404, 422}, query
        assert "Test routes" in answer.text
    assert len(await delegating.deliveries(node)) == 1, "only the one that was really raised"


async def test_a_route_from_assent_yaml_is_shown_but_cannot_be_changed(node: Node) -> None:
    browser = await rita(node)
    route_id = await delegating.route(node, "mail")

    def from_file(tx: Transaction) -> None:
        found = tx[Routes].get(route_id, project="default")
        tx[Routes].remove(route_id, project="default")
        fields: dict[str, Any] = {name: getattr(found, name) for name in StoredRoute.__slots__}
        tx[Routes].add(StoredRoute(**(fields | {"source": "file"})))

    await node.assent.database.write(from_file)
    one = f"/admin/routes/{route_id}"
    page = await browser.page(one)
    assert "is defined in assent.yaml" in page.text
    assert [form.action for form in page.forms if "/admin/" in form.action] == []
    assert "in assent.yaml" in (await browser.page("/admin/routes")).text
    key = page.form("/sign-out").fields | {"pattern": "x", "channels": "mail", "to": "owner", "direction": "up"}
    shown = {"shown": str((await kept(node))[0].updated_at)}
    for path, status in ((one, 409), (f"{one}/remove", 409), (f"{one}/move", 404)):
        assert (await browser.post(path, key | shown)).status_code == status, path
    assert [each.route.pattern for each in await kept(node)] == ["*"]


@pytest.mark.parametrize("role", ["viewer", "reviewer", "auditor"])
async def test_only_rule_admins_can_see_and_change_routes(node: Node, role: str) -> None:
    browser, other = await rita(node), await signed_in(node, "val", role)
    await write(browser, "a")
    (found,) = await kept(node)
    one = f"/admin/routes/{found.id}"
    key = (await other.page("/account")).form("/sign-out").fields | {"pattern": "b", "channels": "mail", "to": "owner"}
    for path in ("/admin/routes", "/admin/routes/new", "/admin/routes/try?gate=a", one, f"{one}/remove"):
        assert (await other.get(path)).status_code == 403, path
    for path in ("/admin/routes", one, f"{one}/move", f"{one}/remove"):
        assert (await other.post(path, key)).status_code == 403, path
        assert (await browser.post(path, key | {"csrf": "wrong"})).status_code == 403, path
    assert [each.route.pattern for each in await kept(node)] == ["a"]


async def test_the_admin_page_redirects_rule_admins_to_the_routes_page(node: Node) -> None:
    browser = await signed_in(node, "rita", "rule-admin")
    assert (await browser.get("/admin")).headers["location"] == "/admin/routes"
    page = await browser.page("/admin/routes")
    assert "/admin" in page.links()
    assert "/admin/people" not in page.links()


async def test_route_notes_are_escaped(node: Node) -> None:
    browser = await rita(node)
    await delegating.route(node, "mail", note="x")
    plain = len((await browser.page("/admin/routes")).elements)
    for text in XSS[:20]:
        route_id = await delegating.route(node, "mail", note=text[:400].strip())
        assert len((await browser.page("/admin/routes")).elements) > plain
        page = await browser.page(f"/admin/routes/{route_id}")
        assert not [each for _, attributes in page.elements for each in attributes if each.startswith("on")]
        key = page.form("/sign-out").fields
        assert (await browser.post(f"/admin/routes/{route_id}/remove", key)).status_code == 303


@pytest.mark.parametrize(
    "body",
    [BODY, {"pattern": "*", "channels": ["mail"], "to": ["experts"]}, BODY | {"timeout": None, "quiet": True}],
)
def test_submitting_an_unchanged_form_leaves_the_route_unchanged(body: dict[str, Any]) -> None:
    given = {name: value for name, value in body.items() if value is not None}
    stored = StoredRoute(id="rt_1", project="p", position=1, route=checked(given, route_id="rt_1"))
    again = {name: value for name, value in Typed.from_route(stored).body().items() if value is not None}
    assert checked(again, route_id="rt_1") == stored.route
    assert does(stored.route)[0].startswith("Notifies ")
