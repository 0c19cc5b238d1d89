"""DBOS: a workflow that waits for a message, and code that sends it, in one process and without authentication."""

import threading
import time
from importlib.metadata import version

from dbos import DBOS, DBOSConfig

from bench.peers import cycles

TOPIC = "approval"


@DBOS.workflow()
def agent() -> float:
    approved = DBOS.recv(TOPIC, timeout_seconds=60)
    return time.perf_counter() if approved else 0.0


def cycle(pause: float) -> float:
    started = time.perf_counter()
    handle = DBOS.start_workflow(agent)
    asking = time.perf_counter() - started
    time.sleep(pause)
    released = time.perf_counter()
    DBOS.send(handle.get_workflow_id(), message=True, topic=TOPIC)
    resumed: float = handle.get_result()
    assert resumed, "it was not resumed in time"
    return asking + resumed - released


def main() -> None:
    plan = cycles.given()
    url = plan.database if plan.database.startswith("postgresql") else f"sqlite:///{plan.database}"
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    cycles.in_threads(plan, cycle, version("dbos"))
    # Workflows that are still sleeping must not delay the exit of the program.
    ending = threading.Thread(target=DBOS.destroy, daemon=True)
    ending.start()
    ending.join(10)


if __name__ == "__main__":
    main()
