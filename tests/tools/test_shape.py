"""`make shape` measures what it claims to measure."""

from pathlib import Path

from tools.shape import cycle, inside, measure, modules, report

SOURCE = '''"""A module."""

# a reason
LIMIT = 3


def double(value: int) -> int:
    """Double a value."""
    return 2 * value
'''


def tree(root: Path, **sources: str) -> Path:
    package = root / "assent"
    for name, source in {"__init__": "", **sources}.items():
        path = package / f"{name.replace('__of__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return package


def test_docstrings_comments_and_blank_lines_do_not_count_as_code() -> None:
    found = measure(SOURCE, "assent.module")
    assert (found.code, found.comments, found.functions) == (3, 1, [3])


def test_an_import_cycle_is_reported_with_its_modules(tmp_path: Path) -> None:
    package = tree(tmp_path, a="from assent.b import x\n", b="from assent import a\n", c="import assent.a\n")
    assert set(cycle(modules(package))) == {"assent.a", "assent.b"}


def test_an_import_inside_a_function_does_not_count_as_a_cycle(tmp_path: Path) -> None:
    package = tree(tmp_path, a="from assent.b import x\n", b="def f():\n    from assent import a\n")
    assert cycle(modules(package)) == ()


def test_only_imports_between_features_are_counted(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        people__of__store="",
        people__of__api="from assent.people import store\nfrom assent.core import errors\n",
        runs__of__api="from assent.people import store\n",
        core__of__errors="",
    )
    assert inside(modules(package)) == 0.5


def test_every_shape_metric_has_a_value_for_this_repository() -> None:
    assert all(value for _, value, _ in report(Path(__file__).parents[2] / "src" / "assent"))
