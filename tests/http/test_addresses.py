"""IDs in paths, and the part of a URL that is displayed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import NotFound
from assent.http.query import known_delivery_id, without_path


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org", "https://example.org"),
        ("https://example.org/", "https://example.org"),
        ("https://example.org:8443/hook", "https://example.org:8443/…"),
        ("https://example.org?key=t0p", "https://example.org/…"),
        ("https://example.org/a/b?c#d", "https://example.org/…"),
        ("HTTP://[::1]:80/x", "HTTP://[::1]:80/…"),
        ("https://ann:hunter2@example.org/", "…"),
        ("ann@example.org", "…"),
        ("", "…"),
    ],
)
def test_a_url_is_shown_without_its_path(url: str, shown: str) -> None:
    assert without_path(url) == shown


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_nothing_after_the_host_is_ever_shown(rest: str) -> None:
    assert without_path(f"https://example.org/{rest}") == "https://example.org/…"


@pytest.mark.parametrize(
    "text", ["", "dlv_", "dlv_" + "0" * 25, "dlv_" + "0" * 27, "DLV_" + "0" * 26, "dlv_" + "/" * 26]
)
def test_an_invalid_delivery_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        known_delivery_id(text)


def test_a_valid_id_is_returned_unchanged() -> None:
    assert known_delivery_id("dlv_" + "0" * 26) == "dlv_" + "0" * 26
