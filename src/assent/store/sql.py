"""One spelling of SQL for three drivers: statements carry `:name`, each driver gets its own placeholders."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, LiteralString, TypeAlias

Params: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Sequence[Any]

_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=1024)
def for_psycopg(statement: str) -> LiteralString:
    # psycopg wants proof that no value was spelled into a statement; ours come from this folder's constants.
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%"))  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=1024)
def for_asyncpg(statement: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with $1, $2 … and the names in that order."""
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAME.sub(place, statement), tuple(names)


def insert(table: str, columns: Sequence[str], *, suffix: str = "") -> str:
    names = ", ".join(columns)
    values = ", ".join(f":{column}" for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({values}) {suffix}".strip()
