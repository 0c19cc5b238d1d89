"""The OpenAI Agents SDK integration, which interrupts runs."""

from tests.doors.kit import Door

DOORS = [
    Door(
        name="openai-agents",
        package="openai-agents",
        program="examples/agents/openai_agent.py",
        edits=False,
        how="the run stops; its state is stored on the server",
        lacks={"edits": "no: a call can only be approved or rejected"},
    )
]
