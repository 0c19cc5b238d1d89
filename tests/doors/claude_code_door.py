"""Claude Code: the real client, headless, with Assent's hook between its model and its tools."""

from tests.doors.kit import Door

PROGRAM = "tests/doors/claude_code_agent.py"
DOORS = [
    Door(
        name="claude-code",
        package="claude-agent-sdk",
        program=PROGRAM,
        how="the hook blocks; the same session reuses its question",
    ),
    Door(
        name="claude-code-http",
        package="claude-agent-sdk",
        program=PROGRAM,
        options=("--http",),
        how="the server holds the hook's request open",
    ),
    Door(
        name="claude-code-defer",
        package="claude-agent-sdk",
        program=PROGRAM,
        options=("--defer",),
        how="the session ends with the question and resumes with the answer",
    ),
]
