"""The JSON tree shows the complete document in its original notation."""

import json

import pytest

from assent.web.rendering.json_tree import MAX_DEPTH, MAX_MEMBERS, MAX_NODES, json_tree
from tests.web.rendering.reading import ParsedHtml


def text(document: str) -> str:
    return ParsedHtml(json_tree(document).html).text


def test_objects_and_arrays_are_collapsible() -> None:
    tags = ParsedHtml(json_tree('{"a": [1, {"b": null}]}').html).tags
    assert (tags.count("details"), tags.count("summary")) == (3, 3)


@pytest.mark.parametrize("number", ["1.0000000000000000000001", "1e400", "-0", "9" * 5000])
def test_numbers_keep_their_original_notation(number: str) -> None:
    assert number in text(f'{{"a": {number}}}')


def test_members_with_duplicate_names_are_all_shown() -> None:
    assert '"a": 1' in text('{"a": 1, "a": 2}')
    assert '"a": 2' in text('{"a": 1, "a": 2}')


def test_a_truncated_array_reports_the_number_of_hidden_items() -> None:
    shown = json_tree(json.dumps(list(range(MAX_MEMBERS + 900))))
    assert "… 900 more" in ParsedHtml(shown.html).text
    assert shown.notes


def test_a_large_document_is_truncated_with_a_note() -> None:
    shown = json_tree(json.dumps([list(range(90)) for _ in range(90)]))
    assert ParsedHtml(shown.html).tags.count("li") <= MAX_NODES + 2 * 90
    assert " more; see the source or the full file" in ParsedHtml(shown.html).text


def test_values_nested_too_deeply_are_reported_as_hidden() -> None:
    depth = MAX_DEPTH + 5
    assert "… 1 more" in text("[" * depth + "1" + "]" * depth)


@pytest.mark.parametrize("document", ["{", "", "nothing", "[" * 100_000, "\ufeff{}"])
def test_invalid_json_is_shown_as_text_with_a_note(document: str) -> None:
    shown = json_tree(document)
    assert shown.notes == ("This is not valid JSON.",)
    assert document.strip("\ufeff") in ParsedHtml(shown.html).text
