"""The OpenAPI document: what FastAPI derives, plus the hot routes it does not see."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from assent.api.routing import PROBLEM_SCHEMA, PROBLEMS
from assent.wire import breakpoints as wire

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 1000}
_MOMENT: dict[str, Any] = {"type": "string", "format": "date-time"}
_ID = {"name": "breakpoint_id", "in": "path", "required": True, "schema": {"type": "string"}}


def _query(name: str, schema: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"description": "OK", "content": {"application/json": {"schema": _ref(model)}}}


def _ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


_SSE = {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def _operation(
    summary: str, name: str, answer: dict[str, Any], parameters: list[dict[str, Any]], *, status: int = 200
) -> dict[str, Any]:
    return {
        "tags": ["breakpoints"],
        "summary": summary,
        "operationId": name,
        "parameters": parameters,
        "responses": {str(status): answer} | {str(each): body for each, body in PROBLEMS.items()},
    }


def _takes(model: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": _json(model)["content"]}}


def _header(name: str, pattern: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string", "pattern": pattern}}


_HEADERS_OF = {"401": ("WWW-Authenticate",), "405": ("Allow",), "429": ("Retry-After",), "503": ("Retry-After",)}
_KEY = _header("Idempotency-Key", "^[!-~]{1,255}$")
_IF_MATCH = _header("If-Match", '^(\\*|(W/)?"v[0-9]{1,9}")$')
_LAST_EVENT = _header("Last-Event-ID", "^[0-9]{1,9}$")

HOT_PATHS = {
    "/api/breakpoints": {
        "get": _operation(
            "List breakpoints",
            "list_breakpoints",
            _json(wire.BreakpointPage),
            [
                _query("status", {"type": "array", "items": {"enum": ["waiting", "released", "expired", "cancelled"]}}),
                _query("tag", {"type": "array", "items": _TEXT}, "Repeated: all of them."),
                _query("agentId", _TEXT),
                _query("runId", _TEXT),
                _query("gate", _TEXT),
                _query("expert", _TEXT),
                _query("assignedTo", {"const": "me"}),
                _query("createdAfter", _MOMENT),
                _query("createdBefore", _MOMENT),
                _query("q", _TEXT, "Full text: all of the words."),
                _query("sort", {"enum": ["created", "-created", "deadline", "updated"], "default": "-created"}),
                _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}),
                _query("cursor", _TEXT, "The nextCursor of the page before."),
                _query("counts", {"type": "boolean", "default": False}, "Add totals per status, each up to 10,000."),
            ],
        ),
        "post": _operation("Raise a breakpoint", "create_breakpoint", _json(wire.BreakpointView), [_KEY], status=201)
        | _takes(wire.CreateBreakpoint),
    },
    "/api/breakpoints/{breakpoint_id}": {
        "get": _operation("One breakpoint, whole", "get_breakpoint", _json(wire.BreakpointView), [_ID])
    },
    "/api/breakpoints/{breakpoint_id}/feedback": {
        "post": _operation("Comment or answer", "give_feedback", _json(wire.BreakpointView), [_ID, _KEY, _IF_MATCH])
        | _takes(wire.GiveFeedback)
    },
    "/api/breakpoints/{breakpoint_id}/status": {
        "get": _operation(
            "Its status, now or as soon as something happens",
            "get_status",
            _json(wire.BreakpointStatus),
            [_ID, _query("wait", {"type": "number", "minimum": 0, "maximum": 30}, "Seconds to wait for a change.")],
        )
    },
    "/api/breakpoints/{breakpoint_id}/stream": {
        "get": _operation("Its events as they happen", "stream_breakpoint", _SSE, [_ID, _LAST_EVENT])
    },
    "/api/stream": {"get": _operation("Hints of what changed in the project", "stream_changes", _SSE, [])},
}


def _answer_headers(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The headers that every answer of this kind carries."""
    names = ["X-Request-Id", *_HEADERS_OF.get(status, ())]
    if answer.get("content", {}).get("application/json", {}).get("schema") == _ref(wire.BreakpointView):
        names.append("ETag")
    return {name: {"required": True, "schema": {"type": "string"}} for name in names}


def document(app: FastAPI) -> dict[str, Any]:
    """Build the document once."""
    if app.openapi_schema:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes, description=app.description)
    _, definitions = models_json_schema(
        [
            (wire.BreakpointPage, "serialization"),
            (wire.BreakpointView, "serialization"),
            (wire.BreakpointStatus, "serialization"),
            (wire.CreateBreakpoint, "validation"),
            (wire.GiveFeedback, "validation"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    components = schema.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    schemas |= definitions["$defs"] | {"Problem": PROBLEM_SCHEMA}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in HOT_PATHS.items():
        schema["paths"].setdefault(path, {}).update(operations)
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["security"] = [{"token": []}] if path.startswith("/api/") else []
            operation["responses"] = {
                status: {**answer, "headers": _answer_headers(status, answer)}
                for status, answer in operation["responses"].items()
            }
    app.openapi_schema = schema
    return schema
