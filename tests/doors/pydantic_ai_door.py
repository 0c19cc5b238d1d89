"""The Pydantic AI integrations: deferred tools, which end a run, and the handler that waits during a run."""

from tests.doors.kit import Door

_PROGRAM = "examples/agents/pydantic_ai_agent.py"
DOORS = [
    Door(
        name="pydantic-ai",
        package="pydantic-ai-slim",
        program=_PROGRAM,
        how="the run ends with the requests; another continues with the results",
    ),
    Door(
        name="pydantic-ai-inline",
        package="pydantic-ai-slim",
        program=_PROGRAM,
        options=("--inline",),
        how="the run waits in a capability",
    ),
]
