"""The doors of `assent mcp`: a scripted client of the real package, and Claude Code's permission prompt."""

from tests.doors.kit import Door

DOORS = [
    Door(
        name="mcp",
        package="mcp",
        program="examples/agents/mcp_client.py",
        how="in calls of 50 seconds at most; asks again by its own key",
    ),
    Door(
        name="mcp-permission-prompt",
        package="claude-agent-sdk",
        program="tests/doors/mcp_permission_agent.py",
        how="in one call, as long as it takes",
        resumes=False,
        lacks={"resumes": "another question: our agent begins a new session"},
    ),
]
