"""API endpoints that create, read, answer, cancel and expire breakpoints."""

import re
from collections.abc import Callable
from functools import partial

from fastapi import Request
from starlette.responses import Response

from assent.breakpoints.api import views
from assent.breakpoints.api.views import RenderedBreakpoints
from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once, Outcome
from assent.contracts import breakpoints as wire
from assent.contracts.create import CreateBreakpoint
from assent.core.access import Permission, Principal
from assent.core.canonical import Json, canonical, sha256
from assent.core.draft import draft
from assent.core.errors import InvalidRequest
from assent.core.terms import Answer
from assent.http.auth import principal_of
from assent.http.endpoint import JSON, NO_FIELDS, Services, Who, With, checked, read_json, router, services_of
from assent.http.prebuilt import ReadyJson
from assent.http.query import known_id
from assent.kernel.outbound import check_url

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ETAG = re.compile(r'(?:W/)?"v(\d{1,9})"')

breakpoints = router("breakpoints")


def once_of(key: str | None, body: object, *scope: str) -> Once | None:
    """Fingerprint the body and its scope, so that reusing a key for a different breakpoint counts as a mismatch."""
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidRequest.at("header Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    return Once(key, sha256(canonical([*scope, body])))


async def create(request: Request) -> Response:
    """Create a breakpoint; a retry with the same Idempotency-Key returns the existing one."""
    services, who = services_of(request), principal_of(request)
    who.require(Permission.CREATE)
    created = await raised(services, who, await read_json(request), key=request.headers.get("idempotency-key"))
    if isinstance(created, str):
        return await _whole(services, created, who, status=201)
    return _answer(views.whole(created, (), ()), created, status=201)


async def raised(services: Services, who: Principal, sent: Json, *, key: str | None) -> Whole | str:
    """Create a breakpoint and return it, or return the ID of the breakpoint created earlier with the same key."""
    checked(sent, CreateBreakpoint)
    services.creates.take(who.token_id or who.id, per_minute=who.creates_per_minute, what="breakpoints")
    wanted = draft(sent)
    if wanted.callback_url is not None:
        _check_callback(wanted.callback_url, services)
    digest, now = wanted.digest(who.project), services.clock.now()
    use_case = partial(
        services[BreakpointService].create,
        draft=wanted,
        by=who,
        digest=digest,
        once=once_of(key, sent, "create"),
        ready=services[BreakpointService].prepare(
            wanted, by=who, digest=digest, new_id=services.ids.new("bp", now), now=now
        ),
    )
    created = await services.database.write(use_case)
    if not isinstance(created, str):
        services.metrics.created.inc()
    return created


def _check_callback(url: str, services: Services) -> None:
    """Reject an invalid URL now, because the agent would not notice if a worker refused it later."""
    try:
        check_url(url, allow=services.settings.outbound_networks)
    except ValueError as error:
        raise InvalidRequest.at("/callbackUrl", str(error)) from error


async def feedback(request: Request) -> Response:
    """Add a comment, or record an answer."""
    services, who = services_of(request), principal_of(request)
    breakpoint_id = known_id(request.path_params["breakpoint_id"])
    sent = await read_json(request)
    wanted = checked(sent, wire.GiveFeedback)
    once = once_of(request.headers.get("idempotency-key"), sent, "feedback", breakpoint_id)
    if_match = version_of(request.headers.get("if-match"))
    use_case = _feedback_use_case(services, breakpoint_id, wanted, who, once, if_match)
    outcome = await services.database.write(use_case, locks=breakpoint_id)
    if outcome is None:
        return await _whole(services, breakpoint_id, who)
    # An outcome is returned only if the breakpoint has no comments.
    body = views.whole(outcome.row, (), outcome.responses)
    return _answer(views.with_pending(body, await services[InboxService].pending(outcome.row, who)), outcome.row)


def _feedback_use_case(
    services: Services,
    breakpoint_id: str,
    body: wire.GiveFeedback,
    who: Principal,
    once: Once | None,
    if_match: int | None,
) -> Callable[..., Outcome | None]:
    if body.release or body.approved is not None:
        if body.release is False:
            raise InvalidRequest.at("/release", "must not be false when approved is set")
        answer = Answer(
            approved=body.approved is not False,
            comment=body.comment,
            option=body.option,
            answers=body.answers,
            edits=body.edits,
            confirm=body.confirm,
            digest=body.digest,
        )
        return partial(
            services[BreakpointService].respond,
            breakpoint_id=breakpoint_id,
            answer=answer,
            by=who,
            via="api",
            once=once,
            if_match=if_match,
        )
    if body.option is not None or body.answers is not None or body.edits is not None:
        raise InvalidRequest.at("/release", "must be true when option, answers or edits are set")
    if not body.comment:
        raise InvalidRequest.at("/comment", "is required unless release is true")
    return partial(
        services[BreakpointService].comment, breakpoint_id=breakpoint_id, comment=body.comment, by=who, once=once
    )


def version_of(if_match: str | None) -> int | None:
    if if_match is None or if_match == "*":
        return None
    found = _ETAG.fullmatch(if_match.strip())
    # No breakpoint has version -1, so an unparseable ETag fails the precondition.
    return int(found.group(1)) if found else -1


@breakpoints.post(
    "/breakpoints/{breakpoint_id}/cancel",
    response_model=wire.Breakpoint,
    dependencies=NO_FIELDS,
    summary="Cancels a breakpoint",
)
async def cancel(breakpoint_id: str, who: Who, services: With) -> Response:
    use_case = partial(services[BreakpointService].cancel, breakpoint_id=known_id(breakpoint_id), by=who)
    await services.database.write(use_case, locks=breakpoint_id)
    return await _whole(services, breakpoint_id, who)


@breakpoints.post(
    "/breakpoints/{breakpoint_id}/expire",
    response_model=wire.Breakpoint,
    dependencies=NO_FIELDS,
    summary="Expires a breakpoint",
)
async def expire(breakpoint_id: str, who: Who, services: With) -> Response:
    use_case = partial(services[BreakpointService].expire, breakpoint_id=known_id(breakpoint_id), by=who)
    await services.database.write(use_case, locks=breakpoint_id)
    return await _whole(services, breakpoint_id, who)


@breakpoints.get(
    "/breakpoints/{breakpoint_id}/events",
    response_model=wire.Events,
    summary="Lists a breakpoint's events, oldest first",
)
async def events(breakpoint_id: str, who: Who, services: With) -> Response:
    await services[InboxService].status(known_id(breakpoint_id), who)
    return Response(views.events_page(await services[InboxService].history(breakpoint_id)), media_type=JSON)


async def _whole(services: Services, breakpoint_id: str, who: Principal, *, status: int = 200) -> Response:
    row = await services[InboxService].whole(breakpoint_id, who)
    body = services[RenderedBreakpoints].whole.find(row.id, row.version)
    if body is None:
        body = views.whole(row, await services[InboxService].feedback(row), await services[InboxService].responses(row))
        services[RenderedBreakpoints].whole.keep(row.id, row.version, body)
    return _answer(views.with_pending(body, await services[InboxService].pending(row, who)), row, status=status)


def _answer(body: bytes, row: Whole, *, status: int = 200) -> Response:
    return ReadyJson(body, status, more=((b"etag", b'"v%d"' % row.version),))


async def get(request: Request) -> Response:
    services = services_of(request)
    return await _whole(services, known_id(request.path_params["breakpoint_id"]), principal_of(request))
