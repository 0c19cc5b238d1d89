"""The snippets on the pages work: each page is followed to the end, and no block is left out."""

import re
from pathlib import Path

import pytest

from assent.runs.usecases.leases import _ENDING
from tests.docs import stories, test_snippets
from tests.docs.pages import DOCS, README, ROOT, blocks, code_words, every_page, rows, sections
from tests.docs.reader import reading
from tests.docs.stories import Desk, Story

STORIES: dict[Path, Story] = {
    README: stories.readme,
    DOCS / "quickstart.md": stories.quickstart,
    DOCS / "explanation" / "runs.md": stories.runs,
    DOCS / "how-to" / "ask-over-http.md": stories.over_http,
    DOCS / "how-to" / "people-groups-tokens.md": stories.people,
    DOCS / "how-to" / "wait-for-an-answer.md": stories.waiting,
    DOCS / "how-to" / "write-a-process.md": stories.processes,
    DOCS / "how-to" / "write-rules.md": stories.rules,
}
ELSEWHERE = {
    DOCS / "how-to" / name
    for name in (
        "apprise.md",
        "ask-without-a-server.md",
        "callbacks.md",
        "channels.md",
        "email.md",
        "gate-a-command.md",
        "gate-a-function.md",
        "git-hooks.md",
        "jira.md",
        "receipts.md",
        "routes.md",
        "schedules.md",
        "sign-in-with-oidc.md",
        "slack.md",
        "triggers.md",
        "watch-files.md",
        "webhooks.md",
    )
} | {DOCS / "reference" / name for name in ("sdk.md", "sources.md")}
"""Pages that are covered by other tests."""
UNTRIED = {
    DOCS / "explanation" / "mutation.md",
    DOCS / "explanation" / "outbound.md",
    DOCS / "reference" / "settings.md",
    *(
        DOCS / "how-to" / name
        for name in ("backup.md", "behind-a-proxy.md", "observe.md", "run-on-postgresql.md", "secrets.md", "workers.md")
    ),
}
"""Pages written before they could be tested; this list may only shrink."""
OUTPUT = frozenset({"json", "text"})
TRIED = frozenset({"makefile", "python", "sh", "yaml"})


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", STORIES, ids=named)
def test_every_block_on_a_page_works(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with reading(page, tmp_path / "reader") as reader:
        STORIES[page](Desk(reader, request))


@pytest.mark.parametrize("page", STORIES, ids=named)
def test_every_block_that_can_run_is_marked(page: Path) -> None:
    found = [each for each in blocks(page) if each.language not in OUTPUT]

    assert [each.code for each in found if each.kind is None] == []
    marks = [(each.kind, each.name) for each in blocks(page) if each.kind]
    assert len(marks) == len(set(marks)), "block names must be unique"


def test_every_page_with_runnable_blocks_is_tested() -> None:
    tempting = {page for page in every_page() if any(each.kind or each.language in TRIED for each in blocks(page))}

    read = {DOCS / "how-to" / f"{name}.md" for name in test_snippets.PAGES}
    assert tempting == set(STORIES) | ELSEWHERE | read | UNTRIED


def test_a_page_with_an_untested_block_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run: one -->\n```sh\necho 1\n```\n\n<!-- run: two -->\n```sh\necho 2\n```\n")

    def read_half() -> None:
        with reading(page, tmp_path / "reader") as reader:
            assert reader.run("one") == "1\n"

    with pytest.raises(AssertionError, match="two"):
        read_half()


def test_every_type_of_journal_line_is_explained() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "src" / "assent").rglob("*.py")))
    written = set(re.findall(r'\bLine\(\s*"([a-z_]+)"', source)) | set(_ENDING.values())
    table = sections((DOCS / "explanation" / "runs.md").read_text(), 2)["Journal"]

    assert {word for row in rows(table) for word in code_words(row[0])} == written
