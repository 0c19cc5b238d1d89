"""Converts the JSON input of Claude Code's hooks to a question, and the answer to their JSON output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assent.core.call_digests import CALL_DIGEST, tool_digest
from assent.core.canonical import Json, canonical, is_array, is_object
from assent.core.errors import InvalidRequest
from assent.core.headlines import call_headline, one_line
from assent.core.protected_paths import DIRECTORY, REAL_PATHS
from assent.core.tool_calls import ToolCall, Verdict, refused

DOOR = "claude-code"
ASK = "AskUserQuestion"
TTL_SECONDS = 24 * 3600
"""Default TTL. There is always a deadline, because the client eventually kills every hook."""
LONGEST_TTL = 2_000_000
"""Maximum TTL. The client's timers count milliseconds in 31 bits, and longer timers fire immediately."""
SOMETHING_ELSE = "Something else"
ASKED_BY, PROMPT = "askedBy", "permission-prompt"
"""Payload field and value that mark a question from the permission prompt."""


class Event(StrEnum):
    PRE_TOOL_USE = "PreToolUse"
    PERMISSION_REQUEST = "PermissionRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """An invocation of a hook, in which the client asks whether a tool may run."""

    event: Event
    session: str
    tool: str
    arguments: Mapping[str, Json]
    directory: str
    tool_use_id: str | None = None
    """The permanent ID of the call. Permission requests do not have this ID."""
    real_paths: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Resolved paths of the arguments, if the client resolved them."""

    @property
    def may_defer(self) -> bool:
        return self.event is Event.PRE_TOOL_USE and self.tool_use_id is not None


def read_hook(sent: Json) -> Hook:
    """Parse a hook's input. Anything unknown is an error, so that the hook blocks the call."""
    if not is_object(sent):
        raise InvalidRequest.at("/", "must be the JSON object that Claude Code passes to its hooks")
    name = _text(sent, "hook_event_name")
    if name not in tuple(Event):
        raise InvalidRequest.at("/hook_event_name", f"must be {' or '.join(Event)}; remove the hook from other events")
    arguments: Json = sent.get("tool_input")
    if not is_object(arguments):
        raise InvalidRequest.at("/tool_input", "must be an object")
    event = Event(name)
    return Hook(
        event=event,
        session=_text(sent, "session_id"),
        tool=_text(sent, "tool_name"),
        arguments=arguments,
        directory=_text(sent, "cwd"),
        tool_use_id=_text(sent, "tool_use_id") if event is Event.PRE_TOOL_USE else None,
    )


def _text(sent: Mapping[str, Json], name: str, *, under: str = "") -> str:
    value: Json = sent.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest.at(f"{under}/{name}", "must be a non-empty string")
    return value


def tool_call(hook: Hook, *, editable: Sequence[str] = (), nonce: str) -> ToolCall:
    """Return the hook's tool call. If the client sent no ID, the nonce distinguishes the call from others."""
    asks = hook.tool == ASK
    return ToolCall(
        door=DOOR,
        tool=hook.tool,
        arguments=hook.arguments,
        thread=hook.session,
        call_id=hook.tool_use_id or nonce,
        editable=() if asks else tuple(name for name in editable if name in hook.arguments),
        headline=_asked(hook.arguments) if asks else call_headline(hook.tool, hook.arguments, directory=hook.directory),
    )


def again(call: ToolCall, used: str) -> ToolCall:
    """Return the call with a new ID, so that a new question is asked once the first approval has been used."""
    return replace(call, call_id=f"{call.call_id}/{used}")


def left_to_prompt(hook: Hook, payload: Mapping[str, Json]) -> bool:
    """Return whether the permission prompt created a question with this payload for the same call."""
    same = payload.get(CALL_DIGEST) == tool_digest(hook.tool, hook.arguments)
    return hook.event is Event.PERMISSION_REQUEST and payload.get(ASKED_BY) == PROMPT and same


def shown(hook: Hook) -> dict[str, Json]:
    """Return the payload fields to show in addition to the call: its working directory and resolved paths."""
    where: dict[str, Json] = {DIRECTORY: hook.directory} if hook.directory else {}
    return where | ({REAL_PATHS: dict(hook.real_paths)} if hook.real_paths else {})


def same_question(payload: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Return whether two payloads show reviewers the same content, regardless of the call ID."""
    return canonical({**payload, "callId": ""}) == canonical({**other, "callId": ""})


@dataclass(frozen=True, slots=True)
class Choice:
    """A question from the model, with the answers that it offers."""

    question: str
    labels: tuple[str, ...]
    several: bool


def choices(arguments: Mapping[str, Json]) -> list[Choice]:
    """Parse the model's questions."""
    questions: Json = arguments.get("questions")
    if not is_array(questions) or not questions:
        raise InvalidRequest.at("/tool_input/questions", "must be a list of questions")
    found = [_choice(each, f"/tool_input/questions/{n}") for n, each in enumerate(questions)]
    if len({each.question for each in found}) != len(found):
        raise InvalidRequest.at("/tool_input/questions", "must not contain the same question twice")
    return found


def _choice(given: Json, pointer: str) -> Choice:
    question = given if is_object(given) else {}
    options: Json = question.get("options")
    labels = [each.get("label") for each in options if is_object(each)] if is_array(options) else []
    texts = tuple(each for each in labels if isinstance(each, str) and each.strip())
    if not texts or len(set(texts)) != len(options):
        raise InvalidRequest.at(pointer, "must have options with unique, non-empty labels")
    return Choice(_text(question, "question", under=pointer), texts, question.get("multiSelect") is True)


def _asked(arguments: Mapping[str, Json]) -> str:
    return one_line(" ".join(each.question for each in choices(arguments)))


def terms_of(hook: Hook) -> dict[str, Json]:
    """Return the terms for answering the model's questions. Only a person can answer them; rules cannot."""
    if hook.tool != ASK:
        return {}
    asked = choices(hook.arguments)
    if _one_click(asked):
        return {"hard_stop": True, "options": list(asked[0].labels)}
    return {"hard_stop": True, "form": _form(asked)}


def _one_click(asked: Sequence[Choice]) -> bool:
    """Return whether there is a single question with a single answer, which every channel can show as buttons."""
    return len(asked) == 1 and not asked[0].several


def _form(asked: Sequence[Choice]) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    for n, each in enumerate(asked, 1):
        if each.several:
            labels = enumerate(each.labels, 1)
            fields |= {
                f"answer{n}.{m}": {"type": "boolean", "title": f"{each.question} {label}"} for m, label in labels
            }
        else:
            picks = [*each.labels, *([] if SOMETHING_ELSE in each.labels else [SOMETHING_ELSE])]
            fields[f"answer{n}"] = {"type": "string", "title": each.question, "enum": picks}
        fields[f"other{n}"] = {"type": "string", "title": f"{SOMETHING_ELSE}: {each.question}"}
    return {"type": "object", "properties": fields, "required": [name for name in fields if "enum" in fields[name]]}


def answered(hook: Hook, verdict: Verdict, *, option: str | None, answers: Mapping[str, Json] | None) -> Verdict:
    """Add the reviewer's answers to the tool's arguments; refuse the call if an answer is missing."""
    if hook.tool != ASK or not verdict.approved:
        return verdict
    asked = choices(hook.arguments)
    given = [option or ""] if _one_click(asked) else [_said(n, each, answers or {}) for n, each in enumerate(asked, 1)]
    if not all(given):
        return refused("Approved, but some questions were not answered.")
    said = {each.question: text for each, text in zip(asked, given, strict=True)}
    return replace(verdict, arguments={**hook.arguments, "answers": said})


def _said(n: int, choice: Choice, answers: Mapping[str, Json]) -> str:
    other = str(answers.get(f"other{n}") or "").strip()
    if choice.several:
        picked = [label for m, label in enumerate(choice.labels, 1) if answers.get(f"answer{n}.{m}") is True]
        return ", ".join([*picked, *([other] if other else [])])
    pick = str(answers.get(f"answer{n}") or "")
    # “Something else” refers to the free text, unless it is one of the model's own options.
    return pick if pick in choice.labels else other


def spoken(hook: Hook, verdict: Verdict) -> dict[str, Json]:
    """Return a verdict in the client's format."""
    arguments = dict(verdict.arguments)
    # Compare the canonical forms, because True == 1 in Python.
    edits = {} if canonical(arguments) == canonical(dict(hook.arguments)) else {"updatedInput": arguments}
    said: dict[str, Json]
    if hook.event is Event.PERMISSION_REQUEST:
        allow = {"behavior": "allow", **edits}
        said = {"decision": allow if verdict.approved else {"behavior": "deny", "message": verdict.reason}}
    elif verdict.approved:
        said = {"permissionDecision": "allow", "permissionDecisionReason": verdict.reason, **edits}
    else:
        said = {"permissionDecision": "deny", "permissionDecisionReason": verdict.reason}
    return _output(hook, said)


def deferred(hook: Hook, *, breakpoint_id: str) -> dict[str, Json]:
    """Return the output for a pending approval. The session ends, and is resumed once a reviewer has answered."""
    reason = f"Approval requested: {breakpoint_id}."
    return _output(hook, {"permissionDecision": "defer", "permissionDecisionReason": reason})


def _output(hook: Hook, said: Mapping[str, Json]) -> dict[str, Json]:
    return {"hookSpecificOutput": {"hookEventName": hook.event.value, **said}}
