"""The LangGraph and LangChain integrations: an interrupt in a node, and the middleware that reviews tool calls."""

from tests.doors.kit import Door

DOORS = [
    Door(
        name="langgraph",
        package="langgraph",
        program="examples/agents/langgraph_agent.py",
        how="the graph is interrupted; its checkpointer stores the thread",
    ),
    Door(
        name="langchain-hitl",
        package="langchain",
        program="examples/agents/langchain_agent.py",
        how="the middleware interrupts once for all calls of a turn",
    ),
    Door(
        name="langchain-hitl-per-call",
        package="langchain",
        program="examples/agents/langchain_agent.py",
        options=("--mode", "per_call"),
        how="the middleware interrupts for each call",
    ),
]
