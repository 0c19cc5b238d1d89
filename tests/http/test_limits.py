"""Token buckets."""

import math

import pytest

from assent.domain.errors import RateLimited
from assent.http.limits import RateLimit


def spend(limit: RateLimit, key: str, times: int) -> None:
    for _ in range(times):
        limit.take(key)


def turn_back(limit: RateLimit, key: str, seconds: float) -> None:
    """Let time pass for one bucket."""
    level, since = limit._buckets[key]
    limit._buckets[key] = (level, since - seconds)


def test_a_full_bucket_holds_a_minutes_worth() -> None:
    limit = RateLimit(3)
    spend(limit, "a", 3)
    with pytest.raises(RateLimited, match="More than 3 requests in a minute"):
        limit.take("a")


def test_every_key_has_its_own_bucket() -> None:
    limit = RateLimit(1)
    limit.take("a")
    limit.take("b")
    with pytest.raises(RateLimited):
        limit.take("a")


def test_zero_is_no_limit() -> None:
    spend(RateLimit(0), "a", 10_000)


def test_a_tokens_own_quota_replaces_the_default() -> None:
    limit = RateLimit(1)
    for _ in range(5):
        limit.take("a", per_minute=5)
    with pytest.raises(RateLimited) as refused:
        limit.take("a", per_minute=5, what="breakpoints")
    assert refused.value.details == {"limit": 5}
    assert "breakpoints" in refused.value.message


@pytest.mark.parametrize("per_minute", [1, 7, 42, 59, 60, 61, 600])
def test_whoever_waits_as_long_as_told_is_let_in(per_minute: int) -> None:
    limit = RateLimit(per_minute)
    spend(limit, "a", per_minute)
    with pytest.raises(RateLimited) as refused:
        limit.take("a")
    turn_back(limit, "a", max(1, math.ceil(refused.value.retry_after)))
    limit.take("a")


def test_a_refusal_costs_nothing() -> None:
    limit = RateLimit(60)
    spend(limit, "a", 60)
    for _ in range(100):
        with pytest.raises(RateLimited):
            limit.take("a")
    turn_back(limit, "a", 1)
    limit.take("a")


def test_a_bucket_never_holds_more_than_a_minutes_worth() -> None:
    limit = RateLimit(2)
    limit.take("a")
    turn_back(limit, "a", 3600)
    spend(limit, "a", 2)
    with pytest.raises(RateLimited):
        limit.take("a")
