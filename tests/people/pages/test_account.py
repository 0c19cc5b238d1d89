"""The Account page: sessions, password and current project, on both databases."""

from functools import partial

import pytest

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from tests.support.nodes import Node
from tests.support.until import until
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, Visitor, person, signed_in, visitor

NEW = "another long password"


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def twice(node: Node) -> tuple[Visitor, Visitor]:
    """Sign in the same person in two browsers."""
    await person(node, "ann", "reviewer")
    desk, phone = visitor(node), visitor(node)
    for each in (desk, phone):
        assert (await each.sign_in("ann")).status_code == 303
    return desk, phone


async def test_the_account_page_shows_roles_and_sessions(node: Node) -> None:
    desk, _ = await twice(node)
    page = await desk.page("/account")
    assert "reviewer" in page.text
    assert page.text.count("Signed in ") == 2
    assert page.text.count("this browser") == 1


async def test_signing_out_everywhere_ends_only_the_persons_own_sessions(node: Node) -> None:
    desk, phone = await twice(node)
    bea = await signed_in(node, "bea")
    assert (await desk.send("/account", "/sign-out-everywhere")).headers["location"] == "/sign-in"
    for each in (desk, phone):
        await until(partial(each.get, "/"), lambda answer: answer.status_code == 303)
    assert (await bea.get("/")).status_code == 200, "nobody else's"


async def test_changing_a_password_requires_the_old_one_and_ends_other_sessions(node: Node) -> None:
    desk, phone = await twice(node)
    for typed, said in (
        ({"old": "wrong", "new": NEW, "again": NEW}, "the current password is incorrect"),
        ({"old": PASSWORD, "new": NEW, "again": "x"}, "The new passwords do not match."),
        ({"old": PASSWORD, "new": "short", "again": "short"}, "at least 10 characters"),
    ):
        refused = await desk.send("/account", "/account/password", **typed)
        assert refused.status_code == 422
        assert said in refused.text
        assert NEW not in refused.text, "no password is shown again"
    changed = await desk.send("/account", "/account/password", old=PASSWORD, new=NEW, again=NEW)
    assert changed.status_code == 303, changed.text
    assert (await desk.get("/account")).status_code == 200, "this browser stays signed in"
    await until(partial(phone.get, "/"), lambda answer: answer.status_code == 303)
    assert (await visitor(node).sign_in("ann")).status_code == 401
    assert (await visitor(node).sign_in("ann", NEW)).status_code == 303


async def test_a_person_who_signed_in_with_a_link_can_set_a_first_password(node: Node) -> None:
    ann = await signed_in(node, "ann")
    assert (await ann.send("/account", "/account/password", new=NEW, again=NEW)).status_code == 303
    assert (await visitor(node).sign_in("ann", NEW)).status_code == 303


async def test_attempts_to_guess_the_old_password_are_rate_limited(node: Node) -> None:
    desk, _ = await twice(node)
    form = (await desk.page("/account")).form("/account/password")
    sent = form.fields | {"old": "wrong", "new": NEW, "again": NEW}
    statuses = [(await desk.post(form.action, sent)).status_code for _ in range(12)]
    assert statuses[-1] == 429


async def test_pages_show_only_the_selected_project(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        root = tx[People].get_by_name("owner")
        tx.session.change(
            "INSERT INTO assent_projects (id, name, owner_id, policy, created_at, rulebook)"
            " VALUES ('second', 'Second', :owner, '{}', 1, 0)",
            {"owner": root.id},
        )
        tx[People].grant(tx[People].get_by_name("ann").id, "second", [Role.VIEWER])

    ann = await signed_in(node, "ann")
    await node.assent.database.write(use_case)
    created = await node.create()
    assert (await ann.send("/account", "/account/project", project="second")).status_code == 303
    assert (await ann.get(f"/breakpoints/{created['id']}")).status_code == 404
    other = visitor(node)
    assert (await ann.send("/account", "/account/project", project="default")).status_code == 303
    assert (await ann.get(f"/breakpoints/{created['id']}")).status_code == 200
    assert (await other.get("/account")).status_code == 303


async def test_a_form_without_a_csrf_token_is_rejected(node: Node) -> None:
    desk, phone = await twice(node)
    for path in ("password", "sign-out-everywhere", "project"):
        assert (await desk.post(f"/account/{path}", {"new": NEW, "again": NEW})).status_code == 403
    assert (await phone.get("/")).status_code == 200


async def with_second_project(node: Node, *roles: Role, name: str = "Second") -> Visitor:
    ann = await signed_in(node, "ann", "reviewer", "admin")
    await node.assent.database.write(lambda tx: _second(tx, roles, name))
    return ann


def _second(tx: Transaction, roles: tuple[Role, ...], name: str) -> None:
    ann = tx[People].get_by_name("ann")
    tx[Projects].add(Project("second", name, ann.id, {}, tx.now()))
    tx[People].grant(ann.id, "second", roles)


@pytest.mark.parametrize(
    ("page", "there"),
    [
        ("/", "/"),
        ("/?status=all&tag=prod", "/"),
        ("/runs", "/runs"),
        ("/rules/new", "/rules"),
        ("/insights", "/insights"),
        ("/events", "/events"),
        ("/account", "/account"),
        ("/admin/groups", "/admin/groups"),
        ("/admin/people/ann", "/admin/people"),
    ],
)
async def test_switching_projects_opens_the_corresponding_page_in_the_new_project(
    node: Node, page: str, there: str
) -> None:
    ann = await with_second_project(node, Role.REVIEWER, Role.ADMIN)
    switched = await ann.send(page, "/account/project", project="second")
    assert (switched.status_code, switched.headers["location"]) == (303, there)
    assert (await ann.get(there)).status_code == 200
    assert "data-waiting-count" in (await ann.get(there)).text


async def test_switching_projects_on_a_breakpoint_page_opens_the_inbox(node: Node) -> None:
    ann = await with_second_project(node, Role.REVIEWER)
    created = await node.create()
    switched = await ann.send(f"/breakpoints/{created['id']}", "/account/project", project="second")
    assert switched.headers["location"] == "/"


@pytest.mark.parametrize("page", ["/admin/people", "/admin/audit"])
async def test_switching_projects_opens_the_inbox_if_the_page_is_forbidden(node: Node, page: str) -> None:
    ann = await with_second_project(node, Role.REVIEWER)
    assert (await ann.send(page, "/account/project", project="second")).headers["location"] == "/"


@pytest.mark.parametrize("typed", ["//evil.example", "https://evil.example", "/admin", "/sign-out", "", "/runs/../x"])
async def test_switching_projects_never_redirects_to_a_forged_address(node: Node, typed: str) -> None:
    ann = await with_second_project(node, Role.REVIEWER, Role.ADMIN)
    there = (await ann.send("/", "/account/project", project="second", **{"from": typed})).headers["location"]
    assert there in {"/", "/runs"}


async def test_every_page_offers_all_of_the_persons_projects(node: Node) -> None:
    ann = await with_second_project(node, Role.REVIEWER, name="Second & more")
    await node.assent.database.write(lambda tx: tx[Projects].add(Project("foreign", "Foreign", None, {}, tx.now())))
    missing = await ann.get("/runs/run_none")
    refused = await ann.send("/admin/groups", "/admin/groups", name="Not a name", members="")
    assert (missing.status_code, refused.status_code) == (404, 422)
    whole = [await ann.page(path) for path in ("/", "/rules", "/gates", "/deliveries", "/admin/people", "/account")]
    for shown in (*whole, Page(missing.text), Page(refused.text)):
        offered = [each for each in shown.all("button") if each.get("name") == "project"]
        assert {each["value"] for each in offered} == {"default", "second"}
        assert {each["value"] for each in offered if "aria-current" in each} == {"default"}
        assert "Second & more" in shown.text


async def test_a_person_with_one_project_sees_no_project_switcher(node: Node) -> None:
    shown = await (await signed_in(node)).page("/")
    assert not [each for each in shown.forms if each.action == "/account/project"]
    assert "default" in shown.text
