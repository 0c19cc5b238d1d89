"""Finds rules that were created by older versions of “Always approve” and match more calls than the one shown."""

from collections.abc import Collection, Mapping, Sequence

from assent.core.call_digests import CALL_DIGEST, call_digest
from assent.core.canonical import Json
from assent.core.errors import InvalidRequest
from assent.core.exact_calls import PROGRAM_DIGEST, WITHOUT_PROGRAM, is_whole_tool
from assent.core.patterns.expressions import And, Expression, Not, Predicate
from assent.core.patterns.pattern import Pattern, parse
from assent.core.protected_paths import DIRECTORY
from assent.core.rulebook import Rule, RuleAction

ALWAYS_APPROVE = "always-approve"
_CALLED: Mapping[str, str] = {DIRECTORY: "working directory", CALL_DIGEST: "arguments", PROGRAM_DIGEST: "program"}


def unnamed(rule: Rule) -> tuple[str, ...]:
    """Return the parts of a call that an “Always approve” rule fails to check. For other rules, the result is empty."""
    pattern = _pattern(rule)
    if pattern is None:
        return ()
    gate, named = pattern.glob.text, _named(pattern.expression)
    if not is_whole_tool(gate) and CALL_DIGEST not in named:
        return ()
    wanted = {DIRECTORY, CALL_DIGEST}
    if not gate.startswith(WITHOUT_PROGRAM):
        wanted.add(PROGRAM_DIGEST)
    return _missing(wanted, named)


def unnamed_in(rule: Rule, gate: str, payload: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the parts of this call that an “Always approve” rule fails to check."""
    pattern = _pattern(rule)
    if pattern is None or (call_digest(payload) is None and not is_whole_tool(gate)):
        return ()
    program = {PROGRAM_DIGEST} if "program" in payload or PROGRAM_DIGEST in payload else set[str]()
    return _missing({DIRECTORY, CALL_DIGEST} | program, _named(pattern.expression))


def sentence(rule_id: str, missing: Sequence[str]) -> str:
    *most, last = [f"the {each}" for each in missing]
    names = f"{', '.join(most)} or {last}" if most else last
    return f"The rule {rule_id} does not check {names}, because it was created by an older version of Assent."


def _pattern(rule: Rule) -> Pattern | None:
    if rule.source != ALWAYS_APPROVE or rule.action != RuleAction.AUTO:
        return None
    try:
        return parse(rule.pattern)
    except InvalidRequest:  # an invalid rule never approves
        return None


def _named(expression: Expression | None) -> dict[str, bool]:
    """Return the payload fields that must have a specific value (True) or must be absent (False)."""
    found: dict[str, bool] = {}
    # Below OR, a predicate does not have to be true, so only the operands of the outermost AND count.
    for each in expression.operands if isinstance(expression, And) else (expression,):
        denied = isinstance(each, Not)
        predicate = each.operand if isinstance(each, Not) else each
        if isinstance(predicate, Predicate) and predicate.operator == ("exists" if denied else "="):
            found[".".join(predicate.path).removeprefix("payload.")] = not denied
    return found


def _missing(wanted: Collection[str], named: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(called for name, called in _CALLED.items() if name in wanted and name not in named)
