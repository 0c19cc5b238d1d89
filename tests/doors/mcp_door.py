"""Integrations that use `assent mcp`: a scripted client with the real package, and Claude Code's permission prompt."""

from tests.doors.kit import Door

DOORS = [
    Door(
        name="mcp",
        package="mcp",
        program="examples/agents/mcp_client.py",
        how="in calls of up to 50 seconds, repeated with the same key",
    ),
    Door(
        name="mcp-permission-prompt",
        package="claude-agent-sdk",
        program="tests/doors/mcp_permission_agent.py",
        how="in one call, without a time limit",
        resumes=False,
        lacks={"resumes": "a new question: the agent starts a new session"},
    ),
]
