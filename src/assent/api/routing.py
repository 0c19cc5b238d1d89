"""How an endpoint is declared: strict JSON in, problems documented, everything it needs at hand."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from assent.domain.access import Kind, Permission, Principal
from assent.domain.canonical import Json, strict_loads
from assent.domain.errors import Forbidden, InvalidRequest, MalformedJson
from assent.http.auth import Authenticator, principal_of
from assent.http.limits import RateLimit
from assent.http.problems import MEDIA_TYPE, Problem, from_validation
from assent.http.readiness import Readiness
from assent.http.views import Rendered
from assent.http.waiting import Hub
from assent.ports import Clock, Database, Ids, ProcessRegistry
from assent.services.backtest import BacktestService
from assent.services.breakpoints import BreakpointService
from assent.services.channels import ChannelService
from assent.services.checkpoints import CheckpointService
from assent.services.delivery import DeliveryService
from assent.services.history import HistoryService
from assent.services.inbox import InboxService
from assent.services.ingress import Ingress
from assent.services.links import LinkService
from assent.services.people import PeopleService
from assent.services.preferences import PreferenceService
from assent.services.probing import Prober
from assent.services.projects import ProjectService
from assent.services.receipts import ReceiptService
from assent.services.reloading import Reloading
from assent.services.retention import RetentionService
from assent.services.route_check import RouteCheck
from assent.services.routes import RouteService
from assent.services.rules import RuleService
from assent.services.runs import RunService
from assent.services.secrets import SecretService
from assent.services.sources import SourceService
from assent.services.triggering import TriggeringService
from assent.services.triggers import TriggerService
from assent.settings import Settings
from assent.store.transaction import Transaction
from assent.telemetry import Metrics

Body = TypeVar("Body", bound=BaseModel)
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
    """What the composition root hands to every endpoint."""

    settings: Settings
    clock: Clock
    ids: Ids
    database: Database[Transaction]
    breakpoints: BreakpointService
    rules: RuleService
    backtests: BacktestService
    inbox: InboxService
    history: HistoryService
    people: PeopleService
    projects: ProjectService
    retention: RetentionService
    secrets: SecretService
    receipts: ReceiptService
    checkpoints: CheckpointService
    runs: RunService
    processes: ProcessRegistry
    deliveries: DeliveryService
    channels: ChannelService
    prober: Prober
    routes: RouteService
    route_check: RouteCheck
    preferences: PreferenceService
    links: LinkService
    sources: SourceService
    ingress: Ingress
    triggers: TriggerService
    triggering: TriggeringService
    reloading: Reloading
    authenticator: Authenticator
    hub: Hub
    readiness: Readiness
    metrics: Metrics
    creates: RateLimit
    sign_ins: RateLimit
    rendered: Rendered
    summaries: Rendered


class RuleIdConvertor(StringConvertor):
    """What stands in an address for a rule: so that /rules/check is never taken for a rule called check."""

    regex = "rule-[0-9a-z]{1,60}"


class RouteIdConvertor(StringConvertor):
    """The same for a route, so that /routes/order is never taken for one called order."""

    regex = "rt_[0-9a-z]{1,60}"


class TriggerIdConvertor(StringConvertor):
    """The same for a trigger, by its id or its name; one that is called check is named by its id."""

    regex = "(?!check(?:/|$))[a-z0-9][a-z0-9_.-]{0,59}"


class EventIdConvertor(StringConvertor):
    """The same for an event from outside."""

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
    """Reads JSON the way both databases and every browser do."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def router(tag: str) -> APIRouter:
    return APIRouter(prefix="/api", tags=[tag], route_class=StrictRoute, responses=PROBLEMS)


def services_of(request: Request) -> Services:
    services: Services = request.scope["services"]
    return services


async def read_json(request: Request) -> Json:
    """Read a body as strict JSON; Starlette's own way there makes a generator of one message."""
    message = await request.receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await request.receive()
        body += message.get("body", b"")
    if not body:
        raise InvalidRequest.at("/", "The request body is missing.")
    return strict_loads(body)


def checked(sent: Json, model: type[Body]) -> Body:
    """Return what was sent as the model it must be, or say what is wrong with it."""
    try:
        return model.model_validate(sent)
    except ValidationError as error:
        known = [each.alias or name for name, each in model.model_fields.items()]
        raise from_validation(error, known) from error


# Dependencies are async because FastAPI sends plain functions to a thread, which costs more than the request.
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
    """An endpoint that takes no fields says so, rather than ignore what it was sent."""
    if await request.body() and await request.json() != {}:
        raise InvalidRequest.at("/", "must be empty because this endpoint does not accept any fields")


Manager = Annotated[Principal, Depends(manager)]
PeopleReader = Annotated[Principal, Depends(reader)]
Auditor = Annotated[Principal, Depends(auditor)]
RuleWriter = Annotated[Principal, Depends(rule_writer)]
NO_FIELDS = [Depends(without_fields)]
