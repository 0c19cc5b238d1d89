"""The page about performance is generated from measurements."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from bench import page, results
from bench.report import Line
from bench.results import Result

SVG = "{http://www.w3.org/2000/svg}"
KEPT = results.load()
MEASURED = Result(
    "growth", "sqlite", "2026-01-01", "abc1234", "2 × a processor", "make bench",
    (Line("growth", "sqlite", "get", "90/s", "100/s", "1.11×", "≤ 1.3×", met=True, number=1.11),
     Line("growth", "sqlite", "list <50> & more", "9/s", "900/s", "100.00×", "≤ 1.3×", met=False, number=100.0)),
)  # fmt: skip


def test_the_page_is_generated_from_the_stored_results() -> None:
    assert page.PAGE.read_text() == page.page(KEPT)


def test_the_plots_are_generated_from_the_stored_results() -> None:
    drawn = {path.name: path.read_text() for path in page.IMAGES.glob("performance-*.svg")}

    assert drawn == page.plots(KEPT)


def test_every_benchmark_part_has_a_section() -> None:
    assert {result.part for result in KEPT} - set(page.SECTIONS) == set()


def test_every_result_is_on_the_page_with_its_date_and_commit() -> None:
    text = page.page([MEASURED])

    assert "| sqlite | get | 90/s | 100/s | 1.11× | ≤ 1.3× | yes |" in text
    assert "| sqlite | list <50> & more | 9/s | 900/s | 100.00× | ≤ 1.3× | NO |" in text
    assert "Every run used 2 × a processor." in text
    assert "Measured on 2026-01-01 at commit abc1234 using `make bench`." in text


def test_a_page_about_several_machines_shows_the_machine_of_each_run() -> None:
    text = page.page([MEASURED, replace(MEASURED, database="postgresql", machine="4 × another")])

    assert "Every run" not in text
    assert "Measured on 2026-01-01 at commit abc1234 on 4 × another using `make bench`." in text


def test_a_metric_without_a_baseline_has_a_row_with_a_column_per_database() -> None:
    def result(database: str, measured: str, *, met: bool) -> Result:
        line = Line("million", database, "list all", measured, "", "", "< 50 ms", met=met)
        return replace(MEASURED, part="million", database=database, lines=(line,))

    text = page.page([result("postgresql", "60.0 ms", met=False), result("sqlite", "0.9 ms", met=True)])

    assert "| metric | postgresql | sqlite | goal | met |" in text
    assert "| list all | 60.0 ms | 0.9 ms | < 50 ms | NO, yes |" in text


def test_a_part_that_was_not_measured_again_keeps_its_result() -> None:
    other = replace(MEASURED, database="postgresql", date="2026-02-02")

    assert results.merged([MEASURED], [other]) == [other, MEASURED]


def test_a_part_that_was_measured_again_replaces_its_result() -> None:
    again = replace(MEASURED, date="2026-02-02")

    assert results.merged([MEASURED], [again]) == [again]


def test_results_can_be_saved_and_loaded(tmp_path: Path) -> None:
    results.save([MEASURED], tmp_path / "results.json")

    assert results.load(tmp_path / "results.json") == [MEASURED]


@pytest.mark.parametrize("drawn", [*page.plots([MEASURED]).values(), *page.plots(KEPT).values()])
def test_a_plot_is_accessible_and_supports_dark_mode(drawn: str) -> None:
    root = ET.fromstring(drawn)

    named = {element.get("id"): element.text for element in root}
    assert root.get("role") == "img"
    assert all(named[each] for each in (root.get("aria-labelledby") or "").split())
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")


def test_the_description_of_a_plot_contains_every_number() -> None:
    (drawn,) = page.plots([MEASURED]).values()

    assert ET.fromstring(drawn).findtext(f"{SVG}desc") == (
        "get: 1.11×; list <50> & more: 100.0×. The scale is logarithmic."
    )
