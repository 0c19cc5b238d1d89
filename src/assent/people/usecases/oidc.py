"""Sign-in with an identity provider: OpenID Connect, authorization code with PKCE, state and nonce."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import structlog
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # pyright: ignore[reportUnknownVariableType]
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # pyright: ignore[reportUnknownVariableType]
from authlib.oidc.core.claims import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from assent.core.access import Role
from assent.core.errors import Conflict, Forbidden, InvalidRequest, Unauthenticated, Unavailable
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.outbound import Outbound, Permanent, Reply, Undelivered
from assent.kernel.ports import Clock
from assent.kernel.settings import Settings
from assent.people.store.identities import Identities
from assent.people.store.people import EVERYWHERE, People, Person
from assent.people.usecases.people import DEFAULT_PROJECT, LONGEST_SUBJECT, OIDC, PeopleService

SCOPE = "openid profile email"
# Only algorithms for which the provider alone has the signing key: not `none`, and not HS256 with our client secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_SECONDS = 60
JOURNEY = 10 * 60 * SECOND
"""The maximum duration of a sign-in at the provider."""
REMEMBERED = 3600 * SECOND
"""How long the provider's metadata and keys are cached."""
LOOK_AGAIN = 60 * SECOND
"""The minimum time between refreshes, so that not every invalid token causes a request to the provider."""
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789._-"
_log = structlog.get_logger()
# authlib ships no type hints.
_grant_uri = cast("Callable[..., str]", prepare_grant_uri)
_code_challenge = cast("Callable[[str], str]", create_s256_code_challenge)


@dataclass(frozen=True, slots=True)
class Journey:
    """Sign-in state in a signed cookie, which proves that this browser started the sign-in here."""

    state: str
    nonce: str
    verifier: str
    after: str
    at: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """The identity that the provider confirmed."""

    issuer: str
    subject: str
    claims: Mapping[str, Any]

    @property
    def verified_email(self) -> str | None:
        email = self.claims.get("email")
        return email if isinstance(email, str) and email and self.claims.get("email_verified") is True else None


class NotLinked(Forbidden):
    """The provider confirmed the identity, but it is not linked to a person."""


@dataclass(slots=True)
class _Known:
    """The provider's published metadata and keys, and when they were fetched."""

    metadata: Mapping[str, Any]
    keys: KeySet
    at: int


class OidcService:
    def __init__(self, settings: Settings, outbound: Outbound, *, clock: Clock, random: Callable[[int], bytes]) -> None:
        assert settings.oidc_issuer is not None, "created only if OIDC is configured"
        self.issuer = settings.oidc_issuer
        self.name = settings.oidc_name
        self._client_id = settings.oidc_client_id or ""
        self._client_secret = settings.oidc_client_secret or ""
        self._name_claim = settings.oidc_person_claim
        self._groups_claim = settings.oidc_groups_claim
        self._roles = settings.oidc_role_mapping
        self._creates = settings.oidc_create_people
        self._links_by_email = settings.oidc_link_by_email
        self._outbound = outbound
        self._clock = clock
        self._random = random
        self._known: _Known | None = None

    async def depart(self, *, back_to: str, after: str) -> tuple[str, str]:
        """Return the provider's sign-in URL, and the sealed state that the browser must return."""
        provider = await self._provider()
        journey = Journey(self._chance(), self._chance(), self._chance(), after, self._clock.now())
        address = _grant_uri(
            provider.metadata["authorization_endpoint"],
            self._client_id,
            "code",
            redirect_uri=back_to,
            scope=SCOPE,
            state=journey.state,
            nonce=journey.nonce,
            code_challenge=_code_challenge(journey.verifier),
            code_challenge_method="S256",
        )
        return address, self._sealed(journey)

    async def arrive(self, answer: Mapping[str, str], sealed: str, *, back_to: str) -> tuple[Arrival, str]:
        """Verify the provider's response; return the identity, and the page to continue to."""
        journey = self._opened(sealed)
        if journey is None or not hmac.compare_digest(journey.state.encode(), answer.get("state", "").encode()):
            msg = "This sign-in was not started in this browser, or it has expired. Start again."
            raise Unauthenticated(msg)
        # RFC 9207: detect a response that came from a different provider.
        if answer.get("iss", self.issuer) != self.issuer:
            raise self._refusal("the response came from a different provider")
        if answer.get("error") or not answer.get("code"):
            said = answer.get("error", "")[:100]
            raise Unauthenticated(
                f"Sign-in with {self.name} failed{f' ({said})' if said.isprintable() and said else ''}. Try again."
            )
        token = await self._token(answer["code"], journey.verifier, back_to)
        claims = await self._claims(token, journey.nonce)
        return Arrival(self.issuer, claims["sub"], claims), journey.after

    def admit(self, tx: Transaction, arrival: Arrival, *, people: PeopleService) -> str:
        """Return a session secret for the person with this identity; raise if no person may sign in with it."""
        tx.acting(OIDC)
        person = self._person(tx, arrival, people)
        if not person.active:
            msg = f"{person.name}'s account is closed. Ask an admin to reopen it."
            raise Forbidden(msg)
        self._give_roles(tx, person, arrival, people)
        people.confirm_by_identity(tx, person, issuer=arrival.issuer, subject=arrival.subject)
        return people.open_session(tx, person.id)[0]

    def _person(self, tx: Transaction, arrival: Arrival, people: PeopleService) -> Person:
        person_id = tx[Identities].find(arrival.issuer, arrival.subject)
        found = tx[People].find(person_id) if person_id else None
        if found is not None:
            return found
        person = self._by_email(tx, arrival) or self._created(tx, arrival, people)
        if person is None:
            msg = (
                f"{self.name} recognized you, but this account is not linked to a person in Assent. Ask an "
                "admin to link this identity:"
            )
            raise NotLinked(msg, subject=arrival.subject, issuer=arrival.issuer)
        tx[Identities].add(arrival.issuer, arrival.subject, person_id=person.id, by=str(OIDC.actor), now=tx.now())
        return person

    def _by_email(self, tx: Transaction, arrival: Arrival) -> Person | None:
        """Return the only person with this email address, if the provider has verified it.

        Accounts with an unconfirmed reset and accounts managed by another project do not match, because an admin may
        have entered an address that does not belong to the person.
        """
        email = arrival.verified_email
        if not self._links_by_email or email is None:
            return None
        found = [
            each
            for each in tx[People].every()
            if (each.email or "").lower() == email.lower()
            and each.reset_by is None
            and each.home in {DEFAULT_PROJECT, EVERYWHERE}
        ]
        # A person who is already linked has a different identity, even if the email address is the same.
        return found[0] if len(found) == 1 and not tx[Identities].of(found[0].id) else None

    def _created(self, tx: Transaction, arrival: Arrival, people: PeopleService) -> Person | None:
        if not self._creates:
            return None
        name = handle(arrival.claims.get(self._name_claim))
        # A matching username does not prove that this is the same person.
        if name is None or tx[People].find_by_name(name) is not None:
            msg = (
                f"The username from {self.name} is invalid or already taken in Assent. Ask an admin to link this "
                "identity:"
            )
            raise NotLinked(msg, subject=arrival.subject, issuer=arrival.issuer)
        full = arrival.claims.get("name")
        return people.create_person(
            tx,
            name,
            project=DEFAULT_PROJECT,
            roles=frozenset(),
            display_name=full[:300] if isinstance(full, str) and full else None,
            email=arrival.verified_email,
        )

    def _give_roles(self, tx: Transaction, person: Person, arrival: Arrival, people: PeopleService) -> None:
        """Sync the roles in the mapping with the provider's groups; leave all other roles alone.

        Skip a change that not even an admin could make; the person still signs in.
        """
        if not self._roles:
            return
        groups = arrival.claims.get(self._groups_claim)
        listed = cast("list[object]", groups) if isinstance(groups, list) else []
        member_of = {each for each in listed if isinstance(each, str)}
        mapped = {Role(role) for role in self._roles.values()}
        earned = {Role(role) for group, role in self._roles.items() if group in member_of}
        held = tx[People].grants(person.id).get(DEFAULT_PROJECT, frozenset())
        wanted = (held - mapped) | earned
        if wanted != held:
            try:
                people.set_roles(tx, person, DEFAULT_PROJECT, wanted, by=OIDC)
            except (Conflict, InvalidRequest) as error:
                _log.warning("oidc_roles_withheld", person=person.name, why=error.message)

    async def _provider(self, *, fresh: bool = False) -> _Known:
        now, known = self._clock.now(), self._known
        if known is not None and now - known.at < (LOOK_AGAIN if fresh else REMEMBERED):
            return known
        metadata = await self._fetched(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
        # Required by OpenID Connect Discovery, section 4.3.
        if metadata.get("issuer") != self.issuer:
            raise self._refusal("its configuration specifies a different issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            address = metadata.get(name)
            # If the issuer uses HTTPS, its endpoints must use HTTPS too.
            if not isinstance(address, str) or urlsplit(address).scheme not in {"https", urlsplit(self.issuer).scheme}:
                raise self._refusal(f"its configuration is missing a valid {name}")
        try:
            keys = KeySet.import_key_set(cast("Any", await self._fetched(metadata["jwks_uri"])))
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise self._refusal("its keys cannot be read") from error
        self._known = _Known(metadata, keys, now)
        return self._known

    async def _fetched(self, address: str) -> Mapping[str, Any]:
        try:
            return self._object(await self._outbound.get(address, headers={"accept": "application/json"}))
        except Undelivered as error:
            raise self._unreachable(error) from error

    async def _token(self, code: str, verifier: str, back_to: str) -> str:
        """Exchange the code for an ID token; a code works only once."""
        provider = await self._provider()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back_to, "code_verifier": verifier}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        # OpenID Connect Discovery defines this default.
        methods = provider.metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if "client_secret_basic" in methods:
            # RFC 6749, section 2.3.1: URL-encode the client ID and the secret before joining them.
            pair = f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        address = provider.metadata["token_endpoint"]
        try:
            reply = await self._outbound.post(address, body=urlencode(form).encode(), headers=headers)
        except Permanent as error:
            raise self._refusal("it rejected the authorization code") from error
        except Undelivered as error:
            if error.status is not None and error.status < 500:  # noqa: PLR2004  # a client error
                raise self._refusal("it rejected the authorization code") from error
            raise self._unreachable(error) from error
        token = self._object(reply).get("id_token")
        if not isinstance(token, str):
            raise self._refusal("its response does not contain an ID token")
        return token

    async def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        provider = await self._provider()
        try:
            try:
                decoded = jwt.decode(token, provider.keys, algorithms=list(ALGORITHMS))
            except JoseError:
                # The provider may have rotated its keys since they were fetched.
                decoded = jwt.decode(token, (await self._provider(fresh=True)).keys, algorithms=list(ALGORITHMS))
            claims: Any = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": self.issuer},
                    "aud": {"essential": True, "value": self._client_id},
                    "exp": {"essential": True},
                    "sub": {"essential": True},
                },
                params={"nonce": nonce, "client_id": self._client_id},
            )
            claims.validate(now=self._clock.now() // SECOND, leeway=LEEWAY_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise self._refusal(f"its ID token is not valid: {type(error).__name__}") from error
        found = dict(decoded.claims)
        subject = found.get("sub")
        if not isinstance(subject, str) or not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise self._refusal("its ID token is missing a valid subject")
        return found

    def _object(self, reply: Reply) -> Mapping[str, Any]:
        try:
            found = json.loads(reply.body)
        except ValueError as error:
            raise self._refusal("its response is not JSON") from error
        if not isinstance(found, dict):
            raise self._refusal("its response is not a JSON object")
        return cast("Mapping[str, Any]", found)

    def _refusal(self, why: str) -> Unauthenticated:
        _log.warning("oidc_refused", issuer=self.issuer, why=why)
        return Unauthenticated(
            f"The response from {self.name} could not be verified ({why}). You were not signed in. Start again."
        )

    def _unreachable(self, error: Undelivered) -> Unavailable:
        _log.warning("oidc_unreachable", issuer=self.issuer, why=error.message)
        return Unavailable(f"{self.name} is currently unreachable. Try again later, or sign in another way.")

    def _chance(self) -> str:
        return base64.urlsafe_b64encode(self._random(32)).decode().rstrip("=")

    def _sealed(self, journey: Journey) -> str:
        fields = [journey.state, journey.nonce, journey.verifier, journey.after, journey.at]
        body = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
        return f"{body}.{self._seal(body)}"

    def _opened(self, sealed: str) -> Journey | None:
        body, _, seal = sealed.rpartition(".")
        if not body or not hmac.compare_digest(self._seal(body).encode(), seal.encode()):
            return None
        # Check the age here, because the browser controls how long it keeps the cookie.
        journey = Journey(*json.loads(base64.urlsafe_b64decode(body)))
        return journey if 0 <= self._clock.now() - journey.at < JOURNEY else None

    def _seal(self, body: str) -> str:
        # Derived from the client secret, which all nodes share, so that another node can complete the sign-in.
        key = hashlib.sha256(b"assent oidc journey\x00" + self._client_secret.encode()).digest()
        return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def handle(claim: object) -> str | None:
    """Return the username for a claim (for an email address, the part before the @), or None if it is invalid."""
    if not isinstance(claim, str):
        return None
    name = claim.partition("@")[0].lower()
    fits = 1 <= len(name) <= 64 and name[0] in _NAME[:36] and set(name) <= set(_NAME)  # noqa: PLR2004  # as in the API
    return name if fits else None
