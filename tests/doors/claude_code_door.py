"""Claude Code: the real client, headless, with our hook between its model and its tools."""

from tests.doors.kit import Door

PROGRAM = "tests/doors/claude_code_agent.py"
DOORS = [
    Door(
        name="claude-code",
        package="claude-agent-sdk",
        program=PROGRAM,
        how="the hook blocks; a question of the same session is taken up again",
    ),
    Door(
        name="claude-code-http",
        package="claude-agent-sdk",
        program=PROGRAM,
        options=("--http",),
        how="the server holds the request of the hook",
    ),
    Door(
        name="claude-code-defer",
        package="claude-agent-sdk",
        program=PROGRAM,
        options=("--defer",),
        how="the session ends with the question, and is resumed with the answer",
    ),
]
