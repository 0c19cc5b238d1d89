"""Ask for approval only if a change is risky.

With ASSENT_URL and ASSENT_TOKEN set: python examples/conditional_approval.py docs/index.md auth/login.py
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from assent import Assent

RISKY = {"auth/": "authentication", "migrations/": "the database", ".github/": "the build"}


@dataclass(frozen=True)
class Analysis:
    changes: Sequence[str]
    risk_factors: Sequence[str]

    @property
    def risk_level(self) -> str:
        return "high" if self.risk_factors else "low"


def analyse(changes: Sequence[str]) -> Analysis:
    touched = [what for folder, what in RISKY.items() if any(change.startswith(folder) for change in changes)]
    return Analysis(changes, touched)


def may_apply(assent: Assent, analysis: Analysis) -> bool:
    if analysis.risk_level != "high":
        return True
    asked = assent.create(
        f"High-risk changes detected ({', '.join(analysis.risk_factors)}). Approve to proceed?",
        agent_id="applier",
        title="High-Risk Change Review",
        risk="high",  # never approved by a rule; the reviewer types a confirmation
        tags=["risky-change"],
        payload={"changes": list(analysis.changes)},
    )
    review = assent.wait(asked.id)
    if not review.approved:
        said = review.result.feedback if review.result is not None else None
        print(f"High-risk changes rejected: {said or review.status}")
    return review.approved


def main(changes: Sequence[str]) -> None:
    analysis = analyse(changes)
    with Assent() as assent:
        if not may_apply(assent, analysis):
            sys.exit(1)
    print(f"Applied {len(changes)} {analysis.risk_level}-risk changes.")


if __name__ == "__main__":
    main(sys.argv[1:])
