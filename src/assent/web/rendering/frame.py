"""An agent's HTML for a frame in which nothing runs, loads or leads anywhere."""

import html
import re

from assent.domain.visible import visible

# They could ask other servers or change what addresses mean; as unknown elements they do nothing.
_REACHING_OUT = re.compile(r"<(?=(?:link|base|meta)\b)", re.IGNORECASE)
_ZEROS = re.compile(r"(?<=&#)([xX]?)0+(?=[0-9a-fA-F])")
_REFERENCE = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{1,8}|[a-zA-Z]{2,32});?")


def framed(content: bytes) -> str:
    """Return the document with its unseen characters written out, those written as references too."""
    shown = _ZEROS.sub(r"\1", visible(content.decode(errors="replace")))
    shown = _REFERENCE.sub(_written_out, shown)
    return _REACHING_OUT.sub("<x-", shown)


def _written_out(found: re.Match[str]) -> str:
    meant = html.unescape(found.group())
    shown = visible(meant)
    return found.group() if shown == meant else shown
