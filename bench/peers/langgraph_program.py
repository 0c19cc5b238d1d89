"""LangGraph: a graph that interrupts and is resumed with a Command, in one process and without authentication."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from bench.peers import cycles


class State(TypedDict):
    question: str
    resumed: float


def ask(state: State) -> dict[str, Any]:
    approved = interrupt({"question": state["question"]})
    return {"resumed": time.perf_counter() if approved else 0.0}


@contextlib.contextmanager
def saver(url: str) -> Iterator[Any]:
    if not url.startswith("postgresql"):
        with SqliteSaver.from_conn_string(url) as found:
            yield found
        return
    # Installed only in this peer's environment.
    from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415
    from psycopg_pool import ConnectionPool  # type: ignore[import-not-found]  # noqa: PLC0415

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(url, min_size=8, max_size=8, kwargs=options) as pool:
        postgres = PostgresSaver(pool)
        postgres.setup()
        yield postgres


def main() -> None:
    plan = cycles.given()
    numbers = itertools.count()
    with saver(plan.database) as checkpointer:
        builder = StateGraph(State)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        builder.add_edge("ask", END)
        graph: Any = builder.compile(checkpointer=checkpointer)

        def cycle(pause: float) -> float:
            thread = {"configurable": {"thread_id": str(next(numbers))}}
            started = time.perf_counter()
            asked = graph.invoke({"question": "Deploy?", "resumed": 0.0}, thread)
            asking = time.perf_counter() - started
            assert asked["__interrupt__"], asked
            time.sleep(pause)
            released = time.perf_counter()
            resumed: float = graph.invoke(Command(resume=True), thread)["resumed"]
            return asking + resumed - released

        cycles.in_threads(plan, cycle, version("langgraph"))


if __name__ == "__main__":
    main()
