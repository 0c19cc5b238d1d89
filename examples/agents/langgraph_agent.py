"""A LangGraph graph that deploys only after an approval. The model is scripted.

With ASSENT_URL and ASSENT_TOKEN set: python examples/agents/langgraph_agent.py --state /tmp/deployer
Kill it while it waits and start it again: it resumes the thread from the checkpointer and the question from Assent.
"""

# LangGraph is only partially typed.
# pyright: reportUnknownMemberType=false

import argparse
import json
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from assent import Assent
from assent.agents.langgraph import approval, run
from assent.sdk.tool_calls import Terms

THREAD: RunnableConfig = {"configurable": {"thread_id": "release-1.4"}}


class Release(TypedDict):
    wish: str
    target: str
    version: str
    told: str


def plan(state: Release) -> dict[str, str]:
    """A scripted model: it chooses what to deploy."""
    return {"target": "production", "version": state["wish"].split()[-1]}


def deploy(state: Release) -> dict[str, str]:
    arguments = {"target": state["target"], "version": state["version"]}
    # LangGraph runs the node again from the top after an answer, so side effects belong below approval().
    answer = approval(
        "deploy", arguments, question="Deploy {version} to {target}?".format(**arguments), editable=["version"]
    )
    if not answer:
        return {"told": answer.reason}
    print("ran", json.dumps(dict(answer.arguments)))
    return {"told": f"Version {answer.arguments['version']} is on {answer.arguments['target']}."}


def graph(checkpointer: SqliteSaver) -> CompiledStateGraph[Release, Any, Release, Release]:
    drawn = StateGraph(Release)
    drawn.add_node("plan", plan)
    drawn.add_node("deploy", deploy)
    drawn.add_edge(START, "plan")
    drawn.add_edge("plan", "deploy")
    drawn.add_edge("deploy", END)
    return drawn.compile(checkpointer=checkpointer)


def main(state: Path, ttl: int | None) -> None:
    terms: Terms = {} if ttl is None else {"ttl_seconds": ttl}
    with SqliteSaver.from_conn_string(str(state / "threads.db")) as checkpointer, Assent() as assent:
        ended = run(graph(checkpointer), {"wish": "Deploy 1.4"}, THREAD, client=assent, **terms)
    print("received", " ".join(ended["told"].split()))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--state", type=Path, required=True)
    options.add_argument("--ttl", type=int)
    given = options.parse_args()
    main(given.state, given.ttl)
