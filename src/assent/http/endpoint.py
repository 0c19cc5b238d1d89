"""Building blocks of API endpoints: strict JSON, documented errors, and dependencies."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Body, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from assent.contracts.models import field_names, read
from assent.contracts.shape import Shape, json_of
from assent.core.access import Kind, Permission, Principal
from assent.core.canonical import Json, strict_loads
from assent.core.errors import Forbidden, InvalidRequest, MalformedJson
from assent.db.transaction import Transaction
from assent.http.auth import principal_of
from assent.http.limits import RateLimit
from assent.http.problems import MEDIA_TYPE, Problem, from_validation
from assent.http.readiness import Readiness
from assent.http.waiters import Hub
from assent.kernel.parts import Parts, PartT
from assent.kernel.ports import Clock, Database, Ids
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics

BodyT = TypeVar("BodyT")
Sent = Annotated[BodyT, Body()]
"""The body of a request. FastAPI would read a shape from the query otherwise."""
JSON = "application/json"
REPEATED = "Unique key for the request. Repeating the request with the same key and body returns the first result."

_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": description, **_PROBLEM}
    for status, description in {
        400: "Invalid JSON",
        401: "Missing or invalid token",
        403: "Permission denied",
        404: "Not found",
        405: "Method not allowed",
        409: "Conflict with the current state",
        412: "Changed since it was read, or content hash mismatch",
        413: "Too large",
        415: "Unsupported media type",
        422: "Invalid request",
        429: "Rate limit exceeded",
        503: "Temporarily unavailable; try again or use another node",
    }.items()
}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
                "required": ["pointer", "detail"],
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class Services:
    """The dependencies that the composition root provides to every endpoint."""

    settings: Settings
    clock: Clock
    ids: Ids
    database: Database[Transaction]
    hub: Hub
    readiness: Readiness
    metrics: Metrics
    creates: RateLimit
    sign_ins: RateLimit
    parts: Parts

    def __getitem__(self, kind: type[PartT]) -> PartT:
        return self.parts[kind]


class RuleIdConvertor(StringConvertor):
    """Matches only IDs of rules, so that /rules/check is not treated as a rule named check."""

    regex = "rule-[0-9a-z]{1,60}"


class RouteIdConvertor(StringConvertor):
    """Matches only IDs of routes, so that /routes/order is not treated as a route named order."""

    regex = "rt_[0-9a-z]{1,60}"


class TriggerIdConvertor(StringConvertor):
    """Matches IDs and names of triggers except `check`; a trigger with that name is addressed by its ID."""

    regex = "(?!check(?:/|$))[a-z0-9][a-z0-9_.-]{0,59}"


class EventIdConvertor(StringConvertor):
    """Matches only IDs of trigger events."""

    regex = "evt_[0-9a-z]{1,60}"


register_url_convertor("trigger", TriggerIdConvertor())
register_url_convertor("event", EventIdConvertor())
register_url_convertor("rule", RuleIdConvertor())
register_url_convertor("route", RouteIdConvertor())


class StrictRequest(Request):
    async def json(self) -> Json:
        try:
            return strict_loads(await self.body())
        except MalformedJson as error:
            raise Problem(error) from error


class StrictRoute(APIRoute):
    """Parses request bodies as strict JSON, which both databases and every browser read in the same way."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        assert self.dependant.call is not None
        self.dependant.call = self._encoded(self.dependant.call)
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict

    def _encoded(self, endpoint: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Write shapes as JSON here; otherwise, FastAPI would validate them again."""

        async def encoded(**values: Any) -> Any:  # noqa: ANN401  # what the endpoint takes and returns
            found = await endpoint(**values)
            if not isinstance(found, Shape):
                return found
            body = msgspec.json.encode(json_of(found, nulls=not self.response_model_exclude_none))
            answer = Response(body, self.status_code or 200, media_type=JSON)
            for each in values.values():
                if isinstance(each, Response):
                    answer.headers.update(each.headers)
            return answer

        return encoded


def router(tag: str) -> APIRouter:
    return APIRouter(prefix="/api", tags=[tag], route_class=StrictRoute, responses=PROBLEMS)


def services_of(request: Request) -> Services:
    services: Services = request.scope["services"]
    return services


async def read_json(request: Request) -> Json:
    """Read a body as strict JSON; Starlette would create a generator even for a single message."""
    message = await request.receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await request.receive()
        body += message.get("body", b"")
    if not body:
        raise InvalidRequest.at("/", "The request body is missing.")
    return strict_loads(body)


def checked(sent: Json, model: type[BodyT]) -> BodyT:
    """Parse the request body into its model, or raise an error that says what is wrong."""
    try:
        return read(model, sent)
    except ValidationError as error:
        known = field_names(model)
        raise from_validation(error, known) from error


# Dependencies are async because FastAPI runs plain functions on a thread, which takes longer than the request.
async def _services(request: Request) -> Services:
    return services_of(request)


async def _principal(request: Request) -> Principal:
    return principal_of(request)


With = Annotated[Services, Depends(_services)]
Who = Annotated[Principal, Depends(_principal)]


async def manager(request: Request) -> Principal:
    principal = principal_of(request)
    principal.require(Permission.MANAGE)
    return principal


async def reader(request: Request) -> Principal:
    principal = principal_of(request)
    if principal.kind is Kind.AGENT and not principal.may(Permission.READ_PEOPLE):
        msg = "An agent token cannot read people, rules or routes. Use a reviewer token."
        raise Forbidden(msg, permission=Permission.READ_PEOPLE)
    principal.require(Permission.READ_PEOPLE)
    return principal


async def auditor(request: Request) -> Principal:
    principal = principal_of(request)
    principal.require(Permission.AUDIT)
    return principal


async def rule_writer(request: Request) -> Principal:
    principal = principal_of(request)
    principal.require(Permission.RULES)
    return principal


async def without_fields(request: Request) -> None:
    """Reject the body of a request to an endpoint without fields, instead of ignoring it."""
    if await request.body() and await request.json() != {}:
        raise InvalidRequest.at("/", "must be empty because this endpoint does not accept any fields")


Manager = Annotated[Principal, Depends(manager)]
PeopleReader = Annotated[Principal, Depends(reader)]
Auditor = Annotated[Principal, Depends(auditor)]
RuleWriter = Annotated[Principal, Depends(rule_writer)]
NO_FIELDS = [Depends(without_fields)]
