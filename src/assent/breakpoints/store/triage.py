"""Claims and snoozes. Neither affects permissions."""

from collections.abc import Sequence
from dataclasses import dataclass

from assent.db.sql import among, insert
from assent.db.transaction import Store

_CLAIM = ("breakpoint_id", "project_id", "person_id", "by", "at")
CLAIM = insert("assent_claims", _CLAIM, suffix="ON CONFLICT (breakpoint_id) DO NOTHING")
ASSIGN = insert(
    "assent_claims",
    _CLAIM,
    suffix="ON CONFLICT (breakpoint_id) DO UPDATE SET person_id = excluded.person_id, by = excluded.by,"
    " at = excluded.at WHERE assent_claims.person_id <> excluded.person_id",
)
UNCLAIM = "DELETE FROM assent_claims WHERE breakpoint_id = :breakpoint_id AND person_id = :person_id"
SELECT_CLAIMER = """
    SELECT p.name FROM assent_claims c JOIN assent_people p ON p.id = c.person_id
    WHERE c.breakpoint_id = :breakpoint_id"""
SELECT_CLAIMERS = """
    SELECT c.breakpoint_id, p.name FROM assent_claims c JOIN assent_people p ON p.id = c.person_id WHERE {these}"""
SNOOZE = insert(
    "assent_snoozes",
    ("person_id", "breakpoint_id", "until"),
    suffix="ON CONFLICT (person_id, breakpoint_id) DO UPDATE SET until = excluded.until",
)
WAKE = "DELETE FROM assent_snoozes WHERE person_id = :person_id AND breakpoint_id = :breakpoint_id"
FORGET_SNOOZES = "DELETE FROM assent_snoozes WHERE person_id = :person_id AND until <= :now"
SELECT_SNOOZED = """
    SELECT breakpoint_id, until FROM assent_snoozes WHERE person_id = :person_id AND until > :now AND {these}"""


@dataclass(frozen=True, slots=True)
class Claim:
    breakpoint_id: str
    project: str
    person_id: str
    by: str
    at: int


class Triage(Store):
    def claim(self, claim: Claim) -> bool:
        """Claim a breakpoint for a person; return False if it is already claimed."""
        return self._session.change(CLAIM, _row(claim)) == 1

    def assign(self, claim: Claim) -> bool:
        """Claim a breakpoint for a person, replacing any other claim; return False if they had already claimed it."""
        return self._session.change(ASSIGN, _row(claim)) == 1

    def unclaim(self, breakpoint_id: str, *, person_id: str) -> bool:
        return self._session.change(UNCLAIM, {"breakpoint_id": breakpoint_id, "person_id": person_id}) == 1

    def claimer(self, breakpoint_id: str) -> str | None:
        rows = self._session.all(SELECT_CLAIMER, {"breakpoint_id": breakpoint_id})
        return rows[0][0] if rows else None

    def claimers(self, breakpoint_ids: Sequence[str]) -> dict[str, str]:
        these, params = among("c.breakpoint_id", breakpoint_ids, self._session.dialect)
        return {row[0]: row[1] for row in self._session.all(SELECT_CLAIMERS.format(these=these), params)}

    def snooze(self, breakpoint_id: str, *, person_id: str, until: int, now: int) -> None:
        # Snoozes are not deleted when they end, so delete this person's old ones here.
        self._session.write(FORGET_SNOOZES, [{"person_id": person_id, "now": now}])
        self._session.write(SNOOZE, [{"person_id": person_id, "breakpoint_id": breakpoint_id, "until": until}])

    def wake(self, breakpoint_id: str, *, person_id: str) -> bool:
        return self._session.change(WAKE, {"person_id": person_id, "breakpoint_id": breakpoint_id}) == 1

    def snoozed(self, breakpoint_ids: Sequence[str], *, person_id: str, now: int) -> dict[str, int]:
        these, params = among("breakpoint_id", breakpoint_ids, self._session.dialect)
        wanted = params | {"person_id": person_id, "now": now}
        return {row[0]: row[1] for row in self._session.all(SELECT_SNOOZED.format(these=these), wanted)}


def _row(claim: Claim) -> dict[str, str | int]:
    return {
        "breakpoint_id": claim.breakpoint_id,
        "project_id": claim.project,
        "person_id": claim.person_id,
        "by": claim.by,
        "at": claim.at,
    }
