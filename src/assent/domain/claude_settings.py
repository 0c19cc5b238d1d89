"""Claude Code's settings as it reads them: hooks, which of them are gates of ours, and what their matchers see."""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from assent.domain.canonical import Json, is_array, is_object
from assent.domain.checkup import Document, Finding, Place, at, items, problem, split, texts, whole_number
from assent.domain.claude_code import TTL_SECONDS

BEFORE, INSTEAD_OF_DIALOG = "PreToolUse", "PermissionRequest"
DECIDING = (BEFORE, INSTEAD_OF_DIALOG)
HOOK_PATH = "/api/hooks/claude"
DEFAULT_TIMEOUT = 600
"""Seconds that Claude Code gives a hook that says nothing of it."""
_NAMES = re.compile(r"[A-Za-z0-9_|, -]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PROGRAM = re.compile(r"(?:.*[/\\])?assent(?:\.exe)?")
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}|\$([A-Z_][A-Z0-9_]*)")
# What lets a shell go on, with an end of its own, after the command before it has failed.
_GOES_ON = frozenset({"||", ";", "|", "&", "|&"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook, as an event and a matcher have it."""

    place: Place
    event: str
    matcher: str
    settings: Mapping[str, Json]
    managed: bool = False

    @property
    def is_http(self) -> bool:
        return self.settings.get("type") == "http"

    @property
    def url(self) -> str:
        found = self.settings.get("url")
        return found if isinstance(found, str) and self.is_http else ""

    @property
    def headers(self) -> Mapping[str, str]:
        return texts(self.settings.get("headers"))

    @property
    def words(self) -> Sequence[str]:
        """The command word by word; one without args is for a shell."""
        command = self.settings.get("command")
        if self.settings.get("type") != "command" or not isinstance(command, str):
            return ()
        if self.by_shell:
            return shell_words(command)
        return [command, *(each for each in items(self.settings.get("args")) if isinstance(each, str))]

    @property
    def by_shell(self) -> bool:
        return not is_array(self.settings.get("args"))

    @property
    def program(self) -> str:
        """What is started; nothing where only a shell could tell."""
        words = [word for word in self.words if not (self.by_shell and _ASSIGNMENT.match(word))]
        return words[0] if words and "$" not in words[0] else ""

    @property
    def swallows_failure(self) -> bool:
        after = self.words[_command_at(self.words, "hook", "claude") or 0 :]
        return self.by_shell and any(word in _GOES_ON for word in after)

    @property
    def timeout(self) -> float:
        given = self.settings.get("timeout")
        return given if isinstance(given, int | float) and given > 0 else DEFAULT_TIMEOUT

    @property
    def ttl(self) -> int:
        """How many seconds people have."""
        said = parse_qs(split(self.url).query).get("ttl", []) if self.is_http else _options(self.words, "--ttl")
        return (whole_number(said[-1]) if said else None) or TTL_SECONDS

    @property
    def is_gate(self) -> bool:
        if self.is_http:
            return split(self.url).path.rstrip("/").endswith(HOOK_PATH)
        return _command_at(self.words, "hook", "claude") is not None

    def sees(self, tool: str) -> bool:
        return covers(self.matcher, tool)

    def variables(self) -> Iterator[tuple[str, str]]:
        """Yield the header and the name of each variable that stands in the headers."""
        for header, value in self.headers.items():
            for braced, bare in _VARIABLE.findall(value):
                yield header, braced or bare


def is_command(words: Sequence[str], *command: str) -> bool:
    return _command_at(words, *command) is not None


def _command_at(words: Sequence[str], *command: str) -> int | None:
    """Return where our own program is called with this command: by its name, a path, or behind something else."""
    for n, word in enumerate(words):
        if _PROGRAM.fullmatch(word) and tuple(words[n + 1 : n + 1 + len(command)]) == command:
            return n
    return None


def shell_words(command: str) -> Sequence[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is never closed
        return command.split()


def _options(words: Sequence[str], name: str) -> list[str]:
    spread = [part for word in words for part in (word.split("=", 1) if word.startswith(f"{name}=") else [word])]
    return [value for option, value in itertools.pairwise(spread) if option == name]


def covers(matcher: str, tool: str) -> bool:
    """Return whether Claude Code runs a hook for a tool: a list of names, else a pattern found anywhere in its name."""
    if matcher in {"", "*"}:
        return True
    if _NAMES.fullmatch(matcher):
        return tool in (name.strip() for name in re.split("[|,]", matcher))
    try:
        return re.search(matcher, tool) is not None
    except re.error:
        return False


def is_broken(matcher: str) -> bool:
    try:
        re.compile(matcher)
    except re.error:
        return matcher != "*"
    return False


def filled_in(text: str, env: Mapping[str, str]) -> str:
    """Return a header with its variables filled in; what is not set is empty."""
    return _VARIABLE.sub(lambda found: env.get(found[1] or found[2], ""), text)


def hooks(document: Document) -> Iterator[Hook]:
    """Yield the hooks of a document; what has not the shape of one is passed over."""
    events = at(document.content, "hooks")
    for event, entries in events.items() if is_object(events) else ():
        for n, entry in enumerate(items(entries)):
            matcher = at(entry, "matcher")
            for m, settings in enumerate(items(at(entry, "hooks"))):
                if is_object(settings):
                    yield Hook(
                        place=document.place.at("hooks", event, n, "hooks", m),
                        event=event,
                        matcher=matcher if isinstance(matcher, str) else "",
                        settings=settings,
                        managed=document.managed,
                    )


def misshapen(document: Document) -> Iterator[Finding]:
    """Yield what Claude Code cannot load as a hook."""
    events = at(document.content, "hooks")
    if not is_object(document.content) or not (events is None or is_object(events)):
        yield _shape(document.place if events is None else document.place.at("hooks"))
        return
    for event, entries in (events or {}).items():
        place = document.place.at("hooks", event)
        if not is_array(entries):
            yield _shape(place)
            continue
        for n, entry in enumerate(entries):
            inner = at(entry, "hooks")
            if not is_array(inner) or not all(map(is_object, inner)):
                yield _shape(place.at(n))


def _shape(place: Place) -> Finding:
    what = "This has not the shape that Claude Code reads; whatever gate was meant here is not there."
    return problem("shape", place, what, "Write it again with assent hook claude install, or mend it by hand.")
