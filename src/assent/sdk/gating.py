"""`@approve`: runs a function only if a reviewer or a rule has approved this call with these arguments."""

import contextlib
import functools
import inspect
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, cast

from assent.contracts.breakpoints import Breakpoint, BreakpointResult, Feedback, Status
from assent.core.call_digests import HIDDEN
from assent.core.fields import check_choices
from assent.core.gates import slug
from assent.core.headlines import call_headline, cut
from assent.sdk import protocol
from assent.sdk.aio import AsyncAssent
from assent.sdk.arguments import Call, Template, digest
from assent.sdk.calls import Calls, cancellation, granted
from assent.sdk.client import Assent
from assent.sdk.context import current
from assent.sdk.errors import DigestMismatch, InvalidRequest, ReceiptMismatch, passed
from assent.sdk.files import ContextFile
from assent.sdk.keywords import strict
from assent.sdk.leaving import Notices
from assent.sdk.protocol import Asking, Flow, Question
from assent.sdk.receipts import content_digest, refuse_unchecked

Given = ParamSpec("Given")
Made = TypeVar("Made")
Client = TypeVar("Client", Assent, AsyncAssent)

LONGEST_TITLE = 300
_FIXED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Terms(TypedDict, total=False):
    """How to ask about a call; `title` can contain arguments, and `tags` can be a function of them."""

    title: str
    breakpoint_id: str
    agent_id: str
    run_id: str
    tags: Sequence[str] | Callable[..., Sequence[str]]
    expert: str | Sequence[str]
    strategy: str
    risk: str
    ttl_seconds: int
    ttl: int
    """Deprecated: use `ttl_seconds`."""
    on_timeout: str
    priority: str
    hard_stop: bool
    auto_approve_after_n: int


@strict
def require_approval(
    question: Question = None,
    *,
    files: Sequence[str | ContextFile] = (),
    on_comment: Callable[[Feedback], object] | None = None,
    timeout: float | None = None,
    **asking: Unpack[Asking],
) -> BreakpointResult:
    """Ask as `breakpoint` does, and return the result of an approval; raise NotApproved for anything else."""
    from assent.sdk import breakpoints  # noqa: PLC0415  # imports the terminal and the rules

    return passed(breakpoints.breakpoint(question, files=files, on_comment=on_comment, timeout=timeout, **asking))


@strict
def approve(
    question: str | None = None,
    *,
    editable: Sequence[str] = (),
    hide: Sequence[str] = (),
    when: Callable[..., object] | None = None,
    client: Assent | AsyncAssent | None = None,
    **terms: Unpack[Terms],
) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Run a function, sync or async, only if this particular call is approved.

    The question can contain arguments: "Pay {amount} to {to}?". The reviewer can change the arguments in `editable` to
    other values of the same type. Arguments in `hide`, and keys and fields with these names inside other arguments, are
    not shown. With `when`, a function of the same arguments, only calls for which it returns False run without asking.
    In all other cases, such as a rejection, the deadline or an unreachable server, this raises and the function does
    not run.
    """
    if question is not None and not isinstance(question, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped
        msg = 'Use @approve() with parentheses, or pass a question: @approve("Delete {path}?").'
        raise TypeError(msg)

    def decorate(function: Callable[Given, Made]) -> Callable[Given, Made]:
        gate = Gate.of(function, question, editable=editable, hide=hide, terms=terms)
        if inspect.iscoroutinefunction(function):
            return cast("Callable[Given, Made]", _asynchronous(function, gate, when, client))
        return _synchronous(function, gate, when, client)

    return decorate


def _synchronous(
    function: Callable[Given, Made],
    gate: "Gate",
    when: Callable[..., object] | None,
    client: Any,  # noqa: ANN401
) -> Callable[Given, Made]:
    if client is not None and not isinstance(client, Assent):
        raise TypeError("Use Assent for a regular function and AsyncAssent for an async function.")

    @functools.wraps(function)
    def gated(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        bound = gate.bind(*args, **kwargs)
        if not _excused(when, bound):
            bound = _ask(gate.asked(bound), client)
        return function(*bound.args, **bound.kwargs)

    return gated


def _asynchronous(
    function: Callable[..., Any],
    gate: "Gate",
    when: Callable[..., object] | None,
    client: Any,  # noqa: ANN401
) -> Callable[..., Any]:
    if client is not None and not isinstance(client, AsyncAssent):
        raise TypeError("Use Assent for a regular function and AsyncAssent for an async function.")

    @functools.wraps(function)
    async def gated(*args: object, **kwargs: object) -> object:
        bound = gate.bind(*args, **kwargs)
        if not _excused(when, bound):
            bound = await _ask_async(gate.asked(bound), client)
        return await function(*bound.args, **bound.kwargs)

    return gated


def _excused(when: Callable[..., object] | None, bound: inspect.BoundArguments) -> bool:
    """Return True only if the predicate returns exactly False, and not for a missing return or a coroutine."""
    return when is not None and when(*bound.args, **bound.kwargs) is False


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, and how to ask about it."""

    call: Call
    question: str
    asking: Asking

    @property
    def body(self) -> dict[str, Any]:
        return protocol.creation(self.question, self.asking)


@dataclass(frozen=True, slots=True)
class Gate:
    """A function with the terms of its approval, validated when it is decorated."""

    name: str
    signature: inspect.Signature
    question: Template | None
    title: Template | None
    """The developer's question and title. By default, both are the call's headline."""
    hide: Sequence[str]
    editable: Sequence[str]
    terms: Terms

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        question: str | None,
        *,
        editable: Sequence[str],
        hide: Sequence[str],
        terms: Terms,
    ) -> "Gate":
        # An async generator runs its body only when it is iterated, after the approved call has returned.
        if inspect.isasyncgenfunction(function) or not inspect.isroutine(function):
            raise TypeError("@approve must be applied directly to a function or an async function.")
        signature = inspect.signature(function)
        name = f"{function.__module__}.{function.__qualname__}"
        _check_names(signature, editable, hide, terms)
        template = functools.partial(Template, names=list(signature.parameters), hide=hide)
        title = terms.get("title")
        return cls(
            name=name,
            signature=signature,
            question=template(question) if question else None,
            title=template(title) if title else None,
            hide=tuple(hide),
            editable=tuple(editable),
            terms=terms,
        )

    def bind(self, *args: object, **kwargs: object) -> inspect.BoundArguments:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def asked(self, bound: inspect.BoundArguments) -> Asked:
        from assent.sdk.breakpoints import agent_name  # noqa: PLC0415  # only if needed

        call = Call.of(bound, hide=self.hide, editable=self.editable)
        headline = call_headline(self.name.rpartition(".")[2], call.shown)
        given: dict[str, Any] = {name: value for name, value in self.terms.items() if value is not None}
        tags, old_ttl = given.pop("tags", None), given.pop("ttl", None)
        asking: dict[str, Any] = given | {
            "title": cut(self.title.filled(call) if self.title else headline, LONGEST_TITLE),
            "breakpoint_id": given.get("breakpoint_id") or gate_of(self.name),
            "agent_id": given.get("agent_id") or agent_name(),
            "tags": tags(*bound.args, **bound.kwargs) if callable(tags) else tags,
            "ttl_seconds": given.get("ttl_seconds") or old_ttl,
            "editable": list(call.editable) or None,
            "payload": {
                "function": self.name,
                "arguments": dict(call.shown),
                "callDigest": digest(self.name, call.shown),
            }
            | ({HIDDEN: list(self.hide)} if self.hide else {}),
        }
        question = self.question.filled(call) if self.question else headline
        return Asked(call, question, cast("Asking", asking))


def _check_names(signature: inspect.Signature, editable: Sequence[str], hide: Sequence[str], terms: Terms) -> None:
    # Reviewers edit single arguments by name, so *args and **kwargs cannot be editable.
    plain = {name for name, each in signature.parameters.items() if each.kind not in _FIXED}
    if isinstance(editable, str) or isinstance(hide, str):
        raise TypeError('editable and hide take a tuple of names, for example hide=("password",).')
    if "ttl" in terms and "ttl_seconds" in terms:
        raise TypeError("ttl is the old name of ttl_seconds. Set only ttl_seconds.")
    check_choices(terms)
    if hide and terms.get("auto_approve_after_n"):
        raise InvalidRequest(
            "hide and auto_approve_after_n cannot be combined: reviewers do not see hidden arguments, so earlier"
            " approvals do not cover the next call."
        )
    if wrong := (set(editable) - plain) | (set(editable) & set(hide)):
        msg = f"These arguments cannot be editable because they are unknown or hidden: {', '.join(sorted(wrong))}."
        raise ValueError(msg)


def gate_of(function: str) -> str:
    """Return the gate of a function from its module and name, so that a rule for one does not affect another."""
    words = function.replace("<locals>", "local").replace("<lambda>", "lambda").split(".")
    return slug(".".join(["call", *(word.strip("_") or "-" for word in words)]))


def _patient(kind: type[Client]) -> Client:
    from assent.sdk.breakpoints import PATIENCE  # noqa: PLC0415  # imports the terminal and the rules

    return kind(patience=PATIENCE, on_trouble=Notices())


def _ask(asked: Asked, client: Assent | None) -> inspect.BoundArguments:
    from assent.sdk import breakpoints  # noqa: PLC0415  # imports the terminal and the rules

    if client is None and (current.get() is not None or not breakpoints.server_is_set()):
        _refuse_unchecked()
        return asked.call.released(passed(breakpoints.breakpoint(asked.question, **asked.asking)))
    mine = contextlib.nullcontext(client) if client is not None else _patient(Assent)
    # Choose the key here, so that an exiting program can find and cancel the question before its ID has arrived.
    key = uuid.uuid4().hex
    with mine as assent:
        raised, ended = assent.perform(_answered(assent.calls, asked, key))
        return assent.perform(released(assent.calls, asked, raised, ended))


def _refuse_unchecked() -> None:
    """Raise if a receipt key is pinned, because a terminal issues no receipts; in a run, the server itself asks."""
    if current.get() is None:
        refuse_unchecked(os.environ)


def _answered(calls: Calls, asked: Asked, key: str) -> Flow[tuple[Breakpoint, Status]]:
    """Ask and wait; if the caller exits, cancel the question, because the function would not run."""
    yield cancellation(calls, key, asked.question, asked.asking)
    raised = yield from calls.create(asked.question, idempotency_key=key, **asked.asking)
    return raised, (yield from calls.wait(raised.id))


async def _ask_async(asked: Asked, client: AsyncAssent | None) -> inspect.BoundArguments:
    from assent.sdk import breakpoints  # noqa: PLC0415  # imports the terminal and the rules

    if client is None and (current.get() is not None or not breakpoints.server_is_set()):
        _refuse_unchecked()
        return asked.call.released(passed(await breakpoints.abreakpoint(asked.question, **asked.asking)))
    mine = contextlib.nullcontext(client) if client is not None else _patient(AsyncAssent)
    key = uuid.uuid4().hex
    async with mine as assent:
        raised, ended = await assent.perform(_answered(assent.calls, asked, key))
        return await assent.perform(released(assent.calls, asked, raised, ended))


def released(calls: Calls, asked: Asked, raised: Breakpoint, ended: Status) -> Flow[inspect.BoundArguments]:
    """Check the arguments against the receipt, consume it, and return the arguments to run with."""
    result = granted(ended)
    bound = asked.call.released(result)
    receipt = yield from calls.receipt(raised.id)
    approval = receipt.approval
    # The digest does not cover edits, so compare them with those that the receipt signs.
    if (approval.edits or {}) != (result.edits or {}):
        raise ReceiptMismatch("The changes in the receipt differ from those in the answer. Nothing was run.")
    expected = content_digest(asked.body, project=approval.project)
    # If they differ, reviewers may not have seen the call that is about to run.
    if raised.digest != expected:
        raise DigestMismatch("The question on the server differs from the question that was sent. Nothing was run.")
    agent, gate = asked.body["agentId"], asked.body["payload"]["breakpointId"]
    yield from calls.consume_receipt(receipt, digest=expected, agent_id=agent, gate=gate)
    # Check the arguments again, because they could have changed during the request.
    asked.call.released(result)
    return bound
