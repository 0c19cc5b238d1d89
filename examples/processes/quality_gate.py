"""Show a quality score and its summary in the question."""

import json
from typing import Any

from assent import Context, process


def score(tests: int, failed: int) -> dict[str, Any]:
    return {"overall": round(100 * (tests - failed) / tests), "summary": f"{failed} of {tests} tests failed"}


def merge(branch: str) -> str:
    return f"{branch} merged"


@process
async def quality_gate(inputs: dict[str, Any], ctx: Context) -> str | None:
    """Merge a branch after a reviewer approves its quality."""
    quality = await ctx.task(score, inputs["tests"], inputs["failed"])
    await ctx.save_file("artifacts/quality-report.md", f"# Quality\n\n{quality['summary']}\n")
    await ctx.save_file("artifacts/quality.json", json.dumps(quality))
    review = await ctx.breakpoint(
        f"Quality score: {quality['overall']}/100. {quality['summary']}. Approve for merge?",
        title="Final Quality Review",
        files=["artifacts/quality-report.md", "artifacts/quality.json"],
    )
    return await ctx.task(merge, inputs["branch"]) if review.approved else None
