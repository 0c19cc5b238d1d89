"""What was approved three times in a row need not be asked a fourth time."""

from typing import Any

from assent import Context, process


@process
async def auto_approval(_: object, ctx: Context) -> dict[str, Any]:
    """Star a repository; once it is routine, nobody is asked any more."""
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
