"""Speeds up tests that run against thousands of faults by trying fewer examples, the same ones in every run."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, is_hypothesis_test, settings
from hypothesis import strategies as st

EXAMPLES = 20
TRIALS = {"WORLDS": 400, "TEXTS": 2_000}
"""Reduced values for the constants that set the number of trials in test modules."""
OPTIONS = [
    "-c", str(Path(__file__).parents[2] / "pyproject.toml"), "-qq", "-s", "--tb=no", "--no-header", "--no-summary",
    "--noconftest", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:xdist", "-o", "timeout=0",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
]  # fmt: skip


def quicken(items: Sequence[pytest.Item]) -> None:
    os.environ["ASSENT_TEST_SEED"] = "1"
    for item in items:
        function: Any = getattr(item, "obj", None)
        module: Any = getattr(item, "module", None)
        for name in TRIALS.keys() & vars(module).keys():
            setattr(module, name, TRIALS[name])
        if is_hypothesis_test(function):
            # A Hypothesis profile would not work, because the decorator's settings override it. Deadlines are disabled,
            # because a failure on a busy machine would look like a detected fault.
            function._hypothesis_internal_use_settings = settings(
                max_examples=min(EXAMPLES, function._hypothesis_internal_use_settings.max_examples),
                derandomize=True,
                database=None,
                deadline=None,
                phases=(Phase.explicit, Phase.generate),
                suppress_health_check=list(HealthCheck),
            )


@given(st.text(max_size=2))
@settings(max_examples=2, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def warm_up(_: str) -> None:
    """Load Hypothesis's Unicode tables once in the parent instead of in thousands of child processes."""
