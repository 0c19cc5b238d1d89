"""Notifications are only hints: every wait ends even if all of them are lost."""

import random
import sys

import pytest

from assent.kernel.settings import Settings
from tests.faults.notifications import Report, deaf_pair, waits
from tests.support.lanes import scaled

WAITS = scaled(200, __name__)


@pytest.mark.timeout(600)
async def test_every_wait_ends_even_if_all_notifications_are_dropped(
    postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report()
    async with deaf_pair(postgres_settings, report, seed=random.randrange(2**32)) as pair:
        await waits(pair, report, WAITS)
    with capsys.disabled():
        sys.stdout.write(f"\n{report.told()}\n")
    assert report.wrong == []
    assert report.ended == {"by long-poll": WAITS // 2, "by stream": WAITS // 2}
    assert report.heard == 0
    assert report.dropped > 0, "the nodes never tried to notify each other"
