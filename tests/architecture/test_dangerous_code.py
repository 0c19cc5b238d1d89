"""Our code never uses certain dangerous constructs, so reviews do not have to check how they are used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def found_in(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Yield every name that is called, imported or accessed with a dot, as written."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node
        elif isinstance(node, ast.Import):
            yield from ((each.name, node) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{each.name}", node) for each in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node), node


def users_of(*names: str) -> set[str]:
    return {
        path.relative_to(ROOT / "src" / "assent").as_posix()
        for path in SOURCES
        for name, _ in found_in(path)
        if any(name == each or name.startswith(f"{each}.") for each in names)
    }


def test_only_the_operators_process_files_are_executed_as_code() -> None:
    assert users_of("eval", "exec", "compile", "__import__") == {"runs/processes.py"}


def test_no_unsafe_deserializer_is_used() -> None:
    assert users_of("pickle", "marshal", "shelve", "dill", "jsonpickle", "yaml.load", "yaml.unsafe_load") == set()


def test_no_xml_is_parsed() -> None:
    assert users_of("xml", "lxml", "defusedxml") == set()


def test_no_command_runs_in_a_shell() -> None:
    shells = [
        f"{path}:{node.lineno}"
        for path in SOURCES
        for name, node in found_in(path)
        if isinstance(node, ast.Call)
        and (
            name in {"os.system", "os.popen", "subprocess.getoutput", "asyncio.create_subprocess_shell"}
            or any(each.arg == "shell" for each in node.keywords)
        )
    ]
    assert shells == []
    assert users_of("subprocess") == {
        "agents/hooks/commands.py",
        "agents/hooks/pins.py",
        "triggers/sources/git_commands.py",
    }


def test_no_weak_hash_or_custom_cipher_is_used() -> None:
    assert users_of("hashlib.md5", "hashlib.sha1", "hashlib.new") == set()
    assert users_of("cryptography.hazmat.primitives.ciphers") == {"kernel/keyring.py"}
    assert "AESGCM" in (ROOT / "src/assent/kernel/keyring.py").read_text()


def test_predictable_randomness_is_used_only_to_spread_load() -> None:
    importers = {
        path.relative_to(ROOT / "src" / "assent").as_posix()
        for path in SOURCES
        for name, node in found_in(path)
        if isinstance(node, ast.Import | ast.ImportFrom) and name.partition(".")[0] == "random"
    }
    assert importers == {"sdk/connection.py", "delivery/usecases/sender.py"}


@pytest.mark.parametrize("loosened", ["ssl.CERT_NONE", "ssl._create_unverified_context"])
def test_certificate_checks_are_never_disabled(loosened: str) -> None:
    assert users_of(loosened) == set()
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        switched_off = [
            node
            for node in ast.walk(tree)
            if (isinstance(node, ast.keyword) and node.arg in {"verify", "validate_certs", "check_hostname"})
            and isinstance(node.value, ast.Constant)
            and node.value.value is False
        ]
        assert switched_off == [], path


def test_a_browser_stores_only_boolean_settings() -> None:
    scripts = "\n".join(path.read_text() for path in (ROOT / "src/assent/web/static").glob("*.js"))
    assert set(re.findall(r"localStorage\.setItem\(\w+, ([^)]+)\)", scripts)) == {'"1"'}
    assert not re.findall(r"sessionStorage|indexedDB|document\.cookie|localStorage\[", scripts)
