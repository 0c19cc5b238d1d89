"""The API reference matches the OpenAPI document."""

import re
from typing import Any

import pytest

from assent.http.problems import STATUS
from assent.kernel.settings import Settings
from tests.docs.pages import code_words, links, read, rows, sections
from tests.support.nodes import running_node

SECTIONS = {title.strip("`"): body for title, body in sections(read("reference/api.md"), 3).items()}
OBJECTS = sections(read("reference/api-objects.md"), 3)


@pytest.fixture
async def openapi(sqlite_settings: Settings) -> dict[str, Any]:
    async with running_node(sqlite_settings) as node:
        document: dict[str, Any] = (await node.call("GET", "/openapi.json")).json()
        return document


def _operations(openapi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    }


async def test_the_reference_lists_exactly_the_existing_routes(openapi: dict[str, Any]) -> None:
    assert set(SECTIONS) == set(_operations(openapi))


async def test_every_parameter_and_field_is_in_the_section_of_its_route(openapi: dict[str, Any]) -> None:
    missing = {
        name: undocumented
        for name, operation in _operations(openapi).items()
        if (undocumented := _inputs(operation, openapi) - _words(name))
    }

    assert missing == {}


async def test_every_field_of_a_response_is_documented(openapi: dict[str, Any]) -> None:
    pages = code_words(read("reference/api-objects.md") + read("reference/api.md"))
    named = {part.strip(" ?{}") for word in pages for part in re.split(r"[,.]", word)}
    missing = {
        name: undocumented
        for name, operation in _operations(openapi).items()
        if (undocumented := _fields(_answer(operation), openapi) - named)
    }

    assert missing == {}


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = next(iter(operation["responses"].values()))
    schema: dict[str, Any] = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


async def test_an_object_has_exactly_the_fields_of_its_schema(openapi: dict[str, Any]) -> None:
    for name, body in OBJECTS.items():
        parents = [OBJECTS[each] for each in re.findall(r"all fields of \[(\w+)\]", body)]
        documented = {word for part in (body, *parents) for word in _first_words(part)}
        assert documented == set(openapi["components"]["schemas"][name]["properties"]), name


def _first_words(text: str) -> set[str]:
    listed = " ".join(re.findall(r"(?:Other fields|Fields):\*\* (.+)", text))
    return code_words(listed) | {word for row in rows(text) for word in code_words(row[0])}


async def test_every_operation_that_returns_an_object_links_to_it(openapi: dict[str, Any]) -> None:
    for name, operation in _operations(openapi).items():
        returned = _answer(operation).get("$ref", "").rpartition("/")[2]
        if returned in OBJECTS:
            assert f"(api-objects.md#{returned.lower()})" in SECTIONS[name], name


async def test_required_fields_and_parameters_are_marked(openapi: dict[str, Any]) -> None:
    for name, operation in _operations(openapi).items():
        required = {each["name"] for each in operation.get("parameters", []) if each.get("required")}
        tables = re.findall(r"\|parameter\|.*?(?:\n\n|\Z)", SECTIONS[name], re.DOTALL)
        for row in rows("\n".join(["", *tables, ""])):
            (word,) = code_words(row[0])
            assert ("?" in row[0]) == (word not in required), (name, word)


def _words(route: str) -> set[str]:
    # A nested field is written as `context.files` in the reference.
    return {part for word in code_words(SECTIONS[route]) for part in (word, *word.split("."))}


def _inputs(operation: dict[str, Any], openapi: dict[str, Any]) -> set[str]:
    named = {each["name"] for each in operation.get("parameters", []) if each["in"] != "path"}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return named | (_fields(body, openapi) if body else set())


def _fields(schema: dict[str, Any], openapi: dict[str, Any]) -> set[str]:
    """Return the names of the fields of a schema, including nested ones."""
    if "$ref" in schema:
        return _fields(openapi["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], openapi)
    nested = [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]
    properties: dict[str, Any] = schema.get("properties", {})
    return set(properties).union(*(_fields(each, openapi) for each in [*nested, *properties.values()]))


@pytest.mark.parametrize("route", sorted(route for route in SECTIONS if " /api/" in route))
def test_each_section_lists_the_allowed_callers_and_errors_of_its_route(route: str) -> None:
    body = SECTIONS[route]
    codes = {error.code for error in STATUS}
    linked = set(re.findall(r"problems/(\w+)\.md", " ".join(links(body.partition("Errors:")[2]))))

    assert "**Allowed callers:**" in body
    assert linked
    assert linked <= codes
