"""The reference of sources lists every kind of webhook source, every setting and every attribute of the view."""

import re

import pytest

from assent.domain.trigger_events import VIEW
from assent.sources.fields import COMMON
from assent.sources.registry import KINDS, Way
from assent.sources.webhook import HOW, KNOWN, OTHERS
from tests.docs.pages import read, sections

PAGE = read("reference/sources.md")
CALLED = sorted(name for name, kind in KINDS.items() if kind.way is Way.HOOK)


def first_cells(section: str) -> set[str]:
    rows = re.findall(r"^\| ([^|]*) \|", sections(PAGE, 2)[section], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("kind", CALLED)
def test_every_kind_of_webhook_source_is_listed_with_its_types(kind: str) -> None:
    assert kind in first_cells("Kinds")
    assert kind in first_cells("Types")


def test_every_setting_is_listed() -> None:
    assert first_cells("Settings of every source") >= COMMON
    assert first_cells("webhook") >= KNOWN
    assert all(f"`{how}`" in sections(PAGE, 2)["webhook"] for how in HOW)


def test_exactly_the_attributes_of_the_view_are_listed() -> None:
    assert first_cells("The view") == set(VIEW)


def test_a_webhook_cannot_impersonate_another_source() -> None:
    assert set(KINDS) <= OTHERS
