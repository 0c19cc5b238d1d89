"""The diagrams on the architecture page match the code."""

from tests.docs.pages import read
from tools.diagrams import DIAGRAMS, drawn


def test_the_diagrams_match_the_current_code() -> None:
    page = read("explanation/architecture.md")

    assert drawn(page) == page, "run: python -m tools.diagrams"


def test_every_layer_is_described() -> None:
    page = read("explanation/architecture.md")
    floors = [
        word.strip("()")
        for line in DIAGRAMS["layers"]().splitlines()
        if '"' in line
        for word in line.split('"')[1].split(" | ")
    ]

    assert [floor for floor in floors if f"`{floor}`" not in page] == []
