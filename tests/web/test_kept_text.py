"""Text that a person typed survives the end of the session, and signing in again decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.undo_window import HeldAnswers
from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.policy.store.rules import Rules
from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, Visitor, person, visitor

TEXT = "Not on a Friday.\nThe tests are <b>red</b> & nobody is here."
PROCESS = "from assent import process\n\n\n@process\nasync def tidy(inputs, ctx):\n    pass\n"
FORM = {"properties": {"plan": {"type": "string"}}}
ONE = "/breakpoints/{id}"


@dataclass(frozen=True)
class Case:
    """A form with text fields: its page, its action and the typed values."""

    page: str
    action: str
    typed: Mapping[str, str]
    first: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values typed into the form at `before`, whose response contains this one."""
    before: str = ""


CASES = {
    "reject": Case(ONE, f"{ONE}/confirm", {"decision": "reject", "comment": TEXT}),
    "confirm the rejection": Case(
        ONE, f"{ONE}/decide", {}, {"decision": "reject", "comment": TEXT}, before=f"{ONE}/confirm"
    ),
    "answers": Case(ONE, f"{ONE}/confirm", {"decision": "approve", "field-0": TEXT}),
    "edits": Case(ONE, f"{ONE}/confirm", {"decision": "approve", "edit-0": TEXT}),
    "comment": Case(ONE, f"{ONE}/comment", {"text": TEXT}),
    "bulk reject": Case(
        "/", "/bulk/decide", {"comment": TEXT}, {"decision": "reject", "pick-{id}": "{digest}"}, before="/bulk/confirm"
    ),
    "new rule": Case("/rules/new", "/rules", {"pattern": "a.*", "action": "auto-approve", "note": TEXT, "do": "save"}),
    "change rule": Case("/rules/{rule}", "/rules/{rule}", {"pattern": "a.*", "note": TEXT, "why": "Because."}),
    "remove rule": Case("/rules/{rule}/remove", "/rules/{rule}/remove", {"why": TEXT}),
    "import rules": Case("/rules/import", "/rules/import", {"file": TEXT, "do": "import", "why": "Because."}),
    "always approve": Case(f"{ONE}/always", f"{ONE}/always", {"pattern": "a.*", "note": TEXT, "do": "save"}),
    "start a run": Case("/runs/start", "/runs/start", {"process": "tidy", "inputs": TEXT}),
}


@dataclass
class Scene:
    node: Node
    ann: Visitor
    known: dict[str, str]

    def at(self, template: str) -> str:
        for name, value in self.known.items():
            template = template.replace(f"{{{name}}}", value)
        return template

    async def filled(self, case: Case) -> tuple[str, dict[str, str]]:
        """Open and fill in the form; return its action and fields."""
        page = await self.ann.page(self.at(case.page))
        if case.before:
            form = page.form(self.at(case.before))
            first = {self.at(name): self.at(value) for name, value in case.first.items()}
            page = Page((await self.ann.post(form.action, form.fields | first)).text)
        form = page.form(self.at(case.action))
        return form.action, form.fields | dict(case.typed)

    async def unchanged(self) -> bool:
        def use_case(tx: Transaction) -> tuple[str, int, list[Any], int]:
            found = tx[Breakpoints].look(self.known["id"], project="default")
            rules = tx[Rules].standing("default")
            return found.status.value, found.version, tx[HeldAnswers].on(found.id), sum(each.version for each in rules)

        return await self.node.assent.database.read(use_case) == ("waiting", 1, [], 1)


@pytest.fixture
async def scene(settings: Settings, node: Node) -> Scene:
    settings.process_folder.mkdir(parents=True, exist_ok=True)
    (settings.process_folder / "tidy.py").write_text(PROCESS)
    await person(node, "ann", "reviewer", "rule-admin", "admin")
    ann = visitor(node)
    await ann.sign_in("ann")
    made = await node.create(
        payload={"question": "?", "form": FORM, "editable": ["a"], "arguments": {"a": "b"}, "breakpointId": "deploy"}
    )

    rule = {"pattern": "b.*", "action": "auto-approve", "why": "To test.", "do": "save"}
    form = (await ann.page("/rules/new")).form("/rules")
    saved = await ann.post(form.action, form.fields | rule)
    return Scene(
        node, ann, {"id": made["id"], "digest": made["digest"], "rule": saved.headers["location"].rpartition("/")[2]}
    )


def shows_text(answer: httpx2.Response) -> bool:
    """Return whether the page shows the complete text, for example in a form."""
    page = Page(answer.text)
    values = [each.get("value", "") for each in page.all("input") if each.get("type") != "hidden"]
    return TEXT in page.text or TEXT in values


@pytest.mark.parametrize("name", CASES)
async def test_text_typed_before_the_session_ended_is_restored_after_signing_in(
    scene: Scene, clock: ManualClock, name: str
) -> None:
    address, filled = await scene.filled(CASES[name])
    clock.advance(13 * 3600)
    asked = await scene.ann.post(address, filled)
    assert asked.status_code == 401
    assert "Your session has ended, so nothing was sent." in asked.text
    wrong = Page(asked.text).form("/sign-in")
    asked = await scene.ann.post(wrong.action, wrong.fields | {"name": "ann", "password": "a wrong password"})
    form = Page(asked.text).form("/sign-in")
    signed_in = await scene.ann.post(form.action, form.fields | {"name": "ann", "password": PASSWORD})
    assert signed_in.status_code == 200
    again = Page(signed_in.text).form(address.partition("?")[0])
    assert "csrf" not in again.fields
    shown = await scene.ann.post(again.action, again.fields)
    assert shown.status_code == 403
    assert "nothing was sent" in shown.text
    assert shows_text(shown)
    assert await scene.unchanged()


@pytest.mark.parametrize("name", CASES)
async def test_text_in_a_form_from_an_earlier_session_is_restored(scene: Scene, name: str) -> None:
    address, filled = await scene.filled(CASES[name])
    await scene.ann.sign_in("ann")
    shown = await scene.ann.post(address, filled)
    assert shown.status_code == 403
    assert shows_text(shown)
    assert await scene.unchanged()


async def test_restored_text_can_be_submitted_from_the_new_form(scene: Scene) -> None:
    address, filled = await scene.filled(CASES["reject"])
    await scene.ann.sign_in("ann")
    shown = Page((await scene.ann.post(address, filled)).text).form("/confirm")
    confirm = Page((await scene.ann.post(shown.action, shown.fields | dict(CASES["reject"].typed))).text).form(
        "/decide"
    )
    assert (await scene.ann.post(confirm.action, confirm.fields)).status_code == 303
    found = await scene.node.call("GET", f"/api/breakpoints/{scene.known['id']}", await scene.node.token("agent"))
    assert found.json()["result"]["feedback"] == TEXT


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {}])
@pytest.mark.parametrize("session", ["ended", "another"])
async def test_text_submitted_from_another_site_is_not_kept(
    scene: Scene, clock: ManualClock, headers: dict[str, str], session: str
) -> None:
    if session == "ended":
        clock.advance(13 * 3600)
    path = scene.at(f"{ONE}/confirm")
    answer = await scene.ann.client.post(path, data={"decision": "reject", "comment": TEXT}, headers=headers)
    if session == "ended":
        assert answer.headers["location"].startswith("/sign-in?next=")
    else:
        assert answer.status_code == 403
        assert not Page(answer.text).all("textarea")


async def test_a_script_is_asked_to_resubmit_the_form_as_a_normal_request(scene: Scene, clock: ManualClock) -> None:
    """A redirect would lose the text in the form."""
    address, filled = await scene.filled(CASES["reject"])
    clock.advance(13 * 3600)
    headers = {"origin": "http://assent.test", "hx-request": "true", "hx-target": "div#dialog"}
    answer = await scene.ann.client.post(address, data=filled, headers=headers)
    assert (answer.status_code, answer.headers["assent-resubmit"]) == (204, "true")
    assert "hx-redirect" not in answer.headers


async def test_passwords_are_not_kept_while_signing_in(scene: Scene, clock: ManualClock) -> None:
    form = (await scene.ann.page("/account")).form("/account/password")
    clock.advance(13 * 3600)
    typed = {"old": "the old secret", "new": "a new secret", "again": "a new secret"}
    answer = await scene.ann.post(form.action, form.fields | typed)
    assert "secret" not in answer.text
    assert answer.status_code == 303


@pytest.mark.parametrize("action", ["//evil.example/x", "https://evil.example/", "/\\evil.example", "javascript:x", ""])
async def test_kept_text_is_submitted_only_to_local_paths(scene: Scene, action: str) -> None:
    fields = {"name": "ann", "password": PASSWORD, "kept-action": action, "kept.comment": TEXT}
    answer = await scene.ann.post("/sign-in", fields)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"


async def signed_in_elsewhere(scene: Scene, clock: ManualClock, way: str, *, name: str, case: Case) -> httpx2.Response:
    """Fill in a form as ann, sign in as another person, and submit the form; return the resulting page."""
    address, filled = await scene.filled(case)
    if way == "another tab":
        await scene.ann.sign_in(name)
        return await scene.ann.post(address, filled)
    clock.advance(13 * 3600)
    asked = Page((await scene.ann.post(address, filled)).text)
    form = asked.form("/sign-in")
    signed_in = await scene.ann.post(form.action, form.fields | {"name": name, "password": PASSWORD})
    if way == "sign-in page":
        return signed_in
    again = asked.form(address.partition("?")[0])
    return await scene.ann.post(again.action, again.fields)


WAYS = ["sign-in page", "continue", "another tab"]


ALL_ROLES = ("reviewer", "rule-admin", "admin")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "roles"),
    [("reject", ALL_ROLES), ("import rules", ALL_ROLES), ("reject", ())],
)
async def test_another_person_who_signs_in_does_not_see_the_text(
    scene: Scene, clock: ManualClock, way: str, name: str, roles: tuple[str, ...]
) -> None:
    await person(scene.node, "bob", *roles)
    shown = await signed_in_elsewhere(scene, clock, way, name="bob", case=CASES[name])
    assert shown.status_code == (200 if way == "sign-in page" else 403)
    assert "Not on a Friday." not in shown.text
    if roles or way == "sign-in page":
        assert "this account cannot access it" in shown.text or "opened under a different account" in shown.text
    assert await scene.unchanged()


async def test_a_script_leaves_a_form_opened_by_another_person_unchanged(scene: Scene) -> None:
    """The text must stay on the page of the person who typed it."""
    await person(scene.node, "bob", "reviewer")
    address, filled = await scene.filled(CASES["reject"])
    await scene.ann.sign_in("bob")
    headers = {"origin": "http://assent.test", "hx-request": "true", "hx-target": "div#dialog"}
    answer = await scene.ann.client.post(address, data=filled, headers=headers)
    assert (answer.status_code, answer.headers["assent-notice"]) == (204, "other-account")
    assert "template" in {
        tag for tag, found in Page((await scene.ann.get("/")).text).elements if found.get("id") == "other-account"
    }


async def test_text_without_a_valid_person_mark_is_not_restored(scene: Scene) -> None:
    for mark in ("", "0" * 96, "ü"):
        fields = {"kept-action": scene.at(f"{ONE}/confirm"), "kept-for": mark, "kept.comment": TEXT}
        answer = await scene.ann.sign_in("ann", **fields)
        assert answer.status_code == 200
        assert "Not on a Friday." not in answer.text


LONG = "<" * 340_000


async def test_overlong_text_is_not_echoed_to_clients_without_a_session(scene: Scene, clock: ManualClock) -> None:
    clock.advance(13 * 3600)
    for form in ({"text": LONG}, {"text": "x", "other": "<" * 40_000}, {"text": "x", "<" * 40_000: "y"}):
        answer = await scene.ann.post(scene.at(f"{ONE}/comment"), form)
        assert answer.status_code == 401
        assert "too long to keep" in answer.text
        assert len(answer.content) < 10_000
    wrong = {"password": "a wrong password", "kept-action": "/breakpoints/x/comment"}
    for more in ({"kept.text": LONG}, {"kept.text": "x", "kept-for": LONG}, {"kept.text": "x", "name": LONG}):
        answer = await scene.ann.post("/sign-in", wrong | {"name": "ann"} | more)
        assert answer.status_code == 401
        assert len(answer.content) < 10_000


async def test_a_script_keeps_overlong_text_on_the_page(scene: Scene, clock: ManualClock) -> None:
    clock.advance(13 * 3600)
    headers = {"origin": "http://assent.test", "hx-request": "true", "hx-target": "div#detail"}
    answer = await scene.ann.client.post(scene.at(f"{ONE}/comment"), data={"text": LONG}, headers=headers)
    assert (answer.status_code, answer.headers["assent-notice"]) == (204, "session-ended")
    assert "assent-resubmit" not in answer.headers


async def test_an_overlong_form_is_restored_when_resubmitted_after_signing_in(scene: Scene, clock: ManualClock) -> None:
    address, filled = await scene.filled(CASES["answers"])
    filled |= {"edit-0": LONG}
    clock.advance(13 * 3600)
    assert "reload this page" in (await scene.ann.post(address, filled)).text
    await visitor(scene.node).sign_in("ann")
    await scene.ann.sign_in("ann")
    shown = await scene.ann.post(address, filled)
    assert shown.status_code == 403
    assert shows_text(shown)
    assert LONG in Page(shown.text).text


async def test_a_comment_of_maximum_length_is_kept_with_answers(scene: Scene, clock: ManualClock) -> None:
    clock.advance(13 * 3600)
    answer = await scene.ann.post(scene.at(f"{ONE}/confirm"), {"comment": "&" * 20_000, "field-0": "<" * 5_000})
    form = Page(answer.text).form("/sign-in")
    assert (form.fields["kept.comment"], form.fields["kept.field-0"]) == ("&" * 20_000, "<" * 5_000)


async def test_only_the_text_of_a_form_that_cannot_be_restored_is_kept(scene: Scene, clock: ManualClock) -> None:
    clock.advance(13 * 3600)
    answer = await scene.ann.post("/triggers/trg_x/suspend", {"because": TEXT, "back": "list", "other": "some value"})
    form = Page(answer.text).form("/sign-in")
    assert {name for name in form.fields if name.startswith("kept.")} == {"kept.because"}


async def submit(
    scene: Scene, clock: ManualClock, ending: str, address: str, filled: dict[str, str]
) -> httpx2.Response:
    """Submit a form in its session or after signing in again; return the page that shows its text."""
    if ending == "earlier sign-in":
        await scene.ann.sign_in("ann")
    if ending == "session ended":
        clock.advance(13 * 3600)
        form = Page((await scene.ann.post(address, filled)).text).form("/sign-in")
        signed_in = await scene.ann.post(form.action, form.fields | {"name": "ann", "password": PASSWORD})
        again = Page(signed_in.text).form(address.partition("?")[0])
        address, filled = again.action, again.fields
    return await scene.ann.post(address, filled)


ANSWERS = ["reject", "confirm the rejection", "answers", "edits", "comment"]


@pytest.mark.parametrize("ending", ["live", "session ended"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_text_for_an_ended_breakpoint_is_shown_for_copying(
    scene: Scene, clock: ManualClock, name: str, ending: str
) -> None:
    address, filled = await scene.filled(CASES[name])
    cancelled = await scene.node.call(
        "POST", scene.at("/api/breakpoints/{id}/cancel"), await scene.node.token("agent"), json={}
    )
    assert cancelled.status_code == 200
    shown = await submit(scene, clock, ending, address, filled)
    assert shown.status_code == (409 if ending == "live" else 403)
    assert shows_text(shown)
    assert "Your answer" not in shown.text


async def test_unsent_text_is_labeled_and_unchanged_values_are_omitted(scene: Scene) -> None:
    address, filled = await scene.filled(CASES["answers"])
    await scene.node.call("POST", scene.at("/api/breakpoints/{id}/cancel"), await scene.node.token("agent"), json={})
    shown = await scene.ann.post(address, filled | {"edit-0": "b", "comment": "Go."})
    labels = [line for line in Page(shown.text).text.splitlines() if line.endswith("(not sent)")]
    assert len(Page(shown.text).all("textarea")) == 2
    assert [each.strip().removesuffix(" (not sent)") for each in labels] == ["Comment", "plan"]


@pytest.mark.parametrize(
    ("name", "ending", "roles"),
    [
        *((name, "live", {Role.VIEWER}) for name in (*ANSWERS, "bulk reject")),
        ("reject", "earlier sign-in", {Role.VIEWER}),
        ("comment", "earlier sign-in", {Role.VIEWER}),
        ("bulk reject", "earlier sign-in", {Role.VIEWER}),
        ("change rule", "earlier sign-in", {Role.VIEWER}),
        ("reject", "earlier sign-in", set[Role]()),
    ],
)
async def test_text_is_shown_for_copying_after_its_author_lost_their_role(
    scene: Scene, clock: ManualClock, name: str, ending: str, roles: set[Role]
) -> None:
    address, filled = await scene.filled(CASES[name])

    def use_case(tx: Transaction) -> None:
        tx[People].grant(tx[People].get_by_name("ann").id, "default", roles)

    await scene.node.assent.database.write(use_case)
    if ending == "live":  # choosing a project makes the server reload the roles
        chosen = await scene.ann.post("/account/project", {"csrf": filled["csrf"], "project": "default"})
        assert chosen.status_code == 303
    shown = await submit(scene, clock, ending, address, filled)
    assert shows_text(shown) or "Not on a Friday." in Page((await scene.ann.get("/")).text).text
    assert await scene.unchanged()


@pytest.mark.parametrize("ending", ["live", "earlier sign-in"])
@pytest.mark.parametrize("name", ["change rule", "remove rule"])
async def test_text_for_a_removed_rule_is_shown_for_copying(
    scene: Scene, clock: ManualClock, name: str, ending: str
) -> None:
    address, filled = await scene.filled(CASES[name])
    done = await scene.ann.send(scene.at("/rules/{rule}/remove"), "/remove", why="It is not needed.")
    assert done.status_code == 303
    assert shows_text(await submit(scene, clock, ending, address, filled))


@pytest.mark.parametrize("ending", ["live", "earlier sign-in"])
async def test_run_inputs_are_shown_for_copying_when_no_process_is_left(
    settings: Settings, scene: Scene, clock: ManualClock, ending: str
) -> None:
    address, filled = await scene.filled(CASES["start a run"])
    (settings.process_folder / "tidy.py").unlink()
    assert shows_text(await submit(scene, clock, ending, address, filled))


async def test_a_bulk_reason_is_shown_for_copying_when_nothing_is_pending(scene: Scene, clock: ManualClock) -> None:
    address, filled = await scene.filled(CASES["bulk reject"])
    await scene.node.call("POST", scene.at("/api/breakpoints/{id}/cancel"), await scene.node.token("agent"), json={})
    assert shows_text(await submit(scene, clock, "session ended", address, filled))
