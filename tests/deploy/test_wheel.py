"""The wheel works in an environment that contains nothing else, without Node.js."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx2
import pytest

from tests.docs.pages import ROOT
from tests.support.nodes import Process, free_port, ready

VENDOR = ("htmx.min.js", "htmx.LICENSE.txt", "uPlot.esm.js", "uPlot.min.css", "uPlot.LICENSE.txt")
SCRIPTS = ("htmx.min.js", "uPlot.esm.js")
# Downloading the packages can be slow.
pytestmark = pytest.mark.timeout(1200)


def run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and its requirements, created as in deploy/Containerfile."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", str(folder))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "install"]
    run(*pip, "--no-deps", "--require-hashes", "-r", "requirements/runtime.txt")
    run(*pip, "--no-index", "--no-deps", str(wheel))
    return folder / "bin"


def alone(programs: Path, **more: str) -> dict[str, str]:
    """Return environment variables that expose only that environment: no Node.js, repository or settings."""
    return {"PATH": str(programs), "HOME": str(programs.parent), "LANG": "C.UTF-8"} | more


def test_the_wheel_contains_the_page_scripts_but_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in VENDOR if f"assent/web/static/vendor/{name}" not in names] == []
    assert "assent/py.typed" in names
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"assent", f"assent-{version('assent')}.dist-info"}


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "assent").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names <= {"assent/web/static/vendor/fetched.txt"}


def test_the_installed_packages_are_compatible(programs: Path) -> None:
    run(str(programs / "python"), "-m", "pip", "check", env=alone(programs))


def test_the_version_option_prints_the_version(programs: Path) -> None:
    assert run(str(programs / "assent"), "--version", env=alone(programs)) == f"assent {version('assent')}\n"


def test_the_installation_does_not_include_node_js(programs: Path) -> None:
    listed = run(str(programs / "python"), "-m", "pip", "list", "--format=freeze", env=alone(programs))
    assert not re.search("node|npm", listed, re.IGNORECASE)
    assert not [each.name for each in programs.iterdir() if re.fullmatch("node|npm|npx", each.name)]


@pytest.fixture(scope="module")
def served(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("served")
    port = free_port()
    command = [str(programs / "assent"), "serve", "--port", str(port), "--data", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        popen = subprocess.Popen(command, cwd=folder, env=alone(programs), stdout=log, stderr=log)
    process = Process(f"http://127.0.0.1:{port}", popen)
    try:
        assert ready(process.url, popen), (folder / "log").read_text()
        yield process
    finally:
        popen.terminate()
        popen.wait(60)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_scripts_are_served_unchanged(served: Process, name: str) -> None:
    page = httpx2.get(served.url, follow_redirects=True)
    assert page.status_code == 200
    (digest,) = set(re.findall(r"/static/(\w+)/", page.text))
    answer = httpx2.get(f"{served.url}/static/{digest}/vendor/{name}")
    assert answer.status_code == 200
    assert answer.content == (ROOT / "src" / "assent" / "web" / "static" / "vendor" / name).read_bytes()


def test_every_asset_on_the_first_page_is_served(served: Process) -> None:
    page = httpx2.get(served.url, follow_redirects=True)
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert named
    assert [each for each in named if httpx2.get(served.url + each).status_code != 200] == []
