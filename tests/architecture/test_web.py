"""Pages comply with their Content-Security-Policy: no code in templates, no HTML in scripts, and few scripts."""

import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "src" / "assent" / "web"
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
SCRIPTS = sorted((WEB / "static").glob("*.js"))
MOST_LINES = 1_200
# These need eval or inline code, which the Content-Security-Policy forbids, or insert unescaped HTML.
BANNED_IN_TEMPLATES = {
    "a handler of htmx": r"hx-on|hx-vals='js:|js:",
    "a filter on a trigger": r'hx-trigger="[^"]*\[',
    "a handler of the browser": r"\son[a-z]+=",
    "a style of its own": r'\sstyle="',
    "a script of its own": r"<script(?![^>]*\ssrc=)",
    "text that is not escaped": r"\|\s*safe\b",
}
BANNED_IN_SCRIPTS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.style\b"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_contains_no_code(template: Path) -> None:
    text = template.read_text()
    assert [what for what, pattern in BANNED_IN_TEMPLATES.items() if re.search(pattern, text)] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_creates_no_html_and_is_type_checked(script: Path) -> None:
    text = script.read_text()
    assert text.startswith("// @ts-check\n")
    assert re.findall(BANNED_IN_SCRIPTS, text) == []


def test_our_javascript_stays_below_the_line_limit() -> None:
    assert sum(len(script.read_text().splitlines()) for script in SCRIPTS) <= MOST_LINES
