"""The source reference lists every kind of webhook source, every setting and every view attribute."""

import re

import pytest

from assent.triggers.event import VIEW
from assent.triggers.sources.fields import COMMON
from assent.triggers.sources.registry import KINDS, Way
from assent.triggers.sources.webhook import HOW, KNOWN, OTHERS
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


def test_every_source_setting_is_documented() -> None:
    assert first_cells("Settings of every source") >= COMMON
    assert first_cells("webhook") >= KNOWN
    assert all(f"`{how}`" in sections(PAGE, 2)["webhook"] for how in HOW)


def test_the_reference_lists_exactly_the_attributes_of_the_view() -> None:
    assert first_cells("The view") == set(VIEW)


def test_a_webhook_cannot_impersonate_another_source() -> None:
    assert set(KINDS) <= OTHERS
