"""The host names of this server, for detecting forged Host headers."""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from assent.kernel.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ALL_INTERFACES = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared, not bound


class OwnHosts:
    """Without a public URL, accepts loopback names, the bound address, the machine's name and private IP addresses."""

    def __init__(self, settings: Settings) -> None:
        self._public_url = settings.public_url
        self._base_url = settings.base_url
        # The address for all interfaces is not a name that clients use.
        names = {*LOOPBACK, settings.host.lower()} - ALL_INTERFACES
        if settings.host in ALL_INTERFACES:
            # Other machines in the local network can use the short name or the mDNS name.
            machine = socket.gethostname().lower()
            names |= {machine, machine.partition(".")[0], f"{machine.partition('.')[0]}.local"}
        if settings.public_url:
            names.add((urlsplit(settings.public_url).hostname or "").lower())
        self._names = frozenset(names)

    def knows(self, request: HTTPConnection) -> bool:
        """Return whether the Host header names this server."""
        host = (request.base_url.hostname or "").lower().strip("[]")
        server = request.scope.get("server") or ("", None)
        # A browser sends an IP address in the Host header only if it connected to that address, so DNS cannot forge it.
        return host in self._names or host == str(server[0]).lower() or _is_private(host)

    def origins(self, request: HTTPConnection) -> frozenset[str]:
        """Return the origins of this server's pages."""
        own = {str(request.base_url)} if self.knows(request) else set[str]()
        return frozenset(map(_origin, own | ({self._public_url} if self._public_url else set())))

    def base_url(self, request: HTTPConnection) -> str:
        """Return the base URL of links on a page: the public URL, or the URL of the request if it names this server."""
        if self._public_url or not self.knows(request):
            return self._base_url
        return str(request.base_url).rstrip("/")

    def accepts(self, request: HTTPConnection) -> bool:
        """Return whether a form sent to this host can be accepted; with a public URL, its origin is checked instead."""
        return self._public_url is not None or self.knows(request)


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
