"""Metrics are correct on both databases, and their labels are bounded."""

import re
import threading
from functools import partial

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.breakpoint import Status
from assent.core.errors import Forbidden
from assent.db.transaction import Transaction
from assent.kernel.ports import Ended, Hint
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics
from assent.platform.gauges import CAP, FIGURES, read_figures
from tests.db.making import create, creation, person, respond, rows
from tests.support.nodes import ManualClock, Node, running_node

INSERT_DELIVERY = """
    INSERT INTO assent_deliveries (id, project_id, breakpoint_id, channel, recipient, seq, type, state, attempts,
        next_at, created_at, updated_at)
    VALUES (:id, 'default', :breakpoint_id, 'slack', :id, 1, 'created', :state, 0, :next_at, 1, 1)"""


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    found = metrics.registry.get_sample_value(name, labels)
    assert found is None or isinstance(found, float | int)
    return found


async def test_time_to_decision_is_measured_by_outcome_and_decider(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    approved, rejected = await create(node), await create(node)
    clock.advance(90)
    await respond(node, approved, ann)
    clock.advance(7200)
    await respond(node, rejected, ann, approved=False)
    metrics = node.assent.metrics
    by_person = partial(sample, metrics, "assent_decision_seconds_bucket", by="person")
    assert by_person(decision="approved", le="60.0") == 0
    assert by_person(decision="approved", le="300.0") == 1
    assert by_person(decision="rejected", le="3600.0") == 0
    assert by_person(decision="rejected", le="14400.0") == 1
    assert sample(metrics, "assent_decision_seconds_sum", by="person", decision="approved") == 90
    assert sample(metrics, "assent_decisions_total", status="released") == 2


async def test_the_lateness_of_expired_breakpoints_is_measured(node: Node, clock: ManualClock) -> None:
    await create(node, ttlSeconds=60)
    await create(node, ttlSeconds=60, onTimeout="reject")
    clock.advance(62.5)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    metrics = node.assent.metrics
    assert sample(metrics, "assent_expiry_lateness_seconds_count") == 2
    assert sample(metrics, "assent_expiry_lateness_seconds_sum") == 5
    assert sample(metrics, "assent_decisions_total", status="expired") == 1
    assert sample(metrics, "assent_decision_seconds_count", by="system", decision="rejected") == 1


async def test_a_cancellation_has_neither_a_decision_time_nor_a_lateness(node: Node) -> None:
    created = await node.create()
    await node.call("POST", f"/api/breakpoints/{created['id']}/cancel", await node.token("agent"))
    metrics = node.assent.metrics
    assert sample(metrics, "assent_decisions_total", status="cancelled") == 1
    assert sample(metrics, "assent_expiry_lateness_seconds_count") == 0
    assert "assent_decision_seconds_count" not in {
        each.name for family in metrics.registry.collect() for each in family.samples
    }


async def test_the_number_of_events_matches_the_audit_log(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    made = [await create(node, ttlSeconds=60 if n else 600, expert=["nobody"]) for n in range(3)]

    def spoiled(tx: Transaction) -> None:
        creation(node)(tx)
        raise Forbidden

    with pytest.raises(Forbidden):
        await node.assent.database.write(spoiled)
    await node.token("agent")
    clock.advance(61)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    await node.feedback(made[0], await node.token("reviewer"), comment="Hm.")
    await respond(node, await create(node), ann)
    written = (await rows(node, "SELECT count(*) FROM assent_events"))[0][0]
    assert sample(node.assent.metrics, "assent_events_written_total") == written


async def test_commits_and_their_batch_sizes_are_counted(node: Node) -> None:
    metrics = node.assent.metrics
    before = sample(metrics, "assent_commit_batch_size_sum")
    for _ in range(3):
        await create(node)
    # The node's own jobs commit too, so the number can be higher.
    assert (sample(metrics, "assent_commit_batch_size_sum") or 0) >= (before or 0) + 3
    assert sample(metrics, "assent_commit_seconds_count") == sample(metrics, "assent_commit_batch_size_count")
    assert (sample(metrics, "assent_commit_seconds_sum") or 0) > 0


async def test_gauges_show_pending_work_and_its_age(node: Node, clock: ManualClock) -> None:
    first = await create(node)
    clock.advance(30)
    await create(node)
    now = clock.now()

    def queue(tx: Transaction) -> None:
        for n, (state, due) in enumerate(
            [("pending", now - 7_000_000), ("pending", now + 60_000_000), ("sending", 1), ("dead", 1), ("sent", 1)]
        ):
            row = {"id": f"dlv_{n}", "breakpoint_id": first, "state": state, "next_at": due}
            tx.session.write(INSERT_DELIVERY, [row])

    await node.assent.database.write(queue)
    await node.assent.measure()
    metrics = node.assent.metrics
    assert sample(metrics, "assent_pending_breakpoints") == 2
    assert sample(metrics, "assent_oldest_pending_seconds") == 30
    assert sample(metrics, "assent_delivery_lag_seconds") == 7
    assert [sample(metrics, "assent_deliveries", state=state) for state in ("pending", "sending", "dead")] == [2, 1, 1]
    assert sample(metrics, "assent_deliveries", state="sent") is None
    assert (sample(metrics, "assent_figures_age_seconds") or 0) >= 0


async def test_gauges_are_zero_for_an_empty_database(node: Node) -> None:
    found = await read_figures(node.assent.database, node.assent.clock.now())
    assert (found.pending, found.oldest_pending_seconds, found.delivery_lag_seconds) == (0, 0.0, 0.0)
    assert found.deliveries == {"pending": 0, "sending": 0, "dead": 0}


async def test_gauges_stop_counting_at_a_limit(node: Node) -> None:
    for _ in range(3):
        await create(node)
    assert (await node.assent.database.fetch_page(FIGURES, {"cap": 2}))[0][0] == 2
    assert CAP >= 10_000


async def test_gauge_queries_use_indexes(sqlite_settings: Settings) -> None:
    """Tested only on SQLite, because PostgreSQL scans every table sequentially while it is almost empty."""
    async with running_node(sqlite_settings) as node:
        plan = [row[3] for row in await rows(node, f"EXPLAIN QUERY PLAN {FIGURES}", cap=CAP)]
    steps = [step for step in plan if re.match(r"(SCAN|SEARCH) (b|d|assent_(breakpoints|deliveries))\b", step)]
    assert len(steps) == 6
    assert [step for step in steps if not re.match(r"SEARCH \w+ USING (COVERING )?INDEX", step)] == []


async def test_a_scrape_does_not_query_the_database(node: Node) -> None:
    for task in node.assent._tasks:
        task.cancel()  # the node must not measure in the meantime
    await create(node)
    await node.assent.measure()
    await create(node)
    assert "assent_pending_breakpoints 1.0" in (await node.call("GET", "/metrics")).text.splitlines()


async def test_a_failed_background_job_is_counted(node: Node) -> None:
    with node.assent.patient("sweep"):
        raise ZeroDivisionError
    assert sample(node.assent.metrics, "assent_job_failures_total", job="sweep") == 1


def test_metrics_of_workers_are_exported() -> None:
    metrics = Metrics()
    metrics.delivery_attempt("slack", "sent", 0.3)
    metrics.delivery_attempt("slack", "transient", 12.0)
    metrics.queue({"enqueued": 3, "running": 1}, 4.5)
    metrics.job_failed("deliver")
    metrics.workers(2)
    assert sample(metrics, "assent_delivery_attempts_total", channel="slack", outcome="sent") == 1
    assert sample(metrics, "assent_delivery_attempt_seconds_bucket", channel="slack", le="0.5") == 1
    assert sample(metrics, "assent_delivery_attempt_seconds_count", channel="slack") == 2
    assert sample(metrics, "assent_queue_jobs", state="enqueued") == 3
    assert sample(metrics, "assent_queue_lag_seconds") == 4.5
    assert sample(metrics, "assent_job_failures_total", job="deliver") == 1
    assert sample(metrics, "assent_workers") == 2
    metrics.queue({"running": 1}, 0.0)
    assert sample(metrics, "assent_queue_jobs", state="enqueued") is None


def test_no_count_is_lost_between_concurrent_threads() -> None:
    metrics = Metrics()

    def work() -> None:
        for _ in range(2_000):
            metrics.delivery_attempt("email", "sent", 0.1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sample(metrics, "assent_delivery_attempts_total", channel="email", outcome="sent") == 8_000


@pytest.mark.parametrize("seconds", [0.0, 1.0, 86_400.0, 10**9])
def test_histogram_buckets_are_consistent(seconds: float) -> None:
    metrics = Metrics()
    ended = Ended("approved", "person", round(seconds * 1_000_000), None)
    metrics.committed([Hint("default", "bp_1", Status.RELEASED, 2, 1, ended)])
    buckets = [
        each.value
        for family in metrics.registry.collect()
        for each in family.samples
        if each.name == "assent_decision_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == sample(metrics, "assent_decision_seconds_count", decision="approved", by="person") == 1


def test_the_build_version_is_exported() -> None:
    labels = next(
        each.labels
        for family in Metrics().registry.collect()
        for each in family.samples
        if each.name == "assent_build_info"
    )
    assert labels["version"]
    assert labels["python"].startswith("3.")
