"""Reading assent.yaml: settings and other sections use the same reader, and errors include line numbers."""

from pathlib import Path

import pytest

from assent.core.errors import InvalidRequest, NotFound
from assent.kernel.settings import Settings
from assent.kernel.yaml_file import Unreadable
from assent.platform.config_file import Given, Problems, in_place, read_file, shown, unreadable

TEXT = """\
access_log: yes
triggers:
  - id: first
    on: github.push
    run: fix
  - id: second
    on: schedule.tick
    run: fix
    inputs:
      a/b: 1
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "assent.yaml"
    found.write_text(TEXT)
    return found


@pytest.mark.usefixtures("path")
def test_the_yaml_key_on_is_parsed_as_a_string_and_not_as_a_boolean() -> None:
    settings = Settings()
    assert settings.triggers is not None
    assert [each["on"] for each in settings.triggers] == ["github.push", "schedule.tick"]
    assert settings.access_log is True


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "- a\n", "triggers: [", "port: *x\n"])
def test_an_invalid_file_prevents_loading_the_settings(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(Unreadable):
        Settings()
    with pytest.raises(Unreadable):
        read_file(path)


def test_the_configuration_file_is_optional(tmp_path: Path) -> None:
    assert read_file(tmp_path / "assent.yaml") is None


@pytest.mark.parametrize(
    ("pointer", "said"),
    [
        ("/triggers/1/on", "assent.yaml line 7: triggers[1]/on: is wrong"),
        ("/triggers/1/inputs/a~1b", "assent.yaml line 10: triggers[1]/inputs/a/b: is wrong"),
        ("/triggers/1/inputs/none/0", "assent.yaml line 9: triggers[1]/inputs/none/0: is wrong"),
        ("/triggers/1/once", "assent.yaml line 6: triggers[1]/once: is wrong"),
        ("/routes/0", "routes[0]: is wrong"),
    ],
)
def test_a_problem_names_its_line_or_its_parents_line(path: Path, pointer: str, said: str) -> None:
    file = read_file(path)
    assert file is not None
    problems = Problems(Given(file.value, file, frozenset({"triggers"})))
    problems.add(pointer, "is wrong")
    assert problems.told() == [said]


def test_a_problem_outside_the_file_has_no_line() -> None:
    problems = Problems(Given({"triggers": []}))
    problems.add("/triggers/0/on", "is wrong")
    assert problems.told() == ["triggers[0]/on: is wrong"]


def test_problems_are_listed_in_the_order_in_which_they_appear_in_the_file(path: Path) -> None:
    file = read_file(path)
    assert file is not None
    problems = Problems(Given(file.value, file, frozenset({"triggers"})))
    for pointer in ("/triggers/1/run", "/triggers/0/id"):
        problems.add(pointer, "is wrong")
    assert [each[:18] for each in problems.told()] == ["assent.yaml line 3", "assent.yaml line 8"]


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (InvalidRequest.at("/on", "is wrong"), ("/triggers/0/on", "is wrong")),
        (InvalidRequest.at("/", "is wrong"), ("/triggers/0", "is wrong")),
        (NotFound("Project x not found."), ("/triggers/0", "Project x not found.")),
    ],
)
def test_an_error_pointer_is_prefixed_with_the_pointer_to_its_section(
    error: InvalidRequest | NotFound, found: tuple[str, str]
) -> None:
    assert in_place("/triggers/0", error) == found


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        ("/triggers/0/on", "triggers[0]/on"),
        ("/channels/12", "channels[12]"),
        ("/sources/7/secrets/0", "sources/7/secrets/0"),
        ("/sources", "sources"),
        ("", ""),
    ],
)
def test_a_pointer_is_shown_in_readable_form(pointer: str, text: str) -> None:
    assert shown(pointer) == text


def test_an_unreadable_file_is_reported_with_its_path_and_line(path: Path) -> None:
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(Unreadable) as refused:
        read_file(path)
    assert str(unreadable("assent.yaml", refused.value)) == "assent.yaml line 2: a is defined twice, first on line 1"
    assert str(unreadable("x", Unreadable("is not UTF-8 text"))) == "x is not UTF-8 text"
    assert str(unreadable("x", PermissionError(13, "Permission denied"))) == "x cannot be read: Permission denied"
