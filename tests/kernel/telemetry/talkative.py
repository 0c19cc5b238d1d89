"""A program that logs secrets in every possible way; run as `python -m tests.kernel.telemetry.talkative`."""

import asyncio
import logging
import sys
import threading
import warnings
from typing import Any, Literal, cast

import httpx2
import structlog

from assent.core.secrets import PREFIXES, secret
from assent.http.middleware import Edge
from assent.kernel.settings import Secret
from assent.kernel.telemetry import Metrics, about, configure_logging

TOKENS = {kind: secret(kind, kind.encode().ljust(32, b"!")) for kind in PREFIXES}
SECRETS = {
    **TOKENS,
    "webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "slack": "xoxb-12345-67890-abcdefghij",
    "basic": "YWxhZGRpbjpvcGVuLXNlc2FtZQ",
    "password": "p@ss'w/rd",
    "local": "a-local-variable-of-the-frame",
    "wrapped": "a-value-that-hides-itself",
    "named": "told-by-its-name-only",
}
ADDRESS = f"postgresql://assent:{SECRETS['password']}@db.example.com/assent"
SHAPES = [
    *TOKENS.values(),
    SECRETS["webhook"],
    SECRETS["slack"],
    ADDRESS,
    f"Authorization: Basic {SECRETS['basic']}",
    f"{{'authorization': 'Bearer {TOKENS['person']}'}}",
    f"(b'authorization', b'Basic {SECRETS['basic']}')",
    f"host=db password={SECRETS['named']} user=assent",
    f"https://example.com/hook?token={SECRETS['named']}&x=1",
    f"{{'password': '{SECRETS['named']}'}}",
]


def failing() -> None:
    held = SECRETS["local"]
    if held:
        raise RuntimeError(" ".join(SHAPES))


def chained() -> None:
    try:
        failing()
    except RuntimeError as error:
        msg = f"again: {TOKENS['agent']}"
        raise ValueError(msg) from error


async def broken_app(*_: object) -> None:
    chained()


async def requests() -> None:
    edge = Edge(cast("Any", broken_app), metrics=Metrics(), access_log=True)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(edge), base_url="http://edge.test") as client:
        for shape in TOKENS.values():
            headers = {"authorization": f"Bearer {shape}", "cookie": f"session={shape}", "x-request-id": shape}
            await client.get(f"/sign-in/{shape}", headers=headers)
            await client.get(f"/link/{shape}", headers=headers)
            await client.get(f"/api/breakpoints/{shape}?token={shape}", headers=headers)


async def forgotten_task() -> None:
    asyncio.get_running_loop().call_exception_handler({"message": SHAPES[0], "exception": RuntimeError(SHAPES[1])})


def ours() -> None:
    log = structlog.get_logger()
    for shape in SHAPES:
        log.warning(shape)
        log.info("value", shape=shape, many=[{"deep": {"deeper": (shape,)}}, shape], bytes=shape.encode())
        with about(job=shape, job_id="job-1"):
            log.info("about")
    named = dict.fromkeys(("password", "authorization", "token", "client_secret", "Set-Cookie"), SECRETS["named"])
    log.info("named", **named, inside=named)
    log.info("wrapped", value=Secret(SECRETS["wrapped"], "env:X"), many=[Secret(SECRETS["wrapped"])])
    log.info("odd", nothing=None, number=float("nan"), lone="\ud800", long="x" * 100_000)
    try:
        chained()
    except ValueError:
        log.exception("failed")


def libraries() -> None:
    for name in ("uvicorn.error", "uvicorn", "sqlalchemy.engine", "dbos", "httpx2", "some.library"):
        logger = logging.getLogger(name)
        logger.warning("said %s", " ".join(SHAPES), extra={"operationUUID": "job-2"})
        logger.error("wrong %s %s", "number of arguments")  # noqa: PLE1206  # the invalid call is intentional
        logger.info("not to be seen %s", TOKENS["link"])
        try:
            chained()
        except ValueError:
            logger.exception("failed")
    warnings.warn(SHAPES[0], stacklevel=1)


def main() -> None:
    style = cast("Literal['text', 'json']", sys.argv[1])
    configure_logging(style, "debug")
    ours()
    libraries()
    asyncio.run(requests())
    asyncio.run(forgotten_task())
    thread = threading.Thread(target=failing, name="writer-0")
    thread.start()
    thread.join()
    chained()


if __name__ == "__main__":
    main()
