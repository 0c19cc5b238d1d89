"""A person's browser without scripts, which follows links and submits forms."""

from dataclasses import dataclass
from typing import Any

import httpx2

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from tests.support.nodes import Node
from tests.web.reading import Form, Page

PASSWORD = "a long enough password"
ORIGIN = "http://assent.test"


@dataclass
class Visitor:
    client: httpx2.AsyncClient
    node: Node

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.client.get(path, headers={"accept": "text/html"}, **options)

    async def page(self, path: str) -> Page:
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    async def post(self, path: str, form: dict[str, str], *, origin: str | None = ORIGIN) -> httpx2.Response:
        return await self.client.post(path, data=form, headers={"origin": origin} if origin else {})

    async def send(self, page_path: str, action: str, **typed: str) -> httpx2.Response:
        """Open a page, fill in the form with this action and submit it."""
        form = (await self.page(page_path)).form(action)
        return await self.post(form.action, form.fields | typed)

    async def decide(self, breakpoint_id: str, decision: str, *, confirm: str = "", **typed: str) -> httpx2.Response:
        """Answer as people do: fill in the form, and submit the confirmation."""
        form = await self.confirmation(breakpoint_id, decision, **typed)
        return await self.post(form.action, form.fields | ({"confirm": confirm} if confirm else {}))

    async def confirmation(self, breakpoint_id: str, decision: str, **typed: str) -> Form:
        """Fill in an answer and return its confirmation form."""
        shown = await self.send(f"/breakpoints/{breakpoint_id}", "/confirm", decision=decision, **typed)
        assert shown.status_code == 200, shown.text
        return Page(shown.text).form("/decide")

    async def sign_in(self, name: str, password: str = PASSWORD, **more: str) -> httpx2.Response:
        return await self.post("/sign-in", {"name": name, "password": password} | more)


def visitor(node: Node, *, origin: str = ORIGIN, address: str = "127.0.0.1") -> Visitor:
    """Open a new browser that has no cookies and does not follow redirects."""
    transport = httpx2.ASGITransport(app=node.client._transport.app, client=(address, 1234))  # type: ignore[attr-defined]
    return Visitor(httpx2.AsyncClient(transport=transport, base_url=origin, timeout=60), node)


async def person(node: Node, name: str, *roles: str, password: str | None = PASSWORD) -> None:
    def use_case(tx: Transaction) -> None:
        granted = frozenset(map(Role, roles))
        node.assent[PeopleService].create_person(tx, name, project="default", roles=granted, password=password)

    await node.assent.database.write(use_case)


async def link(node: Node, name: str) -> str:
    def use_case(tx: Transaction) -> str:
        return node.assent[PeopleService].create_link(tx, tx[People].get_by_name(name).id, purpose="test")

    return await node.assent.database.write(use_case)


async def signed_in(node: Node, name: str = "ann", *roles: str) -> Visitor:
    """Create a person, by default a reviewer, and return their browser after signing in with a link."""
    await person(node, name, *(roles or ("reviewer",)), password=None)
    browser = visitor(node)
    answer = await browser.post(f"/sign-in/{await link(node, name)}", {})
    assert answer.status_code == 303, answer.text
    return browser
