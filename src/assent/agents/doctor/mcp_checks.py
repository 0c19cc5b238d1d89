"""Checks for MCP configurations that lose answers, or let an agent answer its own questions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assent.agents.doctor.claude_settings import is_command, options
from assent.agents.doctor.findings import (
    TOKEN,
    URL,
    Access,
    Document,
    Finding,
    Machine,
    Place,
    at,
    effective,
    fine,
    is_persons,
    items,
    number,
    problem,
    same_host,
    split,
    texts,
    unreadable,
    warning,
    whole_number,
)
from assent.core.canonical import Json, is_object

SLICE_MS = 60_000
"""A tool may take 50 seconds to respond, so a timeout below this value could end the call too early."""
IGNORED_MS = 1000
"""Claude Code ignores timeouts below this value."""
_TIMEOUTS = ("MCP_TOOL_TIMEOUT", "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Server:
    """An MCP server, as configured in a client."""

    place: Place
    name: str
    settings: Mapping[str, Json]

    @property
    def words(self) -> Sequence[str]:
        command = self.settings.get("command")
        if not isinstance(command, str):
            return ()
        return [command, *(each for each in items(self.settings.get("args")) if isinstance(each, str))]

    @property
    def env(self) -> Mapping[str, str]:
        return texts(self.settings.get("env"))

    @property
    def url(self) -> str:
        found = self.settings.get("url")
        return found if isinstance(found, str) else ""

    @property
    def is_ours(self) -> bool:
        """Whether this is Assent's MCP server, judging by its command or, if it has a URL instead, by its name."""
        return is_command(self.words, "mcp") if self.words else bool(self.url) and "assent" in self.name.lower()


def servers(document: Document, project: str) -> Iterator[Server]:
    """Yield the servers that a document configures for all projects and for this one."""
    for keys in ((), ("projects", project)):
        found = at(document.content, *keys, "mcpServers")
        for name, settings in found.items() if is_object(found) else ():
            if is_object(settings):
                yield Server(document.place.at(*keys, "mcpServers", name), name, settings)


def mcp_findings(documents: Sequence[Document], settings: Sequence[Document], machine: Machine) -> Iterator[Finding]:
    """Yield the findings about the servers; the client's own settings can limit how long a call may take."""
    yield from (unreadable(each) for each in documents if each.trouble)
    found = [server for each in documents for server in servers(each, machine.project)]
    for server in found:
        yield from _lying_tokens(server)
        if server.is_ours:
            yield from _server_findings(server, machine)
    if any(server.is_ours for server in found):
        yield from _timeouts(settings, machine)


def asks_over_mcp(documents: Sequence[Document], machine: Machine) -> bool:
    """Return whether an agent can request approval through Assent's MCP server."""
    return any(server.is_ours for each in documents if not each.trouble for server in servers(each, machine.project))


def mcp_accesses(documents: Sequence[Document], machine: Machine) -> Iterator[Access]:
    """Yield each token that is configured for Assent's MCP server."""
    for server in (server for each in documents for server in servers(each, machine.project)):
        token = _token(server, machine)
        if server.is_ours and token:
            place = server.place.at("env", TOKEN) if TOKEN in server.env else server.place
            yield Access(place, token, _address(server, machine))


def _address(server: Server, machine: Machine) -> str | None:
    """Return the URL of the server that a token is for. None means this machine's server.

    An MCP server over HTTP has its own port and forwards the token. If its host is the same, it is assumed to forward
    the token to this machine's server.
    """
    if server.url:
        return None if same_host(server.url, machine.server) else server.url
    return filled_in(server.env.get(URL, ""), machine.env) or None


def filled_in(text: str, env: Mapping[str, str]) -> str:
    """Fill in the ${VARIABLES} in a string. Unset variables are replaced with their defaults."""
    return _VARIABLE.sub(lambda found: env.get(found[1]) or found[2] or "", text)


def _token(server: Server, machine: Machine) -> str:
    if server.words:
        return filled_in(server.env[TOKEN], machine.env) if TOKEN in server.env else machine.env.get(TOKEN, "")
    # HTTP header names are case-insensitive.
    headers = {name.lower(): value for name, value in texts(server.settings.get("headers")).items()}
    return filled_in(headers.get("authorization", ""), machine.env)[7:].strip()


def _server_findings(server: Server, machine: Machine) -> Iterator[Finding]:
    found = [*_start(server, machine), *_own_timeout(server), *_elsewhere(server, machine)]
    if not _token(server, machine):
        what = "The MCP server does not have a token here, so it cannot create breakpoints."
        found.append(problem("mcp-token", server.place, what, f"Set {TOKEN} in its env to an agent token."))
    yield from found
    if not found:
        yield fine("mcp", server.place, "The MCP server has a token and a sufficient timeout.")


def _elsewhere(server: Server, machine: Machine) -> Iterator[Finding]:
    """Warn if a configuration sends the questions and the token to a server other than this machine's."""
    named = filled_in(server.env.get(URL, ""), machine.env)
    address = (options(server.words, "--url") or [named])[-1] or server.url
    if address and machine.server and not same_host(address, machine.server):
        what = f"This configuration sends questions and the token to {split(address).netloc[:60]} and trusts its"
        what += f" answers, but this machine is configured to use {split(machine.server).netloc[:60]}."
        todo = (
            f"Remove it unless this is intentional. To check the server, run assent doctor with {URL} set to its URL."
        )
        yield warning("mcp-url", server.place, what, todo)


def _start(server: Server, machine: Machine) -> Iterator[Finding]:
    if server.words and not machine.runs(server.words[0]):
        what = f"{server.words[0][:60]} is not on the PATH, so the MCP server cannot start."
        todo = "Install Assent so that it is on the PATH, or use the full path."
        yield problem("mcp-command", server.place.at("command"), what, todo)


def _own_timeout(server: Server) -> Iterator[Finding]:
    given = server.settings.get("timeout")
    if not isinstance(given, int | float) or given >= SLICE_MS:
        return
    place = server.place.at("timeout")
    # The value was probably meant in seconds. Claude Code ignores it, so it does not cut calls off.
    if given < IGNORED_MS:
        what = (
            f"Claude Code ignores a timeout of {number(given)} ms: the unit is milliseconds, and the minimum "
            f"is {IGNORED_MS}."
        )
        yield warning("mcp-timeout", place, what, f"Remove it, or set it to at least {SLICE_MS}.")
    else:
        yield problem("mcp-timeout", place, _cut_off(given), f"Set it to at least {SLICE_MS} (in milliseconds).")


def _timeouts(settings: Sequence[Document], machine: Machine) -> Iterator[Finding]:
    for name in _TIMEOUTS:
        place, given = effective(settings, "env", name) or (Place(name), machine.env.get(name))
        limit = whole_number(str(given))
        if limit and limit < SLICE_MS:
            yield problem("mcp-timeout", place, _cut_off(limit), f"Set it to at least {SLICE_MS} (in milliseconds).")


def _cut_off(limit: float) -> str:
    return (
        f"A call times out after {number(limit)} ms, but waiting for an answer can take 50 s, so answers may be lost."
    )


def _lying_tokens(server: Server) -> Iterator[Finding]:
    """Warn about a person's token where the agent can read it, as may happen when elicitation is set up."""
    for group in ("env", "headers"):
        for name, value in texts(server.settings.get(group)).items():
            # A person's token in the agent's own variable is reported when the tokens are checked.
            if is_persons(value) and name != TOKEN:
                what = (
                    "A person's token is stored where the agent can read it, so the agent could respond on that "
                    "person's behalf."
                )
                todo = f"Remove it, or use ${{{name.upper().replace('-', '_')}}} and keep the token elsewhere."
                yield warning("mcp-person", server.place.at(group, name), what, todo)
