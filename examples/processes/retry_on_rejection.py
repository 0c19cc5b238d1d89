"""Retry after a rejection, using the feedback for the next attempt."""

from typing import Any

from assent import Context, process


def draft(feature: str) -> str:
    return f"Plan for {feature}"


def refine(plan: str, feedback: str) -> str:
    return f"{plan}; {feedback}"


def implement(plan: str) -> str:
    return f"done: {plan}"


@process
async def retry_on_rejection(inputs: dict[str, Any], ctx: Context) -> str:
    """Refine a plan with the reviewers' feedback until it is approved."""
    plan = await ctx.task(draft, inputs["feature"])
    question = "Review the implementation plan. Approve to proceed?"
    feedback: str | None = None
    attempt = 0
    while True:
        attempt += 1
        await ctx.save_file("artifacts/plan.md", plan)
        review = await ctx.breakpoint(
            question, title="Plan Review", previous_feedback=feedback, attempt=attempt, files=["artifacts/plan.md"]
        )
        if review.approved:
            return await ctx.task(implement, plan)
        feedback = review.feedback or "no reason given"
        ctx.log(f"Plan rejected (attempt {attempt})", {"feedback": feedback})
        plan = await ctx.task(refine, plan, feedback)
        question = "Plan revised based on your feedback. Please review again."
