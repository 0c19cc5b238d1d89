"""The synchronous client, a thin layer that performs the calls."""

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx2

from assent.contracts.breakpoints import Event
from assent.sdk import connection
from assent.sdk.calls import Calls
from assent.sdk.connection import DEFAULT_URL, Connection, Fixed
from assent.sdk.errors import AlreadyEnded, AssentError, BadAddress
from assent.sdk.keywords import strict
from assent.sdk.leaving import LAST_WORDS, not_cancelled, questions
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

__all__ = ["DEFAULT_URL", "Assent", "BadAddress"]

Result = TypeVar("Result")
Given = ParamSpec("Given")


def _performing(
    call: Callable[Concatenate[Calls, Given], Flow[Result]],
) -> Callable[Concatenate["Assent", Given], Result]:
    checked = strict(call)

    @functools.wraps(call)
    def method(self: "Assent", /, *given: Given.args, **named: Given.kwargs) -> Result:
        return self.perform(checked(self.calls, *given, **named))

    return method


class Assent:
    """A synchronous client; its calls are defined in Calls.

    `patience` is how many seconds a call retries while the server is unreachable; `on_trouble` receives the reason.
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
        self._http = httpx2.Client(
            base_url=self.url,
            headers=self._to.headers,
            trust_env=self._to.trust_env,
            proxy=self._to.proxy,
            verify=self._to.verify,
            limits=connection.LIMITS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

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
    def stream(self, breakpoint_id: str, *, after: int = 0, patience: float | None = None) -> Iterator[Event]:
        """Yield each event with a number above `after` as it happens, up to the event that ends the breakpoint."""
        patience = self.calls.patience if patience is None else patience
        flow = following(breakpoint_id, after=after, pace=self.calls.pace, patience=patience)
        outcome: StreamOutcome = None
        with contextlib.closing(_Ear(self._http, self._to)) as ear:
            while True:
                try:
                    step = flow.send(outcome)
                except StopIteration:
                    return
                outcome = None
                if isinstance(step, Event):
                    yield step
                elif isinstance(step, Listen):
                    outcome = ear.listen(step.request)
                elif isinstance(step, Hear):
                    outcome = ear.hear()
                else:
                    outcome = self._do(step)

    def perform(self, flow: Flow[Result]) -> Result:
        """Perform the steps of a flow, and return its result."""
        outcome: Outcome = None
        with contextlib.ExitStack() as asked:
            while True:
                try:
                    step = flow.send(outcome)
                except StopIteration as done:
                    result: Result = done.value
                    return result
                if isinstance(step, Cancellation):
                    asked.enter_context(self._cancelled_if_left(step))
                    outcome = None
                else:
                    outcome = self._do(step)

    @contextlib.contextmanager
    def _cancelled_if_left(self, step: Cancellation) -> Generator[None, None, None]:
        key, cancel = step.waits_for or object(), functools.partial(cancel_now, self._to, step.flow)
        questions.park()
        questions.enter(key, cancel)
        try:
            yield
        except AssentError:
            questions.leave(key)
            raise
        except BaseException as error:
            # Cancel only a question that this call created; a question from another call may still be wanted.
            if step.waits_for is None:
                cancel(LAST_WORDS)
            # If the exception ends the program, its exit cancels the breakpoint, unless the program first waits again.
            questions.leave(key, keep=step.waits_for is not None and isinstance(error, KeyboardInterrupt | SystemExit))
            raise
        else:
            questions.leave(key)
        finally:
            # Never return to a program that is exiting, because its breakpoints are cancelled.
            questions.park()

    def _do(self, step: Deed) -> Outcome:
        if isinstance(step, Request):
            return self._send(step)
        if isinstance(step, Tell):
            return Said(step.listener(step.news))
        if self._on_trouble is not None and step.because:
            self._on_trouble(step.because)
        time.sleep(step.seconds)
        return None

    def _send(self, request: Request) -> Reply | Lost:
        try:
            with _opened(self._http, request, connection.timeout(request)) as response:
                body = response.read() if request.on_line is None else _last_line(response, request.on_line)
        except httpx2.RequestError as error:
            return self._to.lost(error)
        return connection.reply(response, body)


def cancel_now(to: Connection, flow: Callable[[], Flow[object]], seconds: float) -> None:
    """Cancel over a separate connection, because the client's connection may be in use or closed."""
    try:
        with Assent(to.url, to.token, patience=seconds, fixed=to.fixed) as leaving:
            leaving.perform(bounded(flow(), pace=to.pace, seconds=seconds))
    except AlreadyEnded:
        pass
    except AssentError as error:
        not_cancelled(error.message)


def _opened(
    http: httpx2.Client, request: Request, timeout: httpx2.Timeout
) -> contextlib.AbstractContextManager[httpx2.Response]:
    return http.stream(
        request.method,
        request.path,
        params=list(request.query),
        headers=dict(request.headers),
        content=request.body,
        timeout=timeout,
    )


def _last_line(response: httpx2.Response, on_line: Callable[[bytes], None]) -> bytes:
    lines, last = Lines(), b""
    for chunk in response.iter_bytes():
        last = connection.last_line(lines.add(chunk), on_line, last)
    return connection.last_line(lines.end(), on_line, last)


class _Ear:
    """Holds at most one open stream."""

    def __init__(self, http: httpx2.Client, to: Connection) -> None:
        self._http = http
        self._to = to
        self._open = contextlib.ExitStack()
        self._chunks: Generator[bytes, None, None] | Iterator[bytes] = iter(())

    def listen(self, request: Request) -> Reply | Lost:
        self.close()
        try:
            response = self._open.enter_context(_opened(self._http, request, connection.silence(request)))
            # Only an error response has a body that ends. The body of a stream is read in pieces by `hear`.
            body = b"" if response.is_success else response.read()
        except httpx2.RequestError as error:
            return self._to.lost(error)
        self._chunks = response.iter_bytes()
        return connection.reply(response, body)

    def hear(self) -> Heard | Lost:
        try:
            return Heard(next(self._chunks, b""))
        except httpx2.RequestError as error:
            return self._to.lost(error)

    def close(self) -> None:
        self._open.close()
