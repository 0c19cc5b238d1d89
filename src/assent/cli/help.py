"""Placeholders for parameter values in help: TEXT, INTEGER, FILE, [a|b], and nothing for a flag."""

from pathlib import Path
from typing import Any, get_args

from typer.core import TyperArgument, TyperOption

_WORDS = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "FILE"}


def show_plain_types() -> None:
    """Replace the Python type names that Typer shows, because it has no setting for this."""
    option: dict[str, object] = {"display_type_rich": value_of}
    argument: dict[str, object] = {
        "display_name_raw": property(name_of),
        "display_type_rich": _no_type,
        "_usage_display_name": _usage_of,
    }
    for kind, shown in ((TyperOption, option), (TyperArgument, argument)):
        for name, method in shown.items():
            # Replaced on the classes, because Typer creates the parameters itself.
            setattr(kind, name, method)


def value_of(option: TyperOption, ctx: object = None) -> str | None:
    """Return the placeholder for an option's value, or None for a flag."""
    del ctx
    if option.is_flag or option.count:
        return None
    if option.metavar is not None:
        return option.metavar
    described = option.type_descriptor
    if described.choices is not None:
        return f"[{'|'.join(map(_choice, described.choices))}]"
    kind: Any = get_args(described.annotation)[0] if described.is_list else described.annotation
    return "FILE" if described.is_file else _WORDS[kind]


def name_of(argument: TyperArgument) -> str:
    return argument.metavar or argument.name.upper()


def _choice(value: object) -> str:
    return str(getattr(value, "value", value))


def _no_type(argument: TyperArgument, ctx: object) -> None:
    """Return nothing, because an argument's name already serves as its placeholder."""
    del argument, ctx


def _usage_of(argument: TyperArgument) -> str:
    name = name_of(argument) + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"
