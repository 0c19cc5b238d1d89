"""A process that serves HTTP until it receives a stop signal."""

import asyncio
import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from assent.app import Assent
from assent.front import application
from assent.http.connections import ConnectionWatch, WatchedProtocol
from assent.http.waiting import Hub
from assent.settings import Settings
from assent.telemetry import configure_logging


class DrainingServer(uvicorn.Server):
    """Answers waiting clients as soon as a stop signal arrives; the ASGI shutdown event comes too late for that."""

    def __init__(
        self, config: uvicorn.Config, hub: Hub, settings: Settings, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._watch = ConnectionWatch(
            lambda: self.server_state.connections,
            header_timeout=settings.header_timeout_seconds,
            body_timeout=settings.body_timeout_seconds,
            write_timeout=settings.write_timeout_seconds,
        )
        self._watching: asyncio.Task[None] | None = None
        self._hub = hub
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._watching = asyncio.create_task(self._watch.run())
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await super().shutdown(sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hub.drain)
        super().handle_exit(sig, frame)


def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run a node until it receives a stop signal; call `on_ready` once it accepts requests."""
    configure_logging(settings.log_format, settings.log_level)
    node = Assent(settings, worker=True)
    config = uvicorn.Config(
        application(node),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=WatchedProtocol,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=round(settings.drain_seconds),
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
        server_header=False,
        lifespan="on",
        backlog=4096,
    )
    # Everything created so far lives as long as the process: keep the garbage collector from scanning it repeatedly.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    DrainingServer(config, node.hub, settings, on_ready).run()
    if node.start_error is not None:
        raise node.start_error
