"""CPU time of a request without a matching route, compared with a request that reads a breakpoint.

python -m bench.unmatched [--requests 500]
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from assent.asgi import application
from assent.installation import migrate
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.people.usecases.people import NewToken, PeopleService

CASES = {
    "get a breakpoint": ("GET", "/api/breakpoints/bp_unknown"),
    "404 from the API": ("GET", "/api/nothing/here"),
    "404 from a page": ("GET", "/nothing"),
    "405 from the API": ("DELETE", "/api/breakpoints/bp_unknown"),
    "405 for an uncommon method": ("BREW", "/api/policy"),
}


async def measured(requests: int) -> dict[str, float]:
    """Return microseconds of CPU time per request, by case."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), checkpoint_seconds=0)
        migrate(settings)
        node = ServerNode(settings)
        await node.start()
        try:
            await node.database.write(node[PeopleService].bootstrap)
            new = NewToken(kind="admin", name="bench")
            _, token = await node.database.write(
                lambda tx: node[PeopleService].create_token(tx, new, project="default", by="system:bench")
            )
            app = application(node)
            return {name: await _cost(app, *case, token=token, requests=requests) for name, case in CASES.items()}
        finally:
            await node.stop()


async def _cost(app: Any, method: str, path: str, *, token: str, requests: int) -> float:  # ASGI
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"host", b"bench")]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: dict[str, Any]) -> None:
        pass

    async def ask() -> None:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http", "headers": headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
        }  # fmt: skip
        await app(scope, receive, send)

    for _ in range(20):
        await ask()
    started = time.process_time()
    for _ in range(requests):
        await ask()
    return (time.process_time() - started) / requests * 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.unmatched", description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    for name, cost in asyncio.run(measured(parser.parse_args().requests)).items():
        sys.stdout.write(f"{name:<28}{cost:>10.0f} µs\n")


if __name__ == "__main__":
    main()
