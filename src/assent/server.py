"""A process that serves HTTP until it receives a stop signal."""

import asyncio
import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from assent.asgi import application
from assent.http.connections import ConnectionWatch, WatchedProtocol
from assent.http.waiters import Hub
from assent.kernel.settings import Settings
from assent.kernel.telemetry import configure_logging
from assent.node import Node


class DrainingServer(uvicorn.Server):
    """Responds to waiting clients when a stop signal arrives; the ASGI shutdown event would be too late.

    Uvicorn sends that event only after all requests have completed, and waiting requests complete only when the hub
    wakes them or they time out.
    """

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
        # A signal handler can interrupt any code in the event loop, so it must not change the hub directly.
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hub.drain)
        super().handle_exit(sig, frame)


def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run a node until it receives a stop signal; call `on_ready` once it accepts requests."""
    configure_logging(settings.log_format, settings.log_level)
    node = Node(settings, worker=True)
    config = uvicorn.Config(
        application(node),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=WatchedProtocol,
        ws="none",
        # Longer than the 60 seconds in deploy/nginx.conf, so that nginx never reuses a connection that is being closed.
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
    # Everything created so far exists until the process ends, so the garbage collector does not have to scan it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    DrainingServer(config, node.hub, settings, on_ready).run()
    if node.start_error is not None:
        raise node.start_error
