"""Checks for variables in settings that direct a gate to a different server or replace its program."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from assent.agents.doctor.claude_settings import Hook
from assent.agents.doctor.findings import TOKEN, URL, Document, Finding, Place, at, problem, texts, warning

RECEIPT_KEY = "ASSENT_RECEIPT_KEY"
INSTALL_AGAIN = "Run assent hook claude install again to store the URL in the hook itself."
_NETWORK = re.compile(r"(?i)(https?|all)_proxy|ssl_cert_(file|dir)|requests_ca_bundle|sslkeylogfile")
_PYTHON = re.compile(r"PYTHON[A-Z_]+")
_LOADER = re.compile(r"(LD|DYLD)_[A-Z_]+")


def unpinned(hook: Hook) -> Iterator[Finding]:
    """Yield a finding if a command reads its server's URL from the environment, or does not pin a receipt key."""
    if hook.is_http:
        return
    if not hook.pins("url"):
        what = "This gate reads the server's URL from the environment, which a project's settings can change."
        yield problem("hook-unpinned", hook.place, what, INSTALL_AGAIN)
    elif not hook.pins("receipt-key"):
        what = "This gate does not pin a receipt key, so it trusts any server at its URL."
        todo = "Run assent hook claude install again while the server is reachable, with ASSENT_TOKEN set."
        yield warning("hook-receipt-key", hook.place, what, todo)


def environment_findings(documents: Sequence[Document], gates: Sequence[Hook]) -> Iterator[Finding]:
    """Yield the variables in the settings that affect a gate, and what they can do to it."""
    for document in documents:
        # A user who can edit the file that defines the gate can change the gate itself, so its variables add no risk.
        own = all(hook.place.where == document.path for hook in gates)
        for name in texts(at(document.content, "env")):
            yield from _variable(name, document.place.at("env", name), gates, own=own)


def _variable(name: str, place: Place, gates: Sequence[Hook], *, own: bool) -> Iterator[Finding]:
    if name in (URL, RECEIPT_KEY):
        yield _redirects(name, place, gates)
    elif not own:
        reached = next((said for pattern, reaches, said in _WAYS if pattern(name) and any(map(reaches, gates))), None)
        if reached is not None:
            yield problem(
                "env",
                place,
                f"{name} is set here and affects a gate that is defined in other settings: {reached}",
                _todo(name),
            )


def _redirects(name: str, place: Place, gates: Sequence[Hook]) -> Finding:
    option = "url" if name == URL else "receipt-key"
    todo = f"Remove {name} from these settings; assent hook claude install stores it in the hook."
    if any(not hook.is_http and not hook.pins(option) for hook in gates):
        what = f"{name} is set here and a gate uses it, so these settings determine which server the gate trusts."
        return problem("env", place, what, todo)
    return warning("env", place, f"{name} is set here. Gates do not use it, but other Assent commands do.", todo)


def _todo(name: str) -> str:
    return f"Remove {name} from these settings, or run assent hook claude install --user again."


def _by_name(hook: Hook) -> bool:
    return not hook.is_http and "/" not in hook.program and "\\" not in hook.program


def _not_isolated(hook: Hook) -> bool:
    return not hook.is_http and "-I" not in hook.words


def _by_token_variable(hook: Hook) -> bool:
    return hook.is_http or not hook.pins("token-file")


def _follows_network(hook: Hook) -> bool:
    return hook.is_http or not hook.pins("url")


# Only the first matching entry is reported for each variable.
_WAYS: tuple[tuple[Callable[[str], object], Callable[[Hook], bool], str], ...] = (
    (_LOADER.fullmatch, lambda _: True, "it can load other code into the gate."),
    (_PYTHON.fullmatch, _not_isolated, "it can load other code into the gate."),
    (lambda name: name == "PATH", _by_name, "it can start a different program instead of the gate."),
    (lambda name: name == TOKEN, _by_token_variable, "the gate then uses a different identity, with different rules."),
    (_NETWORK.fullmatch, _follows_network, "it can route the gate's requests through another machine."),
)


def agents(gates: Sequence[Hook]) -> Mapping[str, Hook]:
    """Return a gate for each agent ID that the gates use."""
    return {(hook.pins("agent-id") or ["claude-code"])[-1]: hook for hook in gates}
