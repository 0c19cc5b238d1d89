"""Files that configure gates: only a person, never a rule, can approve a call that may change one of them.

Paths are checked both as given and as resolved by the client, ignoring case and invisible characters.
"""

import fnmatch
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from assent.core.canonical import Json, is_array, is_object
from assent.core.fields import PAYLOAD_FIELDS
from assent.core.gates import slug

REAL_PATHS = "realPaths"
"""Payload field with the paths in the arguments, as the client resolved them at the time of the call."""
DIRECTORY = "directory"
LONGEST_PATH = 4_096
LONGEST_NAME = 255
LONGEST_COMMAND = 16_384
MOST_VALUES = 2_000
MOST_WILDCARDS = 20
MOST_NAMES = 100
DEEPEST = 100
"""Maximum nesting of a call's values, including JSON inside strings."""

_AGENTS = frozenset({".claude", ".codex", ".gemini", ".cursor", ".opencode", ".copilot", ".aider", ".windsurf"})
_SECRET = frozenset({".ssh", ".npmrc", ".envrc", ".yarnrc.yml", ".claude.json"})
_PARENTS = frozenset({".github", ".gitea", ".forgejo"})
_NAMES = (
    _AGENTS
    | _SECRET
    | {
        ".mcp.json", "claude_desktop_config.json", "managed-settings.json", "managed-mcp.json", "opencode.json",
        "opencode.jsonc", ".aider.conf.yml", ".windsurfrules",
        "assent.yaml", "assent.yml", ".assent", "assent.db", "assent.keys",
        ".git", "git~1", ".gitconfig", ".githooks", ".husky", ".pre-commit-config.yaml",
        ".vscode", ".yarnrc", ".pnpmfile.cjs", ".pypirc",
        ".circleci", ".buildkite", ".teamcity", ".woodpecker", ".gitlab", ".gitlab-ci.yml", ".gitlab-ci.yaml",
        ".travis.yml", ".drone.yml", ".woodpecker.yml", ".woodpecker.yaml", ".cirrus.yml", "appveyor.yml",
        ".appveyor.yml", "jenkinsfile", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml",
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".logout", ".kshrc", ".mkshrc",
        ".inputrc", ".pam_environment", ".xprofile", ".xsessionrc", ".xinitrc", "config.fish", "bash.bashrc",
        "profile.d", "profile.ps1", "microsoft.powershell_profile.ps1", "microsoft.vscode_profile.ps1",
    }
)  # fmt: skip
_IN_ORDER = tuple(sorted(_NAMES))
_SEQUENCES = (
    (".github", "workflows"), (".github", "actions"), (".github", "hooks"), (".github", "copilot"),
    (".gitea", "workflows"), (".forgejo", "workflows"),
    (".config", "fish"), (".config", "opencode"), (".config", "git"), (".config", "assent"), (".config", "claude"),
    (".config", "github-copilot"), (".config", "powershell"), ("library", "application support", "claudecode"),
    ("etc", "profile"), ("etc", "environment"), ("etc", "zsh"), ("etc", "fish"), ("etc", "ssh"),
    ("etc", "claude-code"), ("etc", "codex"), ("etc", "gemini-cli"), ("programdata", "claudecode"),
)  # fmt: skip
_TRIGGERS = re.compile(
    "|".join(sorted(map(re.escape, _NAMES | _PARENTS | {"jenkinsfile"} | {each[0] for each in _SEQUENCES})))
)
"""Quick check: a path that does not match is not protected, unless a shell expands it."""
_READS = frozenset({
    "Read", "Grep", "Glob", "LS", "NotebookRead", "LSP",
    "read_file", "read_many_files", "list_directory", "list_dir", "glob", "grep", "grep_search", "search_file_content",
    "file_search", "codebase_search", "view", "view_image",
})  # fmt: skip
"""Tools of supported agents that only read. Names are compared exactly, so that no other tool is exempt."""
_WRITES = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_RESOLVING_DOORS = frozenset({"claude-code"})
"""Integrations that resolve paths. Without a resolved path, a symbolic link could lead anywhere."""
_SHELLS = frozenset({
    "bash", "powershell", "shell", "sh", "exec", "exec_command", "local_shell", "shell_command", "terminal",
    "run_terminal_cmd", "run_terminal_command", "run_shell_command", "execute_command", "run_command", "apply_patch",
    "python", "execute_code", "computer", "monitor",
})  # fmt: skip
COMMANDS = frozenset({
    "command", "commands", "cmd", "argv", "args", "script", "code", "shell", "bash", "program", "patch", "diff",
})  # fmt: skip
"""Names of arguments that contain a command line, a program or a patch."""
PATHS = frozenset({"file_path", "filepath", "path", "notebook_path", "target_file", "filename", "absolute_path"})
"""Names of arguments that contain a file path."""
_CONTENTS = frozenset({
    "content", "contents", "new_string", "old_string", "new_source", "newtext", "oldtext", "file_text", "old_str",
    "new_str", "insert_text", "code_edit", "instructions", "instruction", "description",
})  # fmt: skip
"""Names of arguments with file contents or descriptions. They are ignored only next to a path or a command."""
_ASIDE = PAYLOAD_FIELDS | {
    "arguments", "tool", "function", "description", "hidden", "door", "askedBy", "callId", "callDigest",
    REAL_PATHS, DIRECTORY,
}  # fmt: skip
"""Payload fields that do not affect what the call does, or that are checked separately."""

_BRACES = re.compile(r"\{[^{}\s]*,[^{}\s]*\}")
_VARIABLES = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+")
_QUOTES = re.compile(r"[\"'`]|\$(?=['\"])")
_BETWEEN_WORDS = re.compile(r"[\s;|&<>()=,:@!#%+^]+")
_SHORT_OPTION = re.compile(r"-{1,2}[a-z](?=[.~/a-z])")
_WILD = re.compile(r"[*?\[]")
_ADDRESS = re.compile(r"(?i)(?!file:)[a-z][a-z0-9+.-]*://")
_WHOLE = re.compile(r"(?i)[/\\~]|[a-z]:|file:")
_STARS = re.compile(r"\*{2,}")
_IGNORED = frozenset({"Cf", "Cc", "Cn", "Co"})
_VARIATIONS = range(0xFE00, 0xFE10)
_TOO_MUCH = "too many values to check"
_UNSEEN = f"It contains {_TOO_MUCH} for files that configure gates."


class _TooMuch(Exception):
    """Raised if a call is nested too deeply to be checked."""


def protected(gate: str, payload: Mapping[str, Json]) -> str | None:
    """Return why a rule must not approve this call, or None if it does not refer to a file that configures gates.

    Checks the arguments and all other fields, except those that are known not to affect what the call does.
    """
    tool: Json = payload.get("tool")
    name = tool if isinstance(tool, str) else ""
    # The gate must also belong to the tool, because the agent could claim the name of a tool that only reads.
    reads = name in _READS and slug(f"tool.{name}") == gate
    try:
        for what in _named(payload, is_shell=name.lower() in _SHELLS):
            if what == _TOO_MUCH:
                return _UNSEEN
            if not reads or what in _SECRET:
                return (
                    f"It refers to {what}, which configures gates or is executed automatically, so only a person can "
                    "approve it."
                )
    except _TooMuch:
        return _UNSEEN
    return _unresolved(name, payload)


def is_protected(path: str) -> bool:
    """Return whether a path refers to a file that configures gates."""
    return _in_path(folded(path)) is not None


def words(command: str) -> Iterator[str]:
    """Yield the words of a command line that may be paths, so that a client can resolve them."""
    return (word for word in _BETWEEN_WORDS.split(_QUOTES.sub("", command.replace("\\", ""))) if word)


def folded(text: str) -> str:
    """Normalize a path in the same way as file systems that ignore case and invisible characters."""
    if text.isascii():
        return text.lower()
    seen = "".join(filter(_is_seen, unicodedata.normalize("NFKC", text)))
    return unicodedata.normalize("NFKC", seen.casefold())


def _is_seen(sign: str) -> bool:
    return unicodedata.category(sign) not in _IGNORED and ord(sign) not in _VARIATIONS


def _named(payload: Mapping[str, Json], *, is_shell: bool) -> Iterator[str]:
    """Yield each protected file that a call refers to."""
    directory: Json = payload.get(DIRECTORY)
    base = folded(directory) if isinstance(directory, str) else ""
    yield from _of(_in_path(base))
    for _, path in _leaves(payload.get(REAL_PATHS), ""):
        yield from _of(_in_path(folded(path)))
    for count, (key, text) in enumerate(_said(payload)):
        command = is_shell or key in COMMANDS
        # Treat a call that is too large to check as protected, so that padding cannot hide a path.
        if count >= MOST_VALUES or (command and len(text) > LONGEST_COMMAND):
            yield _TOO_MUCH
            return
        if command:
            yield from _in_command(folded(text))
        # Longer text cannot be a path, because operating systems limit the length of paths.
        if len(text) <= LONGEST_PATH and not _ADDRESS.match(text):
            path = folded(text)
            yield from _of(_in_path(path if _WHOLE.match(path) else f"{base}/{path}"))


def _of(found: str | None) -> Iterator[str]:
    if found is not None:
        yield found


def _said(payload: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield every string in a call with its key.

    The arguments and the other fields are handled separately, so that a path outside the arguments does not cause an
    argument to be ignored as file content.
    """
    arguments: Json = payload.get("arguments")
    # Arguments that are a string or a list are treated as a command line, unless the string is JSON.
    is_json = isinstance(arguments, str) and _in_text(arguments) is not None
    yield from _leaves(arguments, "" if is_json else "args")
    yield from _leaves({name: value for name, value in payload.items() if name not in _ASIDE}, "")


def _leaves(value: Json, key: str, *, beside: bool = False, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every string with its key, and the names of members, but not file contents."""
    if depth > DEEPEST:
        raise _TooMuch
    depth += 1
    if isinstance(value, str):
        yield key, value
        yield from _leaves(_in_text(value), key, beside=beside, depth=depth)
    elif is_array(value):
        for each in value:
            yield from _leaves(each, key, beside=beside, depth=depth)
    elif is_object(value):
        beside = beside or any(name.lower() in PATHS | COMMANDS for name in value)
        for name, each in value.items():
            yield "", name
            if not (beside and name.lower() in _CONTENTS):
                yield from _leaves(each, name.lower(), beside=beside, depth=depth)


def _in_text(text: str) -> Json:
    """Parse a string that may contain JSON, as leniently as any client might; return None if it is not JSON."""
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[", '"')):
        return None
    try:
        return _LENIENT.decode(text.strip("\ufeff \t\r\n"))
    except RecursionError as error:
        raise _TooMuch from error
    except ValueError:
        return None


def _every_member(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    """Keep all values of a duplicate member, because clients differ in which value they use."""
    found: dict[str, list[Json]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


# parse_int=float, because int() rejects thousands of digits, and the text would then not be checked as JSON.
_LENIENT = json.JSONDecoder(strict=False, parse_int=float, object_pairs_hook=_every_member)


def _in_path(path: str) -> str | None:
    """Return the protected file that a folded path refers to."""
    if not _TRIGGERS.search(path) and "%" not in path:
        return None
    return _protected(_components(path))


def _components(path: str) -> list[str]:
    """Return the non-empty components of a folded path; `..` removes the preceding one."""
    parts: list[str] = []
    for each in re.split(r"[/\\]", folded(unquote(path)) if path.startswith("file:") else path):
        # Windows ignores trailing dots and spaces, and a colon selects a stream of the same file.
        name = each.split(":", 1)[0].rstrip(" .") if each.strip(".") else ""
        if each == ".." and parts:
            parts.pop()
        elif name:
            parts.append(name)
    return parts


def _in_command(command: str) -> Iterator[str]:
    """Yield the protected files that a folded command line refers to, regardless of quoting."""
    text = _VARIABLES.sub("*", _BRACES.sub("*", command))
    # A backslash is an escape character in a POSIX shell, but separates the components of a path on Windows.
    spellings = {_QUOTES.sub("", text.replace("\\", "")), _QUOTES.sub("", text.replace("\\", "/"))}
    found = {word for each in spellings for word in _BETWEEN_WORDS.split(each)}
    wild = {word for word in found if _WILD.search(word)}
    if len(wild) > MOST_WILDCARDS:
        yield _TOO_MUCH
        return
    for word in sorted(each for each in found if _TRIGGERS.search(each) or each in wild):
        for spelled in (word, _SHORT_OPTION.sub("", word, count=1)):
            parts = _components(spelled)
            yield from _of(_protected(parts))
            yield from _of(_by_wildcards(parts)) if word in wild else ()


def _protected(parts: Sequence[str]) -> str | None:
    skipped = 0
    for n, part in enumerate(parts):
        if n < skipped:
            continue
        if part in _AGENTS and parts[n + 1 : n + 2] == ["worktrees"] and len(parts) > n + 2:
            skipped = n + 3  # an agent's worktree is treated like any other directory
        elif found := _at(parts, n):
            return found
    return None


def _at(parts: Sequence[str], n: int) -> str | None:
    part = parts[n]
    if part in _NAMES or (part in _PARENTS and n == len(parts) - 1):
        return part
    if part.startswith("jenkinsfile.") or part.endswith(".jenkinsfile"):
        return part
    for each in _SEQUENCES:
        if part == each[0] and tuple(parts[n : n + len(each)]) == each:
            return "/".join(each)
    return None


def _by_wildcards(parts: Sequence[str]) -> str | None:
    """Return a protected file that matches the wildcards in this path when a shell expands them."""
    if len(parts) > MOST_NAMES or any(len(part) > LONGEST_NAME for part in parts):
        return _TOO_MUCH
    for n, part in enumerate(parts):
        name = next((each for each in _IN_ORDER if _may_be(each, part)), None)
        if name is not None:
            return name
        for each in _SEQUENCES:
            here = parts[n : n + len(each)]
            if len(here) == len(each) and all(map(_may_be, each, here)):
                return "/".join(each)
    return None


def _may_be(name: str, pattern: str) -> bool:
    if not _WILD.search(pattern):
        return name == pattern
    if name.startswith(".") and _WILD.match(pattern):
        return False  # shell wildcards do not match a leading dot
    # A pattern that consists only of wildcards, such as *, would match every name and is not protected.
    if not (pattern.startswith(".") or re.search(r"\w", pattern)):
        return False
    return fnmatch.fnmatchcase(name, _STARS.sub("*", pattern))


def _unresolved(tool: str, payload: Mapping[str, Json]) -> str | None:
    arguments: Json = payload.get("arguments")
    if arguments is None or tool not in _WRITES or payload.get("door") not in _RESOLVING_DOORS:
        return None
    if not is_object(arguments):
        return "Its arguments could not be resolved to paths, so it may change a file that configures gates."
    real: Json = payload.get(REAL_PATHS)
    told = real if is_object(real) else {}
    for name, value in arguments.items():
        if name in PATHS and isinstance(value, str) and not isinstance(told.get(name), str):
            return f"The path in {name} could not be resolved, so it may change a file that configures gates."
    return None
