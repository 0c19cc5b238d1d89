"""What axe finds on a page and what scrolls sideways, at a desk and on a phone, in the light and in the dark."""

from collections.abc import Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Page

PHONE, DESK = 390, 1280
HEIGHT = 900
_ALL: dict[str, Any] = {"resultTypes": ["violations"]}
# In the dark nothing but the colours is different.
_COLOURS = _ALL | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
_SCHEMES: Sequence[tuple[Literal["light", "dark"], dict[str, Any]]] = (("light", _ALL), ("dark", _COLOURS))
_SETTLED = """() => new Promise((told) => {
  const next = () => requestAnimationFrame(() => told(document.documentElement.scrollWidth));
  requestAnimationFrame(next);
})"""
"""Charts are drawn again a frame after the page has another width."""


def fits_everybody(page: Page, what: str, widths: Sequence[int] = (PHONE, DESK)) -> None:
    """Look at a page that is open: axe finds nothing and nothing scrolls sideways, at each of these widths."""
    page.evaluate(AXE_SCRIPT)
    for width in widths:
        nothing_sideways(page, what, width)
        for scheme, options in _SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found = AxeResults(page.evaluate("(options) => axe.run(document, options)", options))
            assert found.violations_count == 0, f"{what}, {width} px, {scheme}: {found.generate_report()}"


def nothing_sideways(page: Page, what: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": HEIGHT})
    assert page.evaluate(_SETTLED) <= width, f"{what} scrolls sideways at {width} px"
