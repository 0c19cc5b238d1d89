"""Data as the original service stores it, row by row; the tables follow its schema."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

TABLES = """
    CREATE TABLE breakpoints (
        id TEXT PRIMARY KEY, status TEXT, agent_id TEXT, run_id TEXT, title TEXT, payload TEXT, tags TEXT,
        ttl_seconds INTEGER, created_at TEXT, updated_at TEXT, released_at TEXT, expired_at TEXT, cancelled_at TEXT);
    CREATE TABLE feedback (id TEXT PRIMARY KEY, breakpoint_id TEXT, author TEXT, comment TEXT, created_at TEXT);
    CREATE TABLE events (
        id TEXT PRIMARY KEY, breakpoint_id TEXT, type TEXT, actor TEXT, timestamp TEXT, metadata TEXT);
    CREATE TABLE extensions_config (
        name TEXT PRIMARY KEY, enabled INTEGER, config_json TEXT, created_at TEXT, updated_at TEXT);
"""


def minute(n: int) -> str:
    return f"2025-03-01T10:{n:02}:00.000Z"


@dataclass
class OriginalService:
    """Modifies its file exactly as the original service's endpoints do."""

    path: Path

    def __post_init__(self) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.executescript(TABLES)

    def write(self, statement: str, *values: object) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(statement, values)

    def create(self, payload: Any, at: str = minute(0), /, **row: Any) -> str:
        made = {
            "id": str(uuid4()),
            "status": "waiting",
            "agent_id": "agent-1",
            "payload": json.dumps(payload),
            "created_at": at,
            "updated_at": at,
        } | row
        self.write(f"INSERT INTO breakpoints ({', '.join(made)}) VALUES ({', '.join('?' * len(made))})", *made.values())
        return str(made["id"])

    def feedback(self, breakpoint_id: str, author: str, comment: str, at: str, *, release: bool = False) -> None:
        self.write("INSERT INTO feedback VALUES (?, ?, ?, ?, ?)", str(uuid4()), breakpoint_id, author, comment, at)
        if release:
            self.end(breakpoint_id, "released", author, at)

    def end(self, breakpoint_id: str, status: str, actor: str, at: str) -> None:
        self.write(
            f"UPDATE breakpoints SET status = ?, {status}_at = ?, updated_at = ? WHERE id = ?",
            *(status, at, at, breakpoint_id),
        )
        self.write("INSERT INTO events VALUES (?, ?, ?, ?, ?, NULL)", str(uuid4()), breakpoint_id, status, actor, at)
