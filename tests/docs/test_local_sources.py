"""The examples on the pages about files, git and schedules work, and their tables are complete."""

from pathlib import Path

import pytest

from assent.installation import setup_of
from assent.kernel.settings import Settings
from assent.kernel.yaml_file import read as read_yaml
from assent.platform.config_file import Given
from assent.triggers import schedules
from assent.triggers.sources import files, git, local
from assent.triggers.sources.snapshots import LEFT_OUT
from tests.cli.commands import here
from tests.docs.pages import code_words, fences, read, rows
from tests.triggers.sources.repositories import repository

SETTINGS = {
    "watch-files": files.KNOWN | {local.HOST, "trust"},
    "git-hooks": git.KNOWN | {local.HOST, "trust"},
    "schedules": schedules.NAMES,
}


@pytest.mark.parametrize("page", SETTINGS)
def test_every_source_setting_is_documented(page: str) -> None:
    table = read(f"how-to/{page}.md").partition("| setting |")[2].partition("\n\n")[0]
    assert {row[0].strip("`") for row in rows(f"| setting |{table}\n")} == SETTINGS[page]


@pytest.mark.parametrize("page", SETTINGS)
def test_the_example_file_is_valid(page: str, sqlite_settings: Settings, tmp_path: Path) -> None:
    (text,) = fences(read(f"how-to/{page}.md"), "yaml")
    parts = read_yaml(text.encode()).value
    found = setup_of(sqlite_settings, Given(parts), base=tmp_path)
    assert found.problems.told() == []
    assert (len(found.triggered.sources), len(found.triggered.triggers)) == (1, 1)


def test_the_default_exclusions_are_listed() -> None:
    page = read("how-to/watch-files.md")
    assert set(LEFT_OUT) <= code_words(page.partition("By default, these are ignored")[2].partition("\n\n")[0])


def test_the_cron_shorthands_are_listed() -> None:
    page = read("how-to/schedules.md")
    several = {line: name for name, line in reversed(schedules.SHORT.items())}
    assert [name for name in several.values() if f"`{name}`" not in page] == []


def test_the_commands_work_in_the_documented_order(tmp_path: Path) -> None:
    repository(tmp_path / "shop")
    lines = [line for text in fences(read("how-to/git-hooks.md"), "sh") for line in text.splitlines()]
    assert [line.split()[2] for line in lines] == ["install", "status", "uninstall"]
    for line in lines:
        done = here(*line.replace("~/src/shop", str(tmp_path / "shop")).split()[1:])
        assert done.exit_code == 0, done.output
