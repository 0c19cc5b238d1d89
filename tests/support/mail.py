"""A real SMTP server that uses a free port, stores emails and has configurable faults.

    with mail_server() as mail:
        settings = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.com"}
        ...
        mail.wait(lambda letters: len(letters) == 1)

Recipients: `bad@…` is refused permanently (550) and `later@…` temporarily (450); all others are accepted.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

PATIENCE = 120.0
USER, PASSWORD = "assent", "open sesame"


@dataclass(frozen=True)
class Letter:
    """An email as it was received."""

    sender: str
    recipients: tuple[str, ...]
    raw: bytes
    encrypted: bool

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=default)

    @property
    def text(self) -> str:
        return self._part("plain")

    @property
    def html(self) -> str:
        return self._part("html")

    def _part(self, kind: str) -> str:
        part = self.message.get_body((kind,))
        assert part is not None
        return str(part.get_content())


class MailServer:
    """Accepts every email unless configured otherwise."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, signing_in: bool = False) -> None:
        self.letters: list[Letter] = []
        self.connections = 0
        self.port = 0
        self._changed = threading.Condition()
        self._answers: list[str] = []
        self._drops = 0
        self._held: threading.Event | None = None
        self._options: dict[str, Any] = {"tls_context": tls, "auth_require_tls": False}
        self._signing_in = signing_in
        self._loop = asyncio.new_event_loop()

    def answer(self, *answers: str) -> None:
        """Respond to the next emails with these replies instead of accepting them, such as `451 Try again later`."""
        self._answers += answers

    def drop(self, times: int = 1) -> None:
        """Store the next emails, but close the connection without a reply."""
        self._drops = times

    def hold(self) -> None:
        """Do not reply to emails until `let_go`."""
        self._held = threading.Event()

    def let_go(self) -> None:
        if self._held is not None:
            self._held.set()
            self._held = None

    def wait(self, enough: Callable[[list[Letter]], bool], *, seconds: float = PATIENCE) -> bool:
        """Return True as soon as the condition holds, or False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self.letters), seconds)

    async def handle_RCPT(  # noqa: N802  # the name that aiosmtpd expects
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        del server
        if self._signing_in and not session.authenticated:
            return "530 Sign in first"
        if address.startswith("bad@"):
            return "550 No such person"
        if address.startswith("later@"):
            return "450 Not now"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        held = self._held
        if held is not None:
            await asyncio.get_running_loop().run_in_executor(None, held.wait, PATIENCE)
        if self._answers:
            return self._answers.pop(0)
        content = envelope.original_content or b""
        encrypted = session.ssl is not None
        with self._changed:
            self.letters.append(Letter(envelope.mail_from or "", tuple(envelope.rcpt_tos), content, encrypted))
            self._changed.notify_all()
        if self._drops:
            self._drops -= 1
            cast("asyncio.Transport", server.transport).abort()
        return "250 Taken"

    def _protocol(self) -> SMTP:
        self.connections += 1
        return SMTP(self, hostname="mail.test", loop=self._loop, authenticator=_authenticated, **self._options)

    def start(self) -> None:
        ready = threading.Event()

        async def serve() -> None:
            server = await self._loop.create_server(self._protocol, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._stop = asyncio.Event()
            ready.set()
            await self._stop.wait()
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        def run() -> None:
            self._loop.run_until_complete(serve())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

        self._thread = threading.Thread(target=run, name="mail", daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)

    def stop(self) -> None:
        self.let_go()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)


def _authenticated(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    del server, session, envelope, mechanism
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


@contextlib.contextmanager
def mail_server(*, tls: ssl.SSLContext | None = None, signing_in: bool = False) -> Iterator[MailServer]:
    server = MailServer(tls=tls, signing_in=signing_in)
    server.start()
    try:
        yield server
    finally:
        server.stop()
