"""Ask after each iteration whether to continue."""

from typing import Any

from assent import Context, process


def improve(iteration: int) -> int:
    return 60 + 10 * iteration


@process
async def quality_score(inputs: dict[str, Any], ctx: Context) -> dict[str, int]:
    """Improve the score until it reaches the target or a reviewer decides to stop."""
    target, most = inputs["target"], inputs["most"]
    iteration = score = 0
    while score < target and iteration < most:
        iteration += 1
        score = await ctx.task(improve, iteration)
        report = f"artifacts/iteration-{iteration}-report.md"
        await ctx.save_file(report, f"Quality {score} of {target}\n")
        if score < target and iteration < most:
            review = await ctx.breakpoint(
                f"Iteration {iteration} complete. Quality: {score}/{target}. Continue to iteration {iteration + 1}?",
                title=f"Iteration {iteration} Review",
                files=[report],
            )
            if not review.approved:
                break
    return {"score": score, "iterations": iteration}
