"""Claude Code's settings as it reads them: hooks, which of them are Assent gates, and which tools they cover."""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from assent.agents.doctor.findings import Document, Finding, Place, at, items, problem, split, texts, whole_number
from assent.core.canonical import Json, is_array, is_object
from assent.core.claude_code import TTL_SECONDS

BEFORE, INSTEAD_OF_DIALOG = "PreToolUse", "PermissionRequest"
DECIDING = (BEFORE, INSTEAD_OF_DIALOG)
HOOK_PATH = "/api/hooks/claude"
DEFAULT_TIMEOUT = 600
"""Claude Code's default hook timeout, in seconds."""
_NAMES = re.compile(r"[A-Za-z0-9_|, -]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PROGRAM = re.compile(r"(?:.*[/\\])?assent(?:\.exe)?")
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}|\$([A-Z_][A-Z0-9_]*)")
# With these operators, the shell continues after a failed command and exits with a different status.
_GOES_ON = frozenset({"||", ";", "|", "&", "|&"})
_BETWEEN_COMMANDS = re.compile(r"[();|&]+")
_OPERATOR = re.compile(r"\|\||&&|\|&|[;|&]")
_OF_SHELL = frozenset({"exec", "command", "!", "{", "if", "then"})
# With these words, the shell may skip the gate, exit before it, or invert its result.
_DECIDES = frozenset({"!", "if", "while", "until", "for", "case", "select", "exit", "return", "trap"})
# A line break ends a command, except after && or a pipe.
_END_OF_LINE = re.compile(r"(?<![&|\s])\s*\n")
_NO_PATTERN = (re.error, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook, with its event and matcher."""

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
        """The command's words. Without `args`, a shell runs the command."""
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
        """The program that is started; empty if only a shell could determine it."""
        words = _last_command(self.words[: self._at + 1]) if self.by_shell else self.words
        return words[0] if words and "$" not in words[0] and not words[0].startswith("-") else ""

    @property
    def swallows_failure(self) -> bool:
        return self.by_shell and any(each in _GOES_ON for word in self.words[self._at :] for each in _operators(word))

    @property
    def may_be_skipped(self) -> bool:
        """Whether the command line can succeed although the gate did not run or rejected the call."""
        before = self.words[: self._at]
        return self.by_shell and any(word in _DECIDES or "||" in _operators(word) for word in before)

    @property
    def _at(self) -> int:
        return _command_at(self.words, "hook", "claude") or 0

    @property
    def timeout(self) -> float:
        given = self.settings.get("timeout")
        # In Python, bool is a subclass of int.
        if isinstance(given, bool) or not isinstance(given, int | float):
            return DEFAULT_TIMEOUT
        return given if given > 0 else DEFAULT_TIMEOUT

    @property
    def ttl(self) -> int:
        """How many seconds reviewers have to answer."""
        said = parse_qs(split(self.url).query).get("ttl", []) if self.is_http else options(self.words, "--ttl")
        return (whole_number(said[-1]) if said else None) or TTL_SECONDS

    def pins(self, option: str) -> list[str]:
        """Return the values of an option in the command."""
        return options(self.words, f"--{option}")

    @property
    def is_gate(self) -> bool:
        if self.is_http:
            return split(self.url).path.rstrip("/").endswith(HOOK_PATH)
        return _command_at(self.words, "hook", "claude") is not None

    def sees(self, tool: str) -> bool:
        return covers(self.matcher, tool)

    def variables(self) -> Iterator[tuple[str, str]]:
        """Yield the header and the name of each variable in the headers."""
        for header, value in self.headers.items():
            for braced, bare in _VARIABLE.findall(value):
                yield header, braced or bare


def is_command(words: Sequence[str], *command: str) -> bool:
    return _command_at(words, *command) is not None


def _command_at(words: Sequence[str], *command: str) -> int | None:
    """Return the index at which `assent`, by name or path, is called with this command; other words may precede it."""
    for n, word in enumerate(words):
        if _PROGRAM.fullmatch(word) and tuple(words[n + 1 : n + 1 + len(command)]) == command:
            return n
    return None


def shell_words(command: str) -> Sequence[str]:
    # In a shell, a backslash continues the line, and any other line break ends the command.
    line = _END_OF_LINE.sub(" ; ", command.replace("\\\n", "").strip())
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    # shlex would otherwise treat a # inside a word, such as in a URL, as the start of a comment.
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # the closing quote is missing
        return command.split()


def _operators(word: str) -> Sequence[str]:
    """Return the shell operators in a word, which may contain several operators and parentheses."""
    return _OPERATOR.findall(word) if _BETWEEN_COMMANDS.fullmatch(word) else ()


def _last_command(words: Sequence[str]) -> list[str]:
    """Return the last of several shell commands, without shell keywords and variable assignments."""
    starts = [n for n, word in enumerate(words, 1) if _BETWEEN_COMMANDS.fullmatch(word)]
    command = words[max(starts, default=0) :]
    return [word for word in command if word not in _OF_SHELL and not _ASSIGNMENT.match(word)]


def options(words: Sequence[str], name: str) -> list[str]:
    # Accept both `--name value` and `--name=value`.
    spread = [part for word in words for part in (word.split("=", 1) if word.startswith(f"{name}=") else [word])]
    return [value for option, value in itertools.pairwise(spread) if option == name]


def covers(matcher: str, tool: str) -> bool:
    """Return whether Claude Code runs a hook for a tool: the matcher lists names, or is a pattern to search for."""
    if matcher in {"", "*"}:
        return True
    listed = named_tools(matcher)
    # Names are compared in full, but a pattern is searched for anywhere in the name.
    if listed:
        return tool in listed
    try:
        return re.search(matcher, tool) is not None
    except _NO_PATTERN:
        return False


def named_tools(matcher: str) -> Sequence[str]:
    """Return the tools that a matcher lists by name; empty if it is a pattern."""
    return [name.strip() for name in re.split("[|,]", matcher)] if _NAMES.fullmatch(matcher) else ()


def is_broken(matcher: str) -> bool:
    try:
        re.compile(matcher)
    except _NO_PATTERN:
        return matcher != "*"
    return False


def filled_in(text: str, env: Mapping[str, str]) -> str:
    """Return a header with its variables filled in. Unset variables become empty."""
    return _VARIABLE.sub(lambda found: env.get(found[1] or found[2], ""), text)


def hooks(document: Document) -> Iterator[Hook]:
    """Yield the hooks of a document, ignoring everything that does not have the form of a hook."""
    events = at(document.content, "hooks")
    for event, entries in events.items() if is_object(events) else ():
        for n, entry in enumerate(items(entries)):
            for m, settings in enumerate(items(at(entry, "hooks")) if _has_matcher(entry) else ()):
                if is_object(settings):
                    yield Hook(
                        place=document.place.at("hooks", event, n, "hooks", m),
                        event=event,
                        matcher=at(entry, "matcher") or "",
                        settings=settings,
                        managed=document.managed,
                    )


def misshapen(document: Document) -> Iterator[Finding]:
    """Yield a finding for everything that Claude Code cannot load as a hook."""
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
            if not is_array(inner) or not all(map(is_object, inner)) or not _has_matcher(entry):
                yield _shape(place.at(n))


def _has_matcher(entry: Json) -> bool:
    """Return whether an entry's matcher is a string or missing. Claude Code cannot read any other type."""
    matcher = at(entry, "matcher")
    return matcher is None or isinstance(matcher, str)


def _shape(place: Place) -> Finding:
    what = "Claude Code cannot read this entry, so the gate is not active."
    return problem("shape", place, what, "Run assent hook claude install again, or fix the entry manually.")
