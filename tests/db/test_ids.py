"""IDs are ordered by time and unique across threads."""

from concurrent.futures import ThreadPoolExecutor

from assent.kernel.ids import TimeOrderedIds

THREADS = 8
EACH = 5_000


def test_concurrent_threads_never_get_the_same_id() -> None:
    ids = TimeOrderedIds()
    with ThreadPoolExecutor(THREADS) as threads:
        made = threads.map(lambda _: [ids.new("bp", 1_000_000) for _ in range(EACH)], range(THREADS))
        found = [each for some in made for each in some]
    assert len(set(found)) == THREADS * EACH


def test_ids_sort_in_creation_order() -> None:
    ids = TimeOrderedIds()
    made = [ids.new("bp", at * 1000) for at in range(1, 10_000, 7)]
    assert made == sorted(made)
