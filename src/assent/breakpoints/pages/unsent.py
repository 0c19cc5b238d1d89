"""Notices about answers that did not take effect. The author sees them on every page until they are dismissed."""

from dataclasses import dataclass

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.undo_window import UnsentAnswer
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.access import Permission, Principal
from assent.core.breakpoint import Breakpoint
from assent.core.headlines import cut, headline
from assent.db.transaction import Transaction
from assent.web import filters as render


@dataclass(frozen=True, slots=True)
class UnsentNotice:
    """An answer that did not take effect, with its breakpoint's name."""

    answer: UnsentAnswer
    name: str
    kept: bool
    """True if the comment was added to the breakpoint. This is not possible after the breakpoint has ended."""
    readable: bool
    """True if the reader can open the breakpoint in the current project."""


def unsent_notices(tx: Transaction, *, holding: HoldingService, by: Principal) -> list[UnsentNotice]:
    return [_notice(tx, each, by) for each in holding.unsent(tx, by=by)]


def _notice(tx: Transaction, answer: UnsentAnswer, by: Principal) -> UnsentNotice:
    if answer.project != by.project or not by.may(Permission.READ):
        # The reader may have lost access, so show only their own text.
        return UnsentNotice(answer, f"A breakpoint in project {answer.project}", kept=False, readable=False)
    found = tx[Breakpoints].look(answer.breakpoint_id, project=answer.project)
    kept = answer.comment is not None and any(
        each.comment == answer.comment for each in tx[Breakpoints].comments(answer.breakpoint_id)
    )
    return UnsentNotice(answer, _headline(found), kept, readable=True)


def _headline(found: Breakpoint) -> str:
    return cut(headline(found.title, found.gate, found.payload).text, render.MAX_HEADLINE)
