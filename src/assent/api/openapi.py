"""The OpenAPI document: what FastAPI derives, plus the hot routes it does not see."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from assent.api.listing import CURSOR, LIMIT
from assent.api.routing import PROBLEM_SCHEMA, PROBLEMS, REPEATED
from assent.wire import breakpoints as wire
from assent.wire.claude_code import ClaudeHook
from assent.wire.words import Open, Strict

WIRE = "assent.wire."
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


def _header(name: str, pattern: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": description}


_HEADERS_OF = {"401": ("WWW-Authenticate",), "405": ("Allow",), "429": ("Retry-After",), "503": ("Retry-After",)}
_KEY = _header("Idempotency-Key", "^[!-~]{1,255}$", REPEATED)
_IF_MATCH = _header(
    "If-Match",
    '^(\\*|(W/)?"v[0-9]{1,9}")$',
    "ETag of the version that you have seen. The request fails if the breakpoint has changed since then.",
)
_LAST_EVENT = _header(
    "Last-Event-ID",
    "^[0-9]{1,9}$",
    "The `seq` of the last event that you received. The stream resumes after that event.",
)

HOT_PATHS = {
    "/api/breakpoints": {
        "get": _operation(
            "Lists breakpoints, newest first by default",
            "list_breakpoints",
            _json(wire.BreakpointPage),
            [
                _query(
                    "status",
                    {"type": "array", "items": {"enum": ["waiting", "released", "expired", "cancelled"]}},
                    "Status to filter by. Repeat the parameter to match any of several statuses.",
                ),
                _query(
                    "tag",
                    {"type": "array", "items": _TEXT},
                    "Tag to filter by. Repeat the parameter to match only breakpoints that have all of the tags.",
                ),
                _query("agentId", _TEXT, "Agent ID to filter by."),
                _query("runId", _TEXT, "Run ID to filter by."),
                _query("gate", _TEXT, "Gate to filter by."),
                _query("expert", _TEXT, "Return only breakpoints that are assigned to this expert."),
                _query(
                    "assignedTo",
                    {"const": "me"},
                    "If `me`, return only breakpoints that are assigned to you, to one of your groups, or to you as the"
                    " owner. Agents cannot use this parameter.",
                ),
                _query(
                    "createdAfter", _MOMENT, "Return only breakpoints that were created after this time (exclusive)."
                ),
                _query(
                    "createdBefore", _MOMENT, "Return only breakpoints that were created before this time (exclusive)."
                ),
                _query(
                    "q",
                    _TEXT,
                    "Words to search for. Each of them must match the beginning of a word in the ID, title, question,"
                    " gate, agent, run or tags. In scripts that are written without spaces, they can match anywhere.",
                ),
                _query(
                    "sort",
                    {"enum": ["created", "-created", "deadline", "updated"], "default": "-created"},
                    "Sort order. `deadline` lists the earliest deadline first, and `updated` the latest change first.",
                ),
                _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}, LIMIT),
                _query("cursor", _TEXT, CURSOR),
                _query(
                    "counts",
                    {"type": "boolean", "default": False},
                    "Whether to include the number of breakpoints in each status, up to 10,000 each.",
                ),
            ],
        ),
        "post": _operation("Creates a breakpoint", "create_breakpoint", _json(wire.BreakpointView), [_KEY], status=201)
        | _takes(wire.CreateBreakpoint),
    },
    "/api/breakpoints/{breakpoint_id}": {
        "get": _operation("Gets a breakpoint", "get_breakpoint", _json(wire.BreakpointView), [_ID])
    },
    "/api/breakpoints/{breakpoint_id}/feedback": {
        "post": _operation(
            "Adds a comment or an answer to a breakpoint",
            "give_feedback",
            _json(wire.BreakpointView),
            [_ID, _KEY, _IF_MATCH],
        )
        | _takes(wire.GiveFeedback)
    },
    "/api/breakpoints/{breakpoint_id}/status": {
        "get": _operation(
            "Gets a breakpoint's status, optionally after waiting for a change",
            "get_status",
            _json(wire.BreakpointStatus),
            [
                _ID,
                _query(
                    "wait",
                    {"type": "number", "minimum": 0, "maximum": 30},
                    "Number of seconds to wait for the breakpoint to end or to receive a comment.",
                ),
            ],
        )
    },
    "/api/breakpoints/{breakpoint_id}/stream": {
        "get": _operation("Streams a breakpoint's events", "stream_breakpoint", _SSE, [_ID, _LAST_EVENT])
    },
    "/api/stream": {"get": _operation("Streams change notifications for the project", "stream_changes", _SSE, [])},
}


def _answer_headers(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The headers that every answer of this kind carries."""
    names = ["X-Request-Id", *_HEADERS_OF.get(status, ())]
    if answer.get("content", {}).get("application/json", {}).get("schema") == _ref(wire.BreakpointView):
        names.append("ETag")
    return {name: {"required": True, "schema": {"type": "string"}} for name in names}


def _describe_fields(schemas: dict[str, Any]) -> None:
    """Add the docstrings below the fields of the wire models; read here, because at import they would cost time."""
    models: set[type[BaseModel]] = {*_models(Strict), *_models(Open), ClaudeHook}
    for model in models:
        properties: dict[str, Any] = schemas.get(model.__name__, {}).get("properties", {})
        for name, text in _field_docs(model).items():
            alias = model.model_fields[name].alias or name
            if alias in properties:
                properties[alias]["description"] = text


def _models(parent: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in parent.__subclasses__():
        yield each
        yield from _models(each)


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field, including inherited fields."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.startswith(WIRE):
            found |= _class_docs(each.__module__).get(each.__name__, {})
    return found


@cache
def _class_docs(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of all fields in a module, by class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        # Installed without sources: the document has no descriptions then.
        return {}
    return {node.name: dict(_docs_in(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_in(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, following in pairwise(body):
        match field, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
            case _:
                pass


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
    _describe_fields(schemas)
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
