"""Ask for approval before a production deployment, with the files that the reviewer needs."""

import json
from typing import Any

from assent import Context, process


def deploy(version: str) -> str:
    return f"{version} is live"


@process
async def deployment(inputs: dict[str, Any], ctx: Context) -> str:
    """Deploy a version after an approval."""
    await ctx.save_file("artifacts/final-report.md", f"# Release {inputs['version']}\n\nAll green.\n")
    await ctx.save_file("artifacts/coverage-report.html", "<h1>97 %</h1>")
    await ctx.save_file("artifacts/quality-score.json", json.dumps({"score": 92}))

    await ctx.breakpoint(
        "Deploy to production?",
        title="Production Deployment",
        context={
            "files": [
                {"path": "artifacts/final-report.md", "format": "markdown"},
                {"path": "artifacts/coverage-report.html", "format": "html"},
                {"path": "artifacts/quality-score.json", "format": "code", "language": "json"},
            ]
        },
        risk="high",
        require=True,  # raises unless it is approved, so the run fails here
    )
    return await ctx.task(deploy, inputs["version"])
