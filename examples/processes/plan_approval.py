"""Ask for approval of a plan before implementing it."""

from typing import Any

from assent import Context, process


def write_plan(feature: str) -> str:
    return f"# {feature}\n\n1. Write the tests\n2. Make them pass\n"


def implement(plan: str) -> dict[str, Any]:
    return {"success": True, "steps": plan.count("\n")}


@process
async def plan_approval(inputs: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Plan a feature, have the plan reviewed, and implement it."""
    plan = await ctx.task(write_plan, inputs["feature"])
    await ctx.save_file("artifacts/plan.md", plan)

    review = await ctx.breakpoint(
        "Review the implementation plan. Approve to proceed?",
        title="Plan Review",
        context={"files": [{"path": "artifacts/plan.md", "format": "markdown"}]},
    )
    if not review.approved:
        ctx.log("Plan rejected", {"feedback": review.feedback})
        return {"success": False, "reason": review.feedback}

    return await ctx.task(implement, plan)
