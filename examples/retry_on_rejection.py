"""Revise a plan with the reviewers' feedback until it is approved.

With ASSENT_URL and ASSENT_TOKEN set: python examples/retry_on_rejection.py "Dark mode"
"""

import sys

from assent import Assent
from assent.sdk.files import ContextFile


def generate_plan(feature: str) -> str:
    return f"# {feature}\n\n1. Build it.\n2. Test it.\n"


def refine_plan(plan: str, feedback: str) -> str:
    return f"{plan}\nRevised: {feedback}\n"


def approved_plan(assent: Assent, feature: str) -> str:
    """Return the approved plan; after a rejection, revise it with the feedback and ask again."""
    plan = generate_plan(feature)
    question = "Review the implementation plan. Approve to proceed?"
    feedback: str | None = None
    attempt = 1
    while True:
        asked = assent.create(
            question,
            agent_id="planner",
            title="Plan Review",
            previous_feedback=feedback,
            attempt=attempt,
            files=[ContextFile("artifacts/plan.md", "markdown", plan.encode())],
        )
        review = assent.wait(asked.id)
        if review.approved:
            return plan
        if review.status != "released":
            # Expired or cancelled: without a decision, there is nothing to base a revision on.
            sys.exit(f"No decision: {review.status}.")
        feedback = (review.result.feedback if review.result is not None else None) or "No reason given."
        print(f"Rejected (attempt {attempt}): {feedback}")
        plan = refine_plan(plan, feedback)
        question = "Plan revised based on your feedback. Please review again."
        attempt += 1


def main(feature: str) -> None:
    with Assent() as assent:
        plan = approved_plan(assent, feature)
    print("Approved. Building this plan:")
    print(plan)


if __name__ == "__main__":
    main(sys.argv[1])
