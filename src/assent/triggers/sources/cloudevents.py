"""CloudEvents 1.0 over HTTP, in binary mode (attributes in headers) or structured mode (all in the body)."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from assent.core.canonical import Json, is_object, strict_loads
from assent.core.errors import InvalidRequest
from assent.kernel.ports import Incoming
from assent.triggers.sources.reading import moment

STRUCTURED = "application/cloudevents"
BATCH = "application/cloudevents-batch"
PREFIX = "ce-"
REQUIRED = ("specversion", "id", "source", "type")
KEPT = (*REQUIRED, "subject", "time", "dataschema", "datacontenttype")
LONGEST = 500
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class CloudEvent:
    attributes: Mapping[str, str]
    data: Json
    is_binary: bool = False
    """Whether the attributes were sent in headers, which a signature of the body does not cover."""

    @property
    def key(self) -> str:
        """The deduplication key. Events with the same source and ID are duplicates."""
        return f"ce:{self.attributes['source']} {self.attributes['id']}"

    @property
    def occurred_at(self) -> int | None:
        return moment(self.attributes.get("time"))

    def headers(self) -> dict[str, str]:
        """Return the attributes as headers, in either mode."""
        return {f"{PREFIX}{name}": self.attributes[name] for name in KEPT if name in self.attributes}


def cloud_event(incoming: Incoming, *, binary: bool) -> CloudEvent | None:
    """Return the CloudEvent in a request, or None. Binary mode must be enabled with `binary`."""
    kind = incoming.headers.get("content-type", "").lower()
    if kind.startswith(BATCH):
        raise InvalidRequest.at("/", "is a batch of events, which is not supported; send each event separately")
    if kind.startswith(STRUCTURED):
        return _structured(incoming.body)
    if binary and all(PREFIX + name in incoming.headers for name in REQUIRED):
        return _binary(incoming, kind)
    return None


def _structured(body: bytes) -> CloudEvent:
    whole = strict_loads(body)
    if not is_object(whole):
        raise InvalidRequest.at("/", "must be a JSON object that contains one event")
    attributes = {name: whole[name] for name in KEPT if whole.get(name) is not None}
    encoded = whole.get("data_base64")
    data = whole.get("data") if encoded is None else _decoded(encoded, attributes.get("datacontenttype"))
    return CloudEvent(_checked(attributes), data)


def _binary(incoming: Incoming, kind: str) -> CloudEvent:
    found = {name: incoming.headers.get(PREFIX + name) for name in KEPT}
    # Binary mode percent-encodes header values that are not printable ASCII.
    attributes: dict[str, Json] = {name: unquote(value) for name, value in found.items() if value is not None}
    return CloudEvent(_checked(attributes), _data(incoming.body, kind), is_binary=True)


def _data(body: bytes, kind: str) -> Json:
    if not body:
        return None
    if "json" in kind.partition(";")[0] or not kind:
        return strict_loads(body)
    try:
        found = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest.at("/", "must be JSON or UTF-8 text") from error
    if "\x00" in found:
        raise InvalidRequest.at("/", "must not contain NUL")
    return found


def _decoded(encoded: Json, kind: Json) -> Json:
    try:
        body = base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError) as error:
        raise InvalidRequest.at("/data_base64", "must be base64-encoded") from error
    return _data(body, kind.lower() if isinstance(kind, str) else _JSON)


def _checked(attributes: Mapping[str, Json]) -> dict[str, str]:
    for name in REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise InvalidRequest.at(f"/{name}", "is required")
    for name, value in attributes.items():
        if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
            raise InvalidRequest.at(f"/{name}", f"must be a string of at most {LONGEST} printable characters")
    if not attributes["specversion"].startswith("1."):
        raise InvalidRequest.at("/specversion", "must be 1.0")
    return {name: str(value) for name, value in attributes.items()}
