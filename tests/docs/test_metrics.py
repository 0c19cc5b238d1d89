"""Exactly the existing metrics are documented, with their types and labels."""

import re

from prometheus_client.metrics_core import Metric

from assent.core.breakpoint import Status
from assent.kernel.ports import Ended, Hint
from assent.kernel.telemetry import Figures, Metrics
from assent.platform.gauges import CAP
from tests.docs.pages import code_words, read, rows

PAGE = read("reference/metrics.md")
ROWS = {row[0].strip("`"): row for row in rows(PAGE)}


def busy() -> Metrics:
    """Return metrics after recording each of them once, so that all labels exist."""
    metrics = Metrics()
    metrics.answered("GET", "/", 200, 0.1)
    metrics.committed([Hint("default", "bp_1", Status.RELEASED, 2, 2, Ended("approved", "person", 1, 1))])
    metrics.batch(1, 0.1)
    metrics.delivery_attempt("slack", "sent", 0.1)
    metrics.queue({"enqueued": 1}, 1.0)
    metrics.job_failed("sweep")
    metrics.config_reloaded("applied")
    metrics.anchored("file", "sent", 1)
    metrics.figures(Figures(deliveries={"pending": 1}))
    return metrics


FAMILIES = {
    family.name + {"counter": "_total", "info": "_info"}.get(family.type, ""): family
    for family in busy().registry.collect()
}


def labels_of(family: Metric) -> list[str]:
    found = {name for sample in family.samples for name in sample.labels}
    return sorted(found - {"le"})


def test_every_metric_is_documented_and_every_documented_metric_exists() -> None:
    assert sorted(ROWS) == sorted(FAMILIES)


def test_a_metric_is_documented_with_its_type_and_labels() -> None:
    for name, family in FAMILIES.items():
        _, kind, labels, meaning = ROWS[name]
        # Prometheus itself treats an info metric as a gauge.
        assert kind == ("gauge" if family.type == "info" else family.type), name
        assert sorted(code_words(labels)) == labels_of(family), name
        assert meaning, name


def test_no_label_contains_a_value_chosen_by_a_caller() -> None:
    used = {label for family in FAMILIES.values() for label in labels_of(family)}
    bounded = {
        "method",
        "route",
        "status",
        "decision",
        "by",
        "state",
        "channel",
        "outcome",
        "job",
        "result",
        "version",
        "python",
    }
    assert used <= bounded


def test_the_counting_limit_is_documented() -> None:
    assert f"{CAP:,}" in PAGE


def test_example_queries_use_only_existing_metrics() -> None:
    named = set(re.findall(r"\bassent_\w+", read("how-to/observe.md")))
    known = {name + suffix for name in FAMILIES for suffix in ("", "_bucket", "_sum", "_count")}
    assert named <= known
