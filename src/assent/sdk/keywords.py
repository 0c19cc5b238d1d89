"""Rejects unknown keyword arguments of SDK functions with a suggestion, before anything is sent."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack, get_args, get_origin

from assent.core.fields import BY_NAME, did_you_mean
from assent.sdk.errors import UnknownArgument

Given = ParamSpec("Given")
Made = TypeVar("Made")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def keywords_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's keyword arguments, including those of its `Unpack[TypedDict]`."""
    names: list[str] = []
    for name, each in inspect.signature(function).parameters.items():
        if each.kind in _NAMED and name != "self":
            names.append(name)
        elif each.kind is inspect.Parameter.VAR_KEYWORD and get_origin(each.annotation) is Unpack:
            # A TypedDict is only checked by type checkers, so its names have to be read here.
            names += get_args(each.annotation)[0].__annotations__
    return tuple(names)


def strict(function: Callable[Given, Made], name: str | None = None) -> Callable[Given, Made]:
    """Make a function reject unknown keyword arguments with a suggestion."""
    known = frozenset(keywords_of(function))
    called = name or function.__name__

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        if not known.issuperset(kwargs):
            refuse_unknown(called, kwargs, known)
        return function(*args, **kwargs)

    return checked


def refuse_unknown(called: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise UnknownArgument for the first unknown argument."""
    names = sorted(known)
    unknown = next((each for each in given if each not in names), None)
    if unknown is None:
        return
    sentences = [f"{called}() has no argument {unknown[:100]!r}."]
    sentences.append(did_you_mean(unknown, names) or f"Accepted keyword arguments: {', '.join(names) or 'none'}.")
    if "extra" in names:
        sentences.append("To show other data, use extra={…}.")
    elif unknown in BY_NAME and not any(each.startswith("Did you") for each in sentences):
        sentences.append(f"{unknown} is an argument of breakpoint() and create().")
    raise UnknownArgument(" ".join(sentences), argument=unknown)


def strict_class(kind: type[Made]) -> type[Made]:
    """Make a class reject unknown keyword arguments when it is called."""
    setattr(kind, "__init__", strict(kind.__init__, kind.__name__))  # noqa: B010  # mypy rejects assigning to a method
    return kind
