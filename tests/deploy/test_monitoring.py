"""The dashboard and the alerts query only existing metrics and labels."""

import re
from collections.abc import Iterator

import pytest

from tests.deploy.files import alerts, dashboard
from tests.docs.pages import DOCS, anchors, code_words, read, rows
from tests.support.nodes import Node

_METRIC = re.compile(r"\b((?:assent|process)_\w+|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
# Labels that Prometheus adds to every series. If one of our labels has the same name, Prometheus renames ours.
ADDED = {"instance", "job", "le"}
RENAMED = {"exported_job": "job"}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for rule in alerts():
        yield rule["alert"], rule["expr"]


EXPRESSIONS = dict(expressions())
LABELS = {row[0].strip("`"): set(code_words(row[2])) for row in rows(read("reference/metrics.md"))}


def family(metric: str) -> str:
    return metric if metric in LABELS else re.sub(r"_(bucket|sum|count)$", "", metric)


async def test_every_queried_metric_is_exported_by_a_node(node: Node) -> None:
    printed = (await node.call("GET", "/metrics")).text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", printed, re.MULTILINE))
    suffixes = ("_bucket", "_sum", "_count")
    there = {name + suffix for name, kind in kinds.items() for suffix in (suffixes if kind == "histogram" else ("",))}
    asked = {name for expr in EXPRESSIONS.values() for name, _ in _METRIC.findall(expr)}
    assert asked - there == {"up"}


def test_every_metric_except_virtual_memory_and_start_time_is_queried() -> None:
    asked = {family(name) for expr in EXPRESSIONS.values() for name, _ in _METRIC.findall(expr)}
    assert set(LABELS) - asked == {"process_virtual_memory_bytes", "process_start_time_seconds"}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_uses_only_labels_of_its_metrics(name: str) -> None:
    expr = EXPRESSIONS[name]
    for metric, matchers in _METRIC.findall(expr):
        grouped = {label.strip() for labels in _GROUPING.findall(expr) for label in labels.split(",")}
        used = {RENAMED.get(label, label) for label in grouped | set(_MATCHER.findall(matchers))}
        ours = LABELS.get(family(metric), set())
        assert used <= ours | ADDED
        # Grouping by `job` would use the scrape job that Prometheus adds instead of our label.
        assert "job" not in ours or "job" not in grouped
    assert all(expr.count(opening) == expr.count(closing) for opening, closing in ("()", "[]", "{}"))


def test_every_alert_has_a_severity_and_a_summary() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["annotations"]["summary"].endswith((".", "dead", "check")), rule["alert"]


def test_every_alert_is_documented_in_order() -> None:
    page = (DOCS / "how-to" / "deploy.md").read_text()
    assert "alerts" in anchors(page)
    told = [row[0].strip("`") for row in rows(page) if row[0].startswith("`Assent")]
    assert told == [rule["alert"] for rule in alerts()]


def test_dashboard_panels_do_not_overlap() -> None:
    taken = [
        (x, y)
        for panel in dashboard()["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
