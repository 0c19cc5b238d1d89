"""Delivery pages: recipients, attempts, errors, and retries of dead deliveries."""

import pytest

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Deliveries
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from tests.delivery.usecases import delegating
from tests.support.nodes import ManualClock, Node
from tests.web.corpus import XSS
from tests.web.visitors import Visitor, link, person, signed_in, visitor

HOOK = "https://hooks.example.org/secret/path"


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def admin(node: Node) -> Visitor:
    return await signed_in(node, "mia", "admin")


async def dead(node: Node, error: str = "The server said 500.", **body: object) -> str:
    """Create a breakpoint with a dead callback, and return the delivery's ID."""
    created = await node.create(callbackUrl=HOOK, **body)
    (delivery,) = await delegating.deliveries(node, created["id"])

    def use_case(tx: Transaction) -> None:
        now = tx.now()
        assert tx[Deliveries].claim(delivery, worker="host:1", now=now, lease=now)
        (claimed,) = tx[Deliveries].page("default", {"breakpoint_id": created["id"]}, after="", limit=1)
        tx[Deliveries].give_up(claimed, error=error, now=now)

    await node.assent.database.write(use_case)
    return delivery.id


async def state(node: Node, delivery_id: str) -> str:
    found = await node.assent.database.read(lambda tx: tx[Deliveries].get(delivery_id, project="default"))
    return found.state


async def test_the_list_shows_the_breakpoint_recipient_and_state(node: Node) -> None:
    browser = await admin(node)
    assert "No deliveries yet" in (await browser.page("/deliveries")).text
    await delegating.channel(node, "mail", "email")
    await person(node, "ann", "reviewer", password=None)
    await delegating.route(node, "mail", to=["person:ann"])
    created = await node.create(title="Deploy shop")
    (delivery,) = await delegating.deliveries(node, created["id"])
    page = await browser.page("/deliveries")
    said = " ".join(page.text.split())
    for words in ("Deploy shop", "request", "mail", "ann", "pending"):
        assert words in said
    assert f"/deliveries/{delivery.id}" in page.links()
    one = await browser.page(f"/deliveries/{delivery.id}")
    assert f"/breakpoints/{created['id']}" in one.links()
    assert f"/admin/channels/{delivery.channel}" in one.links()
    assert "No attempts yet." in one.text


async def test_filters_narrow_the_delivery_list(node: Node) -> None:
    browser = await admin(node)
    given_up = await dead(node, title="Given up")
    waiting = await node.create(title="Still to be sent", callbackUrl=HOOK)
    for query, shown, hidden in (
        ("state=dead", "Given up", "Still to be sent"),
        ("state=pending", "Still to be sent", "Given up"),
        (f"breakpoint={waiting['id']}", "Still to be sent", "Given up"),
        ("channel=callback&state=dead", "Given up", "Still to be sent"),
    ):
        text = (await browser.page(f"/deliveries?{query}")).text
        assert shown in text, query
        assert hidden not in text, query
    assert "No deliveries match" in (await browser.page("/deliveries?channel=ch_nothing")).text
    assert f"/deliveries/{given_up}" in (await browser.page("/deliveries?state=dead")).links()
    for query in ("state=lost", "cursor=x", "channel=%00", f"breakpoint={'x' * 101}"):
        assert (await browser.get(f"/deliveries?{query}")).status_code == 422, query


async def test_paging_shows_every_delivery_exactly_once(node: Node, clock: ManualClock) -> None:
    browser = await admin(node)
    for _ in range(53):
        clock.advance(1)
        await node.create(callbackUrl=HOOK)
    path, seen = "/deliveries?state=pending", list[str]()
    while path:
        page = await browser.page(path)
        seen += [each for each in page.links() if each.startswith("/deliveries/dlv_")]
        path = next((each["href"] for each in page.all("a") if each.get("rel") == "next"), "")
    assert len(seen) == len(set(seen)) == 53
    assert seen == sorted(seen, reverse=True)


async def test_only_admins_can_retry_a_dead_delivery(node: Node) -> None:
    browser, reader = await admin(node), await signed_in(node, "val", "viewer")
    delivery_id = await dead(node)
    one = f"/deliveries/{delivery_id}"
    page = await browser.page(one)
    for words in ("The server said 500.", "no more retries", "host:1", "unknown: the worker stopped"):
        assert words in page.text
    assert not [each for each in (await reader.page(one)).forms if "retry" in each.action]
    key = (await reader.page(one)).form("/sign-out").fields
    assert (await reader.post(f"{one}/retry", key)).status_code == 403
    assert (await browser.post(f"{one}/retry", {})).status_code == 403
    assert await state(node, delivery_id) == "dead"
    answer = await browser.send(one, "/retry")
    assert answer.headers["location"] == f"{one}?done=retried"
    assert await state(node, delivery_id) == "pending"
    assert "Retrying now." in (await browser.page(answer.headers["location"])).text
    again = await browser.post(f"{one}/retry", page.form("/retry").fields)
    assert again.status_code == 409


async def test_all_dead_deliveries_of_a_channel_can_be_retried_at_once(node: Node) -> None:
    browser = await admin(node)
    ids = [await dead(node) for _ in range(3)]
    assert not [each for each in (await browser.page("/deliveries?state=dead")).forms if "retry" in each.action]
    answer = await browser.send("/deliveries?state=dead&channel=callback", "/deliveries/retry")
    assert {await state(node, each) for each in ids} == {"pending"}
    assert "Retrying 3 deliveries." in (await browser.page(answer.headers["location"])).text
    key = (await browser.page("/deliveries")).form("/sign-out").fields
    nothing = await browser.post("/deliveries/retry", key | {"channel": "callback"})
    assert "Nothing to retry." in (await browser.page(nothing.headers["location"])).text
    reader = await signed_in(node, "rev", "reviewer")
    key = (await reader.page("/deliveries")).form("/sign-out").fields
    assert (await reader.post("/deliveries/retry", key | {"channel": "callback"})).status_code == 403


async def test_only_admins_see_the_number_of_failed_deliveries_in_the_navigation(node: Node) -> None:
    browser, reader = await admin(node), await signed_in(node, "val", "viewer")
    assert "failed" not in (await browser.page("/")).text
    await dead(node)
    await dead(node)
    assert "2 failed" in (await browser.page("/")).text
    assert "2 failed" not in (await reader.page("/")).text


async def test_only_admins_see_the_path_of_a_callback_url(node: Node) -> None:
    browser, reader = await admin(node), await signed_in(node, "val", "viewer")
    delivery_id = await dead(node)
    created = await node.assent.database.read(lambda tx: tx[Deliveries].get(delivery_id, project="default"))
    for path in ("/deliveries", f"/deliveries/{delivery_id}", f"/breakpoints/{created.breakpoint_id}"):
        assert HOOK in (await browser.page(path)).text, path
        shown = (await reader.page(path)).text
        assert "/secret/path" not in shown, path
        assert "https://hooks.example.org/…" in shown, path


async def test_deliveries_in_another_project_return_404(node: Node) -> None:
    delivery_id = await dead(node)
    answer = await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "other"})
    assert answer.is_success, answer.text

    def use_case(tx: Transaction) -> None:
        node.assent[PeopleService].create_person(tx, "nils", project="other", roles=frozenset({Role.ADMIN}))

    await node.assent.database.write(use_case)
    browser = visitor(node)
    await browser.post(f"/sign-in/{await link(node, 'nils')}", {})
    assert "No deliveries yet" in (await browser.page("/deliveries")).text
    key = (await browser.page("/deliveries")).form("/sign-out").fields
    assert (await browser.get(f"/deliveries/{delivery_id}")).status_code == 404
    assert (await browser.post(f"/deliveries/{delivery_id}/retry", key)).status_code == 404
    await browser.post("/deliveries/retry", key | {"channel": "callback"})
    assert await state(node, delivery_id) == "dead"
    for path in ("/deliveries/nonsense", "/deliveries/dlv_00000000000000000000000000"):
        assert (await browser.get(path)).status_code == 404


async def test_a_waiting_delivery_links_to_the_earlier_message(node: Node) -> None:
    browser = await admin(node)
    created = await node.create(callbackUrl=HOOK)
    answer = await node.feedback(created["id"], await node.person("ann", "reviewer"), approved=True)
    assert answer.is_success, answer.text
    first, *_, last = sorted(await delegating.deliveries(node, created["id"]), key=lambda each: each.seq)
    page = await browser.page(f"/deliveries/{last.id}")
    assert "earlier message" in page.text
    assert f"/deliveries/{first.id}" in page.links()
    assert "as soon as a worker is free" in (await browser.page(f"/deliveries/{first.id}")).text


async def test_the_breakpoint_page_lists_its_notifications(node: Node) -> None:
    reader = await signed_in(node, "val", "viewer")
    quiet = await node.create()
    assert "Notifications" not in (await reader.page(f"/breakpoints/{quiet['id']}")).text
    channel = await delegating.channel(node, "mail", "email")
    await person(node, "ann", "reviewer", password=None)
    await delegating.route(node, "mail", to=["person:ann"])
    created = await node.create()
    (delivery,) = await delegating.deliveries(node, created["id"])
    assert delivery.channel == channel
    page = await reader.page(f"/breakpoints/{created['id']}")
    assert "Notifications" in page.text
    assert "ann on mail request" in " ".join(page.text.split())
    assert f"/deliveries/{delivery.id}" in page.links()


async def test_text_from_receivers_is_escaped(node: Node) -> None:
    browser = await admin(node)
    for text in XSS[:20]:
        delivery_id = await dead(node, error=text[:400], title=text[:200])
        for path in ("/deliveries?state=dead", f"/deliveries/{delivery_id}"):
            page = await browser.page(path)
            assert not [attributes for tag, attributes in page.elements if tag == "script" and "src" not in attributes]
            assert not [each for _, attributes in page.elements for each in attributes if each.startswith("on")]
