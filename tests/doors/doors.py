"""The list of all integrations, collected from the `*_door.py` files in this folder."""

from importlib import import_module
from pathlib import Path

from tests.doors.kit import Door

_FILES = sorted(Path(__file__).parent.glob("*_door.py"))
DOORS: list[Door] = [door for file in _FILES for door in import_module(f"tests.doors.{file.stem}").DOORS]
