"""One SQL notation for three drivers: statements contain `:name`, and each driver gets its own placeholders."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, LiteralString, TypeAlias

import msgspec

_encode = msgspec.json.Encoder().encode
Params: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Sequence[Any]

_NAME = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=1024)
def for_psycopg(statement: str) -> LiteralString:
    # psycopg requires proof that statements contain no formatted values; ours are built from constants in this package.
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%"))  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=1024)
def for_asyncpg(statement: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with $1, $2 … as placeholders, and the parameter names in that order."""
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


def given(dialect: str, columns: Mapping[str, str]) -> str:
    """Return the table `given`, which reads many rows from the single parameter `rows`, for both databases."""
    if dialect == "postgresql":
        typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return f"json_to_recordset(CAST(:rows AS json)) AS given ({typed})"
    picked = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
    return f"(SELECT {picked} FROM json_each(:rows)) AS given"


def among(column: str, values: Sequence[str], dialect: str, *, name: str = "among") -> tuple[str, dict[str, str]]:
    """Return a condition that a column has one of these values, and the parameter that contains all of them."""
    listed = f"json_each(:{name})" if dialect == "sqlite" else f"jsonb_array_elements_text(CAST(:{name} AS jsonb))"
    return f"{column} IN (SELECT value FROM {listed})", {name: json.dumps(values)}


def to_json(value: Any) -> str:  # noqa: ANN401  # any JSON value
    return _encode(value).decode()
