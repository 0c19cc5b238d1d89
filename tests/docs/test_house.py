"""Project files: README, CONTRIBUTING, CHANGELOG, LICENSE and decision records."""

import re

import pytest

from tests.docs.pages import DOCS, README, ROOT, fences, links, read, sections

ADRS = sorted(page.name for page in (DOCS / "adr").glob("[0-9]*.md"))


def test_the_readme_shows_how_to_run_and_test_assent() -> None:
    commands = [code.strip() for code in fences(README.read_text(), "sh")]

    assert "make serve" in commands
    assert "make test" in commands


def test_contributing_lists_every_makefile_target() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)

    documented = set(re.findall(r"^\| `make ([a-z]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert documented == set(targets)


def test_contributing_lists_every_test_folder() -> None:
    folders = {folder.parent.name for folder in (ROOT / "tests").glob("*/__init__.py")}
    # Features are documented as `tests/<feature>/…`.
    features = {path.parent.name for path in (ROOT / "src" / "assent").glob("*/feature.py")}
    text = (ROOT / "CONTRIBUTING.md").read_text()

    assert {name for name in folders - features if f"`tests/{name}`" not in text} == set()


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "[Unreleased]" in sections((ROOT / "CHANGELOG.md").read_text(), 2)


def test_the_license_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()

    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_decision_is_in_the_index() -> None:
    assert [link for link in links(read("adr/README.md")) if link[0].isdigit()] == ADRS


@pytest.mark.parametrize("page", ADRS)
def test_a_decision_record_has_a_context_a_decision_and_consequences(page: str) -> None:
    text = read(f"adr/{page}")

    assert text.startswith(f"# {page[:4]} ")
    assert list(sections(text, 2)) == ["Context", "Decision", "Consequences", "Measurement"]
