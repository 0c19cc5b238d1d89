"""How requests are named in logs, metrics and spans, based on the ASGI scope after routing."""

from collections.abc import Mapping, MutableMapping
from typing import Any

LONGEST_ID = 64


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the route's path template, because a label with IDs in it would create a time series per request."""
    route: str = getattr(scope.get("route"), "path", None) or scope.get("route_name", "other")
    return route


def breakpoint_of(scope: Mapping[str, Any]) -> str | None:
    """Return the breakpoint ID in the path, or None if the path does not contain a possible ID."""
    params: Mapping[str, str] = scope.get("path_params") or {}
    found = params.get("breakpoint_id", "")
    return found if found.startswith("bp_") and len(found) <= LONGEST_ID else None


def facts_of(scope: MutableMapping[str, Any]) -> dict[str, object]:
    """Return the fields of every log line about this request."""
    principal = getattr(scope.get("principal"), "id", None)
    facts = {
        "request_id": scope.get("request_id"),
        "principal": principal,
        "breakpoint_id": breakpoint_of(scope),
        "trace_id": scope.get("trace_id"),
    }
    return {name: value for name, value in facts.items() if value is not None}
