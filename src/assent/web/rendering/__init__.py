"""Renders content by agents as safe HTML; all functions are pure."""

from assent.web.rendering.files import PAGE_CHARACTERS, Excerpt, ShownFile, excerpt, shown_file, shown_files
from assent.web.rendering.frame import framed
from assent.web.rendering.json_tree import json_tree
from assent.web.rendering.rendered import Rendered

__all__ = [
    "PAGE_CHARACTERS",
    "Excerpt",
    "Rendered",
    "ShownFile",
    "excerpt",
    "framed",
    "json_tree",
    "shown_file",
    "shown_files",
]
