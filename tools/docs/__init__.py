"""Writes the pages of docs/reference that are generated from the code: `python -m tools.docs` or `make docs`.

`python -m tools.docs cli` writes one page. Each page has a module here. Its hand-written parts are in tools/*_notes.md.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs.api import api_page, objects_page
from tools.docs.cli import cli_page
from tools.docs.sdk import sdk_page
from tools.docs.settings import settings_page

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES: Mapping[str, tuple[Path, Callable[[], str]]] = {
    "api": (REFERENCE / "api.md", api_page),
    "api-objects": (REFERENCE / "api-objects.md", objects_page),
    "cli": (REFERENCE / "cli.md", cli_page),
    "sdk": (REFERENCE / "sdk.md", sdk_page),
    "settings": (REFERENCE / "settings.md", settings_page),
}
