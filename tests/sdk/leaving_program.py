"""A program that waits for an answer until it is terminated: `AGENT ENTRY PLACE`; a line on stdin makes it exit.

Prints "waiting" once `wait` is waiting for a question that another call created, and "left" if a waiting call returns
or raises in the program, which must not happen while it is being terminated.
"""

import asyncio
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import assent

AGENT, ENTRY, PLACE = sys.argv[1:4]
QUESTION = "Deploy?"
sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


if "unkillable" in PLACE:
    # As in process 1 of a container, the signal's default action does nothing, which Python cannot detect.
    ctypes.CDLL(None).signal(signal.SIGTERM, 1)


def say_waiting(event: assent.Event) -> None:
    if event.seq == 1:
        sys.stdout.write("waiting\n")


def create_and_wait() -> object:
    client = assent.Assent()
    return client.wait(client.create(QUESTION, agent_id=AGENT).id, on_event=say_waiting)


def ask_again_and_again() -> None:
    while not assent.breakpoint(QUESTION, agent_id=AGENT):
        pass


async def create_and_wait_async() -> object:
    client = assent.AsyncAssent()
    return await client.wait((await client.create(QUESTION, agent_id=AGENT)).id, on_event=say_waiting)


async def abreakpoint() -> object:
    return await assent.abreakpoint(QUESTION, agent_id=AGENT)


async def require_async() -> object:
    return await assent.AsyncAssent().require_approval(QUESTION, agent_id=AGENT)


@assent.approve(agent_id=AGENT)
def deploy() -> None:
    sys.stdout.write("deployed\n")


@assent.approve(agent_id=AGENT)
async def deploy_async() -> None:
    sys.stdout.write("deployed\n")


def deploy_with_client() -> object:
    return assent.approve(agent_id=AGENT, client=assent.Assent())(deploy.__wrapped__)()  # type: ignore[attr-defined]


PLAIN: dict[str, Callable[[], object]] = {
    "breakpoint": lambda: assent.breakpoint(QUESTION, agent_id=AGENT),
    "breakpoint-loop": ask_again_and_again,
    "require_approval": lambda: assent.require_approval(QUESTION, agent_id=AGENT),
    "Assent.require_approval": lambda: assent.Assent().require_approval(QUESTION, agent_id=AGENT),
    "Assent.create+wait": create_and_wait,
    "@approve": deploy,
    "@approve(client)": deploy_with_client,
}
ASYNC: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
    "abreakpoint": abreakpoint,
    "AsyncAssent.require_approval": require_async,
    "AsyncAssent.create+wait": create_and_wait_async,
    "@approve async": deploy_async,
}


def call() -> None:
    try:
        if ENTRY in ASYNC:
            asyncio.run(ASYNC[ENTRY]())
        else:
            PLAIN[ENTRY]()
    finally:
        sys.stdout.write("left\n")


def stop(number: int, frame: object) -> None:
    del number, frame
    sys.stdout.write("mine\n")
    if PLACE.endswith("exits"):
        sys.exit(3)


def main() -> None:
    if "handler" in PLACE:
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGHUP, stop)
    if PLACE.startswith("main"):
        call()
        return
    thread = threading.Thread(target=call, daemon="daemon" in PLACE)
    thread.start()
    if "daemon" in PLACE:
        sys.stdin.readline()
    else:
        thread.join()


if __name__ == "__main__":
    main()
