"""The security pages: every verdict names a test, and every count and number matches the code."""

import ast
import re
import secrets
from collections import Counter
from functools import cache

import pytest
from argon2 import PasswordHasher, Type

from assent.asgi import SIGN_INS_PER_MINUTE
from assent.breakpoints.api.waiting import MAX_WAIT
from assent.contracts import people as wire
from assent.contracts.models import model_of
from assent.core import canonical, draft
from assent.core.patterns import grammar
from assent.core.timestamps import SECOND
from assent.delivery.channels.registry import KINDS
from assent.http import middleware as edge
from assent.http import sessions
from assent.http.sessions import SESSION_LIFE
from assent.kernel.outbound import Limits
from assent.kernel.settings import Settings
from assent.people.usecases.people import LINK_LIFE, TOKEN_LIFE, PeopleService
from assent.web.rendering import code, markdown
from tests.docs.pages import ROOT, code_words, read, rows, sections

VERDICTS = ("met", "not applicable", "gap")
LISTS = {"security/asvs.md": 253, "security/aisvs-c9.md": 34}
"""Number of requirements: ASVS 5.0.0 in levels 1 and 2, and AISVS 1.0 in chapter C9."""
ID = re.compile(r"\d{1,2}\.\d{1,2}\.\d{1,2}")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CONTROLS = "security/controls.md"
HOUR, DAY, MEBIBYTE, KIBIBYTE = 3600 * SECOND, 24 * 3600 * SECOND, 1024 * 1024, 1024
PASSWORD = next(iter(model_of(wire.ChangePerson).model_json_schema()["properties"]["password"]["anyOf"]))
HASHER = PasswordHasher()

NUMBERS = {
    "Authentication": [
        f"{SIGN_INS_PER_MINUTE} attempts per minute",
        f"{SESSION_LIFE // HOUR} hours",
        f"{LINK_LIFE // HOUR} hours, single use",
        f"{TOKEN_LIFE // DAY} days by default",
        f"{PASSWORD['minLength']} to {PASSWORD['maxLength']} characters",
    ],
    "Sessions": [f"{SESSION_LIFE // HOUR} hours after it began"],
    "Input limits": [
        f"{edge.MAX_BODY // MEBIBYTE} MiB, {canonical.MAX_DEPTH} levels deep",
        f"| one file | {draft.MAX_FILE // MEBIBYTE} MiB |",
        f"| all files of a breakpoint | {draft.MAX_FILES // MEBIBYTE} MiB |",
        f"{edge.MAX_HOOK // MEBIBYTE} MiB, less if",
        f"| {Settings.model_fields['creates_per_minute'].default:,}, or the token's own limit |",
        f"| {Settings.model_fields['waits_per_token'].default:,} |",
    ],
    "Expensive operations": [
        f"{sessions.HASHES_AT_ONCE} concurrent checks",
        f"{markdown.PATIENCE:g} second for a document, {code.PATIENCE:g} for highlighting",
        f"{grammar.MAX_LENGTH:,} characters, {grammar.MAX_DEPTH} levels",
        f"{MAX_WAIT:g} seconds for a long-poll",
        f"{Limits().total:g} seconds for one message, {Limits().body // KIBIBYTE} KiB",
    ],
    "Keys and algorithms": [
        f"{HASHER.memory_cost // KIBIBYTE} MiB, {HASHER.time_cost} passes, {HASHER.parallelism} lanes"
    ],
}


def requirements(page: str) -> list[list[str]]:
    return [row for row in rows(read(page)) if ID.fullmatch(row[0])]


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the names of the functions in a file, without importing it."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, defined))


def section(title: str) -> str:
    """Return a section of the controls page as a single line."""
    return " ".join(sections(read(CONTROLS), 2)[title].split())


@pytest.mark.parametrize("page", LISTS)
def test_every_requirement_is_listed_once_and_in_order(page: str) -> None:
    ids = [row[0] for row in requirements(page)]

    assert len(ids) == LISTS[page]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda each: tuple(map(int, each.split("."))))
    assert [row for row in rows(read(page)) if len(row) != 4] == []


@pytest.mark.parametrize("page", LISTS)
def test_every_requirement_has_a_verdict_and_a_justification(page: str) -> None:
    for requirement, about, verdict, ground in requirements(page):
        assert verdict in VERDICTS, requirement
        assert about, requirement
        assert ground, requirement
        if verdict == "met":
            assert TEST.search(ground), f"{requirement} does not name a test"
        else:
            assert ground.endswith("."), f"{requirement} needs a sentence"


@pytest.mark.parametrize("page", LISTS)
def test_every_referenced_test_exists(page: str) -> None:
    named = TEST.findall(read(page))

    assert len(named) == read(page).count("`tests/"), "a test is not written as path::name"
    assert [f"{path}::{name}" for path, name in named if name not in defined_in(path)] == []


@pytest.mark.parametrize("page", LISTS)
def test_the_counts_at_the_top_are_correct(page: str) -> None:
    counted = Counter(row[2] for row in requirements(page))
    met, idle, gaps = (counted[verdict] for verdict in VERDICTS)

    assert f"\n{LISTS[page]} requirements: {met} met, {idle} not applicable, {gaps} gaps.\n" in read(page)


@pytest.mark.parametrize("title", NUMBERS)
def test_the_numbers_in_the_controls_match_the_code(title: str) -> None:
    assert [number for number in NUMBERS[title] if number not in section(title)] == []


def test_passwords_are_hashed_as_documented() -> None:
    assert HASHER.type is Type.ID
    cost = f"m={HASHER.memory_cost},t={HASHER.time_cost},p={HASHER.parallelism}"
    assert PeopleService(secrets.token_bytes).password_hash("a password").startswith(f"$argon2id$v=19${cost}$")


def test_every_channel_is_listed_under_connections() -> None:
    spoken_of = {"email": "mail server"}
    told = section("Connections").lower()
    assert [kind for kind in KINDS if spoken_of.get(kind, kind) not in told] == []


def test_every_documented_log_event_is_logged() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = {word for row in rows(sections(read(CONTROLS), 2)["Logs"]) for word in code_words(row[0])}

    assert len(named) >= 10
    assert [event for event in named if f'"{event}"' not in sources] == []


def test_every_kind_of_data_is_documented_completely() -> None:
    kinds = rows(sections(read(CONTROLS), 2)["Data"])

    assert [row[0] for row in kinds] == ["secrets", "content", "people", "history"]
    assert all(len(row) == 5 and all(row) for row in kinds)


def test_the_time_to_fix_vulnerable_components_is_documented() -> None:
    assert re.search(r"within \d+ days if it is critical or high, and within \d+ days otherwise", section("Components"))


def test_the_example_proxy_configuration_disables_old_tls() -> None:
    named = re.findall(r"^\s*ssl_protocols (.+);$", (ROOT / "deploy" / "nginx.conf").read_text(), re.MULTILINE)

    assert named == ["TLSv1.2 TLSv1.3"]
