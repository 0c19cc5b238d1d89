"""The pages about the SDK are complete, and their examples work."""

import asyncio
import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest

import assent
from assent import Assent
from assent.contracts.breakpoints import BreakpointResult, BreakpointSummary
from assent.core.errors import AssentError
from assent.core.fields import FIELDS, Place
from assent.kernel.settings import Settings
from assent.sdk import errors
from assent.sdk.calls import Calls
from assent.sdk.context import Context
from assent.sdk.gating import Terms
from assent.sdk.protocol import Asking
from tests.docs.pages import code_words, fences, read, rows, sections
from tests.support.nodes import prepared, server
from tests.support.until import until

PAGE = read("reference/sdk.md")
HOW_TO = read("how-to/gate-a-function.md")


def first_cells(text: str) -> set[str]:
    return {word for row in rows(text) for word in code_words(row[0])}


def test_the_first_table_lists_every_public_name() -> None:
    assert first_cells(PAGE.partition("## ")[0]) == set(assent._HOMES)


def test_every_client_method_is_listed() -> None:
    calls = {name for name in dir(Calls) if not name.startswith("_") and callable(getattr(Calls, name))}

    assert first_cells(sections(PAGE, 2)["Clients"]) == calls - {"now"} | {"stream"}


def test_every_argument_of_a_breakpoint_is_listed() -> None:
    assert set(Asking.__annotations__) <= code_words(sections(PAGE, 2)["Clients"])


def test_every_option_of_approve_is_listed() -> None:
    given = {"question", "editable", "hide", "when", "client"}

    assert first_cells(sections(PAGE, 2)["approve"]) == set(Terms.__annotations__) | given


def test_every_field_of_a_result_is_listed() -> None:
    assert first_cells(sections(PAGE, 2)["Results"]) == set(BreakpointResult.__struct_fields__)


def test_every_context_member_is_listed_with_its_arguments() -> None:
    listed = {re.split(r"[( ]", word.removeprefix("await "))[0] for word in first_cells(sections(PAGE, 2)["Context"])}

    assert listed == {name for name in vars(Context) if not name.startswith("_")}
    assert "`await sleep(seconds) -> None`" in sections(PAGE, 2)["Context"]


def test_every_public_function_is_shown_with_its_signature() -> None:
    (code,) = fences(sections(PAGE, 2)["Functions"], "python")
    shown = set(re.findall(r"def (\w+)\(", code))

    assert shown == {name for name in assent._HOMES if not inspect.isclass(getattr(assent, name))}


def test_every_client_error_is_listed() -> None:
    own = {name for name in errors.__all__ if getattr(errors, name).__module__ == errors.__name__}

    assert first_cells(sections(PAGE, 2)["Errors"]) == own - {AssentError.__name__}


@pytest.mark.parametrize("code", [*fences(HOW_TO, "python")])
def test_every_snippet_is_valid_python(code: str) -> None:
    compile(code, "snippet", "exec")


async def test_the_example_payment_uses_the_reviewers_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    agent, reviewer = await asyncio.to_thread(prepared, settings, "agent", "reviewer")
    with server(settings) as process, Assent(process.url, reviewer, patience=60) as person:
        monkeypatch.setenv("ASSENT_URL", process.url)
        monkeypatch.setenv("ASSENT_TOKEN", agent)
        said = io.StringIO()

        def program() -> None:
            with contextlib.redirect_stdout(said):
                exec(fences(HOW_TO, "python")[0], {"__name__": "payments"})

        async def asked() -> list[BreakpointSummary]:
            return (await asyncio.to_thread(person.list, status="waiting")).items

        running = asyncio.create_task(asyncio.to_thread(program))
        (found,) = await until(asked, bool)
        await asyncio.to_thread(person.approve, found.id, edits={"amount": 50})
        await running

    assert (found.question, found.gate) == ("Pay 500 to ann?", "call.payments.pay")
    assert re.fullmatch(r"Paid 50 to ann\.\n", said.getvalue())


def test_the_table_of_arguments_matches_the_declaration() -> None:
    table = [row for row in rows(sections(PAGE, 2)["Arguments of a breakpoint"]) if row[0].startswith("`")]
    assert [row[0].strip("`") for row in table] == [each.name for each in FIELDS]
    assert [row[3] for row in table] == [each.help for each in FIELDS]
    assert [row[1].strip("`").removeprefix("payload.") for row in table] == [
        "–" if each.place is Place.CLIENT else each.wire for each in FIELDS
    ]
