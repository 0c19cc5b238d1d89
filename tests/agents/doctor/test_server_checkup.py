"""Findings derived from a server's responses: exact messages and limits."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assent.agents.doctor.findings import Finding, Place, Severity
from assent.agents.doctor.server_checks import Seen, clock, reached, skew, versions

MOMENT = "Sun, 09 Sep 2001 01:46:40 GMT"
SECONDS = 1_000_000_000.0


def seen(date: str = MOMENT, *, ahead: float = 0.0, took: float = 0.0) -> Seen:
    """Return a response whose Date header was this many seconds ahead of the local clock when it arrived."""
    received = SECONDS - ahead
    return Seen(url="http://s", status=200, date=date, sent=received - took, received=received)


def answer(status: int | None, detail: str = "") -> Finding:
    return reached(Seen(url="http://s", status=status, detail=detail))


def test_a_response_is_empty_by_default() -> None:
    bare = Seen(url="http://s")
    assert (bare.status, bare.detail, bare.date, bare.sent, bare.received) == (None, "", "", 0, 0)


@pytest.mark.parametrize(
    ("status", "detail", "what", "todo"),
    [
        (None, "connection refused", "cannot be reached: connection refused.", "assent serve"),
        (200, "ready", "running and ready", ""),
        (200, " ready\n", "running and ready", ""),
        (200, "already", "status 200, but does not appear to belong to an Assent server", "Set ASSENT_URL"),
        (200, "", "status 200, but does not appear to belong to an Assent server", "Set ASSENT_URL"),
        (204, "ready", "status 204, but does not appear to belong to an Assent server", "Set ASSENT_URL"),
        (502, "ready", "status 502, but does not appear to belong to an Assent server", "Set ASSENT_URL"),
        (503, "The disk is full.", "but not ready: The disk is full.", "See the server's log"),
        (503, "ready", "but not ready: ready", "See the server's log"),
        (503, "", "but not ready: the reason is unknown", "See the server's log"),
    ],
)
def test_each_kind_of_response_has_its_own_message(status: int | None, detail: str, what: str, todo: str) -> None:
    found = answer(status, detail)
    assert what in found.what
    assert todo in found.todo
    assert (found.severity is Severity.OK, found.todo == "") == (todo == "", todo == "")


@pytest.mark.parametrize(
    ("ahead", "took", "told"),
    [
        *((0, 0, 0), (0.5, 0, 0.5), (1, 0, 1), (5, 0, 5), (60, 3, 60)),
        *((-1, 0, 0), (-2, 0, 0), (-2.5, 0, -0.5), (-3, 0, -1), (-60, 0, -58)),
        *((-3, 1, 0), (-60, 20, -38)),
    ],
)
def test_clock_skew_includes_only_what_the_response_proves(ahead: float, took: float, told: float) -> None:
    """If the server is behind, two seconds plus the request's duration are subtracted; if it is ahead, nothing is."""
    assert skew(seen(ahead=ahead, took=took)) == told


@given(st.integers(-10_000, 10_000), st.integers(0, 100))
def test_clock_skew_is_never_overestimated(ahead: int, took: int) -> None:
    told = skew(seen(ahead=ahead, took=took))
    assert told is not None
    assert abs(told) <= abs(ahead)
    assert told * ahead >= 0


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        *((4, None), (5, None), (5.5, "6 s ahead of"), (6, "6 s ahead of"), (90, "90 s ahead of")),
        *((-6, None), (-7, None), (-7.75, "6 s behind"), (-8, "6 s behind"), (-92, "90 s behind")),
    ],
)
def test_a_clock_difference_of_more_than_five_seconds_is_reported(ahead: float, said: str | None) -> None:
    (found,) = clock(seen(ahead=ahead))
    assert (found.check, found.place) == ("clock", Place("http://s"))
    assert found.severity is (Severity.OK if said is None else Severity.WARNING)
    assert f"is {said} this machine's" in found.what if said else "this machine's clock are in sync" in found.what


@given(st.text(max_size=40))
@example("")
@example("Sun, 99999999999999999999 Sep 2001 01:46:40 GMT")
@example("Sun, 09 Sep 2001 01:46:40 +99999999999999999999")
@example("Sun, 09 Sep 2001 99:46:40 GMT")
def test_any_date_header_can_be_checked(date: str) -> None:
    (found,) = clock(seen(date))
    assert found.check == "clock"


def test_an_invalid_date_header_causes_a_warning() -> None:
    for date in ("", "yesterday", "Sun, 99999999999999999999 Sep 2001 01:46:40 GMT"):
        (found,) = clock(seen(date))
        assert found.severity is Severity.WARNING
        assert "does not send a valid Date header" in found.what


@pytest.mark.parametrize(
    ("theirs", "ours", "fits"),
    [
        ("0.1.0", "0.1.9", True),
        ("0.1", "0.1.9", True),
        ("0.1.9", "0.1", True),
        ("0.1.0", "0.2.0", False),
        ("0.2.0", "0.1.0", False),
        ("1.1.0", "0.1.0", False),
        ("0.10.0", "0.1.0", False),
        ("0", "0.1", False),
    ],
)
def test_versions_with_the_same_major_and_minor_numbers_are_compatible(theirs: str, ours: str, *, fits: bool) -> None:
    (found,) = versions("http://s", theirs, ours)
    assert found.severity is (Severity.OK if fits else Severity.WARNING)
    assert f"version {theirs}, " in found.what
    assert fits or found.what.endswith(f"this command is version {ours}.")


@pytest.mark.parametrize("ours", ["0.1.0", "9.9.9"])
def test_a_version_is_truncated_to_30_characters(ours: str) -> None:
    """An unknown server could send text of any length."""
    (found,) = versions("http://s", f"0.1.{'7' * 500}", ours)
    assert f"version 0.1.{'7' * 26}, " in found.what


def test_a_missing_version_causes_a_warning() -> None:
    (found,) = versions("http://s", None, "0.1.0")
    assert (found.check, found.severity, found.place) == ("version", Severity.WARNING, Place("http://s"))
    assert "does not report its version" in found.what
