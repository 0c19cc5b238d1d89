"""Ask for approval after each phase; the first rejection ends the run."""

from typing import Any

from assent import Context, NotApproved, process


def write(phase: str) -> str:
    return f"# {phase}\n"


def deploy(parts: list[str]) -> str:
    return " and ".join(parts) + " deployed"


@process
async def multi_stage(inputs: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Design, implement, deploy, each with its own approval."""
    parts: list[str] = []
    try:
        for phase in ("design", "implementation", "deployment"):
            name = f"artifacts/{phase}.md"
            await ctx.save_file(name, await ctx.task(write, phase))
            await ctx.breakpoint(
                f"Approve the {phase} of {inputs['feature']}?",
                title=f"{phase.capitalize()} Review",
                files=[name],
                require=True,
            )
            parts.append(phase)
    except NotApproved as error:
        return {"stoppedAfter": parts, "because": error.result.feedback if error.result is not None else None}
    return {"done": await ctx.task(deploy, parts)}
