"""Ask about each repository, until people have approved three in a row; then no longer.

With ASSENT_URL and ASSENT_TOKEN set: python examples/auto_approval.py tea coffee milk water
A rejection starts the count again, and a project's policy can ignore such counts altogether.
"""

import sys
from collections.abc import Sequence

from assent import Assent


def may_star(assent: Assent, repository: str) -> bool:
    asked = assent.create(
        f"Star the repository {repository}?",
        agent_id="gardener",
        title="Star Repository",
        breakpoint_id="confirm.star-repo",  # the same question in every run, whatever its title
        auto_approve_after_n=3,
        present_always_approve=True,
        tags=["routine", "github"],
    )
    review = assent.wait(asked.id)  # returns at once where nobody has to be asked
    by = review.result.responded_by if review.result is not None else None
    print(f"{repository}: {'starred' if review.approved else 'left'} ({by}; {asked.auto_approval['reason']})")
    return review.approved


def main(repositories: Sequence[str]) -> None:
    with Assent() as assent:
        starred = [repository for repository in repositories if may_star(assent, repository)]
    print(f"Starred {len(starred)} of {len(repositories)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
