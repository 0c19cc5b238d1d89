"""A local desk for tests: a folder, a manual clock, and a person whose input is scripted by the test."""

import io
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from assent.core.timestamps import SECOND
from assent.sdk.local import Desk, Outcome, ask
from assent.sdk.local_terminal import NoAnswer

START = 1_800_000_000 * SECOND


class Speaker:
    """Enters the lines one after the other, then reports the end of input."""

    def __init__(self, *lines: str) -> None:
        self.screen = io.StringIO()
        self.console = Console(file=self.screen, width=100, markup=False, highlight=False, emoji=False)
        self.asked: list[str] = []
        self._lines = list(lines)

    @property
    def shown(self) -> str:
        return self.screen.getvalue()

    def ask(self, prompt: str) -> str:
        self.asked.append(prompt)
        if not self._lines:
            msg = "the input ended"
            raise NoAnswer(msg)
        return self._lines.pop(0)

    def close(self) -> None:
        self.asked.append("closed")


@dataclass
class Office:
    """Asks questions at a desk that stores its files in this folder."""

    folder: Path
    now: int = START
    people: list[Speaker] = field(default_factory=list[Speaker])

    def ask(self, *lines: str, person: Speaker | None = None, **payload: Any) -> Outcome:
        """Ask a question and answer its prompts with these lines."""
        return self._ask(person or Speaker(*lines), payload)

    def ask_nobody(self, **payload: Any) -> Outcome:
        return self._ask(None, payload)

    def approve(self, **payload: Any) -> Outcome:
        return self.ask("yes", "", **payload)

    def reject(self, **payload: Any) -> Outcome:
        return self.ask("no", "", **payload)

    def _ask(self, person: Speaker | None, payload: dict[str, Any]) -> Outcome:
        top: dict[str, Any] = {
            name: payload.pop(name) for name in ("agentId", "ttlSeconds", "onTimeout") if name in payload
        }
        body: dict[str, Any] = {
            "agentId": "tester",
            "payload": {"question": "Go?", "breakpointId": "a.gate", **payload},
            **top,
        }
        if person is not None:
            self.people.append(person)
        desk = Desk(
            folder=self.folder,
            user="ann",
            now=lambda: self.now,
            new_id=lambda prefix: f"{prefix}{uuid.uuid4().hex}",
            person=lambda _ttl: person,
        )
        return ask(body, desk)

    def write_rules(self, *rules: tuple[str, str]) -> None:
        self.folder.mkdir(exist_ok=True)
        listed = [{"pattern": pattern, "action": action} for pattern, action in rules]
        document = {"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": listed}
        (self.folder / "rules.json").write_text(json.dumps(document))
