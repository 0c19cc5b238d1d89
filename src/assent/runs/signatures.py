"""Process inputs: reads the annotation of the `inputs` parameter and validates values against it."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import inspect as shapes
from pydantic import BaseModel, TypeAdapter, ValidationError

from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import InvalidRequest

ALWAYS = frozenset({"event", "events"})
"""Inputs that every run started by an event receives in addition to its own."""
HOLE = "{{"
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Shape:
    """The type that a process declares for its inputs."""

    type: Any
    names: Mapping[str, bool]
    """The known names, and whether each is required."""
    kinds: Mapping[str, Any]
    """The type of each name, if it can be determined."""
    open: bool = False
    """Whether unknown names are accepted."""

    @property
    def plain(self) -> bool:
        """Whether the inputs remain a dict."""
        return typing.is_typeddict(self.type)


@lru_cache(maxsize=1024)
def shape_of(function: Callable[..., Any]) -> Shape | None:
    """Return the shape declared by the first parameter's annotation, or None if it does not define names."""
    try:
        first = next(iter(inspect.signature(function).parameters), None)
        found = typing.get_type_hints(function).get(first or "")
    except Exception:  # noqa: BLE001  # user annotations can raise anything
        return None
    return _of_type(cast("type[Any]", found)) if isinstance(found, type) else None


def _of_type(found: type[Any]) -> Shape | None:
    if issubclass(found, BaseModel):
        return _of_model(found)
    known = typing.is_typeddict(found) or dataclasses.is_dataclass(found) or issubclass(found, msgspec.Struct)
    return _of_fields(found) if known else None


def _of_model(model: type[BaseModel]) -> Shape:
    fields = {each.validation_alias or name: each for name, each in model.model_fields.items()}
    return Shape(
        model,
        {str(name): each.is_required() for name, each in fields.items()},
        {str(name): each.annotation for name, each in fields.items()},
        model.model_config.get("extra") == "allow",
    )


def _of_fields(found: type[Any]) -> Shape | None:
    try:
        fields = cast("Any", shapes.type_info(found)).fields
        hints = typing.get_type_hints(found)
    except Exception:  # noqa: BLE001  # user annotations can raise anything
        return None
    return Shape(
        found,
        {each.encode_name: each.required for each in fields},
        {each.encode_name: hints.get(each.name, Any) for each in fields},
    )


def misfit(function: Callable[..., Any], inputs: Mapping[str, Json], *, complete: bool) -> str | None:
    """Explain why inputs do not match a process, or return None if they do.

    If the inputs are not complete, templates represent values that are not known yet, and the names in ALWAYS do not
    count as missing.
    """
    shape = shape_of(function)
    if shape is None:
        return None
    strange = [name for name in inputs if name not in shape.names and name not in ALWAYS]
    if strange and not shape.open:
        return f"does not have an input named {_named(strange)}; its inputs are {_named(_own(shape))}"
    missing = [name for name, needed in shape.names.items() if needed and name not in inputs]
    if not complete:
        missing = [name for name in missing if name not in ALWAYS]
    if missing:
        return f"requires the input {_named(missing)}"
    return _whole_misfit(shape, inputs) if complete else _part_misfit(shape, inputs)


def shaped(function: Callable[..., Any], inputs: Json) -> Any:  # noqa: ANN401  # the declared type
    """Return a run's inputs as an object of the class that its process declares, or unchanged if it declares none."""
    shape = shape_of(function)
    if shape is None or shape.plain or not is_object(inputs):
        return inputs
    try:
        return _made(shape, inputs)
    except (ValidationError, msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidRequest.at("/inputs", _told(error)) from error


def _whole_misfit(shape: Shape, inputs: Mapping[str, Json]) -> str | None:
    try:
        _made(shape, inputs)
    except (ValidationError, msgspec.ValidationError, TypeError, ValueError) as error:
        return f"does not accept these inputs: {_told(error)}"
    return None


def _part_misfit(shape: Shape, inputs: Mapping[str, Json]) -> str | None:
    for name, value in inputs.items():
        kind = shape.kinds.get(name)
        # The type of a template is known only after it has been filled in.
        if kind is None or _has_hole(value):
            continue
        try:
            if issubclass(shape.type, BaseModel):
                TypeAdapter(kind).validate_python(value)
            else:
                msgspec.convert(value, kind, dec_hook=_hook)
        except (ValidationError, msgspec.ValidationError, TypeError, ValueError) as error:
            return f"does not accept this value for {name}: {_told(error)}"
    return None


def _made(shape: Shape, inputs: Mapping[str, Json]) -> Any:  # noqa: ANN401  # the declared type
    # Pass the event only to classes that declare it, because other classes may forbid unknown names.
    given = {name: value for name, value in inputs.items() if name in shape.names or name not in ALWAYS}
    if issubclass(shape.type, BaseModel):
        return shape.type.model_validate(given)
    return msgspec.convert(given, shape.type, dec_hook=_hook)


def _hook(kind: Any, value: Any) -> Any:  # noqa: ANN401  # any type in a user's class
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_validate(value)
    raise NotImplementedError


def _has_hole(value: Json) -> bool:
    if is_object(value):
        return any(map(_has_hole, value.values()))
    if is_array(value):
        return any(map(_has_hole, value))
    return isinstance(value, str) and HOLE in value


def _told(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}"[:_LONGEST]
    return str(error)[:_LONGEST]


def _own(shape: Shape) -> list[str]:
    return [name for name in shape.names if name not in ALWAYS]


def _named(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"
