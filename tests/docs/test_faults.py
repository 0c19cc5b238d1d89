"""The page about faults lists every soak test."""

from tests.docs.pages import code_words, read, rows, sections
from tests.soak.searches import SOAKS


def test_every_soak_test_is_listed() -> None:
    listed = {
        word for row in rows(sections(read("explanation/faults.md"), 2)["Confidence"]) for word in code_words(row[0])
    }

    assert listed == set(SOAKS)
