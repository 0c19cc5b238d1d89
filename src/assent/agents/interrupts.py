"""Converts LangGraph interrupts to questions, and answers to resume values, without importing LangGraph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from assent.contracts.breakpoints import BreakpointResult, Status
from assent.core.canonical import Json, canonical, is_array, is_object, sha256
from assent.sdk.arguments import agreed, described
from assent.sdk.errors import NotApproved
from assent.sdk.tool_calls import ToolCall, refused, verdict

DOOR = "langgraph"
OWN_TYPE = "assent_approval"
"""Marks an interrupt whose node reads our answer: a dict with `approved`."""
LONGEST_QUESTION = 20_000
Kind: TypeAlias = Literal["approve", "edit", "reject", "respond"]
_CALL: frozenset[Kind] = frozenset({"approve", "edit", "reject"})
_EDIT: frozenset[Kind] = frozenset({"edit"})
_QUESTION: frozenset[Kind] = frozenset({"approve", "reject"})
_INBOX_KINDS: Mapping[str, Kind] = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_respond": "respond",
    "allow_ignore": "reject",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The outcome of a review, in the terms of LangChain's middleware."""

    kind: Kind
    reason: str
    tool: str
    arguments: Mapping[str, Any]
    result: BreakpointResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A single question for reviewers, and the answers that the graph accepts."""

    tool: str
    arguments: Mapping[str, Any]
    question: str
    allowed: frozenset[Kind]
    editable: Sequence[str] | None = None
    """None means all arguments whose values can be changed."""
    more: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Options or a form for the reviewer."""
    refusals: Sequence[Kind] = ("reject", "respond")
    """The ways to tell the graph that the call was not approved, in order of preference."""

    @property
    def shown(self) -> dict[str, Json]:
        return {name: described(value) for name, value in self.arguments.items()}

    @property
    def digest(self) -> str:
        return ToolCall(door=DOOR, tool=self.tool, arguments=self.shown, thread="", call_id="").digest

    def call(self, thread: str, interrupt_id: str, position: int) -> ToolCall:
        shown = self.shown
        names = self.arguments if self.editable is None else self.editable
        # A value that JSON cannot represent is shown as a description, which a reviewer must not edit.
        changeable = [name for name in names if name in shown and shown[name] == self.arguments[name]]
        editable = changeable if "edit" in self.allowed else []
        # A call's digest does not cover the question, which can change the meaning of the arguments.
        rest = sha256(canonical([self.question, editable, sorted(self.allowed), self.more]))[:16]
        return ToolCall(
            door=DOOR,
            tool=self.tool,
            arguments=shown,
            thread=thread,
            call_id=f"{interrupt_id}.{position}.{rest}",
            editable=editable,
            description=self.question,
        )

    def refusal(self, why: str) -> Ruling:
        kind: Kind | None = next((each for each in self.refusals if each in self.allowed), None)
        if kind is None:
            msg = f"{why} The graph does not accept rejections for {self.tool}, so it stays paused."
            raise NotApproved(msg)
        return self._ruling(kind, why)

    def ruling(self, call: ToolCall, status: Status) -> Ruling:
        """Return the graph's view of an answer; anything but an approval that the graph accepts is a refusal."""
        found, result = verdict(call, status), status.result
        if not found.approved or result is None:
            return self.refusal(found.reason)
        if trouble := _disagreement(result):
            return self.refusal(refused(trouble).reason)
        text = str((result.answers or {}).get("respond") or "").strip()
        if "respond" in self.allowed and text:
            return self._ruling("respond", text)
        return self._approved(agreed(result), result)

    def _approved(self, edits: Mapping[str, Json], result: BreakpointResult) -> Ruling:
        kind: Kind = "edit" if edits or "approve" not in self.allowed else "approve"
        if kind not in self.allowed:
            return self.refusal(refused(f"The graph accepts an answer for {self.tool}, but not an approval.").reason)
        reason = result.feedback or "Approved."
        return self._ruling(kind, reason, {**self.arguments, **edits}, result)

    def _ruling(
        self,
        kind: Kind,
        reason: str,
        arguments: Mapping[str, Any] | None = None,
        result: BreakpointResult | None = None,
    ) -> Ruling:
        return Ruling(kind=kind, reason=reason, tool=self.tool, arguments=arguments or {}, result=result)


def _disagreement(result: BreakpointResult) -> str:
    """Return an error if the reviewers who approved gave different answers."""
    for each in result.all_responses or ():
        said = [each.get("answers") or None, each.get("option")]
        if each.get("approved") is True and canonical(said) != canonical([result.answers or None, result.option]):
            return "The reviewers who approved gave different answers."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A parsed interrupt."""

    id: str
    reviews: Sequence[Review]
    told: Callable[[Sequence[Ruling]], Any]
    """Returns the value that resumes the graph."""
    may_not_fit: frozenset[Kind] = frozenset()
    """Answers that LangGraph validates against a type."""


def question_of(interrupt_id: str, value: Json, *, schema: Json, node: str) -> Question:
    """Parse an interrupt; `schema` describes the expected answer, `node` is where it comes from."""
    # Try the most specific formats first. A value that matches none of them is a plain question.
    if is_object(value) and _are_calls(value.get("action_requests")):
        return _batch(interrupt_id, value)
    if is_object(value) and value.get("type") == "tool_approval" and _are_calls([value]):
        return _per_call(interrupt_id, value, schema)
    requests: Json = value if is_array(value) else [value]
    if requests and all(_is_for_an_inbox(each) for each in requests):
        return Question(id=interrupt_id, reviews=[_inbox_review(each) for each in requests], told=_inbox_told)
    if is_object(value) and value.get("type") == OWN_TYPE and is_object(value.get("arguments")):
        return _own(interrupt_id, value)
    return _plain(interrupt_id, value, schema=schema, node=node)


def _are_calls(requests: Json) -> bool:
    if not is_array(requests) or not requests:
        return False
    return all(
        is_object(each) and isinstance(each.get("name"), str) and is_object(each.get("args")) for each in requests
    )


def _is_for_an_inbox(request: Json) -> bool:
    action, config = (request.get("action_request"), request.get("config")) if is_object(request) else (None, None)
    return is_object(action) and "action" in action and is_object(action.get("args", {})) and is_object(config)


def _batch(interrupt_id: str, value: Mapping[str, Json]) -> Question:
    configs: Sequence[Json] = value.get("review_configs") or ()
    reviews = [_hitl_review(each, _allowed(each["name"], configs)) for each in value["action_requests"]]
    return Question(
        id=interrupt_id, reviews=reviews, told=lambda rulings: {"decisions": [_hitl_told(each) for each in rulings]}
    )


def _allowed(name: str, configs: Sequence[Json]) -> frozenset[Kind]:
    """Return what all configurations of a tool allow; without a configuration, nothing."""
    found: list[Json] = [each.get("allowed_decisions") or () for each in configs if each.get("action_name") == name]
    return frozenset[Kind](found[0]).intersection(*found) if found else frozenset()


def _per_call(interrupt_id: str, value: Mapping[str, Json], schema: Json) -> Question:
    review = _hitl_review(value, _taken(schema) if is_object(schema) else frozenset())
    return Question(id=interrupt_id, reviews=[review], told=lambda rulings: _hitl_told(rulings[0]), may_not_fit=_EDIT)


def _taken(schema: Mapping[str, Json]) -> frozenset[Kind]:
    """Return the decisions that a schema has branches for; a schema with a single decision has no branches."""
    branches: Json = schema.get("discriminator", {}).get("mapping", {})
    return frozenset[Kind](branches or [schema.get("properties", {}).get("type", {}).get("const")])


def _hitl_review(request: Mapping[str, Json], allowed: frozenset[Kind]) -> Review:
    return Review(
        tool=request["name"],
        arguments=request["args"],
        question=_text(request.get("description")),
        allowed=allowed,
        more=_answer_form(allowed),
    )


def _answer_form(allowed: frozenset[Kind]) -> Mapping[str, Json]:
    if "respond" not in allowed:
        return {}
    form = {
        "type": "object",
        "properties": {"respond": {"type": "string", "title": "Answer without running the tool"}},
    }
    return {"form": form if allowed & {"approve", "edit"} else form | {"required": ["respond"]}}


def _hitl_told(ruling: Ruling) -> Json:
    if ruling.kind == "approve":
        return {"type": "approve"}
    if ruling.kind == "edit":
        return {"type": "edit", "edited_action": {"name": ruling.tool, "args": dict(ruling.arguments)}}
    return {"type": ruling.kind, "message": ruling.reason}


def _inbox_review(request: Mapping[str, Json]) -> Review:
    action, config = request["action_request"], request["config"]
    allowed = frozenset[Kind](kind for name, kind in _INBOX_KINDS.items() if config.get(name) is True)
    return Review(
        tool=str(action["action"]),
        arguments=action.get("args", {}),
        question=_text(request.get("description")),
        allowed=allowed,
        more=_answer_form(allowed),
        # Prefer a response, because its text reaches the model, whereas an `ignore` carries no text.
        refusals=("respond", "reject"),
    )


def _inbox_told(rulings: Sequence[Ruling]) -> Json:
    return [_inbox_response(each) for each in rulings]


def _inbox_response(ruling: Ruling) -> Json:
    if ruling.kind == "edit":
        return {"type": "edit", "args": {"action": ruling.tool, "args": dict(ruling.arguments)}}
    if ruling.kind == "respond":
        return {"type": "response", "args": ruling.reason}
    return {"type": "accept" if ruling.kind == "approve" else "ignore", "args": None}


def own_review(value: Mapping[str, Json]) -> Review:
    return Review(
        tool=str(value.get("tool")),
        arguments=value["arguments"],
        question=_text(value.get("question")),
        allowed=_CALL,
        editable=value.get("editable") or (),
    )


def _own(interrupt_id: str, value: Mapping[str, Json]) -> Question:
    review = own_review(value)
    return Question(id=interrupt_id, reviews=[review], told=lambda rulings: _own_told(rulings[0], review.digest))


def _own_told(ruling: Ruling, digest: str) -> Json:
    return {
        "approved": ruling.kind in {"approve", "edit"},
        "reason": ruling.reason,
        "arguments": dict(ruling.arguments),
        "callDigest": digest,
    }


def _plain(interrupt_id: str, value: Json, *, schema: Json, node: str) -> Question:
    arguments: Mapping[str, Json] = value if is_object(value) and set(map(type, value)) <= {str} else {}
    asked: Json = arguments.get("question") or arguments.get("message") or (value if isinstance(value, str) else "")
    if not arguments and (not asked or len(asked) > LONGEST_QUESTION):
        arguments = {"value": value}
    review = Review(
        tool=node,
        arguments=arguments,
        question=_text(asked) or f"Continue with {node}?",
        allowed=_QUESTION,
        more=_plain_form(schema, arguments.get("options")),
    )
    return Question(
        id=interrupt_id,
        reviews=[review],
        told=lambda rulings: _plain_told(rulings[0], schema),
        may_not_fit=frozenset({"approve"}) if is_object(schema) else frozenset(),
    )


def _plain_form(schema: Json, options: Json) -> Mapping[str, Json]:
    if is_object(schema) and schema.get("type") == "object":
        return {"form": schema}
    if is_object(schema) and schema.get("type") == "boolean":
        return {}
    if is_object(schema):
        return {"form": {"type": "object", "properties": {"answer": schema}, "required": ["answer"]}}
    if is_array(options) and options and all(isinstance(each, str) for each in options):
        return {"options": list(options)}
    return {"form": {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}}}


def _plain_told(ruling: Ruling, schema: Json) -> Json:
    """Return the value for the node, which is truthy only after an approval, as `if interrupt(…)` expects."""
    typed = is_object(schema) and schema.get("type") != "boolean"
    if ruling.kind != "approve" or ruling.result is None:
        if typed:
            raise NotApproved(
                f"{ruling.reason} The graph does not accept rejections for {ruling.tool}, so it stays paused."
            )
        return False
    answers: Mapping[str, Json] = ruling.result.answers or {}
    if is_object(schema) and schema.get("type") == "object":
        return dict(answers)
    return answers["answer"] if typed else answers.get("answer") or ruling.result.option or True


def _text(words: Json) -> str:
    text = words if isinstance(words, str) else ""
    harmless = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00").strip()
    return harmless if len(harmless) <= LONGEST_QUESTION else harmless[: LONGEST_QUESTION - 1] + "…"
