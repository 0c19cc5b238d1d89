"""Ask for approval only if a change is risky."""

from typing import Any

from assent import Context, process


def analyse(code: str) -> dict[str, Any]:
    factors = [word for word in ("DROP", "DELETE") if word in code]
    return {"risk": "high" if factors else "low", "factors": factors, "changes": code.splitlines()}


def apply(changes: list[str]) -> dict[str, Any]:
    return {"success": True, "applied": len(changes)}


@process
async def conditional(inputs: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Apply changes; ask first if they are risky."""
    analysis = await ctx.task(analyse, inputs["code"])
    if analysis["risk"] == "high":
        await ctx.save_file("artifacts/risk-analysis.md", "# Risks\n\n" + "\n".join(analysis["factors"]))
        review = await ctx.breakpoint(
            f"High-risk changes detected ({', '.join(analysis['factors'])}). Approve to proceed?",
            title="High-Risk Change Review",
            files=["artifacts/risk-analysis.md"],
        )
        if not review.approved:
            return {"success": False, "reason": "High-risk changes rejected", "feedback": review.feedback}
    return await ctx.task(apply, analysis["changes"])
