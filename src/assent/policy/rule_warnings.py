"""Warnings about auto-approve rules that approve more than their author may have intended."""

from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Predicate
from assent.core.patterns.pattern import parse, parts
from assent.core.rulebook import RuleAction

# Names of payload fields that contain a command, without separators.
_COMMANDS = frozenset({"command", "cmd", "commandline", "script", "shell", "bash"})
_ATTACK = "rm -rf ~"


def warnings(pattern: str, action: str) -> list[str]:
    """Return a warning for each part of a rule that would allow an agent to append another command."""
    if action != RuleAction.AUTO:
        return []
    try:
        found = parts(parse(pattern))
    except InvalidRequest:
        return []  # an invalid pattern matches nothing
    # A negated condition only narrows the rule.
    return [said for each in found if not each.denied and (said := _warning(each.predicate))]


def _warning(predicate: Predicate) -> str | None:
    name = predicate.path[-1].lower().replace("_", "").replace("-", "")
    example = _also_approved(predicate) if predicate.path[0] == "payload" and name in _COMMANDS else None
    if example is None:
        return None
    return (
        f"{predicate} also approves {example!r}: an agent can append any command after ;, && or a newline. "
        "Match the entire command with = or in."
    )


def _also_approved(predicate: Predicate) -> str | None:
    text = str(predicate.literals[0].value) if predicate.literals else ""
    if predicate.operator in {"startswith", "contains"}:
        return f"{text}; {_ATTACK}"
    if predicate.operator == "endswith":
        return f"{_ATTACK}; {text}"
    if predicate.operator != "matches" or "*" not in text:
        return None
    head, _, tail = text.rpartition("*")
    return f"{head.replace('*', '')}; {_ATTACK}{tail and f'; {tail}'}"
