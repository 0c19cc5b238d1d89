"""Every link on our pages resolves."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, README, ROOT, anchors, every_page, links


@pytest.mark.parametrize("page", every_page(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves(page: Path) -> None:
    broken = [link for link in links(page.read_text()) if not _resolves(page, link)]

    assert broken == []


def _resolves(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_file():
        return False
    return not anchor or anchor in anchors(target.read_text())


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text())]

    assert set(DOCS.rglob("*.md")) - seen == set()


@pytest.mark.parametrize("folder", ["how-to", "reference", "explanation"])
def test_the_index_lists_every_page(folder: str) -> None:
    listed = set(links((DOCS / "README.md").read_text()))

    assert {f"{folder}/{page.name}" for page in (DOCS / folder).glob("*.md")} - listed == set()
