"""The names under which this server is reached, so that a forged Host header proves nothing."""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from assent.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ALL_INTERFACES = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared, not bound


class OwnHosts:
    """Without a public URL: loopback names, the bound address, the machine's name, and private IP addresses."""

    def __init__(self, settings: Settings) -> None:
        self._public_url = settings.public_url
        self._base_url = settings.base_url
        names = {*LOOPBACK, settings.host.lower()} - ALL_INTERFACES
        if settings.host in ALL_INTERFACES:
            machine = socket.gethostname().lower()
            names |= {machine, machine.partition(".")[0], f"{machine.partition('.')[0]}.local"}
        if settings.public_url:
            names.add((urlsplit(settings.public_url).hostname or "").lower())
        self._names = frozenset(names)

    def knows(self, request: HTTPConnection) -> bool:
        """Tell whether the Host header names this server, and not an address that somebody made up."""
        host = (request.base_url.hostname or "").lower().strip("[]")
        server = request.scope.get("server") or ("", None)
        # A browser sends an IP address only where it connected to that address: DNS cannot point it elsewhere.
        return host in self._names or host == str(server[0]).lower() or _is_private(host)

    def origins(self, request: HTTPConnection) -> frozenset[str]:
        """Return the origins of our own pages."""
        own = {str(request.base_url)} if self.knows(request) else set[str]()
        return frozenset(map(_origin, own | ({self._public_url} if self._public_url else set())))

    def base_url(self, request: HTTPConnection) -> str:
        """Return the address for links on a page: the public URL, or the one that the visitor typed if it is ours."""
        if self._public_url or not self.knows(request):
            return self._base_url
        return str(request.base_url).rstrip("/")

    def accepts(self, request: HTTPConnection) -> bool:
        """Tell whether a form for this Host can be ours; with a public URL, its origin decides."""
        return self._public_url is not None or self.knows(request)


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
