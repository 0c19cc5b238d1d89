"""LangGraph and LangChain: creates a breakpoint for each question in an interrupt and resumes the thread.

The core is a flow, as in the SDK. It calls the graph through listeners that use either `invoke` or `ainvoke`, which is
the only difference between `run` and `arun`.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, Unpack, cast

from pydantic import ValidationError

from assent.agents.interrupts import OWN_TYPE, Question, Review, Ruling, own_review, question_of
from assent.contracts.breakpoints import Breakpoint
from assent.core.canonical import Json, canonical, is_object
from assent.sdk.aio import AsyncAssent
from assent.sdk.breakpoints import PATIENCE
from assent.sdk.calls import Calls
from assent.sdk.client import Assent
from assent.sdk.errors import AssentError, IdempotencyMismatch, InvalidRequest, NotApproved
from assent.sdk.keywords import strict
from assent.sdk.protocol import Flow, Said, Tell
from assent.sdk.tool_calls import Terms, ToolCall, asking, refused, unasked

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.errors import is_invalid_resume
    from langgraph.types import Command, StateSnapshot, interrupt
except ImportError as missing:
    raise ImportError(
        "LangGraph is not installed. Run: pip install 'assent[langgraph]'", name=missing.name
    ) from missing

__all__ = ["Answer", "Graph", "Progress", "aask", "approval", "aresume", "arun", "ask", "resume", "run"]

STRICT_RESUME = "__pregel_strict_resume"
"""Makes LangGraph reject an answer to an interrupt that is no longer pending, instead of passing it on."""
Result = TypeVar("Result")


class Graph(Protocol):
    """The methods required of a compiled graph or agent, which must have a checkpointer to store its threads."""

    def get_state(self, config: RunnableConfig) -> StateSnapshot: ...
    def aget_state(self, config: RunnableConfig) -> Awaitable[StateSnapshot]: ...
    def invoke(self, input: Any, config: RunnableConfig, *, context: Any) -> Any: ...  # noqa: A002, ANN401  # theirs
    def ainvoke(self, input: Any, config: RunnableConfig, *, context: Any) -> Awaitable[Any]: ...  # noqa: A002, ANN401  # the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of `approval` in a node; true only after an explicit approval of this exact call."""

    approved: bool
    reason: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments to use, including the reviewer's changes; empty without an approval."""

    def __bool__(self) -> bool:
        return self.approved is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a thread got without waiting for an answer."""

    ended: bool
    """Whether the graph has finished."""
    output: Any
    """The state of the graph."""
    waiting: Sequence[str] = ()
    """The breakpoints that are still pending."""


def approval(tool: str, arguments: Mapping[str, Any], *, question: str = "", editable: Sequence[str] = ()) -> Answer:
    """Ask, from inside a node or a tool, whether the tool may run with these arguments.

    This calls `interrupt()`, so the node restarts from the beginning once there is an answer. An answer to another
    call, or a value passed by other code that resumes the thread, is not an approval.
    """
    asked = {"type": OWN_TYPE, "tool": tool, "arguments": dict(arguments)}
    review = own_review(asked)
    answer: Json = interrupt(asked | {"question": question, "editable": list(editable)})
    # The node runs again from the beginning, so its arguments may differ from those that were approved.
    if not is_object(answer) or answer.get("callDigest") != review.digest:
        return Answer(approved=False, reason=refused("The answer is for a different call.").reason)
    said: Json = answer.get("arguments")
    return Answer(
        approved=answer.get("approved") is True and is_object(said),
        reason=str(answer.get("reason")),
        arguments=said if is_object(said) else {},
    )


@strict
def run(
    graph: Graph,
    given: Any,  # noqa: ANN401  # the graph's input type
    config: RunnableConfig,
    *,
    client: Assent | None = None,
    context: Any = None,  # noqa: ANN401  # the graph's type
    **terms: Unpack[Terms],
) -> Any:  # noqa: ANN401  # the graph's type
    """Run a graph to its end, asking reviewers about every interrupt, and return what `invoke` returns.

    `given` starts a new turn. If the thread has an unfinished turn, that turn continues instead.
    """
    thread = _thread(graph, config, context)
    with contextlib.nullcontext(client) if client is not None else Assent(patience=PATIENCE) as assent:
        return assent.perform(_driving(_Desk(assent.calls, thread.id, terms), thread, given))


@strict
async def arun(
    graph: Graph,
    given: Any,  # noqa: ANN401  # the graph's input type
    config: RunnableConfig,
    *,
    client: AsyncAssent | None = None,
    context: Any = None,  # noqa: ANN401  # the graph's type
    **terms: Unpack[Terms],
) -> Any:  # noqa: ANN401  # the graph's type
    """Do the same as `run` without blocking the event loop."""
    thread = _athread(graph, config, context)
    async with contextlib.nullcontext(client) if client is not None else AsyncAssent(patience=PATIENCE) as assent:
        return await assent.perform(_driving(_Desk(assent.calls, thread.id, terms), thread, given))


@strict
def ask(
    graph: Graph, config: RunnableConfig, *, client: Assent | None = None, **terms: Unpack[Terms]
) -> Sequence[Breakpoint]:
    """Create a breakpoint for each question that the thread is interrupted for, and return them without waiting."""
    thread = _thread(graph, config, None)
    with contextlib.nullcontext(client) if client is not None else Assent() as assent:
        return assent.perform(_asking(_Desk(assent.calls, thread.id, terms), thread))


@strict
async def aask(
    graph: Graph, config: RunnableConfig, *, client: AsyncAssent | None = None, **terms: Unpack[Terms]
) -> Sequence[Breakpoint]:
    """Do the same as `ask` without blocking the event loop."""
    thread = _athread(graph, config, None)
    async with contextlib.nullcontext(client) if client is not None else AsyncAssent() as assent:
        return await assent.perform(_asking(_Desk(assent.calls, thread.id, terms), thread))


@strict
def resume(
    graph: Graph,
    config: RunnableConfig,
    *,
    client: Assent | None = None,
    context: Any = None,  # noqa: ANN401  # the graph's type
    **terms: Unpack[Terms],
) -> Progress:
    """Resume a thread if all of its questions have been decided; ask any new questions. Does not wait."""
    thread = _thread(graph, config, context)
    with contextlib.nullcontext(client) if client is not None else Assent() as assent:
        return assent.perform(_progressing(_Desk(assent.calls, thread.id, terms), thread))


@strict
async def aresume(
    graph: Graph,
    config: RunnableConfig,
    *,
    client: AsyncAssent | None = None,
    context: Any = None,  # noqa: ANN401  # the graph's type
    **terms: Unpack[Terms],
) -> Progress:
    """Do the same as `resume` without blocking the event loop."""
    thread = _athread(graph, config, context)
    async with contextlib.nullcontext(client) if client is not None else AsyncAssent() as assent:
        return await assent.perform(_progressing(_Desk(assent.calls, thread.id, terms), thread))


def _questions(state: StateSnapshot) -> list[Question]:
    return [
        question_of(each.id, each.value, schema=each.response_schema, node=task.name)
        for task in state.tasks
        for each in task.interrupts
    ]


@dataclass(frozen=True, slots=True)
class _Unfit:
    """LangGraph rejected an answer that does not have the expected type."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thread:
    """A thread of a graph, and the functions that read and advance it."""

    id: str
    look: Callable[[None], object]
    move: Callable[[Any], object]
    stops: bool
    """Whether the graph stops at nodes without asking a question."""

    def read(self) -> Flow[StateSnapshot]:
        said = yield Tell(self.look, None)
        assert isinstance(said, Said)
        return cast("StateSnapshot", said.answer)

    def tried(self, given: Any) -> Flow[Any]:  # noqa: ANN401  # the graph's type
        said = yield Tell(self.move, given)
        assert isinstance(said, Said)
        return said.answer

    def moved(self, given: Any) -> Flow[Any]:  # noqa: ANN401  # the graph's type
        output = yield from self.tried(given)
        if isinstance(output, _Unfit):
            raise NotApproved(f"The graph rejected the answer: {output.why}.")
        return output

    def begun(self, state: StateSnapshot, given: Any) -> Flow[Any]:  # noqa: ANN401  # the graph's type
        """Start a turn, or continue an unfinished one."""
        # The graph was compiled to stop before or after nodes, and continuing would skip that stop without approval.
        if state.next and self.stops:
            raise _stopped(state)
        if state.next:
            return (yield from self.moved(None))
        return state.values if given is None else (yield from self.moved(given))


def _stopped(state: StateSnapshot) -> NotApproved:
    msg = f"The graph stopped at {', '.join(state.next)} without asking a question. Call interrupt() there."
    return NotApproved(msg)


def _thread(graph: Graph, config: RunnableConfig, context: Any) -> _Thread:  # noqa: ANN401  # the graph's type
    thread_id, strictly = _configured(config)

    def move(given: Any) -> object:  # noqa: ANN401  # the graph's type
        try:
            return graph.invoke(given, strictly, context=context)
        except ValidationError as error:
            return _unfit(error)

    return _Thread(id=thread_id, look=lambda _: graph.get_state(config), move=move, stops=_stops(graph))


def _athread(graph: Graph, config: RunnableConfig, context: Any) -> _Thread:  # noqa: ANN401  # the graph's type
    thread_id, strictly = _configured(config)

    async def move(given: Any) -> object:  # noqa: ANN401  # the graph's type
        try:
            return await graph.ainvoke(given, strictly, context=context)
        except ValidationError as error:
            return _unfit(error)

    return _Thread(id=thread_id, look=lambda _: graph.aget_state(config), move=move, stops=_stops(graph))


def _unfit(error: ValidationError) -> _Unfit:
    if not is_invalid_resume(error):
        raise error
    return _Unfit("; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors() if each["loc"]))


def _configured(config: RunnableConfig) -> tuple[str, RunnableConfig]:
    inside = config.get("configurable") or {}
    if not inside.get("thread_id"):
        raise InvalidRequest('The config does not specify a thread. Set {"configurable": {"thread_id": …}}.')
    if inside.get("checkpoint_id"):
        # The interrupts of a past checkpoint have been answered, and their approvals must not be used a second time.
        raise InvalidRequest("Remove checkpoint_id from the config: only the current state can be resumed.")
    return str(inside["thread_id"]), {**config, "configurable": {**inside, STRICT_RESUME: True}}


def _stops(graph: Graph) -> bool:
    return any(getattr(graph, name, None) for name in ("interrupt_before_nodes", "interrupt_after_nodes"))


@dataclass(frozen=True, slots=True)
class _Put:
    """A review, and the breakpoint that was created for it."""

    review: Review
    call: ToolCall
    raised: Breakpoint


def _each(flows: Iterable[Flow[Result]]) -> Flow[list[Result]]:
    found: list[Result] = []
    for flow in flows:
        found.append((yield from flow))  # noqa: PERF401  # a comprehension cannot yield
    return found


@dataclass(frozen=True, slots=True)
class _Desk:
    """Asks the questions of one thread."""

    calls: Calls
    thread: str
    terms: Terms

    def put_all(self, questions: Sequence[Question]) -> Flow[list[_Put]]:
        return _each(self._put(each, at) for each in questions for at in range(len(each.reviews)))

    def decided(self, questions: Sequence[Question]) -> Flow[list[Ruling]]:
        """Ask all questions, then wait for all decisions; a question that cannot be asked is a refusal."""
        tried = yield from _each(self._tried(each, at) for each in questions for at in range(len(each.reviews)))
        return (yield from _each(self._waited(each) for each in tried))

    def _put(self, question: Question, position: int) -> Flow[_Put]:
        review = question.reviews[position]
        call = review.call(self.thread, question.id, position)
        said = asking(call, self.terms)
        said.update(cast("Any", review.more))
        try:
            raised = yield from self.calls.create(call.question, idempotency_key=call.key, **said)
        except IdempotencyMismatch:
            # The same question was asked before with different terms, or by a program with a different name.
            raised = yield from self._raised_before(call)
        return _Put(review, call, raised)

    def _raised_before(self, call: ToolCall) -> Flow[Breakpoint]:
        # The error does not identify the earlier breakpoint, so search for it among this run's questions.
        page = yield from self.calls.list(run_id=call.run_id, gate=call.gate, limit=200)
        for each in page.items:
            found = yield from self.calls.get(each.id)
            if all(canonical(found.payload.get(name)) == canonical(value) for name, value in call.payload.items()):
                return found
        raise IdempotencyMismatch(
            f"A question about {call.tool} was already asked with different terms, but it cannot be found."
        )

    def _tried(self, question: Question, position: int) -> Flow[_Put | Ruling]:
        try:
            return (yield from self._put(question, position))
        except AssentError as error:
            # Kept under another name, because Python deletes `error` at the end of the except block.
            trouble = error
        return question.reviews[position].refusal(unasked(trouble).reason)

    def _waited(self, put: _Put | Ruling) -> Flow[Ruling]:
        if isinstance(put, Ruling):
            return put
        try:
            status = yield from self.calls.wait(put.raised.id)
        except AssentError as error:
            return put.review.refusal(unasked(error).reason)
        return put.review.ruling(put.call, status)


def _driving(desk: _Desk, thread: _Thread, given: Any) -> Flow[Any]:  # noqa: ANN401  # the graph's type
    state = yield from thread.read()
    output = state.values
    if not state.interrupts:
        output = yield from thread.begun(state, given)
        state = yield from thread.read()
    answered: set[str] = set()
    # Answers may let the graph continue to further interrupts, so read the state again after each batch.
    while questions := _questions(state):
        _refuse_again(questions, answered)
        rulings = yield from desk.decided(questions)
        output = yield from _sent(thread, questions, rulings)
        state = yield from thread.read()
    if state.next:
        raise _stopped(state)
    return output


def _asking(desk: _Desk, thread: _Thread) -> Flow[Sequence[Breakpoint]]:
    state = yield from thread.read()
    puts = yield from desk.put_all(_questions(state))
    return [each.raised for each in puts]


def _progressing(desk: _Desk, thread: _Thread) -> Flow[Progress]:
    state = yield from thread.read()
    answered: set[str] = set()
    while questions := _questions(state):
        _refuse_again(questions, answered)
        puts = yield from desk.put_all(questions)
        found = yield from _each(desk.calls.status(each.raised.id) for each in puts)
        waiting = [put.raised.id for put, status in zip(puts, found, strict=True) if not status.ended]
        if waiting:
            return Progress(ended=False, output=state.values, waiting=waiting)
        rulings = [put.review.ruling(put.call, status) for put, status in zip(puts, found, strict=True)]
        yield from _sent(thread, questions, rulings)
        state = yield from thread.read()
    return Progress(ended=not state.next, output=state.values)


def _refuse_again(questions: Sequence[Question], answered: set[str]) -> None:
    # In older LangGraph versions, a node's questions share an ID, so the answer to one would also be used for the next.
    again = answered.intersection(each.id for each in questions)
    if again:
        raise NotApproved(f"Interrupt {again.pop()} has already been answered, but the graph raised it again.")
    answered.update(each.id for each in questions)


def _sent(thread: _Thread, questions: Sequence[Question], rulings: Sequence[Ruling]) -> Flow[Any]:
    """Resume with all answers in one batch, except those that might not have the expected type.

    If LangGraph rejects one answer in a batch, it forgets that the tasks for the other answers have run. Answers that
    might be rejected are therefore sent first, one at a time.
    """
    left = iter(rulings)
    every = [(each, [next(left) for _ in each.reviews]) for each in questions]
    values = {question.id: question.told(mine) for question, mine in every}
    alone = [(question, mine[0]) for question, mine in every if mine[0].kind in question.may_not_fit]
    output: Any = None
    for question, ruling in alone:
        output = yield from _sent_alone(thread, question, ruling, values.pop(question.id))
    return (yield from thread.moved(Command(resume=values))) if values else output


def _sent_alone(thread: _Thread, question: Question, ruling: Ruling, value: Any) -> Flow[Any]:  # noqa: ANN401  # any
    output = yield from thread.tried(Command(resume={question.id: value}))
    if not isinstance(output, _Unfit):
        return output
    (review,) = question.reviews
    why = refused(f"The reviewer's answer is not valid for {ruling.tool}: {output.why}.").reason
    return (yield from thread.moved(Command(resume={question.id: question.told([review.refusal(why)])})))
