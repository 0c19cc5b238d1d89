"""Sessions of signed-in browsers: the cookie, its person, and protection against forms from other sites."""

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qsl

import structlog
from starlette.requests import Request
from starlette.responses import Response

from assent.core.access import Principal
from assent.core.errors import Forbidden, InvalidRequest, Unauthenticated, UnsupportedMediaType
from assent.core.secrets import secret_hash, well_formed
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.http.hosts import OwnHosts
from assent.http.limits import RateLimit
from assent.kernel.ports import Clock, Database
from assent.kernel.settings import Settings

REMEMBER_SECONDS = 1.0
SESSION_LIFE = 12 * 3600 * SECOND
MAX_REMEMBERED = 10_000
MAX_FIELDS = 400
HASHES_AT_ONCE = 2
COOKIE = "assent_session"
JOURNEY_COOKIE = "assent_journey"
CSRF_FIELD = "csrf"
_FORM = "application/x-www-form-urlencoded"
_log = structlog.get_logger()
# Printable ASCII without the backslash, which browsers treat as a slash, and only paths of pages.
_LOCAL = re.compile(
    r"/(?:$|\?|(?:breakpoints|runs|rules|gates|insights|deliveries|admin|account|link)(?:$|[/?]))[!-\[\]-~]*"
)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A signed-in person; `csrf` is included in each of our forms and nowhere else."""

    principal: Principal
    csrf: str
    secret: str
    must_set_password: bool = False
    """The person signed in with an invitation or a reset link, and has not set a password yet."""
    theme: str | None = None
    time_zone: str | None = None


class Accounts(Protocol):
    """The use cases that sessions need; they exchange people as opaque values."""

    def session_principal(self, tx: Transaction, plain: str) -> tuple[Principal, Any] | None: ...

    def sign_in(self, tx: Transaction, name: str, password: str) -> Any: ...  # noqa: ANN401  # a person

    def open_session_for(self, tx: Transaction, person: Any) -> str: ...  # noqa: ANN401  # a person

    def use_link(self, tx: Transaction, plain: str) -> tuple[str, str]: ...

    def prove_password(self, tx: Transaction, person_id: str, *, old: str) -> Any: ...  # noqa: ANN401  # a person

    def password_hash(self, password: str) -> str: ...

    def set_password(self, tx: Transaction, person: Any, *, hashed: str, by: Principal) -> str: ...  # noqa: ANN401

    def choose_project(self, tx: Transaction, plain: str, project: str, *, by: Principal) -> None: ...

    def close_session(self, tx: Transaction, plain: str) -> None: ...

    def close_sessions(self, tx: Transaction, person_id: str) -> None: ...


class Sessions:
    def __init__(
        self,
        database: Database[Transaction],
        people: Accounts,
        *,
        clock: Clock,
        settings: Settings,
        sign_ins: RateLimit,
    ) -> None:
        self._database = database
        self._people = people
        self._clock = clock
        self.hosts = OwnHosts(settings)
        self._secure = (settings.public_url or "").startswith("https://")
        self._sign_ins = sign_ins
        self._known: dict[str, tuple[float, SignedIn]] = {}
        # A password hash uses a core and 64 MiB for a moment; many sign-ins at once must not use up all resources.
        self._hashing = asyncio.Semaphore(HASHES_AT_ONCE)

    @property
    def cookie(self) -> str:
        # Browsers accept the __Host- prefix only over TLS.
        return f"__Host-{COOKIE}" if self._secure else COOKIE

    async def find(self, request: Request) -> SignedIn | None:
        """Return the signed-in person; closing an account or session takes effect within a second."""
        secret = request.cookies.get(self.cookie, "")
        known = self._known.get(secret)
        now = time.monotonic()
        if known is None or known[0] <= now:
            known = await self._look_up(secret, now)
        # A cached session can expire before its entry does.
        if known is None or (known[1].principal.expires_at or 0) <= self._clock.now():
            return None
        return known[1]

    async def _look_up(self, secret: str, now: float) -> tuple[float, SignedIn] | None:
        self._known.pop(secret, None)
        if not well_formed(secret):
            return None
        found = await self._database.read(partial(self._people.session_principal, plain=secret))
        if found is None:
            return None
        if len(self._known) > MAX_REMEMBERED:
            # This is only a cache, so evicted sessions are looked up again.
            self._known.clear()
        principal, session = found
        self._known[secret] = (
            now + REMEMBER_SECONDS,
            SignedIn(
                principal,
                session.csrf,
                secret,
                bool(session.must_set_password),
                session.theme,
                session.time_zone,
            ),
        )
        return self._known[secret]

    async def sign_in(self, request: Request, name: str, password: str) -> str:
        """Check the password and return the secret of a new session; hashing never blocks the writer."""
        # Both limits are needed: guesses can come from one client, or be spread over many.
        self._sign_ins.take(f"address:{_network(request)}", what="sign-ins from one address")
        self._sign_ins.take(f"name:{secret_hash(name)}", what="sign-ins for one username")
        async with self._hashing:
            person = await self._database.read(partial(self._people.sign_in, name=name, password=password))
        secret = await self._database.write(partial(self._people.open_session_for, person=person))
        return await self._begun(request, secret, way="password")

    async def sign_in_by_link(self, request: Request, link: str) -> str:
        if not well_formed(link):
            msg = "This sign-in link is incomplete. Copy the entire link."
            raise Unauthenticated(msg)
        secret, _ = await self._database.write(partial(self._people.use_link, plain=link))
        return await self._begun(request, secret, way="link")

    def count_sign_in(self, request: Request, what: str) -> None:
        self._sign_ins.take(f"{what}:{_network(request)}", what="sign-ins from one address")

    async def open(self, request: Request, use_case: Callable[[Transaction], str]) -> str:
        """Open a session for a person authenticated by a provider; the use case returns the session's secret."""
        secret = await self._database.write(use_case)
        return await self._begun(request, secret, way="provider")

    async def _begun(self, request: Request, secret: str, *, way: str) -> str:
        """End the browser's previous session, and log who signed in, from where and how."""
        await self._forget(request)
        known = await self._look_up(secret, time.monotonic())
        person = known[1].principal.id if known else None
        _log.info("signed_in", person=person, way=way, address=_network(request))
        return secret

    def person_of(self, secret: str) -> str | None:
        """Return the ID of the person whose session was just opened on this node."""
        known = self._known.get(secret)
        return known[1].principal.id if known else None

    async def sign_out_everywhere(self, request: Request, response: Response, who: Principal) -> None:
        """End all sessions of a person; other nodes notice within a second."""
        await self._database.write(partial(self._people.close_sessions, person_id=who.id))
        self._known = {secret: known for secret, known in self._known.items() if known[1].principal.id != who.id}
        await self.sign_out(request, response)

    async def change_password(self, request: Request, who: Principal, old: str, new: str) -> str:
        """Set a new password, end all sessions, and return the secret of a new session for this browser."""
        # Limited like signing in, because the old password could be guessed here as well.
        self.count_sign_in(request, "password")
        self._sign_ins.take(f"name:{secret_hash(who.name)}", what="sign-ins for one username")
        async with self._hashing:
            person = await self._database.read(partial(self._people.prove_password, person_id=who.id, old=old))
            hashed = await asyncio.to_thread(self._people.password_hash, new)
        change = partial(self._people.set_password, person=person, hashed=hashed, by=who)
        secret = await self._database.write(change)
        _log.info("password_changed", person=who.id, address=_network(request))
        self._known = {each: known for each, known in self._known.items() if known[1].principal.id != who.id}
        return secret

    async def look_at(self, signed_in: SignedIn, project: str) -> None:
        """Switch this browser's session to another project."""
        choose = partial(self._people.choose_project, plain=signed_in.secret, project=project, by=signed_in.principal)
        await self._database.write(choose)
        self.forget(signed_in)

    def forget(self, signed_in: SignedIn) -> None:
        """Reload this session on its next request, because its project or preferences have changed."""
        self._known.pop(signed_in.secret, None)

    async def sign_out(self, request: Request, response: Response) -> None:
        await self._forget(request)
        response.delete_cookie(self.cookie, path="/", secure=self._secure, httponly=True, samesite="lax")

    def forget_everybody(self) -> None:
        """Reload every session on its next request, because a project was removed."""
        self._known.clear()

    async def _forget(self, request: Request) -> None:
        """End the browser's previous session, so that it cannot be used anymore."""
        secret = request.cookies.get(self.cookie, "")
        self._known.pop(secret, None)
        if well_formed(secret):
            await self._database.write(partial(self._people.close_session, plain=secret))

    def give(self, response: Response, secret: str) -> None:
        response.set_cookie(
            self.cookie,
            secret,
            max_age=SESSION_LIFE // 1_000_000,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )

    def lend(self, response: Response, text: str, *, seconds: int) -> None:
        """Store a short-lived value in a cookie that browsers send only to this server."""
        response.set_cookie(
            self._journey, text, max_age=seconds, path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def lent(self, request: Request) -> str:
        return request.cookies.get(self._journey, "")

    def take_back(self, response: Response) -> None:
        response.delete_cookie(self._journey, path="/", secure=self._secure, httponly=True, samesite="lax")

    @property
    def _journey(self) -> str:
        return f"__Host-{JOURNEY_COOKIE}" if self._secure else JOURNEY_COOKIE

    def require_own_page(self, request: Request) -> None:
        """Reject a form that was submitted from a page of another site.

        Current browsers send at least one of the two headers with a cross-site form. Programs that send neither do not
        have a cookie that another site could abuse, and the CSRF token is checked as well.
        """
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        if not self.hosts.accepts(request):
            msg = (
                "This server does not accept requests for this host name. Set ASSENT_PUBLIC_URL to the URL "
                "that people use."
            )
            raise Forbidden(msg)
        own = self.hosts.origins(request)
        trusted = site in {"same-origin", "none"} if site is not None else origin is None or origin in own
        if not trusted:
            msg = "This form was submitted from another site. Open the page on this server and submit the form again."
            raise Forbidden(msg)

    def is_own_page(self, request: Request) -> bool:
        """Whether a header proves that one of our pages submitted the form; without such headers, return false."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        own = site == "same-origin" if site is not None else origin in self.hosts.origins(request)
        return own and self.hosts.accepts(request)


def has_key(signed_in: SignedIn, form: Mapping[str, str]) -> bool:
    return hmac.compare_digest(signed_in.csrf.encode(), form.get(CSRF_FIELD, "").encode())


async def form_of(request: Request) -> dict[str, str]:
    """Parse a plain HTML form: one value per name, with normalized line breaks."""
    body = await request.body()
    if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        msg = "Submit the form from the page it belongs to."
        raise UnsupportedMediaType(msg)
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequest.at("form", "is not a valid form submission") from error
    found = {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in pairs}
    if any("\x00" in value for value in found.values()):
        raise InvalidRequest.at("form", "contains a NUL character")
    return found


def local_path(text: str | None) -> str:
    """Return the path to redirect to after signing in, which is always a page of this server."""
    return text if text and len(text) <= 2000 and _LOCAL.fullmatch(text) else "/"  # noqa: PLR2004  # a reasonable length for a link


def _network(request: Request) -> str:
    """Return a client's IP address; for IPv6 its network, because one customer has all of the addresses in it."""
    host = request.client.host if request.client else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host  # noqa: PLR2004
