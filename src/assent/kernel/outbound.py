"""Outbound HTTP requests: allowed addresses, timeouts, size limits, and whether a failure can be retried.

Undelivered
├── Permanent    the same message to the same receiver will fail again
└── Transient    may be retried, after `retry_after` seconds if given
"""

import asyncio
import os
import re
import socket
import ssl
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol, cast

import httpcore2

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LONGEST_URL = 2000
LONGEST_RETRY_AFTER = 24 * 60 * 60

# Python 3.11 considers several of these global: NAT64, 6to4, fec0::/10, 192.88.99.0/24, 3fff::/20.
_SPECIAL: dict[str, tuple[str, ...]] = {
    "an unspecified address": ("0.0.0.0/8", "::/128"),
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "a private address": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    "a carrier-grade NAT address": ("100.64.0.0/10",),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "a documentation address": (
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
        *("2001:db8::/32", "3fff::/20"),
    ),
    "an IPv6 address that contains an IPv4 address": (
        *("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"),
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
    ),
    # 168.63.129.16 looks public, but Azure uses it to serve its own virtual machines.
    "a cloud platform address": ("168.63.129.16/32",),
    "a reserved address": (
        *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("2001::/23", "100::/64", "5f00::/16"),
    ),
}
_KINDS = [(ip_network(network), kind) for kind, networks in _SPECIAL.items() for network in networks]
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_ENDS_IN_IPV4 = tuple(map(IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))

# Ports of line-based services that ignore unknown lines: an HTTP request could make them run a command.
_NOT_HTTP = frozenset({0, 21, 22, 23, 25, 53, 110, 119, 143, 465, 514, 587, 993, 995, 6379, 6667, 9100, 11211})
# Headers that callers cannot set, because they determine where a message goes and where it ends.
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect", "upgrade"})

# These responses reject the message itself, so the same bytes would be rejected again.
_HOPELESS = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)

_UNSENT = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout)
"""Errors that occur before a request is written: no connection, or no TLS."""
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<target>[/?][!-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class BadUrl(ValueError):
    """A URL that is never allowed; the message says why."""


class Undelivered(Exception):
    def __init__(self, message: str, *, status: int | None = None, unsent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.unsent = unsent
        """True if it is certain that nothing was sent: no address, no connection, failed sign-in, or a local error."""


class Permanent(Undelivered):
    @property
    def gone(self) -> bool:
        """Whether the receiver responded with 410 Gone, in which case nothing more may be sent to it."""
        return self.status == HTTPStatus.GONE


class Transient(Undelivered):
    def __init__(
        self, message: str, *, status: int | None = None, unsent: bool = False, retry_after: int | None = None
    ) -> None:
        super().__init__(message, status=status, unsent=unsent)
        self.retry_after = retry_after


@contextmanager
def before_sending() -> Generator[None, None, None]:
    """Mark delivery errors in the block as unsent, because the block only prepares the message."""
    try:
        yield
    except Undelivered as error:
        error.unsent = True
        raise


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Timeouts in seconds, and the number of response bytes to keep."""

    connect: float = 5
    read: float = 15
    total: float = 20
    body: int = 64 * 1024


class Resolver(Protocol):
    """Resolves a hostname to addresses; raises OSError if it cannot."""

    async def __call__(self, host: str, port: int) -> Sequence[str]: ...


class SystemResolver:
    """Uses the operating system's resolver, in separate threads so that slow lookups do not block other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="assent-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return list(dict.fromkeys(str(each[4][0]) for each in found))


class Outbound:
    """Sends requests to untrusted URLs without giving access to private networks."""

    def __init__(
        self,
        *,
        allow: Iterable[Network] = (),
        limits: Limits | None = None,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allow = tuple(allow)
        self._limits = limits or Limits()
        self._resolver = resolver or SystemResolver()
        self._tls = tls

    def check_url(self, url: str) -> None:
        """Raise BadUrl for a URL that is certain to be refused; hostnames are resolved and checked when connecting."""
        check_url(url, allow=self._allow)

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send once and return a successful response; raise Permanent or Transient otherwise."""
        return await self._send("POST", url, body=body, headers=headers)

    async def get(self, url: str, *, headers: Mapping[str, str]) -> Reply:
        """Fetch a URL with the same checks; a body that is too long is truncated."""
        return await self._send("GET", url, body=b"", headers=headers)

    async def dial(self, host: str, port: int) -> socket.socket:
        """Open a TCP connection for another protocol, with the same checks; the caller must close the socket."""
        guard = _Guard(self._resolver, self._allow)
        failed: OSError | None = None
        for address in await guard.vetted(host, port, self._limits.connect):
            family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
            link = socket.socket(family, socket.SOCK_STREAM)
            link.setblocking(False)
            try:
                async with asyncio.timeout(self._limits.connect):
                    await asyncio.get_running_loop().sock_connect(link, (str(address), port))
            except OSError as error:  # includes timeouts
                link.close()
                failed = error
            except BaseException:
                link.close()
                raise
            else:
                return link
        why = _reason(failed) if failed else "the hostname does not resolve to an address"
        raise Transient(f"Cannot connect to {host}: {why}.", unsent=True)

    async def _send(self, method: str, url: str, *, body: bytes, headers: Mapping[str, str]) -> Reply:
        place = _permitted(url, self._allow)
        sent = _headers(place, body, headers)
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.total):
                status, received, kept = await self._exchange(method, place, sent, body)
        except httpcore2.LocalProtocolError as error:
            raise Permanent(f"The request to {place.host} could not be encoded: {error}.", unsent=True) from error
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise Transient(f"{place.host} did not respond in time.", unsent=isinstance(error, _UNSENT)) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            why = f"The request to {place.host} failed: {_reason(error)}."
            raise Transient(why, unsent=isinstance(error, _UNSENT)) from error
        _judge(place.host, status, received)
        return Reply(status, received, kept, round((time.monotonic() - started) * 1000))

    async def close(self) -> None:
        # Do not create the pool only to close it.
        if "_pool" in self.__dict__:
            await self._pool.aclose()

    async def _exchange(
        self, method: str, place: "_Place", headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        limits = self._limits
        timeouts = {"connect": limits.connect, "read": limits.read, "write": limits.read, "pool": limits.total}
        async with self._pool.stream(
            method, place.url, headers=headers, content=body, extensions={"timeout": timeouts}
        ) as answer:
            received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            return answer.status, received, await self._kept(answer)

    async def _kept(self, answer: httpcore2.Response) -> bytes:
        """Read up to the limit; stopping early closes the connection, since the size of the rest is unknown."""
        kept = bytearray()
        async with aclosing(answer.aiter_stream()) as chunks:
            async for chunk in chunks:
                kept += chunk
                if len(kept) > self._limits.body:
                    break
        return bytes(kept[: self._limits.body])

    @cached_property
    def _pool(self) -> httpcore2.AsyncConnectionPool:
        # A client would follow redirects, use proxies from the environment, keep cookies and decompress responses; a
        # pool does not. It is created when first needed, because loading the certificates is slow.
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._tls or httpcore2.default_ssl_context(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5,
            network_backend=_Guard(self._resolver, self._allow),
        )


class _Guard(httpcore2.AsyncNetworkBackend):
    """Connects to addresses it has checked, never to a name, which could resolve to a different address later."""

    def __init__(self, resolver: Resolver, allow: Sequence[Network]) -> None:
        self._resolver = resolver
        self._allow = allow
        self._dial = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # signature required by httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failed: Exception | None = None
        for address in await self.vetted(host, port, timeout):
            try:
                return await self._dial.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed or Transient(f"The hostname {host} does not resolve to an address.", unsent=True)

    async def vetted(self, host: str, port: int, seconds: float | None) -> list[Address]:
        """Return all addresses of a host, or refuse it if any of them is forbidden: a mixture is never accidental."""
        found = await self._addresses(host, port, seconds)
        for address in found:
            kind = refused(address, self._allow)
            if kind is not None:
                # Do not reveal the address: the person who chose the hostname may not know our network.
                raise Permanent(_refusal(f"{host} resolves to {kind}"), unsent=True)
        return found

    async def _addresses(self, host: str, port: int, seconds: float | None) -> list[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        try:
            async with asyncio.timeout(seconds):
                return [ip_address(each) for each in await self._resolver(host, port)]
        except TimeoutError as error:
            raise Transient(f"The DNS lookup for {host} timed out.", unsent=True) from error
        except OSError as error:
            why = f"The hostname {host} could not be resolved: {error.strerror or error}."
            raise Transient(why, unsent=True) from error


@dataclass(frozen=True, slots=True)
class _Place:
    scheme: str
    host: str
    port: int | None
    target: str

    @property
    def url(self) -> httpcore2.URL:
        host = self.host.strip("[]")
        return httpcore2.URL(scheme=self.scheme, host=host, port=self.port, target=self.target)

    @property
    def authority(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


def check_url(url: str, *, allow: Sequence[Network] = ()) -> None:
    """Raise BadUrl for a URL that is malformed, or whose host is a forbidden address."""
    place = _parsed(url)
    if place.port in _NOT_HTTP:
        raise BadUrl(f"Port {place.port} is blocked because it is not used for HTTP.")
    literal = _literal(place.host)
    kind = refused(literal, allow) if literal is not None else None
    if kind is not None:
        raise BadUrl(_refusal(f"{place.host} is {kind}"))


def refused(address: Address, allow: Sequence[Network] = ()) -> str | None:
    """Return the kind of a forbidden address, or None if the address is public or allowed."""
    for each in (address, *_carried(address)):
        kind = _kind(each)
        if kind is not None and not any(each in network for network in allow):
            return kind
    return None


def _kind(address: Address) -> str | None:
    for network, kind in _KINDS:
        if address in network:
            return kind
    public = address.is_global and not address.is_reserved
    if isinstance(address, IPv6Address):
        public = public and address in _PUBLIC_IPV6
    return None if public else "not a public address"


def _carried(address: Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which a gateway may translate an IPv6 address."""
    if isinstance(address, IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if int(address) > 1 and any(address in network for network in _ENDS_IN_IPV4):
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in inside if each is not None]


def _refusal(what: str) -> str:
    return f"{what}, which Assent does not connect to. The operator can allow it with ASSENT_OUTBOUND_ALLOW."


def _permitted(url: str, allow: Sequence[Network]) -> _Place:
    try:
        check_url(url, allow=allow)
    except BadUrl as error:
        raise Permanent(str(error), unsent=True) from error
    return _parsed(url)


def _parsed(url: str) -> _Place:
    found = _URL.fullmatch(url) if len(url) <= LONGEST_URL else None
    if found is None:
        raise BadUrl(_complaint(url))
    port = int(found["port"]) if found["port"] else None
    if port is not None and port > 65535:  # noqa: PLR2004  # the highest port
        raise BadUrl(f"{port} is not a valid port.")
    target = found["target"] or "/"
    if "#" in target:
        raise BadUrl("The URL must not contain a fragment (#).")
    scheme, slash = found["scheme"].lower(), "/" if target.startswith("?") else ""
    return _Place(scheme, found["host"].lower(), port if port != _PORTS[scheme] else None, slash + target)


def _complaint(url: str) -> str:
    if len(url) > LONGEST_URL:
        return f"The URL must be at most {LONGEST_URL} characters."
    odd = next((char for char in url if not "!" <= char <= "~"), None)
    if odd is not None:
        spelling = "use punycode for hostnames, and percent-encode the rest"
        return f"The URL must not contain the character U+{ord(odd):04X}; {spelling}."
    if not url.lower().startswith(("http://", "https://")):
        return "The URL must start with https:// or http://."
    if "@" in re.split(r"[/?#\\]", url.partition("://")[2])[0]:
        return "The URL must not contain a username or password."
    return "The URL must have a valid host after //, optionally followed by a port."


def _literal(host: str) -> Address | None:
    """Return the address in a URL, or None for a hostname; refuse notations that programs interpret differently."""
    if host.startswith("["):
        return _spelt(IPv6Address, host[1:-1], "a valid IPv6 address")
    labels = host.split(".")
    # Some programs parse a host whose last label is a number, such as 0x7f.1, as an IPv4 address.
    if _NUMBER.fullmatch(labels[-1]):
        return _spelt(IPv4Address, host, "a valid IPv4 address in dotted decimal notation")
    if not labels[-1]:
        raise BadUrl(f"The hostname {host} must not end with a dot.")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):  # noqa: PLR2004  # the maximum length of a name in DNS
        raise BadUrl(f"{host[:60]} is not a valid hostname.")
    # Resolvers may map every name under localhost to the loopback address (RFC 6761).
    return IPv4Address("127.0.0.1") if labels[-1] == "localhost" else None


def _spelt(kind: type[IPv4Address] | type[IPv6Address], text: str, what: str) -> Address:
    try:
        return kind(text)
    except ValueError as error:
        raise BadUrl(f"{text[:60]} is not {what}.") from error


def _headers(place: _Place, body: bytes, given: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    for name, value in given.items():
        if name.lower() in _OURS or not (name + value).isascii():
            raise Permanent(f"The header {name[:60]!r} is reserved, or contains non-ASCII characters.", unsent=True)
    held = {"host": place.authority, "accept-encoding": "identity", "content-length": str(len(body))}
    every = held | {"user-agent": "Assent"} | {name.lower(): value for name, value in given.items()}
    return [(name.encode(), value.encode()) for name, value in every.items()]


def _judge(host: str, status: int, headers: Mapping[str, str]) -> None:
    """Accept only 2xx; 410 and rejections of the message itself are permanent, everything else is transient."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    if status == HTTPStatus.GONE:
        raise Permanent(f"{host} responded with 410: it no longer accepts messages.", status=status)
    if status in _HOPELESS:
        raise Permanent(f"{host} responded with {status}: it does not accept this message.", status=status)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        advice = f"{host} responded with {status}: Assent does not follow redirects. Use the target URL."
        raise Transient(advice, status=status)
    raise Transient(f"{host} responded with {status}.", status=status, retry_after=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Return seconds; a date is compared with the response's own date, so that the clocks do not need to agree."""
    wanted = headers.get("retry-after", "")
    if wanted.isascii() and wanted.isdigit():
        # A float, because int() raises an error for text with more than 4,300 digits.
        return int(min(float(wanted), LONGEST_RETRY_AFTER))
    try:
        wait = parsedate_to_datetime(wanted) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(0, int(wait.total_seconds())), LONGEST_RETRY_AFTER)


def _reason(error: BaseException) -> str:
    """Return the message of the original error, without addresses."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was rejected: {error.verify_message.rstrip('.')}"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error).rstrip(".") or type(error).__name__
