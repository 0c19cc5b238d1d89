"""`make audit` never accepts a finding or a skipped component that was not reviewed."""

from tools.audit import ANSWERS, Finding, judged, scripts, unasked, vulnerable

GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
PASSED_OVER = {"name": "c", "skip_reason": "not found"}


def answered() -> list[Finding]:
    return [Finding(test, file, 1, "said") for test, file in ANSWERS]


def test_a_component_that_was_passed_over_was_not_checked() -> None:
    assert unasked({"dependencies": [GOOD, BAD]}) is None
    assert "1 of 2" in str(unasked({"dependencies": [GOOD, PASSED_OVER]}))
    assert "cannot be reached" in str(unasked(None))


def test_every_advisory_is_a_line() -> None:
    assert vulnerable({"dependencies": [GOOD, BAD, PASSED_OVER]}) == ["b 2: PYSEC-1, fixed in 3"]


def test_a_finding_needs_a_reason_where_it_stands() -> None:
    assert judged(answered()) == []
    extra = Finding("B602", "src/assent/keyring.py", 1, "a shell")
    assert judged([*answered(), extra]) == ["src/assent/keyring.py:1 B602 a shell"]


def test_a_reason_for_what_is_not_found_any_more_is_one_too_many() -> None:
    assert len(judged([])) == len(ANSWERS)


def test_the_libraries_of_the_pages_are_on_the_list_and_tools_are_not() -> None:
    lock = {
        "packages": {
            "": {},
            "node_modules/@a/b": {"version": "1.0"},
            "node_modules/tool": {"version": "2.0", "dev": True},
        }
    }
    assert [each["purl"] for each in scripts(lock)] == ["pkg:npm/%40a/b@1.0"]
