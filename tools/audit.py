"""Checks Assent and its components for known vulnerabilities and dangerous code, and lists all components.

python -m tools.audit
The exit code is 0 if nothing was found, 1 with a line for each finding, 2 if a tool is missing or failed, and 3 if
nothing was found but advisories could not be retrieved. Requires pip-audit, bandit and cyclonedx-bom.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SBOM = ROOT / "build" / "sbom.json"
CLEAN, FOUND, BROKEN, UNASKED = range(4)

SKIPPED = {
    "B101": "asserts only document invariants for readers and the type checker; no behavior depends on them",
    "B404": "importing subprocess is harmless; each call is checked separately",
    "B608": "only our own table and column names are inserted into statements; all values are bound parameters",
}
"""Bandit tests that are not useful for this code, with the reasons."""

ANSWERS: dict[tuple[str, str], str] = {
    ("B105", "src/assent/delivery/channels/slack/api.py"): "a sentence about tokens",
    ("B105", "src/assent/delivery/channels/slack/manifest.py"): "the name of a setting",
    ("B105", "src/assent/people/pages/account.py"): "a sentence about passwords",
    ("B113", "src/assent/agents/pydantic_ai.py"): "an agent's requests, not the `requests` library",
    (
        "B607",
        "src/assent/triggers/sources/git_commands.py",
    ): "uses the git on the operator's PATH intentionally",
}
"""Accepted findings that ruff does not report, with the reasons. Those that ruff reports have a comment in the code."""


class Broken(Exception):
    """A tool is missing, or its output cannot be used."""


@dataclass(frozen=True, slots=True)
class Finding:
    test: str
    file: str
    line: int
    says: str

    @property
    def reason(self) -> str | None:
        """Why the finding is accepted; bandit's B603 corresponds to ruff's S603."""
        text = (ROOT / self.file).read_text().splitlines()[self.line - 1]
        noted = re.search(rf"# noqa: [^#]*\bS{self.test[1:]}\b[^#]*  # (.+)", text)
        return noted[1] if noted else ANSWERS.get((self.test, self.file))


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        msg = f"{name} is not installed. Run: make setup"
        raise Broken(msg)
    return subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  # our own commands


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return found


def findings(told: Mapping[str, Any]) -> list[Finding]:
    """Parse all findings in bandit's output."""
    return [
        Finding(each["test_id"], Path(each["filename"]).as_posix(), each["line_number"], each["issue_text"])
        for each in told["results"]
    ]


def judged(found: Sequence[Finding]) -> list[str]:
    """Return a line for each finding without a reason, and for each reason without a finding."""
    open_ones = [f"{each.file}:{each.line} {each.test} {each.says}" for each in found if each.reason is None]
    met = {(each.test, each.file) for each in found}
    return open_ones + [
        f"{file} {test} has an exception in {Path(__file__).name}, but bandit no longer reports it"
        for test, file in ANSWERS
        if (test, file) not in met
    ]


def dangerous_code() -> list[str]:
    told = answer(tool("bandit", "-q", "-r", "src", "-f", "json", "--skip", ",".join(SKIPPED)))
    if told is None or told["errors"]:
        msg = "bandit could not scan all files"
        raise Broken(msg)
    return judged(findings(told))


def vulnerable(told: Mapping[str, Any]) -> list[str]:
    return [
        f"{each['name']} {each['version']}: {advisory['id']}, fixed in {', '.join(advisory['fix_versions']) or 'none'}"
        for each in told["dependencies"]
        for advisory in each.get("vulns", ())
    ]


def unasked(told: Mapping[str, Any] | None) -> str | None:
    """Return why some components, which may also have advisories, were not checked."""
    if told is None:
        return "the advisory service cannot be reached"
    passed_over = [each for each in told["dependencies"] if "skip_reason" in each]
    if not passed_over:
        return None
    count = f"{len(passed_over)} of {len(told['dependencies'])}"
    return f"{count} components were skipped, for example: {passed_over[0]['skip_reason']}"


def advisories() -> tuple[list[str], str | None]:
    told = answer(
        tool(
            "pip-audit",
            "--disable-pip",
            "--require-hashes",
            "-r",
            "requirements/runtime.txt",
            "-f",
            "json",
            "--progress-spinner",
            "off",
        )
    )
    return vulnerable(told) if told else [], unasked(told)


def scripts(lock: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JavaScript libraries of the pages, which are in the wheel but unknown to pip."""
    return [
        {
            "type": "library",
            "bom-ref": f"npm-{path}",
            "name": path.removeprefix("node_modules/"),
            "version": each["version"],
            "purl": f"pkg:npm/{path.removeprefix('node_modules/').replace('@', '%40')}@{each['version']}",
        }
        for path, each in lock["packages"].items()
        if path and not each.get("dev")
    ]


def list_components() -> int:
    """Write the list of all components, and return their number."""
    SBOM.parent.mkdir(exist_ok=True)
    wanted = ("--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON")
    done = tool("cyclonedx-py", "requirements", *wanted, "requirements/runtime.txt")
    bill = answer(done)
    if bill is None:
        raise Broken(done.stderr.strip() or "cyclonedx-py did not write a component list")
    bill["components"] += scripts(json.loads((ROOT / "package-lock.json").read_text()))
    SBOM.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")
    return len(bill["components"])


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    try:
        say(f"components  {list_components()} in {SBOM.relative_to(ROOT)}")
        code = dangerous_code()
        known, why = advisories()
    except Broken as error:
        say(f"failed      {error}")
        return BROKEN
    say(f"code        {len(code)} unexplained findings; {len(SKIPPED)} bandit tests are skipped, each with a reason")
    say(
        f"advisories  NOT CHECKED: {why}"
        if why
        else f"advisories  {len(known)} for the versions in requirements/runtime.txt"
    )
    for line in (*code, *known):
        say(f"  {line}")
    if code or known:
        return FOUND
    return UNASKED if why else CLEAN


if __name__ == "__main__":
    sys.exit(main())
