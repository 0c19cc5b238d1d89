"""Choose who is asked and how many must approve."""

from typing import Any

from assent import Context, process


@process
async def routing(_: object, ctx: Context) -> dict[str, Any]:
    """Ask one expert, the owner, and a majority of three."""
    security = await ctx.breakpoint(
        "Review the security audit results?",
        title="Security Review",
        expert="security-team",
        tags=["security", "audit"],
    )
    release = await ctx.breakpoint("Approve the release?", title="Release Approval", expert="owner")
    deployment = await ctx.breakpoint(
        "Approve production deployment?",
        title="Production Deployment",
        expert=["tech-lead", "ops-lead", "security-lead"],
        strategy="quorum",
    )
    return {
        "security": security.responded_by,
        "release": release.approved,
        "deployment": deployment.approved,
        "voices": len(deployment.all_responses or []),
    }
