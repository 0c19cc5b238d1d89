"""docs/reference/sdk.md: signatures and fields from the code, with the texts in tools/sdk_notes.md."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import assent
from assent.contracts.breakpoints import BreakpointResult
from assent.core.fields import FIELDS, Door, Field, Place
from assent.sdk import errors
from assent.sdk.calls import Calls
from assent.sdk.client import Assent
from assent.sdk.context import Context
from assent.sdk.gating import Terms, approve
from assent.sdk.protocol import Asking
from tools.docs.notes import read_notes

NOTES = Path(__file__).parents[1] / "sdk_notes.md"
FUNCTIONS = ("breakpoint", "abreakpoint", "require_approval", "approve", "process", "task")
CLIENTS = ("Assent", "AsyncAssent")
WIDTH = 120
Texts = Mapping[str, str]


def sdk_page() -> str:
    page, sections = read_notes(NOTES)
    texts = {name: dict(line.split(": ", 1) for line in text.splitlines()) for name, text in sections.items()}
    parts: Mapping[str, Callable[[Texts], str]] = {
        "names": _names,
        "functions": lambda _: _block(_definition(name, getattr(assent, name)) for name in FUNCTIONS),
        "clients": lambda _: _block(_constructor(name) for name in CLIENTS),
        "calls": _calls,
        "keywords": lambda _: "\n".join(_keywords()),
        "arguments": lambda _: _arguments(),
        "results": _results,
        "context": _context,
        "approve": _approve,
        "errors": _errors,
    }
    for name, part in parts.items():
        page = page.replace(f"<!-- {name} -->", part(texts.get(name, {})))
    return page + "\n"


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([each.replace("|", "\\|") for each in row] for row in rows)]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def _checked(texts: Texts, names: Iterable[str]) -> Texts:
    if wrong := set(texts) ^ set(names):
        sys.exit(f"{NOTES.name} and the code differ: {', '.join(sorted(wrong))}")
    return texts


def _names(texts: Texts) -> str:
    return _rows(("name", "meaning"), ((f"`{name}`", text) for name, text in _checked(texts, assent._HOMES).items()))  # noqa: SLF001  # the list of public names


def client_calls() -> dict[str, Any]:
    """Return the calls of both clients by name."""
    found = {name: getattr(Calls, name) for name in dir(Calls) if not name.startswith("_")}
    return {name: each for name, each in found.items() if callable(each) and name != "now"} | {"stream": Assent.stream}


def _calls(texts: Texts) -> str:
    found = client_calls()
    rows = ((f"`{name}`", f"`{_short(found[name])}`", text) for name, text in _checked(texts, found).items())
    return _rows(("call", "arguments and result", "meaning"), rows)


def _keywords() -> Iterator[str]:
    """Yield the keyword arguments that signatures only name, such as `**filters`."""
    for name, function in client_calls().items():
        variable = _arguments_of(function).kwarg
        if variable is None or variable.annotation is None:
            continue
        kind = _unpacked(variable.annotation)
        names = ", ".join(f"`{each}`" for each in get_type_hints(_types(function)[kind]))
        if kind == Asking.__name__:
            names += "; see [arguments of a breakpoint](#arguments-of-a-breakpoint)" if name == "create" else ""
        yield (
            f"- `{name}`: {names}."
            if kind != Asking.__name__ or name == "create"
            else f"- `{name}`: the same arguments as `create`."
        )


def _arguments() -> str:
    return _rows(("argument", "JSON field", "type", "meaning", "also in"), map(_argument, FIELDS))


def _argument(each: Field) -> Sequence[str]:
    wire = {Place.CLIENT: "–", Place.PAYLOAD: f"`payload.{each.wire}`", Place.BODY: f"`{each.wire}`"}[each.place]
    kind = f"`{each.kind}`" + (f": {', '.join(each.choices)}" if each.choices else "")
    doors = ", ".join(sorted(door.value for door in Door if door in each.doors)) or "–"
    return f"`{each.name}`", "`payload.question`" if each.name == "question" else wire, kind, each.help, doors


def _results(texts: Texts) -> str:
    types = inspect.get_annotations(BreakpointResult)
    rows = ((f"`{name}`", f"`{_named(types[name])}`", text) for name, text in _checked(texts, types).items())
    return _rows(("field", "type", "meaning"), rows)


def _named(kind: object) -> str:
    """Return a type as text; a choice of strings is a str."""
    if get_origin(kind) is Literal:
        return "str"
    if get_origin(kind) is Annotated:
        return _named(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return " | ".join(map(_named, get_args(kind)))
    return "None" if kind is NoneType else kind.__name__ if type(kind) is type else str(kind).replace("typing.", "")


def _context(texts: Texts) -> str:
    members = {name: each for name, each in vars(Context).items() if not name.startswith("_") and _is_member(each)}
    rows = (
        (
            f"`{_awaited(members[name])}{name}{'' if isinstance(members[name], property) else _short(members[name])}`",
            text,
        )
        for name, text in _checked(texts, members).items()
    )
    return _rows(("member", "meaning"), rows)


def _awaited(each: Any) -> str:  # noqa: ANN401  # a property or a function
    node = None if isinstance(each, property) else _node(each)
    return "await " if node and node.returns and "Coroutine" in ast.unparse(node.returns) else ""


def _is_member(each: object) -> bool:
    return isinstance(each, property) or inspect.isfunction(each)


def _approve(texts: Texts) -> str:
    given = [each.arg for each in (*_arguments_of(approve).args, *_arguments_of(approve).kwonlyargs)]
    rows = ((f"`{name}`", text) for name, text in _checked(texts, [*given, *get_type_hints(Terms)]).items())
    return _rows(("argument", "meaning"), rows)


def _errors(texts: Texts) -> str:
    own = [name for name in errors.__all__ if getattr(errors, name).__module__ == errors.__name__]
    return _rows(("exception", "when"), ((f"`{name}`", text) for name, text in _checked(texts, own).items()))


def _node(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:  # noqa: ANN401  # any callable
    """Return the definition of a function. If it is overloaded, return the overload with the most arguments."""
    plain = inspect.unwrap(function)
    tree = ast.parse(inspect.getsource(sys.modules[plain.__module__]))
    path = plain.__qualname__.split(".")
    body: list[ast.stmt] = tree.body
    for name in path[:-1]:
        body = next(each.body for each in body if isinstance(each, ast.ClassDef) and each.name == name)
    found = [
        each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == path[-1]
    ]
    return max(found, key=lambda each: len([*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs]))


def _arguments_of(function: Any) -> ast.arguments:  # noqa: ANN401  # any callable
    return _node(function).args


def _types(function: Any) -> Mapping[str, Any]:  # noqa: ANN401  # any callable
    return vars(sys.modules[inspect.unwrap(function).__module__])


def _unpacked(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    return text.removeprefix("Unpack[").removesuffix("]") if text.startswith("Unpack[") else text


def _returned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.unparse(node.returns).strip("'") if node.returns else "None"
    for wrapper in ("Flow[", "Coroutine[Any, Any, "):
        if text.startswith(wrapper):
            return text.removeprefix(wrapper).removesuffix("]")
    return text


def _parts(arguments: ast.arguments, *, typed: bool) -> Iterator[str]:
    """Yield the arguments of a signature, with its marks `/` and `*`."""
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(places) - len(arguments.defaults)) + list(arguments.defaults)
    for index, (each, default) in enumerate(zip(places, defaults, strict=True)):
        if each.arg != "self":
            yield _part(each, default, typed=typed)
        if index + 1 == len(arguments.posonlyargs) and each.arg != "self":
            yield "/"
    if arguments.vararg:
        yield f"*{_part(arguments.vararg, None, typed=typed)}"
    elif arguments.kwonlyargs:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _part(each, default, typed=typed)
    if arguments.kwarg:
        yield f"**{_part(arguments.kwarg, None, typed=typed)}"


def _part(each: ast.arg, default: ast.expr | None, *, typed: bool) -> str:
    kind = f": {_unpacked(each.annotation)}" if typed and each.annotation else ""
    if default is None:
        return each.arg + kind
    return f"{each.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def _short(function: Any) -> str:  # noqa: ANN401  # any callable
    node = _node(function)
    return f"({', '.join(_parts(node.args, typed=False))}) -> {_returned(node)}"


def _definition(name: str, function: Any) -> str:  # noqa: ANN401  # any callable
    node = _node(function)
    awaited = "async " if _awaited(function) else ""
    return _wrapped(f"{awaited}def {name}", node, f" -> {_returned(node)}")


def _constructor(name: str) -> str:
    return _wrapped(name, _node(getattr(assent, name).__init__), "")


def _wrapped(start: str, node: ast.FunctionDef | ast.AsyncFunctionDef, end: str) -> str:
    parts = list(_parts(node.args, typed=True))
    line = f"{start}({', '.join(parts)}){end}"
    inner = "\n".join(f"    {each}," for each in parts)
    return line if len(line) <= WIDTH else f"{start}(\n{inner}\n){end}"


def _block(lines: Iterable[str]) -> str:
    return "```python\n" + "\n\n".join(lines) + "\n```"
