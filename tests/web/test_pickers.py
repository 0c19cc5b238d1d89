"""Fields for the names of people and groups suggest people and groups in the project."""

import pytest

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.store.routes import Routes
from assent.kernel.settings import Settings
from assent.people.store.people import EVERYWHERE, People
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import PeopleService
from tests.delivery.usecases import delegating
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


def offered(page: Page, field: str) -> set[str]:
    """Return the suggestions for a field; all fields with this name must share them."""
    lists = {each.get("list", "") for each in page.all("input") if each.get("name") == field}
    assert len(lists) == 1, lists
    assert lists & {each.get("id", "") for each in page.all("datalist")} == lists, "the list is on the page"
    return page.suggestions(lists.pop())


async def known(node: Node) -> Visitor:
    """Create Ann and Val in the project, Eve in all projects, Otto in another one, and Gus, whose account is closed."""
    root = await signed_in(node, "root", "admin")
    await person(node, "ann", "reviewer", password=None)
    await person(node, "val", "viewer", password=None)
    await person(node, "gus", "reviewer", password=None)
    await root.send("/admin/people/gus/close", "/close")

    def use_case(tx: Transaction) -> None:
        people = node.assent[PeopleService]
        tx[Projects].add(Project("other", "Other", None, {}, tx.now()))
        people.create_person(tx, "otto", project="other", roles=frozenset({Role.REVIEWER}))
        people.create_person(tx, "eve", project=EVERYWHERE, roles=frozenset({Role.REVIEWER}))
        tx[People].put_group("default", "team", [tx[People].get_by_name("ann").id], at=tx.now())

    await node.assent.database.write(use_case)
    return root


HERE = {"ann", "eve", "owner", "root", "val"}
REVIEWERS = {"ann", "eve", "owner"}


async def test_the_reassign_field_suggests_reviewers(node: Node) -> None:
    root = await known(node)
    created = await node.create()
    assert offered(await root.page(f"/breakpoints/{created['id']}"), "to") == REVIEWERS
    viewer = await signed_in(node, "vic", "viewer")
    assert (await viewer.page(f"/breakpoints/{created['id']}")).suggestions("reviewers") == set()


async def test_the_account_page_suggests_reviewers_as_deputies(node: Node) -> None:
    await known(node)
    bea = await signed_in(node, "bea")
    assert offered(await bea.page("/account"), "deputy") == REVIEWERS


async def test_the_group_form_suggests_people_and_adds_the_selected_one(node: Node) -> None:
    root = await known(node)
    assert offered(await root.page("/admin/groups"), "add-member") == HERE
    saved = await root.send("/admin/groups", "/admin/groups", name="night", members="val", **{"add-member": "ann"})
    assert saved.status_code == 303
    groups = await node.assent.database.read(lambda tx: tx[People].groups("default"))
    assert groups["night"] == ["ann", "val"]


async def test_project_owner_and_linked_person_fields_suggest_people(node: Node) -> None:
    root = await known(node)
    channel = await delegating.channel(node, "chat", "slack", token="env:SLACK_TOKEN")
    assert offered(await root.page("/admin/projects"), "owner") == HERE
    assert offered(await root.page(f"/admin/channels/{channel}"), "person") == HERE


async def test_the_route_form_suggests_recipients_and_adds_the_selected_one(node: Node) -> None:
    root = await known(node)
    await delegating.channel(node, "mail", "email")
    page = await root.page("/admin/routes/new")
    expected = {"experts", "owner", "group:team", *(f"person:{name}" for name in HERE)}
    assert offered(page, "add-to") == offered(page, "escalate-0-to") == expected
    typed = {"pattern": "deploy.*", "channels": "mail", "to": "experts", "add-to": "group:team", "then": "expire"}
    assert (await root.send("/admin/routes/new", "/admin/routes", **typed)).status_code == 303
    [stored] = await node.assent.database.read(lambda tx: tx[Routes].in_project("default"))
    assert stored.route.to == ("experts", "group:team")


async def test_a_suggestion_shows_the_full_name(node: Node) -> None:
    root = await known(node)
    await root.send("/admin/people/ann", "/admin/people/ann/details", displayName="Ann <b>Lee</b>", email="")
    page = await root.page("/admin/groups")
    assert "Ann <b>Lee</b>" in page.text
