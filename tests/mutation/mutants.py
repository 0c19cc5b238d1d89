"""Generates all small faults that can be inserted into a module, with their positions and the resulting code.

Code that has no effect at runtime is skipped: annotations, docstrings, assertions for type checkers, `del` of unused
names, and decorator arguments. Faults in human-readable messages are marked and counted separately.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SKIPPED = (ast.Assert, ast.Delete, ast.Import, ast.ImportFrom, ast.FormattedValue)
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "bases", "format_spec"})
_FOR_TYPE_CHECKERS = frozenset({"cast", "TypeVar"})
_WORDS = re.compile(r"\w[,;:]? \w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault: a node in a module's syntax tree, and its replacement."""

    owner: ast.AST
    field: str
    index: int | None
    instead: Any
    line: int
    column: int
    what: str
    function: str | None
    """Outermost function whose body contains the fault, or None if the fault takes effect at import."""
    message: bool

    def __str__(self) -> str:
        return f"{self.line}:{self.column} {self.function or 'module'}: {self.what}"

    def compiled(self, tree: ast.Module, filename: str) -> CodeType:
        """Compile the module with this fault, then restore the tree."""
        before = self._put(self.instead)
        try:
            return compile(ast.fix_missing_locations(tree), filename, "exec")
        finally:
            self._put(before)

    def _put(self, node: Any) -> Any:
        before = getattr(self.owner, self.field)
        if self.index is None:
            setattr(self.owner, self.field, node)
            return before
        item, before[self.index] = before[self.index], node
        return item


def mutants(tree: ast.Module) -> list[Mutant]:
    """Return all faults for a module, sorted by line."""
    finder = _Finder()
    finder.visit(tree)
    return sorted(finder.found, key=lambda each: (each.line, each.column))


def functions(tree: ast.Module) -> dict[str, range]:
    """Return the qualified names of the outermost functions with their line ranges."""
    found: dict[str, range] = {}

    def search(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                search(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, _FUNCTIONS):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found[f"{prefix}{node.name}"] = range(first, (node.end_lineno or first) + 1)

    search(tree.body, "")
    return found


class _Finder:
    def __init__(self) -> None:
        self.found: list[Mutant] = []
        self._classes: list[str] = []
        self._function: str | None = None
        self._decorator = False

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            self._classes.append(node.name)
        for field, index, child in _children(node):
            if not _skipped(node, field, child):
                self._enter(node, field, index, child)
        if isinstance(node, ast.ClassDef):
            self._classes.pop()

    def _enter(self, node: ast.AST, field: str, index: int | None, child: ast.AST) -> None:
        before = self._function, self._decorator
        if isinstance(node, _FUNCTIONS) and field == "body" and self._function is None:
            self._function = ".".join([*self._classes, node.name])
        self._decorator = self._decorator or field == "decorator_list"
        self._offer(node, field, index, child)
        self.visit(child)
        self._function, self._decorator = before

    def _offer(self, node: ast.AST, field: str, index: int | None, child: ast.AST) -> None:
        if self._decorator and not (isinstance(child, ast.Constant) and isinstance(child.value, str)):
            return
        at = child if hasattr(child, "lineno") else node
        for instead, what in _faults(node, field, child):
            place = (field, index) if not isinstance(instead, list) else (field, None)
            mutant = Mutant(
                owner=node,
                field=place[0],
                index=place[1],
                instead=instead,
                line=getattr(at, "lineno", 0),
                column=getattr(at, "col_offset", 0),
                what=what,
                function=self._function,
                message=_message(node, child),
            )
            self.found.append(mutant)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            yield from ((field, n, each) for n, each in enumerate(value) if isinstance(each, ast.AST))


def _skipped(node: ast.AST, field: str, child: ast.AST) -> bool:
    if field in _SKIPPED_FIELDS or (isinstance(child, _SKIPPED) and not isinstance(node, ast.JoinedStr)):
        return True
    if isinstance(child, ast.Expr):
        return isinstance(child.value, ast.Constant)
    if isinstance(child, ast.AnnAssign):
        return "TypeAlias" in ast.unparse(child.annotation)
    if isinstance(child, ast.Assign):
        return ast.unparse(child.targets[0]) == "__all__"
    return isinstance(child, ast.Call) and ast.unparse(child.func) in _FOR_TYPE_CHECKERS


def _faults(node: ast.AST, field: str, child: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield each replacement for a node, with a description of the change."""
    yield from _other_operators(node, child)
    if isinstance(child, ast.Constant):
        yield from _other_constants(child)
    elif isinstance(child, ast.stmt):
        yield from _other_statements(child)
    elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not | ast.USub):
        yield child.operand, f"{ast.unparse(child)} → {ast.unparse(child.operand)}"
    elif isinstance(child, ast.keyword) and child.arg is not None and isinstance(node, ast.Call):
        yield [each for each in node.keywords if each is not child], f"{child.arg}= dropped"
    if field in {"test", "ifs"} and isinstance(child, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr):
        yield ast.UnaryOp(ast.Not(), child), f"if {ast.unparse(child)} → if not"


def _other_operators(node: ast.AST, child: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    kinds: tuple[type[ast.AST], ...] = ()
    if isinstance(child, ast.cmpop):
        kinds = _COMPARISONS[type(child)]
    elif type(child) in _OPERATORS and not _union(node):
        kinds = (_OPERATORS[type(child)],)
    for kind in kinds:
        yield kind(), f"{type(child).__name__} → {kind.__name__} in {ast.unparse(node)[:60]}"


def _union(node: ast.AST) -> bool:
    """Return whether the node is a union such as `int | float`, which occurs only as a type."""
    return isinstance(node, ast.BinOp) and all(
        isinstance(side, ast.Name) and (side.id[:1].isupper() or side.id in {"int", "float", "str", "bool"})
        for side in (node.left, node.right)
    )


def _other_constants(child: ast.Constant) -> Iterator[tuple[ast.AST, str]]:
    value: Any = child.value
    others: list[Any] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int | float):
        others = [value + 1, value - 1]
    elif isinstance(value, str):
        others = [f"XX{value}"]
    elif isinstance(value, bytes):
        others = [b"XX" + value]
    for other in others:
        yield ast.Constant(other), f"{value!r:.40} → {other!r:.40}"


def _other_statements(child: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    text = ast.unparse(child).partition("\n")[0][:60]
    if isinstance(child, ast.Return) and child.value is not None and ast.unparse(child.value) != "None":
        yield ast.Return(ast.Constant(None)), f"{text} → return None"
    elif isinstance(child, ast.Continue):
        yield ast.Break(), "continue → break"
    elif isinstance(child, ast.Break):
        yield ast.Continue(), "break → continue"
    elif isinstance(child, ast.Expr | ast.Raise | ast.AugAssign) or (
        isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Attribute | ast.Subscript)
    ):
        yield ast.Pass(), f"{text} removed"


def _message(node: ast.AST, child: ast.AST) -> bool:
    """Return whether the text is a message: words on one line, separated by spaces, possibly with values."""
    if not isinstance(child, ast.Constant) or not isinstance(child.value, str):
        return False
    parts = node.values if isinstance(node, ast.JoinedStr) else [child]
    text = "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in parts)
    return _WORDS.search(text) is not None and "\n" not in text
