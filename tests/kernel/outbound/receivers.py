"""Receivers with configurable responses, a name server whose answers change, and certificates."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Heard:
    line: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    port: int = 0
    connections: int = 0
    heard: list[Heard] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, host: str = "127.0.0.1", *, scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}/hook?a=1"


@contextlib.asynccontextmanager
async def receiving(
    answer: Answer, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Listen, record requests, and give every request the same response."""
    receiver = Receiver()
    tasks = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        receiver.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    receiver.heard.append(await _request(reader))
                    receiver.reached.set()
                    await answer(writer)
                    await writer.drain()
        finally:
            receiver.hung_up.set()
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    return Heard(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def says(status: int = 200, body: bytes = b"ok", **headers: str) -> Answer:
    """Send a valid response; `retry_after="5"` sets the Retry-After header."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return writes("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def writes(content: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return answer


def says_then_closes(content: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        writer.close()

    return answer


def repeats(first: bytes, rest: bytes) -> Answer:
    """Respond endlessly, as fast as the client reads."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(rest)
            await writer.drain()
            await asyncio.sleep(0)

    return answer


def stalls(first: bytes = b"") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await asyncio.Event().wait()

    return answer


async def resets(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@dataclass
class Directory:
    """A resolver that knows only these names."""

    names: Mapping[str, Sequence[str]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        return self.names[host]


class NameServer(asyncio.DatagramProtocol):
    """Answers each IPv4 query with the next line of a script, with a TTL of zero."""

    def __init__(self, script: Iterator[Sequence[str]]) -> None:
        self._script = script
        self.questions = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.questions += 1
        addresses = next(self._script)
        records = b"".join(
            struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + bytes(map(int, each.split("."))) for each in addresses
        )
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(addresses), 0, 0)
        self._transport.sendto(head + data[12:] + records, addr)


@dataclass
class AskNameServer:
    """A resolver without a cache, which queries a name server over UDP each time."""

    port: int

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        question = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
        asked = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + question + b"\0" + struct.pack("!HH", 1, 1)

        class Asker(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
                del addr
                answer.set_result(data)

        transport, _ = await loop.create_datagram_endpoint(Asker, remote_addr=("127.0.0.1", self.port))
        try:
            transport.sendto(asked)
            data: bytes = await answer
        finally:
            transport.close()
        count = struct.unpack("!H", data[6:8])[0]
        records = data[len(asked) :]
        return [".".join(map(str, records[n * 16 + 12 : n * 16 + 16])) for n in range(count)]


@contextlib.asynccontextmanager
async def name_server(script: Iterator[Sequence[str]]) -> AsyncIterator[tuple[NameServer, AskNameServer]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(script), local_addr=("127.0.0.1", 0))
    try:
        yield server, AskNameServer(transport.get_extra_info("sockname")[1])
    finally:
        transport.close()


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate, with contexts for a server and for a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certificate(folder: Path, *names: str) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    day = datetime(2020, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(day)
        .not_valid_after(day + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, secret = folder / "certificate.pem", folder / "key.pem"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(shown, secret)
    return Certificate(server, ssl.create_default_context(cafile=str(shown)))
