"""What every shape has in common: declared once, and used by the API, the OpenAPI document, the SDK and the forms.

A shape is a msgspec struct, so that the SDK can use it without pydantic. Pydantic reads it through the hooks below: it
validates requests, because it reports every error at once, and it describes all shapes in the OpenAPI document.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Self, cast

import msgspec


class Shape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Attributes in snake_case, JSON in camelCase. Responses of newer servers may have more fields."""

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Self:
        """Return the shape with these fields, which have the names of the API."""
        return msgspec.convert(found, cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401  # pydantic's protocol
        from assent.contracts.models import schema_of  # noqa: PLC0415  # pydantic is not on the SDK's path

        return schema_of(cls, handler)


class Limits:
    """Limits on a value, which pydantic checks in requests. The SDK leaves them to the server."""

    def __init__(self, **limits: str | int) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401  # pydantic's protocol
        from assent.contracts.models import limited  # noqa: PLC0415  # pydantic is not on the SDK's path

        return handler.generate_schema(limited(source, self.limits))


class DocumentedAs:
    """The type in the OpenAPI document of a value that the SDK accepts in any form, for example from a newer server."""

    def __init__(self, shape: Any) -> None:  # noqa: ANN401  # any type
        self.shape = shape

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401  # pydantic's protocol
        return handler.generate_schema(self.shape)


def plain(value: object) -> Any:  # noqa: ANN401  # any JSON
    """Return a shape as JSON, with the field names of the API and without fields that have their default values."""
    return msgspec.to_builtins(value)


def json_of(value: object, *, nulls: bool = False) -> Any:  # noqa: ANN401  # any JSON
    """Return a shape as JSON with all fields that have a value, or with `nulls`, with all fields."""
    if isinstance(value, Shape):
        return {
            name: json_of(each, nulls=nulls)
            for name, each, is_empty in _fields(value)
            if nulls or not (each is None or is_empty)
        }
    if isinstance(value, list):
        items = cast(list[object], value)
        return [json_of(each, nulls=nulls) for each in items]
    return value


def given(value: Shape) -> dict[str, Any]:
    """Return the fields of a request that were given, including those that are null."""
    return {name: json_of(each) for name, each, _ in _fields(value)}


def _fields(value: Shape) -> Iterator[tuple[str, object, bool]]:
    """Yield the name and value of each field that is set, and whether it is an empty list or object by default."""
    for name, attribute, collection in _names(type(value)):
        found = getattr(value, attribute)
        if found is not msgspec.UNSET:
            yield name, found, collection and not found


@cache
def _names(shape: type[Shape]) -> list[tuple[str, str, bool]]:
    fields = msgspec.structs.fields(shape)
    return [(each.encode_name, each.name, each.default_factory is not msgspec.NODEFAULT) for each in fields]
