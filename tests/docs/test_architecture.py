"""The diagrams on the architecture page match the code."""

from tests.docs.pages import read
from tools.diagrams import DIAGRAMS, drawn


def test_the_diagrams_are_drawn_from_the_code_as_it_is() -> None:
    page = read("explanation/architecture.md")

    assert drawn(page) == page, "run: python -m tools.diagrams"


def test_every_floor_is_told_of() -> None:
    page = read("explanation/architecture.md")
    floors = [
        word.strip("()")
        for line in DIAGRAMS["layers"]().splitlines()
        if '"' in line
        for word in line.split('"')[1].split(" | ")
    ]

    assert [floor for floor in floors if f"`{floor}`" not in page] == []
