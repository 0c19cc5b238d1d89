"""Human-readable output of back-tests: progress, counts and breakpoints to review."""

import contextlib
from collections.abc import Callable, Generator, Sequence

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from assent.console import output
from assent.contracts.backtest import Backtest, PastBreakpoint
from assent.contracts.rules import ShadowReport
from assent.core.plurals import plural

_OUTCOMES = {
    "approved": "approved by people",
    "rejected": "rejected by people",
    "timed_out": "rejected automatically at the deadline",
    "auto": "approved by rules",
    "expired": "expired",
    "cancelled": "cancelled",
    "waiting": "still pending",
}


@contextlib.contextmanager
def progress_bar() -> Generator[Callable[[int, int], None] | None, None, None]:
    """Show a progress bar in a terminal; otherwise yield None."""
    if not output.err.is_terminal:
        yield None
        return
    columns = (TextColumn("Reading past breakpoints"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=output.err, transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda scanned, total: shown.update(task, completed=scanned, total=total)


def print_backtest(found: Backtest) -> None:
    acting = found.would_approve + found.would_stop
    verb = "would have been approved" if found.action == "auto-approve" else "would have required human approval"
    output.fields(
        {
            "pattern": found.pattern,
            "action": found.action,
            "checked": f"{plural(found.scanned, 'breakpoint')} from the last {plural(found.days, 'day')}",
            "matched": str(found.matched),
            "unknown": str(found.unknown) if found.unknown else None,
            "would still require approval": f"{found.stopped}, because of other rules, tags or the agent's settings"
            if found.stopped
            else None,
            "purged": f"{found.purged} (can no longer be evaluated)" if found.purged else None,
        }
    )
    output.say(f"{acting} {verb}. Actual outcomes:")
    for name, told in _OUTCOMES.items():
        if count := getattr(found, name):
            wrong = name == "rejected" and found.action == "auto-approve"
            output.say(f"  {count:>7} {told}", style="bold red" if wrong else "")
    _print_past("Rejected by people", found.rejections, more=found.more.get("rejections", False))
    _print_past("Still pending", found.waiting_items, more=found.more.get("waitingItems", False))
    _print_past("Approved by rules", found.auto_items, more=found.more.get("autoItems", False))


def print_shadow(found: ShadowReport) -> None:
    output.fields(
        {
            "rule": found.rule_id,
            "pattern": found.pattern,
            "action": f"{found.action} ({found.mode})",
            "since": f"{found.since}, version {found.since_version}",
            "matched": str(found.matched),
            "would approve": str(found.would_approve) if found.would_approve else None,
            "would require approval": str(found.would_stop) if found.would_stop else None,
            "would still require approval": str(found.stopped) if found.stopped else None,
            "people agreed": str(found.agreed),
            "people disagreed": str(found.disagreed),
            "undecided": str(found.undecided) if found.undecided else None,
            "decided by rules": str(found.auto) if found.auto else None,
        }
    )
    _print_past("Decided differently by people", found.disagreements, more=found.more)


def _print_past(title: str, found: Sequence[PastBreakpoint], *, more: bool) -> None:
    if not found:
        return
    output.say(f"{title}{' (newest only)' if more else ''}:", style="bold")
    rows = [
        (each.id, each.gate, each.agent_id, each.decided_by or "", each.at or each.created_at, each.feedback or "")
        for each in found
    ]
    output.table(("id", "gate", "agent", "decided by", "time", "comment"), rows, wide=("time",), empty="")
