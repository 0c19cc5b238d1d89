"""Pydantic's view of the shapes: it validates requests, and describes all shapes in the OpenAPI document."""

import types
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, create_model
from pydantic_core import CoreSchema, core_schema

from assent.contracts.shape import Shape

ShapeT = TypeVar("ShapeT")
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def read(kind: type[ShapeT], sent: object) -> ShapeT:
    """Return the shape or model with these fields, or raise pydantic's ValidationError, which lists all errors."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    found: ShapeT = _ADAPTERS[kind].validate_python(sent)
    return found


def schema_of(shape: type[Shape], handler: GetCoreSchemaHandler) -> CoreSchema:
    def made(valid: BaseModel) -> Shape:
        return shape(**{name: getattr(valid, name) for name in valid.model_fields_set})

    return core_schema.no_info_after_validator_function(made, handler.generate_schema(model_of(shape)))


@cache
def model_of(shape: type[Shape]) -> type[BaseModel]:
    """Return a model with the fields of the shape."""
    hints = get_type_hints(shape, include_extras=True)
    fields: dict[str, Any] = {}
    for each in msgspec.structs.fields(shape):
        options: dict[str, Any] = {"alias": each.encode_name}
        if each.default_factory is not msgspec.NODEFAULT:
            options["default_factory"] = each.default_factory
        elif each.default is not msgspec.NODEFAULT:
            options["default"] = None if each.default is msgspec.UNSET else each.default
        fields[each.name] = (_without_unset(hints[each.name]), Field(**options))
    config = ConfigDict(strict=True, extra="forbid")
    return create_model(shape.__name__, __config__=config, __doc__=shape.__doc__, __module__=shape.__module__, **fields)


def _without_unset(kind: Any) -> Any:  # noqa: ANN401  # any type
    if get_origin(kind) in {Union, types.UnionType}:
        return Union[tuple(each for each in get_args(kind) if each is not msgspec.UnsetType)]  # noqa: UP007  # at runtime
    return kind


def limited(kind: Any, limits: dict[str, Any]) -> Any:  # noqa: ANN401  # any type
    return Annotated[kind, Field(**limits)]


def field_names(kind: type[Any]) -> list[str]:
    """Return the names that the fields of a shape or model have in the API."""
    if issubclass(kind, Shape):
        return list(kind.__struct_encode_fields__)
    return [each.alias or name for name, each in kind.model_fields.items()]


def attributes(kind: type[Any]) -> list[str]:
    """Return the names of the attributes, in the same order."""
    return list(kind.__struct_fields__ if issubclass(kind, Shape) else kind.model_fields)
