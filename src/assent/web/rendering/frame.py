"""Prepares an agent's HTML for a sandboxed frame without scripts, external content or navigation."""

import html
import re

from assent.core.safe_text import visible

# These elements could contact other servers or change the base URL. Renaming them to unknown elements disables them.
_REACHING_OUT = re.compile(r"<(?=(?:link|base|meta)\b)", re.IGNORECASE)
# Leading zeros would make a reference too long for the next pattern, but browsers ignore them.
_ZEROS = re.compile(r"(?<=&#)([xX]?)0+(?=[0-9a-fA-F])")
_REFERENCE = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{1,8}|[a-zA-Z]{2,32});?")


def framed(content: bytes) -> str:
    """Return the document with hidden characters made visible, including those written as character references."""
    shown = _ZEROS.sub(r"\1", visible(content.decode(errors="replace")))
    shown = _REFERENCE.sub(_written_out, shown)
    return _REACHING_OUT.sub("<x-", shown)


def _written_out(found: re.Match[str]) -> str:
    # Other references stay as they are: “&lt;” must not become the start of an element.
    meant = html.unescape(found.group())
    shown = visible(meant)
    return found.group() if shown == meant else shown
