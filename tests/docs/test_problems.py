"""Every error code has a page, every page has a code, and the pages match the server."""

import json

import pytest

from assent.core.errors import AssentError
from assent.http.problems import DOCS as ADDRESS
from assent.http.problems import STATUS
from tests.docs.pages import DOCS, fences, links, read, sections

ERRORS = {error.code: error for error in STATUS}
PAGES = {page.stem for page in (DOCS / "problems").glob("*.md")} - {"README"}


def _all_errors(of: type[AssentError]) -> set[type[AssentError]]:
    return {of}.union(*map(_all_errors, of.__subclasses__()))


def test_exactly_the_existing_error_codes_have_a_page() -> None:
    # Commands have their own errors, which no server sends.
    assert {error.code for error in _all_errors(AssentError) if error.__module__ == AssentError.__module__} == PAGES


def test_the_index_lists_every_page() -> None:
    assert {f"{code}.md" for code in PAGES} <= set(links(read("problems/README.md")))


@pytest.mark.parametrize("code", sorted(PAGES))
def test_a_problem_page_explains_causes_and_remedies(code: str) -> None:
    assert list(sections(read(f"problems/{code}.md"), 2)) == ["Likely causes", "What to do", "Example"]


@pytest.mark.parametrize("code", sorted(PAGES))
def test_a_problem_page_has_the_status_the_title_and_an_example(code: str) -> None:
    page = read(f"problems/{code}.md")
    (example,) = map(json.loads, fences(page, "json"))
    error = ERRORS[code]

    assert page.startswith(f"# {code}\n\n{STATUS[error].value} · {error.title}\n")
    assert example["code"] == code
    assert example["detail"]


def test_the_index_shows_a_complete_problem_document() -> None:
    (example,) = map(json.loads, fences(read("problems/README.md"), "json"))
    error = ERRORS[example["code"]]

    assert example["type"] == ADDRESS + error.code
    assert (example["title"], example["status"]) == (error.title, STATUS[error].value)
