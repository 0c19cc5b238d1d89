"""Installs Assent's hooks in a repository next to existing ones, and uninstalls them without a trace."""

import os
import re
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from assent.triggers.sources import git_spool
from assent.triggers.sources.git_commands import Place, place, plainly, version

CONFIGURED = (2, 54)
"""The first Git version that can run hooks defined in its configuration, so that hook files stay unchanged."""
BEGIN, END = b"# >>> assent >>>", b"# <<< assent <<<"
BARE, WITH_FILES = ("post-receive",), ("post-merge", "reference-transaction")
MANAGERS = (b"husky", b"lefthook", b"pre-commit", b"overcommit", b"captainhook", b"simple-git-hooks")
_SHELL = re.compile(rb"#!\s*/(?:\S*/)?(?:env\s+)?(?:sh|bash|dash|ksh|ash)(?:\s+-[a-z]+)*[ \t]*\Z")
_BLOCK = re.compile(rb"(?P<extra>\n)?" + BEGIN + rb"(?P<note> [^\n]*)?\n.*?" + END + rb"\n", re.DOTALL)
_ADDED = b" a line break was added"

SCRIPT = """\
#!/bin/sh
# Written by `assent hooks install`: records events for Assent and never blocks git.
if [ -z "${GIT_DIR-}" ] && [ -d .git ]; then at=.git; else at=$(git rev-parse --git-common-dir) || exit 0; fi
spool=$at/assent-spool
[ -d "$spool" ] || exit 0
case ${1-} in
post-merge)
    if [ -d "$(git rev-parse --git-path rebase-merge)" ]; then exit 0; fi
    said="${2-}
$(git rev-parse HEAD --symbolic-full-name HEAD)
$(git rev-parse -q --verify ORIG_HEAD)"
    ;;
reference-transaction)
    [ "${2-}" = committed ] || exit 0
    said=$(cat)
    case $said in *" refs/remotes/"*) ;; *) exit 0 ;; esac
    ;;
*) said=$(cat) ;;
esac
umask 077
# Processes in different containers can have the same PID.
chance=$(od -An -N6 -tx1 /dev/urandom 2>/dev/null | tr -d ' \\n')
name=$(date +%s)-$$${chance:+-$chance}
set -C
printf '%s\\n%s\\n' "$1" "$said" >"$spool/.$name" || exit 0
if ln "$spool/.$name" "$spool/$name" 2>/dev/null; then rm -f "$spool/.$name"
elif [ ! -e "$spool/$name" ]; then mv "$spool/.$name" "$spool/$name"; fi
exit 0
"""
_FIND = """\
if [ -z "${GIT_DIR-}" ] && [ -f .git/assent-hook ]; then assent_hook=.git/assent-hook
else assent_hook=$(git rev-parse --git-common-dir 2>/dev/null)/assent-hook; fi
"""
_QUIETLY = ">/dev/null 2>&1 || :"
_PLAIN = _FIND + f'sh "$assent_hook" post-merge "$@" </dev/null {_QUIETLY}\n'
# The other commands in the hook must still be able to read the same input.
_WITH_INPUT = (
    "assent_in=$(cat; echo .)\n"
    "assent_in=${assent_in%%.}\n"
    + _FIND.replace("%", "%%")
    + 'printf %%s "$assent_in" | sh "$assent_hook" %(hook)s "$@" '
    + _QUIETLY
    + "\n"
    'if [ -z "$assent_in" ]; then exec </dev/null; else exec <<assent_end\n'
    "${assent_in%%?}\n"
    "assent_end\n"
    "fi\n"
)
_LINES = {
    "post-merge": _PLAIN,
    "post-receive": _WITH_INPUT % {"hook": "post-receive"},
    "reference-transaction": 'if [ "${1-}" = committed ]; then\n'
    + _WITH_INPUT % {"hook": "reference-transaction"}
    + "fi\n",
}


class State(StrEnum):
    INSTALLED = "installed"
    MISSING = "missing"
    FOREIGN = "foreign"
    """Another hook exists without ours, or ours cannot be added."""


@dataclass(frozen=True, slots=True)
class Hook:
    """The state of one hook of a repository."""

    name: str
    state: State
    path: str
    note: str = ""
    """The reason why our hook cannot be installed, or an empty string."""
    line: str = ""
    """The line to add manually."""


@dataclass(frozen=True, slots=True)
class Report:
    repo: str
    is_bare: bool
    spool: str
    waiting: int
    """The number of recorded events that have not been reported yet."""
    hooks: tuple[Hook, ...]

    @property
    def complete(self) -> bool:
        return all(each.state is State.INSTALLED for each in self.hooks)


def block(hook: str, *, note: bytes = b"") -> bytes:
    return BEGIN + note + b"\n" + _LINES[hook].encode() + END + b"\n"


def line_for(hook: str) -> str:
    """Return the line that calls our script from another hook."""
    call = f'sh "$(git rev-parse --git-common-dir)/assent-hook" {hook} "$@" {_QUIETLY}'
    return f'[ "$1" != committed ] || {call}' if hook == "reference-transaction" else call


def install(folder: Path) -> Report:
    found = place(folder)
    # A malicious repository could contain a spool that links to another folder.
    _refuse_link(found.spool)
    found.spool.mkdir(mode=0o700, exist_ok=True)
    found.spool.chmod(0o700)
    _write(found.script, SCRIPT.encode(), 0o755)
    for name in _names(found):
        if not (_configures(found) and _configure(found, name)):
            _install_file(found, name)
    return status(folder)


def status(folder: Path) -> Report:
    found = place(folder)
    is_there = found.spool.is_dir()
    return Report(
        repo=str(found.folder.absolute()),
        is_bare=found.is_bare,
        spool=str(found.spool),
        waiting=len(git_spool.waiting(found.spool)) if is_there else 0,
        hooks=tuple(_status(found, name) for name in _names(found)),
    )


def uninstall(folder: Path) -> Report:
    """Remove only what `install` added, and keep the spool while it contains unreported events."""
    found = place(folder)
    for name in (*BARE, *WITH_FILES):
        if _is_configured(found, name):
            plainly(found.folder, "config", "--local", "--remove-section", f"hook.{_section(name)}")
        _uninstall_file(_hook_file(found, name), name)
    found.script.unlink(missing_ok=True)
    if found.spool.is_dir() and not found.spool.is_symlink() and not git_spool.waiting(found.spool):
        for each in found.spool.iterdir():
            each.unlink()
        found.spool.rmdir()
    return status(folder)


def _refuse_link(spool: Path) -> None:
    if spool.is_symlink():
        msg = f"{spool} is a symbolic link, which Assent does not follow. Remove it, then try again."
        raise OSError(msg)


def _names(found: Place) -> tuple[str, ...]:
    return BARE if found.is_bare else WITH_FILES


def _configures(found: Place) -> bool:
    return version(found.folder) >= CONFIGURED


def _section(name: str) -> str:
    return f"assent-{name}"


def _configure(found: Place, name: str) -> bool:
    """Add a hook to the repository's configuration, or return False if Git does not support this."""
    section = f"hook.{_section(name)}"
    command = f"sh {shlex.quote(str(found.script))} {name}"
    plainly(found.folder, "config", "--local", "--replace-all", f"{section}.command", command)
    plainly(found.folder, "config", "--local", "--replace-all", f"{section}.event", name)
    # Git accepts settings that it does not support, so check whether it lists the hook.
    if _section(name) in (plainly(found.folder, "hook", "list", name) or ""):
        return True
    plainly(found.folder, "config", "--local", "--remove-section", section)
    return False


def _is_configured(found: Place, name: str) -> bool:
    return bool(plainly(found.folder, "config", "--local", "--get-all", f"hook.{_section(name)}.command"))


def _hook_file(found: Place, name: str) -> Path:
    hooks = (plainly(found.folder, "rev-parse", "--git-path", "hooks") or ".git/hooks\n").removesuffix("\n")
    return Path(os.path.abspath(found.folder / hooks)) / name  # noqa: PTH100  # resolve() would follow links


def _install_file(found: Place, name: str) -> None:
    path = _hook_file(found, name)
    if _hindrance(path):
        return
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, _whole(name), 0o755)
        return
    content = path.read_bytes()
    without = _without(content)
    first, newline, rest = without.partition(b"\n")
    added = newline or b"\n"
    # Insert the block directly after the first line, because the existing hook may exit early.
    wanted = first + added + block(name, note=b"" if newline else _ADDED) + rest
    if wanted != content:
        _write(path, wanted, stat.S_IMODE(path.stat().st_mode))


def _whole(name: str) -> bytes:
    return b"#!/bin/sh\n" + block(name)


def _hindrance(path: Path) -> str:
    """Return the reason why our block cannot be added to a hook file, or an empty string."""
    if any(part.startswith(".husky") for part in path.parts):
        return "husky manages this repository's hooks"
    if path.is_symlink():
        return "it is a symbolic link"
    if not path.exists():
        return ""
    content = path.read_bytes()
    if content == _whole(path.name):
        return ""
    return next((why for why, holds in _hindrances(path, content) if holds), "")


def _hindrances(path: Path, content: bytes) -> Iterator[tuple[str, bool]]:
    lowered = _without(content).lower()
    for each in MANAGERS:
        yield f"{each.decode()} manages it", each in lowered
    yield "it is not a shell script", not _SHELL.fullmatch(content.partition(b"\n")[0])
    yield "it is not executable, so Git does not run it", not os.access(path, os.X_OK)


def _status(found: Place, name: str) -> Hook:
    if _is_configured(found, name):
        return Hook(name, State.INSTALLED, "in the repository's Git configuration")
    path = _hook_file(found, name)
    if _calls_ours(path, name) or (path.parent.name == "_" and _calls_ours(path.parent.parent / name, name)):
        return Hook(name, State.INSTALLED, str(path))
    hindrance = _hindrance(path)
    state = State.FOREIGN if path.exists() or hindrance else State.MISSING
    return Hook(name, state, str(path), hindrance, line_for(name) if hindrance else "")


def _calls_ours(path: Path, name: str) -> bool:
    """Return whether a hook file contains our block or the line that was added manually."""
    content = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else b""
    by_hand = f'/assent-hook" {name} '.encode() in content
    return by_hand or (BEGIN in content and os.access(path, os.X_OK))


def _uninstall_file(path: Path, name: str) -> None:
    if path.is_symlink() or not path.is_file():
        return
    content = path.read_bytes()
    if BEGIN not in content:
        return
    if content == _whole(name):
        path.unlink()
        return
    _write(path, _without(content), stat.S_IMODE(path.stat().st_mode))


def _without(content: bytes) -> bytes:
    """Return the content of a hook without our block, as it was before installation."""

    def gone(found: re.Match[bytes]) -> bytes:
        return b"" if found["note"] == _ADDED else found["extra"] or b""

    return _BLOCK.sub(gone, content)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically, so that a hook that runs at the same time sees either the old or the new content."""
    beside = path.with_name(f".{path.name}.assent")
    beside.write_bytes(content)
    beside.chmod(mode)
    beside.replace(path)
