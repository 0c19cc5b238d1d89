"""Accessibility checks with axe and checks for horizontal scrolling, in both color schemes on desktops and phones."""

from collections.abc import Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page

PHONE, DESK = 390, 1280
HEIGHT = 900
_ALL: dict[str, Any] = {"resultTypes": ["violations"]}
# The dark scheme changes only colors, so only the rules about colors are checked again.
_COLOURS = _ALL | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
_SCHEMES: Sequence[tuple[Literal["light", "dark"], dict[str, Any]]] = (("light", _ALL), ("dark", _COLOURS))
_SETTLED = """() => new Promise((told) => {
  const next = () => requestAnimationFrame(() => told(document.documentElement.scrollWidth));
  requestAnimationFrame(next);
})"""
"""Waits for two frames, because charts are redrawn one frame after the page is resized."""


def assert_accessible(page: Page, what: str, widths: Sequence[int] = (PHONE, DESK)) -> None:
    """Assert that axe reports no violations and the page does not scroll sideways, at each of these widths."""
    page.evaluate(AXE_SCRIPT)
    for width in widths:
        assert_no_sideways_scroll(page, what, width)
        for scheme, options in _SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found = AxeResults(page.evaluate("(options) => axe.run(document, options)", options))
            assert found.violations_count == 0, f"{what}, {width} px, {scheme}: {found.generate_report()}"


def assert_no_sideways_scroll(page: Page, what: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": HEIGHT})
    assert page.evaluate(_SETTLED) <= width, f"{what} scrolls sideways at {width} px"
