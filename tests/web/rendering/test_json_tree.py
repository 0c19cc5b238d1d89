"""A tree tells of everything in a document, as it is written."""

import json

import pytest

from assent.web.rendering.json_tree import MAX_DEPTH, MAX_MEMBERS, MAX_NODES, json_tree
from tests.web.rendering.reading import Made


def text(document: str) -> str:
    return Made(json_tree(document).html).text


def test_branches_open_and_close() -> None:
    tags = Made(json_tree('{"a": [1, {"b": null}]}').html).tags
    assert (tags.count("details"), tags.count("summary")) == (3, 3)


@pytest.mark.parametrize("number", ["1.0000000000000000000001", "1e400", "-0", "9" * 5000])
def test_a_number_is_told_as_it_is_written(number: str) -> None:
    assert number in text(f'{{"a": {number}}}')


def test_a_name_that_stands_twice_is_there_twice() -> None:
    assert '"a": 1' in text('{"a": 1, "a": 2}')
    assert '"a": 2' in text('{"a": 1, "a": 2}')


def test_a_long_list_says_how_many_are_left() -> None:
    shown = json_tree(json.dumps(list(range(MAX_MEMBERS + 900))))
    assert "… 900 more" in Made(shown.html).text
    assert shown.notes


def test_a_large_document_is_cut_with_words() -> None:
    shown = json_tree(json.dumps([list(range(90)) for _ in range(90)]))
    assert Made(shown.html).tags.count("li") <= MAX_NODES + 2 * 90
    assert " more; see the source or the full file" in Made(shown.html).text


def test_what_lies_too_deep_is_told() -> None:
    depth = MAX_DEPTH + 5
    assert "… 1 more" in text("[" * depth + "1" + "]" * depth)


@pytest.mark.parametrize("document", ["{", "", "nothing", "[" * 100_000, "\ufeff{}"])
def test_what_is_no_json_is_shown_as_text_that_says_so(document: str) -> None:
    shown = json_tree(document)
    assert shown.notes == ("This is not valid JSON.",)
    assert document.strip("\ufeff") in Made(shown.html).text
