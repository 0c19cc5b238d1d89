"""`make audit` never accepts a finding or a skipped component that was not reviewed."""

from tools.audit import ANSWERS, Finding, judged, scripts, unasked, vulnerable

GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
PASSED_OVER = {"name": "c", "skip_reason": "not found"}


def answered() -> list[Finding]:
    return [Finding(test, file, 1, "said") for test, file in ANSWERS]


def test_a_skipped_component_counts_as_unchecked() -> None:
    assert unasked({"dependencies": [GOOD, BAD]}) is None
    assert "1 of 2" in str(unasked({"dependencies": [GOOD, PASSED_OVER]}))
    assert "cannot be reached" in str(unasked(None))


def test_every_advisory_is_listed_on_one_line() -> None:
    assert vulnerable({"dependencies": [GOOD, BAD, PASSED_OVER]}) == ["b 2: PYSEC-1, fixed in 3"]


def test_a_finding_needs_a_documented_reason_for_its_location() -> None:
    assert judged(answered()) == []
    extra = Finding("B602", "src/assent/kernel/keyring.py", 1, "a shell")
    assert judged([*answered(), extra]) == ["src/assent/kernel/keyring.py:1 B602 a shell"]


def test_a_reason_for_a_finding_that_no_longer_exists_is_reported() -> None:
    assert len(judged([])) == len(ANSWERS)


def test_the_bill_of_materials_lists_page_libraries_but_not_tools() -> None:
    lock = {
        "packages": {
            "": {},
            "node_modules/@a/b": {"version": "1.0"},
            "node_modules/tool": {"version": "2.0", "dev": True},
        }
    }
    assert [each["purl"] for each in scripts(lock)] == ["pkg:npm/%40a/b@1.0"]
