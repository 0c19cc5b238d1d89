"""Checks for ways in which Claude Code's settings let a call bypass its gates."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assent.agents.doctor.claude_settings import (
    BEFORE,
    DECIDING,
    INSTEAD_OF_DIALOG,
    Hook,
    filled_in,
    hooks,
    is_broken,
    misshapen,
    named_tools,
)
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
    items,
    number,
    problem,
    split,
    texts,
    unreadable,
    warning,
)
from assent.agents.doctor.pin_checks import environment_findings, unpinned
from assent.core.patterns.globs import glob_matches

RISKY = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "mcp__server__tool")
"""Tools that change something or send data; the last entry represents the tools of all MCP servers."""
_SOMETIMES = ("PowerShell", "MultiEdit")
KNOWN = (
    *RISKY, *_SOMETIMES, "AskUserQuestion", "Read", "Grep", "Glob", "LS", "LSP", "NotebookRead", "WebSearch", "Task",
    "Agent", "TodoWrite", "BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop", "Monitor", "Skill",
    "SlashCommand", "ToolSearch", "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ListMcpResourcesTool",
    "ReadMcpResourceTool", "StructuredOutput",
)  # fmt: skip
"""Claude Code's own tools, used to detect matchers that do not cover any of them."""
_EDITS = frozenset({"Edit", "Write", "NotebookEdit", "MultiEdit"})
_OURS = "mcp__assent__"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_RULE = re.compile(r"\s*([^()\s]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ANYTHING = frozenset({"", "*", ":*", "**"})
_MODES = ("default", "manual", "plan", "dontAsk")
INSTALL = "or run assent hook claude install"


@dataclass(frozen=True, slots=True)
class Gates:
    """The configured gates, and the tools that they cover."""

    hooks: Sequence[Hook]

    def before(self, tool: str) -> bool:
        """Whether a gate runs before the tool, even if a rule allows the tool."""
        return any(hook.event == BEFORE and hook.sees(tool) for hook in self.hooks)

    def instead_of_dialog(self, tool: str) -> bool:
        """Whether a gate runs only when Claude Code would otherwise show its permission dialog."""
        return any(hook.event == INSTEAD_OF_DIALOG and hook.sees(tool) for hook in self.hooks)

    def unseen(self) -> list[str]:
        return [tool for tool in RISKY if not (self.before(tool) or self.instead_of_dialog(tool))]


def claude_findings(
    documents: Sequence[Document], machine: Machine, *, asks_otherwise: bool = False
) -> Iterator[Finding]:
    """Yield the findings about the settings; later documents take precedence.

    If `asks_otherwise`, Assent's MCP server is configured, so the agent may request approval without a gate.
    """
    yield from (unreadable(each) for each in documents if each.trouble)
    read = [each for each in documents if not each.trouble]
    for each in read:
        yield from misshapen(each)
    world = replace(machine, env=environment(read, machine.env))
    found = [hook for each in read for hook in hooks(each) if hook.is_gate]
    for hook in found:
        yield from _gate_findings(hook, read, world)
    # Gates on other events cannot block a call, so they do not count as protection.
    gates = Gates([hook for hook in found if hook.event in DECIDING])
    if gates.hooks:
        yield from _switched_off(read, gates)
        yield from _unseen(gates)
        yield from _modes(read, gates)
        yield from _rules(read, gates)
        yield from environment_findings(read, gates.hooks)
    else:
        yield _no_gate(documents, machine, asks_otherwise=asks_otherwise)


def _no_gate(documents: Sequence[Document], machine: Machine, *, asks_otherwise: bool) -> Finding:
    todo = "Add one with assent hook claude install."
    place = Place(documents[-1].path if documents else machine.project)
    what = "Claude Code is configured here without an Assent gate, so it does not request approval."
    if not documents:
        what = "Claude Code is not configured here, so no gate is active and no approval is requested."
    if asks_otherwise:
        return warning(
            "no-gate", place, f"{what} Approval is requested only when the agent itself calls the MCP server.", todo
        )
    return problem("no-gate", place, what, todo)


def gate_hooks(documents: Sequence[Document]) -> list[Hook]:
    """Return the gates on events that can block a call."""
    found = [hook for each in documents if not each.trouble for hook in hooks(each)]
    return [hook for hook in found if hook.is_gate and hook.event in DECIDING]


def environment(documents: Sequence[Document], env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables that hooks see: the machine's, overridden by those in the settings."""
    for each in documents:
        env = {**env, **texts(at(each.content, "env"))}
    return env


def claude_accesses(documents: Sequence[Document], machine: Machine) -> Iterator[Access]:
    """Yield each token that the settings give to a gate."""
    env = environment(documents, machine.env)
    for each in documents:
        given = texts(at(each.content, "env"))
        if TOKEN in given:
            yield Access(each.place.at("env", TOKEN), given[TOKEN], given.get(URL))
        for hook in hooks(each):
            token = _bearer(hook, env)
            if hook.is_gate and token:
                yield Access(hook.place.at("headers"), token, hook.url)


def _bearer(hook: Hook, env: Mapping[str, str]) -> str:
    allowed = {each for each in items(hook.settings.get("allowedEnvVars")) if isinstance(each, str)}
    return filled_in(_authorization(hook), {name: env[name] for name in allowed & env.keys()})[7:].strip()


def _authorization(hook: Hook) -> str:
    found = [value for name, value in hook.headers.items() if name.lower() == "authorization"]
    return found[-1] if found and found[-1].lower().startswith("bearer ") else ""


def _gate_findings(hook: Hook, documents: Sequence[Document], machine: Machine) -> Iterator[Finding]:
    found = [finding for check in _CHECKS for finding in check(hook, machine)]
    found += _http_rules(hook, documents)
    yield from found
    if not found:
        waits = f"waits up to {number(hook.timeout)} s for an answer"
        yield fine("gate", hook.place, f"The gate on {hook.event} blocks the call if it fails, and {waits}.")


def _event(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.event not in DECIDING:
        what = f"A gate on {hook.event} cannot block the call."
        yield problem("hook-event", hook.place, what, f"Move it to {BEFORE} or {INSTEAD_OF_DIALOG}, {INSTALL}.")


def _on_failure(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.settings.get("onFailure") != "block":
        what = "If this gate fails, times out or cannot start, Claude Code runs the tool without approval."
        yield problem("hook-on-failure", hook.place, what, f'Add "onFailure": "block" to the hook, {INSTALL}.')


def _background(hook: Hook, _: Machine) -> Iterator[Finding]:
    for name in ("async", "asyncRewake"):
        if hook.settings.get(name) is True:
            what = "This gate runs in the background, so the tool runs before anyone has answered."
            yield problem("hook-async", hook.place.at(name), what, f'Remove "{name}".')


def _once(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.settings.get("once") is True:
        what = "This gate is removed after its first call, so later calls run without it."
        yield problem("hook-once", hook.place.at("once"), what, 'Remove "once".')


def _swallowed(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.swallows_failure:
        what = "The shell continues after the gate fails, so Claude Code treats the command as successful."
        todo = f"End the command with the gate, without ||, ; or | after it, {INSTALL}."
        yield problem("hook-swallowed", hook.place.at("command"), what, todo)
    if hook.may_be_skipped:
        what = "A command before the gate can exit successfully without running it, or invert its result."
        todo = f"Before the gate, use only cd and variable assignments, joined by &&, {INSTALL}."
        yield problem("hook-skipped", hook.place.at("command"), what, todo)


def _timeout(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.timeout < hook.ttl:
        given = "timeout" in hook.settings
        place = hook.place.at("timeout") if given else hook.place
        limit = f"stops waiting after {number(hook.timeout)} s" + ("" if given else " by default")
        what = f"Reviewers have {hook.ttl} s to answer, but Claude Code {limit}. Later answers are lost."
        yield problem("hook-timeout", place, what, f'Set "timeout" to more than {hook.ttl} (in seconds), {INSTALL}.')


def _narrowed(hook: Hook, _: Machine) -> Iterator[Finding]:
    if hook.settings.get("if") is not None:
        what = 'This gate covers only calls that match its "if" condition. All other calls bypass it.'
        yield warning("hook-if", hook.place.at("if"), what, 'Remove "if" unless this is intentional.')


def _matcher(hook: Hook, _: Machine) -> Iterator[Finding]:
    if is_broken(hook.matcher):
        what = "The matcher is not a valid pattern, so it does not match anything."
        yield problem("hook-matcher", hook.place, what, 'Use names separated by |, or "*".')
    elif any(map(_is_server, named_tools(hook.matcher))):
        what = (
            "The matcher is not a pattern, so it is compared with full tool names and does not match any of the "
            "MCP server's tools."
        )
        yield warning("hook-matcher", hook.place, what, "To match all of a server's tools, use mcp__SERVER__.*.")
    elif "mcp__" not in hook.matcher and not any(map(hook.sees, KNOWN)):
        what = (
            "The matcher does not match any of Claude Code's tools, so this gate never runs. Names are case-sensitive."
        )
        yield problem("hook-matcher", hook.place, what, f'Use names such as {", ".join(RISKY[:3])}, or "*".')


def _program(hook: Hook, machine: Machine) -> Iterator[Finding]:
    if hook.program and not machine.runs(hook.program):
        so = "all calls are blocked" if hook.settings.get("onFailure") == "block" else "all calls run without approval"
        what = f"{hook.program[:60]} is not on the PATH, so the gate cannot start and {so}."
        yield problem(
            "hook-command",
            hook.place.at("command"),
            what,
            "Install Assent so that it is on the PATH, or use the full path.",
        )


def _http(hook: Hook, machine: Machine) -> Iterator[Finding]:
    if not hook.is_http:
        return
    parts = split(hook.url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        what = "The token and the tool calls are sent unencrypted."
        yield warning("hook-url", hook.place.at("url"), what, "Use an https:// URL.")
    if not _authorization(hook):
        what = "The hook does not send a token, so the server rejects its requests."
        todo = f'Add "headers": {{"Authorization": "Bearer ${TOKEN}"}} and "allowedEnvVars": ["{TOKEN}"].'
        yield problem("hook-token", hook.place, what, todo)
    yield from _variables(hook, machine)


def _variables(hook: Hook, machine: Machine) -> Iterator[Finding]:
    allowed = items(hook.settings.get("allowedEnvVars"))
    for header, name in hook.variables():
        place = hook.place.at("headers", header)
        if name not in allowed:
            what = f"{name} is not in allowedEnvVars, so Claude Code sends an empty value."
            yield problem("hook-variable", place, what, f'Add "allowedEnvVars": ["{name}"] to the hook.')
        elif not machine.env.get(name):
            what = f"{name} is not set here, so Claude Code sends an empty value."
            yield problem("hook-variable", place, what, f"Set {name} in Claude Code's environment.")


def _pins(hook: Hook, _: Machine) -> Iterator[Finding]:
    return unpinned(hook)


_CHECKS: tuple[Callable[[Hook, Machine], Iterator[Finding]], ...] = (
    _event,
    _on_failure,
    _background,
    _once,
    _swallowed,
    _timeout,
    _narrowed,
    _matcher,
    _program,
    _http,
    _pins,
)


def _http_rules(hook: Hook, documents: Sequence[Document]) -> Iterator[Finding]:
    """Check a hook against the allowlists for HTTP hooks; the lists of all documents are merged."""
    if not hook.is_http:
        return
    urls = _listed(documents, "allowedHttpHookUrls")
    if urls is not None and not any(glob_matches(pattern, hook.url) for pattern in urls):
        what = "allowedHttpHookUrls does not include this URL, so Claude Code does not call the hook."
        yield problem("hook-url", hook.place.at("url"), what, "Add the URL to allowedHttpHookUrls.")
    names = _listed(documents, "httpHookAllowedEnvVars")
    for header, name in hook.variables():
        if names is not None and name not in names:
            what = f"httpHookAllowedEnvVars does not include {name}, so Claude Code sends an empty value."
            place = hook.place.at("headers", header)
            yield problem("hook-variable", place, what, f"Add {name} to httpHookAllowedEnvVars.")


def _listed(documents: Sequence[Document], name: str) -> list[str] | None:
    lists = [at(each.content, name) for each in documents if at(each.content, name) is not None]
    return [text for each in lists for text in items(each) if isinstance(text, str)] if lists else None


def _switched_off(documents: Sequence[Document], gates: Gates) -> Iterator[Finding]:
    off = effective(documents, "disableAllHooks")
    if off is not None and off[1] is True:
        what = "All hooks are disabled, including the gates."
        yield problem("hooks-disabled", off[0], what, 'Remove "disableAllHooks".')
    # Claude Code honors this setting only in managed files.
    only = effective([each for each in documents if each.managed], "allowManagedHooksOnly")
    if only is not None and only[1] is True and not any(hook.managed for hook in gates.hooks):
        what = "Your organization allows only managed hooks, so the gates in these settings do not run."
        yield problem(
            "hooks-disabled", only[0], what, "Ask your administrator to add the gate to the managed settings."
        )


def _unseen(gates: Gates) -> Iterator[Finding]:
    unseen = gates.unseen()
    if unseen:
        names = ", ".join("MCP tools" if tool.startswith("mcp__") else tool for tool in unseen)
        what = f"No gate covers {names}. Claude Code decides whether to run them."
        todo = "Unless this is intentional, broaden a matcher, ideally to *."
        yield warning("matcher-misses", gates.hooks[0].place, what, todo)


def _modes(documents: Sequence[Document], gates: Gates) -> Iterator[Finding]:
    mode = effective(documents, "permissions", "defaultMode")
    if mode is not None and mode[1] not in _MODES:
        yield _mode(*mode, gates)
    skip = effective(documents, "skipDangerousModePermissionPrompt")
    if skip is not None and skip[1] is True:
        what = "Claude Code can be started without permission checks and does not ask for confirmation first."
        todo = f'Remove this setting, or use only {BEFORE} gates and set "disableBypassPermissionsMode" to "disable".'
        yield warning("mode-skips", skip[0], what, todo)
    sandbox = effective(documents, "sandbox", "autoAllowBashIfSandboxed")
    if sandbox is not None and sandbox[1] is True and not gates.before("Bash"):
        what = "Sandboxed commands run without a permission request, so no gate sees them."
        yield problem("mode-skips", sandbox[0], what, f"Add a gate on {BEFORE} for Bash.")


def _mode(place: Place, mode: object, gates: Gates) -> Finding:
    # acceptEdits allows only file edits without asking; the other modes allow every tool.
    tools = [tool for tool in RISKY if mode != "acceptEdits" or tool in _EDITS]
    missed = [tool for tool in tools if not gates.before(tool)]
    if mode not in ("bypassPermissions", "acceptEdits", "auto"):
        what = "Unknown permission mode."
        return warning("mode", place, what, 'Use "default".')
    if missed:
        names = ", ".join("MCP tools" if tool.startswith("mcp__") else tool for tool in missed)
        what = f"In {mode} mode, {names} run without approval."
        todo = f'Add a gate on {BEFORE} that covers them, or set "defaultMode" to "default".'
        return problem("mode", place, what, todo)
    what = f"In {mode} mode, Claude Code does not ask for permission, so only gates on {BEFORE} run."
    return warning("mode", place, what, 'Set "defaultMode" to "default" unless this is intentional.')


def _rules(documents: Sequence[Document], gates: Gates) -> Iterator[Finding]:
    for each in documents:
        for n, rule in enumerate(items(at(each.content, "permissions", "allow"))):
            if isinstance(rule, str):
                yield from _rule(rule, each.place.at("permissions", "allow", n), gates)


def _rule(rule: str, place: Place, gates: Gates) -> Iterator[Finding]:
    parts = _RULE.fullmatch(rule)
    if parts is None:
        return
    tool = _instance(parts[1])
    # A gate on this event runs even for calls that a rule allows.
    if not _is_risky(tool) or gates.before(tool):
        return
    shown = rule[:60]
    if gates.instead_of_dialog(tool):
        what = f"{shown} is allowed, so no dialog is shown and the gate on {INSTEAD_OF_DIALOG} does not run."
    else:
        what = f"{shown} is allowed and not covered by a gate, so it runs without approval."
    todo = f"Remove the rule, or add a gate on {BEFORE} that covers {parts[1]}."
    # A rule for the whole tool is worse than one for specific arguments.
    whole = (parts[2] or "").strip() in _ANYTHING
    yield (problem if whole else warning)("allow-rule", place, what, todo)


def _instance(name: str) -> str:
    """Return the name of a tool that a rule covers, as an example if the rule covers several."""
    if _is_server(name):
        return f"{name}__tool"
    return name.replace("*", "x") if name != "*" else RISKY[0]


def _is_server(name: str) -> bool:
    """Return whether the name refers to an MCP server rather than one of its tools."""
    return name.startswith("mcp__") and name.count("__") == 1


def _is_risky(tool: str) -> bool:
    return (tool.startswith("mcp__") and not tool.startswith(_OURS)) or tool in RISKY or tool in _SOMETIMES
