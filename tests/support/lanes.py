"""Test lanes: `test` must pass before a merge and is what CI runs; `all` includes every test.

`pytest --lane test` leaves out the slow tests in FULL and, except for BOTH_DATABASES, the PostgreSQL variants of tests.
Randomized tests try fewer examples in that lane. Without `--lane`, pytest runs everything; `--shard 2/12` runs part of
the lane. `--lane test --full-shard 2/48` runs the lane, and all tests in full for part of the files, as CI does.
"""

import hashlib
import os
from typing import Any, NamedTuple

import pytest
from hypothesis import is_hypothesis_test, settings

LANES = ("test", "all")
VARIABLE = "ASSENT_TEST_LANE"
FULL_SHARD_VARIABLE = "ASSENT_TEST_FULL_SHARD"

BOTH_DATABASES = {
    "tests/breakpoints/api/test_feedback.py": "two decisions race",
    "tests/breakpoints/api/test_idempotency.py": "two identical requests race",
    "tests/breakpoints/api/test_list.py": "list plans and cursors are SQL",
    "tests/breakpoints/api/test_strategies.py": "votes lock the breakpoint",
    "tests/breakpoints/api/test_waiting.py": "PostgreSQL wakes waiters by NOTIFY",
    "tests/breakpoints/store/": "the SQL itself",
    "tests/browser/test_two_reviewers.py": "an undo window and a second answer race",
    "tests/db/": "the SQL itself",
    "tests/delivery/store/": "the SQL itself",
    "tests/policy/store/": "the SQL itself",
    "tests/conformance/": "one model for both databases",
    "tests/platform/test_queue.py": "claims and queues use database locks",
    "tests/faults/": "crashes and races differ by database",
    "tests/runs/test_races.py": "workers race for a run",
    "tests/policy/usecases/test_backtest.py": "back-tests are SQL",
    "tests/audit/usecases/test_database_administrator.py": "each database can be edited in different ways",
    "tests/delivery/usecases/test_delivery.py": "claims are guarded updates",
    "tests/breakpoints/usecases/test_pending_answers.py": "answers race",
    "tests/policy/usecases/test_receipts.py": "two uses of a receipt race",
    "tests/audit/usecases/test_retention.py": "purging is SQL",
    "tests/web/test_both_databases.py": "one pass over the pages",
}
"""Tests that the `test` lane runs on both databases, by ID prefix, with the reason for each."""

FULL = {
    "tests/api/test_openapi.py::test_no_generated_request": "thousands of generated requests",
    "tests/agents/hooks/test_claude_code_client.py": "starts Claude Code for each test; the doors start it too",
    "tests/browser/test_account.py::test_the_chosen_theme": "four browsers; the theme is one attribute",
    "tests/browser/test_admin.py::test_pages_pass_axe": "accessibility of every admin page; test_looks has the inbox",
    "tests/browser/test_delegation.py::test_pages_pass_axe": "accessibility of every page of channels and routes",
    "tests/browser/test_first_run.py::test_the_guide_passes_axe": "the guide in every size and theme",
    "tests/browser/test_long_names.py": "every page with long names",
    "tests/browser/test_metrics.py::test_pages_pass_axe": "accessibility of the metrics pages",
    "tests/browser/test_metrics.py::test_charts": "colors of the plots in both themes",
    "tests/browser/test_rules.py::test_pages_pass_axe": "accessibility of the rule pages",
    "tests/browser/test_runs.py::test_pages_pass_axe": "accessibility of the run pages",
    "tests/browser/test_triggers.py::test_pages_pass_axe": "accessibility of every trigger page",
    "tests/cli/test_read_only.py::test_inspection_commands_work_on_a_read_only_copy_without_changing_it[audit ": (
        "one process per command; `fsck` stays"
    ),
    "tests/doors/test_doors.py::test_reviewers_edits_are_applied_or_editing_is_not_offered[claude-code-": (
        "two agent processes; `claude-code` stays"
    ),
    "tests/doors/test_doors.py::test_reviewers_edits_are_applied_or_editing_is_not_offered[mcp-": "`mcp` stays",
    "tests/examples/test_processes.py": "runs every example process",
    "tests/runs/test_changes.py::test_a_run_waits_for_a_node": "starts a second node",
    "tests/sdk/test_async.py::test_waits_and_streams_survive": "restarts a server repeatedly",
    "tests/browser/test_crawler.py": "follows every link of every page",
    "tests/deploy/test_nginx.py::test_no_wait_fails": "replaces nodes behind nginx for a minute",
    "tests/deploy/test_rolling_update.py": "replaces nodes for a minute",
    "tests/deploy/test_wheel.py": "builds a wheel and installs it with all its packages",
    "tests/docs/test_readme.py": "runs every command of the README and the guides",
    "tests/doors/test_doors.py::test_a_missed_deadline": ("one process each; the SDK covers deadlines"),
    "tests/doors/test_doors.py::test_a_cancelled_question": "one agent process per integration",
    "tests/doors/test_doors.py::test_an_unreachable_server_blocks_the_call[claude-code-": ("slow; two stay"),
    "tests/doors/test_doors.py::test_an_unreachable_server_blocks_the_call[lang": ("slow; two stay"),
    "tests/doors/test_doors.py::test_an_unreachable_server_blocks_the_call[mcp-": "two minutes of retries",
    "tests/doors/test_doors.py::test_an_unreachable_server_blocks_the_call[openai": ("slow; two stay"),
    "tests/doors/test_doors.py::test_an_unreachable_server_blocks_the_call[pydantic": ("slow; two stay"),
    "tests/doors/test_doors.py::test_an_unknown_token_blocks_the_call[claude-code-": "two agent processes",
    "tests/doors/test_doors.py::test_an_unknown_token_blocks_the_call[mcp-": "two agent processes",
    "tests/doors/test_doors.py::test_an_agent_killed_while_waiting_resumes_with_the_same_question[claude-code-": (
        "two agent processes; `claude-code` stays"
    ),
    "tests/doors/test_doors.py::test_an_agent_killed_while_waiting_resumes_with_the_same_question[langchain": (
        "two agent processes; `langgraph` stays"
    ),
    "tests/doors/test_doors.py::test_an_agent_killed_while_waiting_resumes_with_the_same_question[mcp-": (
        "two agent processes; `mcp` stays"
    ),
    "tests/doors/test_doors.py::test_an_answer_given_while": "two agent processes per integration",
    "tests/faults/test_clock.py::test_a_clock_off_by_an_hour": "starts a server for every wrong clock",
    "tests/faults/test_delegation.py::test_a_persistently_failing_channel": "waits for real retries",
    "tests/faults/test_delegation.py::test_an_hour_long_outage": "waits for real retries",
    "tests/faults/test_delegation.py::test_kill_9": "kills under load; `make soak` has more",
    "tests/faults/test_delegation.py::test_receivers_that_hang": "waits for real timeouts",
    "tests/faults/test_delegation.py::test_a_temporary_failure": "waits for real retries",
    "tests/faults/test_disk.py": "fails every write and every sync once",
    "tests/faults/test_kills.py": "kills under load; `make soak` has more",
    "tests/faults/test_runs.py": "kills under load; `make soak` has more",
    "tests/faults/test_undo.py::test_kill_9": "kills under load; `make soak` has more",
    "tests/faults/test_waiting.py": "kills under load; `make soak` has more",
    "tests/faults/test_zygote.py": "tests the test servers",
    "tests/db/test_upgrading.py::test_data_from_an_earlier_version_is_complete_after_the_upgrade[postgresql-": (
        "one migrated database per earlier version; each migration also runs in the template of every test"
    ),
    "tests/mutation/test_mutants.py::test_a_run_counts": "runs the mutation tool on a sample",
    "tests/kernel/telemetry/test_traces.py::test_a_server_without_the_packages": "starts a server without packages",
    "tests/kernel/telemetry/test_traces.py::test_an_invalid_endpoint": "starts a server for each bad address",
    "tests/web/test_hostile_text.py::test_hostile_text_never_changes": "every hostile text on every page",
}
"""Tests that the `test` lane leaves out, by ID prefix, with the reason for each."""
FEWEST_TRIALS = 10


class Shard(NamedTuple):
    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse `2/12`; the number is taken modulo the count, so that a count of commits can be passed unchanged."""
        number, _, count = text.partition("/")
        if not (number.isdigit() and count.isdigit() and int(count) > 0):
            message = f"--shard takes NUMBER/COUNT, such as 2/12, not {text!r}"
            raise pytest.UsageError(message)
        return cls(int(number) % int(count), int(count))

    def holds(self, nodeid: str) -> bool:
        # Split by file, because the tests of a file may share a server.
        name = nodeid.partition("::")[0]
        return int(hashlib.sha256(name.encode()).hexdigest(), 16) % self.parts == self.number


def scaled(trials: int, module: str) -> int:
    """Return how many examples a randomized test of this module tries: all of them in `all`, a fifth in `test`."""
    if os.environ.get(VARIABLE) != "test":
        return trials
    full_shard = os.environ.get(FULL_SHARD_VARIABLE)
    if full_shard and Shard.parse(full_shard).holds(module.replace(".", "/") + ".py"):
        return trials
    return max(FEWEST_TRIALS, trials // 5)


def in_test_lane(item: pytest.Item) -> bool:
    if item.nodeid.startswith(tuple(FULL)):
        return False
    return not _on_postgresql(item) or item.nodeid.startswith(tuple(BOTH_DATABASES))


def _on_postgresql(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and "postgresql" in [each for each in call.params.values() if isinstance(each, str)]


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes", "test lanes")
    group.addoption("--lane", choices=LANES, default="all", help="Lane to run (default: all)")
    group.addoption("--shard", metavar="NUMBER/COUNT", help="Run one of COUNT parts of the lane")
    group.addoption(
        "--full-shard",
        metavar="NUMBER/COUNT",
        help="With --lane test, also run one of COUNT parts of all tests in full",
    )


def export(config: pytest.Config) -> None:
    """Export the options to test modules, which need the number of trials at import time, and to child processes."""
    os.environ[VARIABLE] = config.getoption("--lane")
    os.environ[FULL_SHARD_VARIABLE] = config.getoption("--full-shard") or ""


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are not in the chosen lane and shard."""
    lane, shard = config.getoption("--lane"), config.getoption("--shard")
    part = Shard.parse(shard) if shard else None
    full_shard = config.getoption("--full-shard")
    full = Shard.parse(full_shard) if full_shard else None
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        wanted = lane == "all" or in_test_lane(item) or (full is not None and full.holds(item.nodeid))
        (kept if wanted and (part is None or part.holds(item.nodeid)) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    functions: set[Any] = {getattr(item, "obj", None) for item in items}
    for function in filter(is_hypothesis_test, functions):
        # A profile would not work, because a decorator's settings override it.
        own = function._hypothesis_internal_use_settings
        trials = scaled(own.max_examples, function.__module__)
        function._hypothesis_internal_use_settings = settings(own, max_examples=trials)
