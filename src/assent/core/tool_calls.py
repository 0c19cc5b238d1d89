"""Converts an agent's tool call to a question for reviewers, and the answer to text for the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assent.core.call_digests import tool_digest
from assent.core.canonical import Json, canonical, sha256
from assent.core.gates import slug
from assent.core.headlines import call_headline, cut

LONGEST_TITLE = 300
LONGEST_RUN_ID = 200
LONGEST_KEY_PART = 40
NOT_RUN = "The tool was not run."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model wants to make. The thread and call ID identify it, even after a restart."""

    door: str
    """The integration that the call comes from, such as langgraph or claude-code."""
    tool: str
    arguments: Mapping[str, Json]
    thread: str
    call_id: str
    editable: Sequence[str] = ()
    """Arguments that the reviewer can change."""
    description: str = ""
    """The agent's own question, if any."""
    headline: str = ""
    """A description of the call, if the integration has a better one than the default."""

    @property
    def digest(self) -> str:
        return tool_digest(self.tool, self.arguments)

    @property
    def key(self) -> str:
        """The idempotency key. A retried call finds its question again, but never the answer to a different call."""
        # Encoded as JSON, so that different threads and call IDs never have the same encoding.
        whole = canonical([self.door, self.thread, self.call_id, self.digest])
        return f"{slug(self.door)[:LONGEST_KEY_PART]}-{sha256(whole)}"

    @property
    def run_id(self) -> str:
        """The thread, or a hash of it if the thread is not a valid run ID."""
        fits = 0 < len(self.thread) <= LONGEST_RUN_ID and self.thread.isprintable()
        return self.thread if fits else f"thread-{sha256(canonical(self.thread))[:16]}"

    @property
    def gate(self) -> str:
        return slug(f"tool.{self.tool}")

    @property
    def title(self) -> str:
        return cut(self.headline or call_headline(self.tool, self.arguments), LONGEST_TITLE)

    @property
    def question(self) -> str:
        return self.description or self.headline or call_headline(self.tool, self.arguments)

    @property
    def payload(self) -> dict[str, Any]:
        """The complete call, as shown to reviewers."""
        return {
            "tool": self.tool,
            "arguments": dict(self.arguments),
            "callDigest": self.digest,
            "door": self.door,
            "callId": self.call_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on a call: whether to run it, with which arguments, and the reason to give to the model."""

    approved: bool
    reason: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


def refused(why: str) -> Verdict:
    """Return the verdict for any outcome other than an approval, with an explanation for the model."""
    return Verdict(approved=False, reason=f"{why.rstrip()} {NOT_RUN}")


def ended(status: str, *, by: str | None, said: str | None) -> str:
    """Describe an outcome other than an approval in a sentence that the model can act on."""
    if status == "expired":
        return "No one answered in time."
    if status == "cancelled":
        return "The request was cancelled."
    who = f"Rejected by {by}" if by else "Rejected"
    return f"{who}: {said.strip()}" if said and said.strip() else f"{who} without a reason."


def misfits(arguments: Mapping[str, Json], edits: Mapping[str, Json]) -> list[str]:
    """Return the edited arguments whose type changed. For example, a tool would treat the string "false" as true."""
    return [name for name, value in edits.items() if name in arguments and not _alike(arguments[name], value)]


def _alike(before: Json, after: Json) -> bool:
    # null does not have a type to keep, and an integer is valid where a float is expected.
    return type(before) is type(after) or before is None or (type(before) is float and type(after) is int)


def edited(call: ToolCall, edits: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """Return the arguments with the reviewer's changes, or None if any changed argument is not editable."""
    if any(name not in call.editable or name not in call.arguments for name in edits):
        return None
    return {**call.arguments, **edits}
