"""The plain English check: it counts markers and fails above a ceiling."""

from pathlib import Path

import pytest

from tools import prose


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Whoever waits is told.", 2),
        ("The server notifies waiting clients.", 0),
        ("There is no default.", 1),
        ("It is no longer used.", 0),
        ("What carries this tag needs a ticket.", 2),
        ("What is a gate?", 0),
        ("It stands in the history for ever.", 2),
    ],
)
def test_markers_are_counted(text: str, count: int) -> None:
    assert prose.markers(text) == count


def test_every_kind_of_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "a.py").write_text(
        '"""Doc."""\n# Why.\nx = f("Create a new token first")\ny = "SELECT a FROM b WHERE c"\n'
    )
    (tmp_path / "tests" / "test_a.py").write_text('def test_a_claim_holds():\n    say("four words are here")\n')
    (tmp_path / "a.html").write_text("<p title='x'>Save {{ name }} {# no #}rule</p>")
    (tmp_path / "a.md").write_text("One line\n```\ncode\n```\nUse `whoever` here\n")
    found = {(each.kind, each.line, " ".join(each.words.split())) for each in prose.texts(tmp_path)}
    assert found == {
        ("comments", 1, "Doc."), ("comments", 2, "Why."), ("strings", 3, "Create a new token first"),
        ("tests", 1, "a claim holds"), ("templates", 1, "Save rule"), ("docs", 1, "One line"), ("docs", 2, ""),
        ("docs", 3, ""), ("docs", 4, ""), ("docs", 5, "Use x here"),
    }  # fmt: skip


def test_a_rate_above_its_ceiling_is_reported_with_its_location() -> None:
    rate = prose.Rate()
    rate.add(prose.Text("docs", prose.ROOT / "README.md", 3, "Whoever waits is told."))
    found = dict.fromkeys(prose.CEILINGS, prose.Rate()) | {"docs": rate}
    report = list(prose.complaints(found))
    assert report[0].startswith("docs: 500.0 markers")
    assert "README.md:3 (2) Whoever waits is told." in report[1]


def test_a_ceiling_that_is_too_high_must_be_lowered() -> None:
    found = {kind: prose.Rate() for kind in prose.CEILINGS}
    high = dict.fromkeys(prose.CEILINGS, 4.5)
    assert all("Lower its ceiling" in each for each in prose.complaints(found, high))
    assert list(prose.complaints(found, high)) != []
    assert list(prose.complaints(found)) == []
