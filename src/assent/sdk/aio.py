"""The asynchronous client, with the same calls as the synchronous client. Cancelling a call closes its request."""

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import httpx2

from assent.contracts.breakpoints import Event
from assent.sdk import connection
from assent.sdk.calls import Calls
from assent.sdk.client import cancel_now
from assent.sdk.connection import Connection, Fixed
from assent.sdk.errors import AlreadyEnded, AssentError
from assent.sdk.keywords import strict
from assent.sdk.leaving import LAST_WORDS, not_cancelled, questions
from assent.sdk.pending import Pending, issued, marked
from assent.sdk.protocol import (
    Cancellation,
    Deed,
    Flow,
    Lines,
    Lost,
    Outcome,
    Reply,
    Request,
    Said,
    Tell,
    bounded,
)
from assent.sdk.waits import Hear, Heard, Listen, StreamOutcome, following

Result = TypeVar("Result")
Given = ParamSpec("Given")


def _performing(
    call: Callable[Concatenate[Calls, Given], Flow[Result]],
) -> Callable[Concatenate["AsyncAssent", Given], Coroutine[Any, Any, Result]]:
    checked = strict(call)

    @functools.wraps(call)
    def method(self: "AsyncAssent", /, *given: Given.args, **named: Given.kwargs) -> Coroutine[Any, Any, Result]:
        flow = checked(self.calls, *given, **named)
        return Pending(issued(f"client.{call.__name__}"), lambda: self.perform(flow))

    marked(method)
    return method


class AsyncAssent:
    """An asynchronous client with the same calls as Assent.

    `on_event` and `on_comment` of a wait can be async functions. Cancelling a call closes its request.
    """

    @strict
    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: float = 10.0,
        on_trouble: Callable[[str], None] | None = None,
        fixed: Fixed | None = None,
    ) -> None:
        self._to = Connection(url, token, fixed)
        self.url = self._to.url
        self.calls = Calls(self._to.pace, patience)
        self._on_trouble = on_trouble
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            headers=self._to.headers,
            trust_env=self._to.trust_env,
            proxy=self._to.proxy,
            verify=self._to.verify,
            limits=connection.LIMITS,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    create = _performing(Calls.create)
    require_approval = _performing(Calls.require_approval)
    get = _performing(Calls.get)
    status = _performing(Calls.status)
    wait = _performing(Calls.wait)
    list = _performing(Calls.list)
    events = _performing(Calls.events)
    comment = _performing(Calls.comment)
    approve = _performing(Calls.approve)
    reject = _performing(Calls.reject)
    feedback = _performing(Calls.feedback)
    cancel = _performing(Calls.cancel)
    upload = _performing(Calls.upload)
    create_token = _performing(Calls.create_token)
    file = _performing(Calls.file)
    receipt = _performing(Calls.receipt)
    receipt_keys = _performing(Calls.receipt_keys)
    consume_receipt = _performing(Calls.consume_receipt)
    processes = _performing(Calls.processes)
    start_run = _performing(Calls.start_run)
    run = _performing(Calls.run)
    runs = _performing(Calls.runs)
    wait_for_run = _performing(Calls.wait_for_run)
    journal = _performing(Calls.journal)
    run_file = _performing(Calls.run_file)
    cancel_run = _performing(Calls.cancel_run)
    retry_run = _performing(Calls.retry_run)
    deliveries = _performing(Calls.deliveries)
    delivery = _performing(Calls.delivery)
    retry_delivery = _performing(Calls.retry_delivery)
    history = _performing(Calls.history)
    rules = _performing(Calls.rules)
    rule = _performing(Calls.rule)
    rule_events = _performing(Calls.rule_events)
    add_rule = _performing(Calls.add_rule)
    change_rule = _performing(Calls.change_rule)
    remove_rule = _performing(Calls.remove_rule)
    check_rules = _performing(Calls.check_rules)
    export_rules = _performing(Calls.export_rules)
    import_rules = _performing(Calls.import_rules)
    backtest = _performing(Calls.backtest)
    shadow = _performing(Calls.shadow)
    channels = _performing(Calls.channels)
    channel = _performing(Calls.channel)
    add_channel = _performing(Calls.add_channel)
    change_channel = _performing(Calls.change_channel)
    remove_channel = _performing(Calls.remove_channel)
    test_channel = _performing(Calls.test_channel)
    channel_links = _performing(Calls.channel_links)
    link = _performing(Calls.link)
    unlink = _performing(Calls.unlink)
    routes = _performing(Calls.routes)
    add_route = _performing(Calls.add_route)
    change_route = _performing(Calls.change_route)
    remove_route = _performing(Calls.remove_route)
    order_routes = _performing(Calls.order_routes)
    check_routes = _performing(Calls.check_routes)
    preferences = _performing(Calls.preferences)
    set_preferences = _performing(Calls.set_preferences)
    sources = _performing(Calls.sources)
    source = _performing(Calls.source)
    add_source = _performing(Calls.add_source)
    change_source = _performing(Calls.change_source)
    remove_source = _performing(Calls.remove_source)
    schedules = _performing(Calls.schedules)
    triggers = _performing(Calls.triggers)
    trigger = _performing(Calls.trigger)
    add_trigger = _performing(Calls.add_trigger)
    check_trigger = _performing(Calls.check_trigger)
    change_trigger = _performing(Calls.change_trigger)
    remove_trigger = _performing(Calls.remove_trigger)
    suspend_trigger = _performing(Calls.suspend_trigger)
    resume_trigger = _performing(Calls.resume_trigger)
    trigger_events = _performing(Calls.trigger_events)
    trigger_event = _performing(Calls.trigger_event)
    replay_event = _performing(Calls.replay_event)
    sketch_trigger = _performing(Calls.sketch_trigger)
    try_triggers = _performing(Calls.try_triggers)
    firings = _performing(Calls.firings)
    retry_firing = _performing(Calls.retry_firing)
    discard_firing = _performing(Calls.discard_firing)

    @strict
    async def stream(
        self, breakpoint_id: str, *, after: int = 0, patience: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield each event with a number above `after` as it happens, up to the event that ends the breakpoint.

        To stop early, close the generator: `async with contextlib.aclosing(client.stream(id)) as events`.
        """
        patience = self.calls.patience if patience is None else patience
        flow = following(breakpoint_id, after=after, pace=self.calls.pace, patience=patience)
        outcome: StreamOutcome = None
        async with contextlib.aclosing(_Ear(self._http, self._to)) as ear:
            while True:
                try:
                    step = flow.send(outcome)
                except StopIteration:
                    return
                outcome = None
                if isinstance(step, Event):
                    yield step
                elif isinstance(step, Listen):
                    outcome = await ear.listen(step.request)
                elif isinstance(step, Hear):
                    outcome = await ear.hear()
                else:
                    outcome = await self._do(step)

    async def perform(self, flow: Flow[Result]) -> Result:
        """Perform the steps of a flow, and return its result."""
        outcome: Outcome = None
        async with contextlib.AsyncExitStack() as asked:
            while True:
                try:
                    step = flow.send(outcome)
                except StopIteration as done:
                    result: Result = done.value
                    return result
                if isinstance(step, Cancellation):
                    await asked.enter_async_context(self._cancelled_if_left(step))
                    outcome = None
                else:
                    outcome = await self._do(step)

    @contextlib.asynccontextmanager
    async def _cancelled_if_left(self, step: Cancellation) -> AsyncGenerator[None, None]:
        key = step.waits_for or object()
        await _parked()
        questions.enter(key, functools.partial(cancel_now, self._to, step.flow))
        try:
            yield
        except AssentError:
            questions.leave(key)
            raise
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit, Exception) as error:
            if step.waits_for is None:
                # Shielded, because the request to cancel would itself be cancelled with its task.
                with anyio.CancelScope(shield=True):
                    await _cancel(self._to, step.flow)
            # If the exception ends the program, its exit cancels the breakpoint, unless the program first waits again.
            questions.leave(key, keep=step.waits_for is not None and isinstance(error, KeyboardInterrupt | SystemExit))
            raise
        else:
            questions.leave(key)
        finally:
            await _parked()

    async def _do(self, step: Deed) -> Outcome:
        if isinstance(step, Request):
            return await self._send(step)
        if isinstance(step, Tell):
            answer = step.listener(step.news)
            return Said(await answer if inspect.isawaitable(answer) else answer)
        if self._on_trouble is not None and step.because:
            self._on_trouble(step.because)
        await anyio.sleep(step.seconds)
        return None

    async def _send(self, request: Request) -> Reply | Lost:
        try:
            async with _opened(self._http, request, connection.timeout(request)) as response:
                body = await (response.aread() if request.on_line is None else _last_line(response, request.on_line))
        except httpx2.RequestError as error:
            return self._to.lost(error)
        return connection.reply(response, body)


async def _parked() -> None:
    if questions.ending:
        # Blocking the thread would also stop the other tasks of the event loop.
        await anyio.sleep_forever()


async def _cancel(to: Connection, flow: Callable[[], Flow[object]]) -> None:
    """Cancel over a separate connection, because the client's connection may be closed."""
    try:
        async with AsyncAssent(to.url, to.token, patience=LAST_WORDS, fixed=to.fixed) as leaving:
            await leaving.perform(bounded(flow(), pace=to.pace, seconds=LAST_WORDS))
    except AlreadyEnded:
        pass
    except AssentError as error:
        not_cancelled(error.message)


def _opened(
    http: httpx2.AsyncClient, request: Request, timeout: httpx2.Timeout
) -> contextlib.AbstractAsyncContextManager[httpx2.Response]:
    return http.stream(
        request.method,
        request.path,
        params=list(request.query),
        headers=dict(request.headers),
        content=request.body,
        timeout=timeout,
    )


async def _last_line(response: httpx2.Response, on_line: Callable[[bytes], None]) -> bytes:
    lines, last = Lines(), b""
    async for chunk in response.aiter_bytes():
        last = connection.last_line(lines.add(chunk), on_line, last)
    return connection.last_line(lines.end(), on_line, last)


class _Ear:
    """Holds at most one open stream."""

    def __init__(self, http: httpx2.AsyncClient, to: Connection) -> None:
        self._http = http
        self._to = to
        self._open = contextlib.AsyncExitStack()
        self._chunks: AsyncIterator[bytes] | None = None

    async def listen(self, request: Request) -> Reply | Lost:
        await self.aclose()
        try:
            response = await self._open.enter_async_context(_opened(self._http, request, connection.silence(request)))
            # Only an error response has a body that ends. The body of a stream is read in pieces by `hear`.
            body = b"" if response.is_success else await response.aread()
        except httpx2.RequestError as error:
            return self._to.lost(error)
        self._chunks = response.aiter_bytes()
        return connection.reply(response, body)

    async def hear(self) -> Heard | Lost:
        try:
            return Heard(await anext(self._chunks, b"") if self._chunks is not None else b"")
        except httpx2.RequestError as error:
            return self._to.lost(error)

    async def aclose(self) -> None:
        await self._open.aclose()
