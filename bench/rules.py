"""Ten thousand rules: the time to parse and index them, to evaluate them for a breakpoint, and the slowest pattern."""

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from assent.core.patterns.expressions import Subject
from assent.core.patterns.grammar import MAX_DEPTH, MAX_LENGTH
from assent.core.patterns.pattern import Pattern, match, parse
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import recommend
from bench.report import Report

T = TypeVar("T")
RULES = 10_000
ASKED = 2_000
GOAL_EVALUATION = 5
GOAL_SLOWEST = 10
LONGEST_GATE = 200
LARGEST_TEXT = 1_000_000
EXPRESSIONS = (
    "",
    "(tags contains 'routine')",
    "(tags contains 'routine' AND NOT expert = 'owner')",
    "(payload.amount < 100 AND agentId startswith 'ci-')",
)


def rules(report: Report) -> None:
    """Measure the functions of the core, without a database."""
    seed = random.randrange(2**32)
    print(f"rules: seed {seed}", file=sys.stderr)
    made = _rules(random.Random(seed))
    book, seconds = _timed(lambda: Rulebook.of(made))
    report.time("rules", "none", f"time to parse and index {RULES:,} rules", seconds * 1000)
    changed = [*made[1:], Rule(id="rule-new", pattern="new.*", action="auto-approve")]
    _, seconds = _timed(lambda: Rulebook.of(changed, before=book))
    report.time("rules", "none", f"time to index {RULES:,} rules again after one change", seconds * 1000)
    for what, gates in (("one rule decides", _gates(random.Random(seed))), ("no rule matches", ["nothing.fits-this"])):
        times = sorted(_asked(book, gates))
        for share in (0.5, 0.99):
            shown = f"evaluation of {RULES:,} rules, {what}, p{share * 100:.0f}"
            milliseconds = times[int(len(times) * share)] * 1000
            goal, met = f"< {GOAL_EVALUATION} ms", milliseconds < GOAL_EVALUATION
            report.fact("rules", "none", shown, f"{milliseconds * 1000:.0f} µs", goal, met=met)
    all_alike = Rulebook.of(
        Rule(id=f"rule-{n}", pattern=f"gate.*(attempt = {n})", action="never-auto-approve") for n in range(RULES)
    )
    worst = sorted(_asked(all_alike, ["gate.x"], times=20))
    report.time("rules", "none", f"evaluation of {RULES:,} rules for the same gate", worst[10] * 1000)
    _slowest(report)


def _rules(chance: random.Random) -> list[Rule]:
    """Return rules, nine in ten with a distinct prefix and one in ten starting with a wildcard."""
    made: list[Rule] = []
    for n in range(RULES):
        expression = chance.choice(EXPRESSIONS)
        glob = f"*.{chance.choice('abcdef')}{n}*" if n % 10 == 0 else f"team-{n % 500}.job-{n}.*"
        action = "never-auto-approve" if n % 7 == 0 else "auto-approve"
        made.append(Rule(id=f"rule-{n}", pattern=glob + expression, action=action, order=n))
    return made


def _gates(chance: random.Random) -> list[str]:
    return [f"team-{n % 500}.job-{n}.step" for n in chance.sample(range(RULES), 500)]


def _asked(book: Rulebook, gates: Sequence[str], times: int = ASKED) -> Iterator[float]:
    values = {"tags": ["routine"], "agentId": "ci-1", "payload": {"amount": 5}, "attempt": -1}
    for n in range(times):
        subject = Subject(gates[n % len(gates)], values)
        started = time.perf_counter()
        recommend(book, subject, hard_stop=False, after_n=None, consecutive=0, now=0)
        yield time.perf_counter() - started


def _slowest(report: Report) -> None:
    """Match hostile patterns against the longest possible gate, and against the longest possible text in a payload."""
    for what, size in (("gate", LONGEST_GATE), ("payload text", LARGEST_TEXT)):
        subject = Subject("a" * LONGEST_GATE, {"payload": {"x": "a" * size}})
        seconds, text = max((_matched(parse(text), subject), text) for text in _hostile())
        goal = GOAL_SLOWEST if what == "gate" else None
        shown = f"slowest pattern to match with a {size:,}-character {what}: {text[:40]}…"
        report.time("rules", "none", shown, seconds * 1000, goal=goal)
    seconds, text = max((_timed(partial(parse, text))[1], text) for text in _hostile())
    report.time("rules", "none", f"slowest pattern to parse: {text[:40]}…", seconds * 1000)


def _matched(pattern: Pattern, subject: Subject) -> float:
    return min(_timed(partial(match, pattern, subject))[1] for _ in range(3))


def _hostile() -> Iterator[str]:
    for piece in ("*a", "*", "*aa", "*a*b", "*aab", "a*"):
        yield (piece * MAX_LENGTH)[: MAX_LENGTH - 1] + "b"
    for length in (5, 60, 98, 500, 1_900):
        yield f"*{'a' * length}b*"
        yield f"*(payload.x matches '*{'a' * (length // 2)}b{'a' * (length // 2)}*')"
    for part in (
        "payload.x matches '*a*b'",
        "payload.x contains 'aaaaab'",
        "payload.x contains 'baaaaa'",
        "attempt = 1",
    ):
        for joint in (" OR ", " AND NOT "):
            yield f"*({joint.join([part] * (MAX_LENGTH // (len(part) + len(joint))))})"
    yield f"*({'(' * MAX_DEPTH}payload.x endswith 'b'{')' * MAX_DEPTH})"
    yield f"*(payload.x in ({', '.join(['1'] * 600)}))"


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    done = work()
    return done, time.perf_counter() - started


if __name__ == "__main__":
    figures = Report()
    rules(figures)
    figures.print()
