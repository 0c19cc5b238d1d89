"""`make quick` finds the tests that belong to a change."""

from tools import quick


def test_a_package_file_is_mapped_to_its_module() -> None:
    names = ["src/assent/core/rules.py", "src/assent/sdk/__init__.py", "tests/core/test_rules.py", "README.md"]
    assert quick.modules(names) == {"assent.core.rules", "assent.sdk"}


def test_every_form_of_import_is_recognized() -> None:
    source = "import assent.node\nfrom assent.core import rules\nfrom assent.core.patterns.globs import Glob\n"
    assert {"assent.node", "assent.core.rules", "assent.core.patterns.globs"} <= set(quick.imported(source))


def test_changed_tests_come_first_then_importing_tests_then_the_domain() -> None:
    found = quick.tests_of(["tests/tools/test_prose.py", "src/assent/core/durations.py"])
    assert found[0] == "tests/tools/test_prose.py"
    assert "tests/core/test_durations.py" in found
    assert found[-2:] == ["tests/core", "tests/tools"]
    assert not [name for name in found if name.startswith("tests/browser")]
