"""Rate limits based on token buckets."""

import math

import pytest

from assent.core.errors import RateLimited
from assent.http.limits import RateLimit
from tests.support.nodes import ManualClock


def spend(limit: RateLimit, key: str, times: int) -> None:
    for _ in range(times):
        limit.take(key)


def test_a_full_bucket_allows_one_minutes_worth_of_requests(clock: ManualClock) -> None:
    limit = RateLimit(3, clock.now)
    spend(limit, "a", 3)
    with pytest.raises(RateLimited, match="More than 3 requests per minute"):
        limit.take("a")


def test_every_key_has_its_own_bucket(clock: ManualClock) -> None:
    limit = RateLimit(1, clock.now)
    limit.take("a")
    limit.take("b")
    with pytest.raises(RateLimited):
        limit.take("a")


def test_zero_means_no_limit(clock: ManualClock) -> None:
    spend(RateLimit(0, clock.now), "a", 10_000)


def test_a_tokens_own_quota_replaces_the_default(clock: ManualClock) -> None:
    limit = RateLimit(1, clock.now)
    for _ in range(5):
        limit.take("a", per_minute=5)
    with pytest.raises(RateLimited) as refused:
        limit.take("a", per_minute=5, what="breakpoints")
    assert refused.value.details == {"limit": 5}
    assert "breakpoints" in refused.value.message


@pytest.mark.parametrize("per_minute", [1, 7, 42, 59, 60, 61, 600])
def test_a_request_succeeds_after_the_retry_time(clock: ManualClock, per_minute: int) -> None:
    limit = RateLimit(per_minute, clock.now)
    spend(limit, "a", per_minute)
    with pytest.raises(RateLimited) as refused:
        limit.take("a")
    clock.advance(max(1, math.ceil(refused.value.retry_after)))
    limit.take("a")


def test_a_rejected_request_does_not_count(clock: ManualClock) -> None:
    limit = RateLimit(60, clock.now)
    spend(limit, "a", 60)
    for _ in range(100):
        with pytest.raises(RateLimited):
            limit.take("a")
    clock.advance(1)
    limit.take("a")


def test_a_bucket_never_allows_more_than_one_minutes_worth_of_requests(clock: ManualClock) -> None:
    limit = RateLimit(2, clock.now)
    limit.take("a")
    clock.advance(3600)
    spend(limit, "a", 2)
    with pytest.raises(RateLimited):
        limit.take("a")
