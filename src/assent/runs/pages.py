"""Run pages: a list, a page for each run with its steps and live log, and forms to start, cancel and retry runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.api.content import CLOSED
from assent.breakpoints.usecases.lifecycle import Once
from assent.core.access import Permission
from assent.core.canonical import Json, canonical, is_array, is_object, sha256, strict_loads
from assent.core.errors import AssentError, InvalidRequest, MalformedJson, NotFound
from assent.core.plurals import plural
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.http.problems import STATUS
from assent.http.query import RUN_ID, known_run_id
from assent.runs.model import SETTLED, Run, RunState, Step, StepKind, StepState, Written
from assent.runs.processes import FolderOfProcesses
from assent.runs.usecases.runs import NewRun, RunService, WholeRun, controls
from assent.web import filters as render
from assent.web.site import Site, Visit, large_page, page, redirect, route

PAGE = 50
LOG_LINES = 200
MAX_FILTER = 200
MAX_SHOWN = 20_000
STATES = tuple(each.value for each in RunState)
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
_NEVER_TOLD = {"name", "micros"}


def routes(site: Site) -> list[Route]:
    one = "/runs/{run_id}"
    return [
        route("/runs", listing, site),
        route("/runs/start", start_form, site),
        route("/runs/start", start, site, method="POST", draft=start_draft),
        route(one, run_page, site),
        route(one + "/live", live, site),
        route(one + "/inputs", inputs, site),
        route(one + "/result", result, site),
        route(one + "/files/{path:path}", file, site),
        route(one + "/cancel", cancel_form, site),
        route(one + "/cancel", cancel, site, method="POST"),
        route(one + "/retry", retry_form, site),
        route(one + "/retry", retry, site, method="POST"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters in the URL."""

    state: str = ""
    process: str = ""
    trigger: str = ""
    cursor: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.state or self.process or self.trigger)

    @property
    def wanted(self) -> dict[str, str]:
        given = {"state": self.state, "process": self.process, "trigger_name": self.trigger}
        return {name: value for name, value in given.items() if value}

    def address(self, **changes: str) -> str:
        changed = replace(self, **changes)
        given = [(name, getattr(changed, name)) for name in ("state", "process", "trigger", "cursor")]
        text = urlencode([(name, value) for name, value in given if value])
        return f"/runs?{text}" if text else "/runs"


def filters(params: QueryParams) -> Filters:
    found = Filters(**{name: params.get(name, "").strip() for name in ("state", "process", "trigger", "cursor")})
    if found.state and found.state not in STATES:
        raise InvalidRequest.at("state", f"must be one of {', '.join(STATES)}")
    if found.cursor and not RUN_ID.fullmatch(found.cursor):
        raise InvalidRequest.at("cursor", "is not a cursor from this list")
    for name in ("process", "trigger"):
        value: str = getattr(found, name)
        if len(value) > MAX_FILTER or "\x00" in value:
            raise InvalidRequest.at(name, f"must have at most {MAX_FILTER} characters and must not contain NUL")
    return found


async def listing(visit: Visit) -> Response:
    asked = filters(visit.request.query_params)
    use_case = partial(
        visit.site[RunService].page, filters=asked.wanted, by=visit.who, before=asked.cursor or None, limit=PAGE + 1
    )
    found = await visit.site.database.read(use_case)
    now = visit.site.clock.now()
    return page(
        "runs.html",
        visit=visit,
        now=now,
        asked=asked,
        states=STATES,
        runs=[(run, lasted(run, now)) for run in found[:PAGE]],
        next_page=asked.address(cursor=found[PAGE - 1].id) if len(found) > PAGE else None,
    )


def lasted(run: Run, now: int) -> str:
    return duration((run.ended_at or now) - run.created_at)


def duration(micros: int) -> str:
    """Format a duration with one or two units."""
    seconds = max(0, micros) / SECOND
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  # tenths are useful below 10 s
    whole = round(seconds)
    for size, name, smaller, part in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


@dataclass(frozen=True, slots=True)
class Shown:
    """A JSON value as text, truncated if it is long; `more` is the number of omitted characters."""

    text: str
    more: int = 0


def shown(value: Json) -> Shown:
    text = value if isinstance(value, str) else render.pretty(value)
    return Shown(text[:MAX_SHOWN], max(0, len(text) - MAX_SHOWN))


@dataclass(frozen=True, slots=True)
class Told:
    """One step on the timeline."""

    step: Step
    indent: int
    took: str
    outcome: Shown | None
    error: str | None

    @property
    def waits(self) -> bool:
        return self.step.kind is StepKind.BREAKPOINT and self.step.state is StepState.WAITING


def told_step(step: Step, now: int, *, ended: bool) -> Told:
    settled = step.state in SETTLED
    over = step.ended_at is not None or ended
    says = settled and step.kind in {StepKind.TASK, StepKind.BREAKPOINT} and step.outcome is not None
    return Told(
        step,
        indent=min(step.path.count("."), 4),
        took=duration((step.ended_at or now) - step.started_at) if step.ended_at or not over else "",
        outcome=shown(step.outcome) if says else None,
        error=reason(step.error) if step.error else None,
    )


def reason(error: Mapping[str, Json]) -> str:
    return ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the log."""

    line: Written
    text: str


def said(line: Written) -> Said:
    """Format a journal line: log messages unchanged, and other lines with their data."""
    known = {name: value for name, value in line.data.items() if name not in _NEVER_TOLD}
    words = [str(line.data["name"])] if line.data.get("name") else []
    if isinstance(known.get("message"), str):
        words.append(known.pop("message"))
    error: Json = known.pop("error", None)
    if is_object(error):
        words.append(reason(error))
    words += [f"{name} {_plain(value)}" for name, value in known.items() if value is not None]
    text = " · ".join(words)
    return Said(
        line,
        text
        if len(text) <= MAX_SHOWN
        else text[:MAX_SHOWN] + f"… and {plural(len(text) - MAX_SHOWN, 'more character')}",
    )


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    return render.pretty(value) if is_object(value) or is_array(value) else str(value)


@dataclass(frozen=True, slots=True)
class Sight:
    """A consistent snapshot of a run and the displayed part of its journal."""

    whole: WholeRun
    lines: Sequence[Written]
    first: int

    @property
    def mark(self) -> str:
        """A hash of everything that the live part of the page shows."""
        steps = [[each.path, each.state.value, each.attempts] for each in self.whole.steps]
        return sha256(canonical([self.whole.run.state.value, self.whole.run.lines, self.first, steps]))[:16]


def look(tx: Transaction, *, visit: Visit, run_id: str, before: int | None) -> Sight:
    whole = visit.site[RunService].get(tx, run_id, by=visit.who)
    last = whole.run.lines if before is None else min(before, whole.run.lines)
    first = max(0, last - LOG_LINES)
    lines = visit.site[RunService].journal(tx, run_id, by=visit.who, after=first, limit=last - first) if last else []
    return Sight(whole, lines, first)


async def _sight(visit: Visit) -> Sight:
    run_id, before = known_run_id(visit.request.path_params["run_id"]), visit.request.query_params.get("before", "")
    if before and not (before.isascii() and before.isdigit() and len(before) < 16):  # noqa: PLR2004  # no journal has that many lines
        raise InvalidRequest.at("before", "is not a line number")
    use_case = partial(look, visit=visit, run_id=run_id, before=int(before) if before else None)
    return await visit.site.database.read(use_case)


def _live_values(visit: Visit, sight: Sight) -> dict[str, Any]:
    run, now = sight.whole.run, visit.site.clock.now()
    steps = [told_step(each, now, ended=run.ended) for each in sight.whole.steps]
    return {
        "visit": visit,
        "now": now,
        "run": run,
        "lasted": lasted(run, now),
        "error": reason(run.error) if run.error else None,
        "steps": steps,
        "waiting": [] if run.ended else [each for each in steps if each.waits],
        "lines": [said(each) for each in sight.lines],
        "first": sight.first,
        "before": visit.request.query_params.get("before", ""),
        "mark": sight.mark,
        "controls": controls(run, visit.who),
    }


async def run_page(visit: Visit) -> Response:
    sight = await _sight(visit)
    run = sight.whole.run
    return await large_page(
        "run.html",
        **_live_values(visit, sight),
        inputs=shown(run.inputs),
        output=shown(run.output) if run.state is RunState.DONE else None,
        files=[(each, render.file_size(each.size), quote(each.path)) for each in sight.whole.files],
    )


async def live(visit: Visit) -> Response:
    """Return the live part of the page, or 204 if it has not changed."""
    sight = await _sight(visit)
    if visit.request.query_params.get("seen") == sight.mark:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    return await large_page("run_live.html", **_live_values(visit, sight))


async def inputs(visit: Visit) -> Response:
    return _download((await _whole(visit)).run.inputs, "inputs.json")


async def result(visit: Visit) -> Response:
    run = (await _whole(visit)).run
    if run.state is not RunState.DONE:
        msg = f"This run is {run.state}. Only completed runs have a result."
        raise NotFound(msg)
    return _download(run.output, "result.json")


async def file(visit: Visit) -> Response:
    run_id, path = known_run_id(visit.request.path_params["run_id"]), visit.request.path_params["path"]
    use_case = partial(visit.site[RunService].content, run_id=run_id, path=path, by=visit.who)
    return _attachment(await visit.site.database.read(use_case), path.rsplit("/", 1)[-1])


def _download(value: Json, name: str) -> Response:
    return _attachment(render.pretty(value).encode(), name)


def _attachment(content: bytes, name: str) -> Response:
    headers = {
        # A process chose this content, so it must not run scripts even if a browser displays it.
        "Content-Security-Policy": CLOSED,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "Cache-Control": "private, no-store",
    }
    return Response(content, 200, headers, "application/octet-stream")


async def _whole(visit: Visit) -> WholeRun:
    run_id = known_run_id(visit.request.path_params["run_id"])
    return await visit.site.database.read(partial(visit.site[RunService].get, run_id=run_id, by=visit.who))


async def start_form(visit: Visit) -> Response:
    visit.who.require(Permission.CREATE)
    return await _start_page(visit, {"process": visit.request.query_params.get("process", "")[:MAX_FILTER]})


async def _start_page(visit: Visit, typed: Mapping[str, str], error: AssentError | None = None) -> Response:
    processes = await asyncio.to_thread(visit.site[FolderOfProcesses].every)
    if error is not None and all(each.problem is not None for each in processes):
        raise error  # this page would have no form, whereas the error page shows the submitted text
    return page(
        "run_start.html",
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        processes=[each for each in processes if each.problem is None],
        broken=[each for each in processes if each.problem is not None],
        typed=typed,
        # Submitting the same form twice starts only one run; after an error, the form gets a new idempotency key.
        once=visit.site.ids.new("form", visit.site.clock.now()),
        problem=_words(error) if error else None,
        at_inputs=isinstance(error, MalformedJson),
    )


def _words(error: AssentError) -> str:
    if isinstance(error, MalformedJson):
        return f"The inputs are not valid JSON: {error.message}"
    return error.message


async def start(visit: Visit) -> Response:
    visit.who.require(Permission.CREATE)
    try:
        run = await _start(visit)
    except AssentError as error:
        return await _start_page(visit, visit.form, error)
    return redirect(f"/runs/{run.id}")


async def start_draft(visit: Visit, error: AssentError) -> Response:
    visit.who.require(Permission.CREATE)
    return await _start_page(visit, visit.form, error)


async def _start(visit: Visit) -> Run:
    site, form = visit.site, visit.form
    name, text = form.get("process", ""), form.get("inputs", "").strip()
    found = await asyncio.to_thread(site[FolderOfProcesses].find, name) if name else None
    if found is None:
        raise InvalidRequest.at("/process", "choose a process that exists on this server")
    given: Json = strict_loads(text.encode()) if text else {}
    site.creates.take(visit.who.id, per_minute=visit.who.creates_per_minute, what="runs")
    new = NewRun(found.name, found.version, given, found.name)
    key = form.get("once", "")[:60]
    once = Once(key, sha256(canonical(["run", name, given]))) if key else None
    return await site.database.write(partial(site[RunService].start, new=new, by=visit.who, once=once))


async def cancel_form(visit: Visit) -> Response:
    return await _confirm_page(visit, "cancel")


async def retry_form(visit: Visit) -> Response:
    return await _confirm_page(visit, "retry")


async def _confirm_page(visit: Visit, action: str) -> Response:
    whole = await _whole(visit)
    waiting = [each for each in whole.steps if each.kind is StepKind.BREAKPOINT and each.state is StepState.WAITING]
    return page(
        "run_confirm.html",
        visit=visit,
        now=visit.site.clock.now(),
        run=whole.run,
        action=action,
        waiting=len(waiting),
        possible=whole.run.state is RunState.FAILED if action == "retry" else not whole.run.ended,
        allowed=controls(whole.run, visit.who),
        error=reason(whole.run.error) if whole.run.error else None,
    )


async def cancel(visit: Visit) -> Response:
    return await _change(visit, visit.site[RunService].cancel)


async def retry(visit: Visit) -> Response:
    return await _change(visit, visit.site[RunService].retry)


async def _change(visit: Visit, use_case: Any) -> Response:  # noqa: ANN401  # a method of the run service
    run_id = known_run_id(visit.request.path_params["run_id"])
    await visit.site.database.write(partial(use_case, run_id=run_id, by=visit.who))
    return redirect(f"/runs/{run_id}")
