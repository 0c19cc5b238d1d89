"""`make quick` finds the tests that belong to a change."""

from tools import quick


def test_a_file_of_the_package_is_mapped_to_a_module() -> None:
    names = ["src/assent/domain/rules.py", "src/assent/sdk/__init__.py", "tests/domain/test_rules.py", "README.md"]
    assert quick.modules(names) == {"assent.domain.rules", "assent.sdk"}


def test_imports_are_found_in_every_form() -> None:
    source = "import assent.app\nfrom assent.domain import rules\nfrom assent.domain.globs import Glob\n"
    assert {"assent.app", "assent.domain.rules", "assent.domain.globs"} <= set(quick.imported(source))


def test_changed_tests_come_first_then_importing_tests_then_the_domain() -> None:
    found = quick.tests_of(["tests/tools/test_prose.py", "src/assent/domain/durations.py"])
    assert found[0] == "tests/tools/test_prose.py"
    assert "tests/domain/test_durations.py" in found
    assert found[-2:] == ["tests/domain", "tests/tools"]
    assert not [name for name in found if name.startswith("tests/browser")]
