"""The published OpenAPI document is valid and complete, and the server behaves exactly as documented."""

import json
import re
from collections import Counter
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import from_schema
from schemathesis.engine.events import EngineEvent, EngineFinished, FatalError, NonFatalError, ScenarioFinished
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from starlette.routing import Route, compile_path

from assent.agents.hooks.api import claude_hooks
from assent.audit.api.checkpoints import checkpoints
from assent.audit.api.events import audit_events
from assent.audit.api.retention import retention
from assent.breakpoints.api.breakpoints import breakpoints
from assent.breakpoints.api.fast_routes import HOT_ROUTES
from assent.breakpoints.api.files import files
from assent.breakpoints.api.history import history
from assent.delivery.api.channels import channels
from assent.delivery.api.deliveries import deliveries
from assent.delivery.api.routes import routes as route_routes
from assent.kernel.settings import Settings
from assent.people.api.people import people
from assent.people.api.projects import projects
from assent.people.api.tokens import tokens
from assent.platform.operations import operations
from assent.policy.api.backtest import backtests
from assent.policy.api.receipts import receipts
from assent.policy.api.rules import rules
from assent.policy.api.rules_file import rules_file
from assent.runs.api import runs
from assent.triggers.api.events import trigger_events
from assent.triggers.api.firings import firings
from assent.triggers.api.sources import sources
from assent.triggers.api.triggers import triggers
from tests.support.nodes import Node, Process, prepared, server

EXAMPLES, FEWER = 10, 5
"""Examples per operation, in addition to those that cover its schema; fewer for the slower database."""
SEED = 20261115
STREAMS = ("/api/stream", "/api/breakpoints/{breakpoint_id}/stream", "/api/hooks/claude")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
)

# Errors that a schema-valid request can still cause: a schema cannot express NUL, numbers above 2^53, or how a value
# relates to other fields and stored data.
POSSIBLE = ["2xx", "400", "401", "403", "404", "409", "412", "422"]


async def published(node: Node) -> dict[str, Any]:
    answer = await node.call("GET", "/openapi.json")
    document: dict[str, Any] = answer.json()
    return document


async def test_the_document_is_valid_openapi_3_1(shared: Node) -> None:
    document = await published(shared)
    assert document["openapi"].startswith("3.1")
    OPENAPI_31_VALIDATOR.validate(document)
    schemathesis.openapi.from_dict(document).validate()
    for name, schema in document["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)


async def test_every_reference_resolves_and_every_schema_is_used(shared: Node) -> None:
    document = await published(shared)
    used = set(re.findall(r"#/components/schemas/([^'\"]+)", str(document)))
    assert used == set(document["components"]["schemas"])


async def test_every_operation_has_a_unique_id(shared: Node) -> None:
    document = await published(shared)
    ids = Counter(each["operationId"] for methods in document["paths"].values() for each in methods.values())
    assert [name for name, count in ids.items() if count > 1] == []
    assert all(each["summary"] for methods in document["paths"].values() for each in methods.values())


async def test_exactly_the_registered_routes_are_documented(shared: Node) -> None:
    document = await published(shared)
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routers = (
        backtests, breakpoints, channels, deliveries, files, history, people, projects, receipts, retention,
        route_routes, rules, rules_file, runs, tokens, operations, sources, triggers, trigger_events, firings,
        claude_hooks, checkpoints, audit_events,
    )  # fmt: skip
    routes = [*HOT_ROUTES, *(each for router in routers for each in router.routes if isinstance(each, Route))]
    registered = {
        (method, compile_path(route.path)[1]) for route in routes for method in (route.methods or set()) - {"HEAD"}
    }
    assert documented == registered


async def test_every_path_allows_exactly_the_documented_methods(shared: Node) -> None:
    document = await published(shared)
    for path, methods in document["paths"].items():
        named = path
        for name, known in (("rule_id", "rule-x"), ("route_id", "rt_x"), ("event_id", "evt_x")):
            named = named.replace(f"{{{name}}}", known)
        address = re.sub(r"\{[^}]+\}", "x", named)
        answer = await shared.call("OPTIONS", address, await shared.token("admin"))
        allowed = set(answer.headers["allow"].split(", ")) - {"HEAD"}
        assert (answer.status_code, allowed) == (405, {method.upper() for method in methods}), path


async def test_everything_under_api_requires_a_token_and_documents_it(shared: Node) -> None:
    document = await published(shared)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["security"] == ([{"token": []}] if path.startswith("/api/") else [])
            if path.startswith("/api/"):
                assert "401" in operation["responses"]


def _testable(process: Process) -> dict[str, Any]:
    """Exclude operations that wait, because test_waiting covers them."""
    document: dict[str, Any] = httpx2.get(f"{process.url}/openapi.json", timeout=30).json()
    # Schemathesis reuses the IDs in earlier responses where a schema has the name of a path's parameter. It would then
    # revoke its own token.
    for name in ("Token", "CreatedToken", "Person"):
        document = _renamed(document, name, f"{name}InResponses")
    for path in STREAMS:
        del document["paths"][path]
    status = document["paths"]["/api/breakpoints/{breakpoint_id}/status"]["get"]
    status["parameters"] = [each for each in status["parameters"] if each["name"] != "wait"]
    return document


def _renamed(document: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    schemas[new] = schemas.pop(old)
    text = json.dumps(document).replace(f'"#/components/schemas/{old}"', f'"#/components/schemas/{new}"')
    found: dict[str, Any] = json.loads(text)
    return found


def _configuration(process: Process, token: str, *, examples: int) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "base-url": process.url,
            "headers": {"Authorization": f"Bearer {token}"},
            "request-timeout": 30,
            "continue-on-failure": True,
            "generation": {"max-examples": examples, "deterministic": True, "no-shrink": True, "database": "none"},
            "phases": {"stateful": {"enabled": False}},
            "checks": {
                "enabled": False,
                **{name: {"enabled": True} for name in CHECKS},
                "positive_data_acceptance": {"enabled": True, "expected-statuses": POSSIBLE},
            },
        }
    )


class Tally:
    """The cases, responses and failures of a Schemathesis run."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.failures: set[str] = set()

    def take(self, event: EngineEvent) -> None:
        if isinstance(event, NonFatalError | FatalError):
            self.failures.add(str(event))
        elif isinstance(event, EngineFinished):
            assert event.stop_reason == "completed"
        elif isinstance(event, ScenarioFinished):
            self._take_scenario(event.recorder)

    def _take_scenario(self, recorder: ScenarioRecorder) -> None:
        self.cases[recorder.label] += len(recorder.cases)
        answers = [each.response for each in recorder.interactions.values() if each.response is not None]
        self.statuses.update(answer.status_code for answer in answers)
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    sent = recorder.interactions[case_id].request
                    self.failures.add(f"{recorder.label}: {check.failure_info.failure} for {sent.uri}")


@pytest.mark.timeout(900)
def test_no_generated_request_gets_an_undocumented_response_or_server_error(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (token,) = prepared(settings, "admin")
    tally = Tally()
    with server(settings) as process:
        configuration = _configuration(process, token, examples=FEWER if settings.database_url else EXAMPLES)
        schema = schemathesis.openapi.from_dict(_testable(process), config=configuration)
        expected = {
            f"{method.upper()} {path}" for path, methods in _testable(process)["paths"].items() for method in methods
        }
        for event in from_schema(schema).execute():
            tally.take(event)
        still_known = httpx2.get(f"{process.url}/api/people", headers={"authorization": f"Bearer {token}"}, timeout=30)
    with capsys.disabled():
        answers = sorted(tally.statuses.items())
        print(f"\n{sum(tally.cases.values())} generated cases, {len(tally.failures)} failures, answers {answers}")  # noqa: T201
    assert tally.failures == set()
    assert still_known.status_code == 200, "the token was revoked during the run, so later requests proved nothing"
    assert expected <= {name for name, count in tally.cases.items() if count}
    assert max(tally.statuses) < 500
    assert {200, 201, 204, 400, 401, 404, 405, 409, 422} <= set(tally.statuses), "every kind of response occurred"
