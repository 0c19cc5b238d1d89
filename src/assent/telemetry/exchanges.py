"""What a request is called in logs, metrics and spans; read from the ASGI scope after it was routed."""

from collections.abc import Mapping, MutableMapping
from typing import Any

LONGEST_ID = 64


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the template of the address, never the address itself: ids would make a metric of each request."""
    route: str = getattr(scope.get("route"), "path", None) or scope.get("route_name", "other")
    return route


def breakpoint_of(scope: Mapping[str, Any]) -> str | None:
    """Return which breakpoint it is about; not what somebody made up in place of its id."""
    params: Mapping[str, str] = scope.get("path_params") or {}
    found = params.get("breakpoint_id", "")
    return found if found.startswith("bp_") and len(found) <= LONGEST_ID else None


def facts_of(scope: MutableMapping[str, Any]) -> dict[str, object]:
    """Return what every line about this request says."""
    principal = getattr(scope.get("principal"), "id", None)
    facts = {
        "request_id": scope.get("request_id"),
        "principal": principal,
        "breakpoint_id": breakpoint_of(scope),
        "trace_id": scope.get("trace_id"),
    }
    return {name: value for name, value in facts.items() if value is not None}
