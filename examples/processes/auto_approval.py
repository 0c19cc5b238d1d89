"""Approve automatically after three approvals in a row."""

from typing import Any

from assent import Context, process


@process
async def auto_approval(_: object, ctx: Context) -> dict[str, Any]:
    """Ask before starring a repository; after enough approvals, approve automatically."""
    starred = await ctx.breakpoint(
        "Confirm repository star?",
        title="Star Repository",
        breakpoint_id="confirm.star-repo",
        auto_approve_after_n=3,
        present_always_approve=True,
        tags=["routine", "github"],
    )
    reviewed = await ctx.breakpoint("Review the design?", title="Review Design Document", tags=["design"])
    return {"starred": starred.approved, "auto": starred.auto, "reviewed": reviewed.approved}
