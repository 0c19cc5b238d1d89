"""Every page with names of 200 characters: nothing scrolls sideways, and words are not broken."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.installation import migrate
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from tests.browser.accessibility import DESK, PHONE, assert_no_sideways_scroll
from tests.browser.conftest import World, signed_in_state
from tests.browser.lifelike import SECRETS, Lifelike, seed
from tests.browser.screenshots import SIGNED_IN, UNDO_SECONDS, Going, Scene, started
from tests.support.nodes import running_node, server

LONG = ("averylongnamewithoutanyplacetobreakit" * 6)[:200]
NAMED = ("channels", "sources", "triggers", "tokens")
"""Tables whose names can be lengthened after the data is created, because other rows refer to their rows by ID."""


def _add_long_names(settings: Settings) -> None:
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
    mia = tx[People].get_by_name("mia")
    tx[People].put_group("default", f"group-{LONG}"[:200], [mia.id, tx[People].get_by_name(LONG).id], at=tx.now())
    tx[Projects].add(Project("long", LONG, mia.id, {}, tx.now()))
    tx[People].grant(mia.id, "long", [Role.REVIEWER])
    # Mia's name is not changed, because the test finds her sign-in button by it.
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
        # In another thread, because Playwright's event loop occupies this one.
        story: Lifelike = thread.submit(asyncio.run, seed(settings)).result()
        thread.submit(_add_long_names, settings).result()
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

# Finds broken words. Strings without spaces may be broken if they have more than 16 characters; so may IDs and URLs.
_BROKEN = """() => {
  const broken = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    const left = parent?.closest("pre, textarea, .agent, .copyable, script, template");
    if (!parent || left || !parent.checkVisibility()) continue;
    // Table headers that are visible only to screen readers do not have a width.
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
# On desktops, the panes scroll instead of the page.
_SIDEWAYS = """() => [...document.querySelectorAll("main, .pane, .rail, dialog[open]")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.localName}.${each.className}: ${each.scrollWidth} > ${each.clientWidth}`)"""


@pytest.mark.parametrize("name", PAGES)
def test_long_names_neither_overflow_the_page_nor_break_mid_word(scene: Scene, name: str) -> None:
    scene.page.set_viewport_size({"width": DESK, "height": 900})
    PAGES[name](scene)
    for width in (DESK, PHONE):
        assert_no_sideways_scroll(scene.page, name, width)
        assert scene.page.evaluate(_SIDEWAYS) == [], f"{name} at {width} px"
        assert scene.page.evaluate(_BROKEN) == [], f"{name} at {width} px"
