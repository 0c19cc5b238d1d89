"""A breakpoint as a form in the agent's client, and the answer entered there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import ElicitRequestFormParams, ElicitResult

from assent.contracts.breakpoints import Breakpoint
from assent.sdk.visible import visible

LONGEST_SHOWN = 4_000
APPROVE, REJECT = "approve", "reject"
_SAID_ELSEWHERE = frozenset({"question", "title", "options", "breakpointId", "tags"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The answer from a form; `approved` is None if it does not count."""

    approved: bool | None
    option: str | None = None
    comment: str | None = None

    @property
    def words(self) -> str:
        """The answer as text for a comment."""
        if self.approved is None:
            return ""
        verdict = APPROVE if self.approved else REJECT
        chosen = f" ({self.option})" if self.option else ""
        return f"{verdict}{chosen}{f': {self.comment}' if self.comment else ''}"


NOTHING = Filled(approved=None)


def form(asked: Breakpoint) -> ElicitRequestFormParams | None:
    """Return the form for a breakpoint, or None if the risk is high or the form could not show everything."""
    message = _message(asked)
    context: Mapping[str, Any] = asked.payload.get("context") or {}
    hidden = asked.payload.get("form") or context.get("files") or len(message) > LONGEST_SHOWN
    if asked.risk == "high" or hidden:
        return None
    options = [str(each) for each in asked.payload.get("options") or ()]
    fields: dict[str, Any] = {"decision": {"type": "string", "title": "Decision", "enum": [APPROVE, REJECT]}}
    if options:
        fields["option"] = {"type": "string", "title": "Option (required to approve)", "enum": options}
    fields["comment"] = {"type": "string", "title": "Comment for the agent"}
    schema = {"type": "object", "properties": fields, "required": ["decision"]}
    return ElicitRequestFormParams(message=message, requested_schema=schema)


def _message(asked: Breakpoint) -> str:
    """Show all content, without hidden characters, and say that the agent wrote it."""
    more = {name: value for name, value in asked.payload.items() if name not in _SAID_ELSEWHERE}
    parts = [
        f"{asked.agent_id} needs your approval ({asked.gate}):",
        asked.title or "",
        asked.question or "",
        f"Tags: {', '.join(asked.tags)}" if asked.tags else "",
        json.dumps(more, ensure_ascii=False, indent=2) if more else "",
        f"The text above was written by the agent. Breakpoint {asked.id}.",
    ]
    return "\n\n".join(visible(part, lines=True) for part in parts if part)


def filled(result: ElicitResult | None) -> Filled:
    """Parse the client's response. Only the exact words `approve` and `reject` count."""
    if result is None or result.action == "cancel":
        return NOTHING
    if result.action == "decline":
        return Filled(approved=False, comment="Declined in the agent's client.")
    content = result.content or {}
    # Anything else, including a missing decision, becomes None, which does not count.
    approved = {APPROVE: True, REJECT: False}.get(str(content.get("decision")))
    return Filled(approved=approved, option=_text(content.get("option")), comment=_text(content.get("comment")))


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
