"""Ask about each repository until three in a row were approved, then approve automatically.

With ASSENT_URL and ASSENT_TOKEN set: python examples/auto_approval.py tea coffee milk water
A rejection resets the count, and a project's policy can disable this kind of auto-approval.
"""

import sys
from collections.abc import Sequence

from assent import Assent


def may_star(assent: Assent, repository: str) -> bool:
    asked = assent.create(
        f"Star the repository {repository}?",
        agent_id="gardener",
        title="Star Repository",
        breakpoint_id="confirm.star-repo",  # the gate: identifies the question across runs, independent of its title
        auto_approve_after_n=3,
        present_always_approve=True,
        tags=["routine", "github"],
    )
    review = assent.wait(asked.id)  # returns immediately if it was approved automatically
    by = review.result.responded_by if review.result is not None else None
    print(f"{repository}: {'starred' if review.approved else 'skipped'} ({by}; {asked.auto_approval['reason']})")
    return review.approved


def main(repositories: Sequence[str]) -> None:
    with Assent() as assent:
        starred = [repository for repository in repositories if may_star(assent, repository)]
    print(f"Starred {len(starred)} of {len(repositories)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
