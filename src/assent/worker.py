"""A worker process, which loads neither the API nor the web pages."""

import asyncio
import signal
from collections.abc import Callable

import structlog

from assent.kernel.settings import Settings
from assent.kernel.telemetry import configure_logging
from assent.node import Node

_log = structlog.get_logger()


def work(settings: Settings, *, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Run a worker without HTTP until it receives a stop signal; call `on_ready` with its ID once it accepts jobs."""
    configure_logging(settings.log_format, settings.log_level)
    asyncio.run(_work(settings, on_ready))


async def _work(settings: Settings, on_ready: Callable[[str], None]) -> None:
    node = Node(settings, worker=True)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await node.start()
    assert node.worker is not None, "the node was created with worker=True"
    _log.info("worker_started", worker=node.worker.id)
    on_ready(node.worker.id)
    await told.wait()
    await node.stop()
