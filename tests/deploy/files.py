"""Parses the files in deploy/."""

import json
import re
from collections.abc import Iterator
from configparser import RawConfigParser
from typing import Any

import yaml

from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
UNITS = ("assent.service", "assent-worker@.service")
_CONTINUED = re.compile(r"\\\n\s*")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text())
    return found


def alerts() -> list[dict[str, Any]]:
    return [rule for group in _yaml("alerts.yaml")["groups"] for rule in group["rules"]]


def compose() -> dict[str, Any]:
    return _yaml("compose.yaml")


def _yaml(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return found


def instructions() -> Iterator[tuple[str, str]]:
    """Yield the Containerfile's instructions with their arguments."""
    for line in _CONTINUED.sub(" ", (DEPLOY / "Containerfile").read_text()).splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a unit; a repeated key has several values."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (DEPLOY / name).read_text().splitlines():
        if heading := RawConfigParser.SECTCRE.fullmatch(line):
            section = heading["header"]
            found[section] = {}
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[section].setdefault(key, []).append(value)
    return found
