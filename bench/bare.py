"""A baseline: a bare Starlette handler that returns the same bytes with the same server settings."""

import os

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY = os.environ.get("BARE_BODY", "{}").encode()


async def answer(_: Request) -> Response:
    return Response(BODY, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(
        Starlette(routes=[Route("/{path:path}", answer)]),
        host="127.0.0.1",
        port=int(os.environ["BARE_PORT"]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
