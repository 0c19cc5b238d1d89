"""Every page with names of 200 characters: nothing scrolls sideways, and no word is broken in two."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser

from assent.app import migrate
from assent.domain.access import Role
from assent.settings import Settings
from assent.store.projects import Project
from assent.store.transaction import Transaction
from tests.browser.conftest import World, signed_in_state
from tests.browser.everybody import DESK, PHONE, nothing_sideways
from tests.browser.lifelike import SECRETS, Lifelike, seed
from tests.browser.screenshots import SIGNED_IN, UNDO_SECONDS, Going, Scene, started
from tests.support.nodes import running_node, server

LONG = ("averylongnamewithoutanyplacetobreakit" * 6)[:200]
NAMED = ("channels", "sources", "triggers", "tokens")
"""Tables whose names are made long once the story has been told; what it tells of keeps to their ids."""


def _tell_of_long_names(settings: Settings) -> None:
    """Add people, a project, a group, a gate, an agent, tags and a rule with long names, and lengthen other names."""

    async def make() -> None:
        async with running_node(settings) as node:
            reviewer = await node.person(LONG, "reviewer", "admin", "rule-admin")
            agent = await node.token("agent", name=LONG)
            asked = {
                "agentId": LONG,
                "title": f"Deploy {LONG}",
                "runId": LONG,
                "tags": ["prod", LONG[:100]],
                "payload": {"question": f"Deploy {LONG} to production?", "breakpointId": LONG, "expert": [LONG]},
                "callbackUrl": f"https://{LONG[:60]}.example/{LONG}",
            }
            ended, waiting = [(await node.create(agent, **asked))["id"] for _ in range(2)]
            await node.feedback(ended, reviewer, approved=False, comment=f"Not {LONG}.")
            await node.feedback(waiting, reviewer, approved=None, comment=f"Why {LONG}?")
            rule = {"pattern": f"{LONG}(tags contains '{LONG[:100]}')", "action": "auto-approve", "note": LONG}
            made = await node.call("POST", "/api/rules", reviewer, json=rule | {"mode": "shadow"})
            assert made.is_success, made.text
            await node.assent.database.write(_lengthen)

    asyncio.run(make())


def _lengthen(tx: Transaction) -> None:
    mia = tx.people.get_by_name("mia")
    tx.people.put_group("default", f"group-{LONG}"[:200], [mia.id, tx.people.get_by_name(LONG).id], at=tx.now())
    tx.projects.add(Project("long", LONG, mia.id, {}, tx.now()))
    tx.people.grant(mia.id, "long", [Role.REVIEWER])
    # Mia signs in by a button that shows her name.
    people = "UPDATE assent_people SET display_name = :name, email = :email WHERE name <> 'mia'"
    tx.session.change(people, {"name": LONG, "email": f"{LONG}@example.com"})
    for table in NAMED:
        tx.session.change(
            f"UPDATE assent_{table} SET name = substr(:name, 1, 190) || '-' || substr(id, -8)", {"name": LONG}
        )


@pytest.fixture(scope="module")
def scene(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("long")
    settings = Settings(data_dir=folder / "data", undo_seconds=UNDO_SECONDS)
    migrate(settings)
    with ThreadPoolExecutor(1) as thread:
        # On a thread of its own: Playwright's loop runs in this one.
        story: Lifelike = thread.submit(asyncio.run, seed(settings)).result()
        thread.submit(_tell_of_long_names, settings).result()
    with server(settings, log=folder / "server.log", undo_seconds=str(UNDO_SECONDS), **SECRETS) as process:
        world = World(process.url, settings, story.agent)
        run = started(world, story.admin)
        state = signed_in_state(world, chromium, "mia")
        context = chromium.new_context(storage_state=state, viewport={"width": DESK, "height": 900})
        yield Scene(context.new_page(), world, story, run)
        context.close()


def _to(path: str) -> Going:
    return lambda scene: scene.go(path)


def _switcher(scene: Scene) -> None:
    scene.go("/rules")
    scene.page.locator(".switcher:visible > summary").click()


PAGES: dict[str, Going] = SIGNED_IN | {
    "long breakpoint": lambda scene: scene.waiting(LONG[:100]),
    "long gate": _to(f"/gates/{LONG}"),
    "long person": _to(f"/admin/people/{LONG}"),
    "long search": _to(f"/?q={LONG}&status=all"),
    "long filters": _to(f"/?agent={LONG}&gate={LONG}&tag={LONG[:100]}&status=all"),
    "long rule": _to(f"/rules/new?pattern={LONG}"),
    "group": _to(f"/admin/groups?edit=group-{LONG}"[:219]),
    "close account": _to(f"/admin/people/{LONG}/close"),
    "project switcher": _switcher,
}

# Ordinary words. What has no space for more than 16 characters may break wherever it must, and so may IDs and URLs.
_BROKEN = """() => {
  const broken = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    const left = parent?.closest("pre, textarea, .agent, .copyable, script, template");
    if (!parent || left || !parent.checkVisibility()) continue;
    // For screen readers alone, and without a width.
    if ((parent.closest("thead")?.clientWidth ?? 2) < 2) continue;
    for (const token of node.data.matchAll(/\\S+/g)) {
      if (token[0].length > 16) continue;
      for (const word of token[0].matchAll(/[A-Za-z0-9]+/g)) {
        const range = document.createRange();
        range.setStart(node, token.index + word.index);
        range.setEnd(node, token.index + word.index + word[0].length);
        const parts = [...range.getClientRects()].filter((each) => each.width);
        const lines = new Set(parts.map((each) => Math.round(each.top)));
        if (lines.size > 1) broken.push(`${word[0]} in <${parent.localName} class="${parent.className}">`);
      }
    }
  }
  return broken;
}"""
# The page itself does not scroll at a desk: its panes do.
_SIDEWAYS = """() => [...document.querySelectorAll("main, .pane, .rail, dialog[open]")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.localName}.${each.className}: ${each.scrollWidth} > ${each.clientWidth}`)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_with_long_names_fits_and_breaks_no_word(scene: Scene, name: str) -> None:
    scene.page.set_viewport_size({"width": DESK, "height": 900})
    PAGES[name](scene)
    for width in (DESK, PHONE):
        nothing_sideways(scene.page, name, width)
        assert scene.page.evaluate(_SIDEWAYS) == [], f"{name} at {width} px"
        assert scene.page.evaluate(_BROKEN) == [], f"{name} at {width} px"
