"""Converts the field names of triggers: camelCase and `name` in JSON, snake_case and `id` in assent.yaml."""

from collections.abc import Mapping
from typing import Any

from assent.core.canonical import is_object
from assent.core.errors import InvalidRequest

_SPELT = {"id": "name", "max_depth": "maxDepth", "agent_id": "agentId"}
_ROOM = {"when_full": "whenFull"}
_READ = {there: here for here, there in _SPELT.items()}
_ROOM_READ = {there: here for here, there in _ROOM.items()}
_POINTERS = {f"/{here}": f"/{there}" for here, there in _SPELT.items()} | {
    "/concurrency/when_full": "/concurrency/whenFull"
}


def spelt(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a trigger from assent.yaml to the field names of the API. Unknown fields are unchanged."""
    return _renamed(body, _SPELT, _ROOM)


def unspelt(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a trigger from the API to the field names of assent.yaml."""
    return _renamed(body, _READ, _ROOM_READ)


def respelt(error: InvalidRequest) -> InvalidRequest:
    """Convert the JSON pointers in an error about a trigger to the API's field names."""
    found: Any = error.details.get("errors", [])
    places = [each["pointer"] for each in found]
    moved = [each | {"pointer": _POINTERS.get(each["pointer"], each["pointer"])} for each in found]
    if [each["pointer"] for each in moved] == places:
        return error
    message = error.message
    for before, after in zip(places, moved, strict=True):
        # Replace only the first occurrence, because the explanation may contain the same text.
        message = message.replace(f"{before}: ", f"{after['pointer']}: ", 1)
    return InvalidRequest(message, errors=moved)


def _renamed(body: Mapping[str, Any], names: Mapping[str, str], room: Mapping[str, str]) -> dict[str, Any]:
    found = {names.get(name, name): value for name, value in body.items()}
    concurrency: Any = found.get("concurrency")
    if is_object(concurrency):
        found["concurrency"] = {room.get(name, name): value for name, value in concurrency.items()}
    return found
