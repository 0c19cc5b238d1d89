"""Runs the real nginx with the configuration from deploy/ on free ports."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.deploy.files import DEPLOY
from tests.support.nodes import free_port
from tests.support.programs import program
from tests.support.until import until

NODES = ("assent-1:7373", "assent-2:7373")


@dataclass(frozen=True)
class Proxy:
    """A running nginx, with the TLS context that clients need."""

    url: str
    plain_url: str
    trust: ssl.SSLContext


def configured(folder: Path, nodes: Sequence[str], ports: Mapping[str, int]) -> str:
    """Return the configuration from deploy/ with only the paths, ports and upstream addresses replaced."""
    text = (DEPLOY / "nginx.conf").read_text()
    places = dict(zip(NODES, nodes, strict=True)) | {
        "/run/nginx.pid": f"{folder}/nginx.pid",
        "/etc/nginx/tls": f"{folder}",
        "listen 443": f"listen 127.0.0.1:{ports['https']}",
        "listen 80": f"listen 127.0.0.1:{ports['http']}",
    }
    for old, new in places.items():
        assert old in text
        text = text.replace(old, new)
    return text


def certified(folder: Path) -> ssl.SSLContext:
    """Create a certificate for 127.0.0.1, and return a TLS context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "assent.test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "fullchain.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "privkey.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return ssl.create_default_context(cafile=str(chain))


@contextlib.asynccontextmanager
async def nginx(folder: Path, nodes: Sequence[str]) -> AsyncIterator[Proxy]:
    """Run nginx in front of these nodes until the test ends."""
    ports = {"https": free_port(), "http": free_port()}
    trust = certified(folder)
    file = folder / "nginx.conf"
    file.write_text(configured(folder, [url.removeprefix("http://") for url in nodes], ports))
    command = [program("nginx", package="nginx"), "-p", str(folder), "-c", str(file)]
    checked = await asyncio.to_thread(subprocess.run, [*command, "-t"], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    with (folder / "nginx.log").open("wb") as log:
        running = await asyncio.create_subprocess_exec(*command, "-g", "daemon off;", stdout=log, stderr=log)
    try:

        async def up() -> bool:
            assert running.returncode is None, (folder / "nginx.log").read_text()
            return await asyncio.to_thread(_listens, ports["https"])

        await until(up, bool)
        yield Proxy(f"https://127.0.0.1:{ports['https']}", f"http://127.0.0.1:{ports['http']}", trust)
    finally:
        running.terminate()
        await running.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
