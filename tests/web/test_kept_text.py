"""Text that a person typed is still there after the session ended, and nothing is decided by signing in again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from assent.settings import Settings
from assent.store.transaction import Transaction
from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, Visitor, person, visitor

TEXT = "Not on a Friday.\nThe tests are <b>red</b> & nobody is here."
PROCESS = "from assent import process\n\n\n@process\nasync def tidy(inputs, ctx):\n    pass\n"
FORM = {"properties": {"plan": {"type": "string"}}}
ONE = "/breakpoints/{id}"


@dataclass(frozen=True)
class Case:
    """A form with free text: where it is, where it goes, and what is typed into it."""

    page: str
    action: str
    typed: Mapping[str, str]
    first: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is typed into a form before it, whose answer holds this one."""
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
        """Open the form and fill it in; return its address and what it would send."""
        page = await self.ann.page(self.at(case.page))
        if case.before:
            form = page.form(self.at(case.before))
            first = {self.at(name): self.at(value) for name, value in case.first.items()}
            page = Page((await self.ann.post(form.action, form.fields | first)).text)
        form = page.form(self.at(case.action))
        return form.action, form.fields | dict(case.typed)

    async def unchanged(self) -> bool:
        def use_case(tx: Transaction) -> tuple[str, int, list[Any], int]:
            found = tx.breakpoints.look(self.known["id"], project="default")
            rules = tx.rules.standing("default")
            return found.status.value, found.version, tx.held_answers.on(found.id), sum(each.version for each in rules)

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


def kept(answer: httpx2.Response) -> bool:
    """Whether a control of a form on the page has the whole text."""
    page = Page(answer.text)
    values = [each.get("value", "") for each in page.all("input") if each.get("type") != "hidden"]
    return TEXT in page.text or TEXT in values


@pytest.mark.parametrize("name", CASES)
async def test_text_typed_before_the_session_ended_is_in_the_form_after_signing_in(
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
    assert kept(shown)
    assert await scene.unchanged()


@pytest.mark.parametrize("name", CASES)
async def test_text_of_a_form_from_an_earlier_sign_in_is_in_the_new_form(scene: Scene, name: str) -> None:
    address, filled = await scene.filled(CASES[name])
    await scene.ann.sign_in("ann")
    shown = await scene.ann.post(address, filled)
    assert shown.status_code == 403
    assert kept(shown)
    assert await scene.unchanged()


async def test_the_kept_text_can_be_sent_from_the_form_it_is_in(scene: Scene) -> None:
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
async def test_text_that_no_page_of_ours_sent_is_not_kept(
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


async def test_a_script_is_told_to_send_the_form_as_a_page_instead(scene: Scene, clock: ManualClock) -> None:
    """The text is in the form on the page; a redirect would lose it."""
    address, filled = await scene.filled(CASES["reject"])
    clock.advance(13 * 3600)
    headers = {"origin": "http://assent.test", "hx-request": "true", "hx-target": "div#dialog"}
    answer = await scene.ann.client.post(address, data=filled, headers=headers)
    assert (answer.status_code, answer.headers["assent-resubmit"]) == (204, "true")
    assert "hx-redirect" not in answer.headers


async def test_no_password_is_carried_through_a_sign_in(scene: Scene, clock: ManualClock) -> None:
    form = (await scene.ann.page("/account")).form("/account/password")
    clock.advance(13 * 3600)
    typed = {"old": "the old secret", "new": "a new secret", "again": "a new secret"}
    answer = await scene.ann.post(form.action, form.fields | typed)
    assert "secret" not in answer.text
    assert answer.status_code == 303


@pytest.mark.parametrize("action", ["//evil.example/x", "https://evil.example/", "/\\evil.example", "javascript:x", ""])
async def test_kept_text_is_only_sent_to_a_page_of_ours(scene: Scene, action: str) -> None:
    fields = {"name": "ann", "password": PASSWORD, "kept-action": action, "kept.comment": TEXT}
    answer = await scene.ann.post("/sign-in", fields)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
