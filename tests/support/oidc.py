"""A fake OpenID Connect provider that uses real HTTP and real keys, and can send invalid responses."""

import base64
import contextlib
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "assent-tests", "the secret of the client"


@dataclass
class Provider:
    """The claims of the person who signs in, and what to send instead of valid responses."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "248289761001"})
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    published: RSAKey | None = None
    spoil: Callable[[dict[str, Any]], None] = lambda _: None
    sign: Callable[["Provider", dict[str, Any]], str] | None = None
    issuer: str | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    refuses: str | None = None
    posts_secret: bool = False
    seen_keys: int = 0

    def configuration(self) -> dict[str, Any]:
        method = "client_secret_post" if self.posts_secret else "client_secret_basic"
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": [method],
        }

    def keys(self) -> dict[str, Any]:
        self.seen_keys += 1
        return dict(KeySet([self.published or self.key]).as_dict(private=False))

    def authorize(self, query: dict[str, str]) -> str:
        """Sign in at once, as a provider with an existing browser session does."""
        self.asked.append(query)
        if self.refuses:
            return f"{query['redirect_uri']}?{urlencode({'error': self.refuses, 'state': query['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        if (
            asked is None
            or asked["redirect_uri"] != form.get("redirect_uri")
            or asked["code_challenge"] != challenge.decode().rstrip("=")
            or form.get("grant_type") != "authorization_code"
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        } | self.claims
        self.spoil(claims)
        sign = self.sign or signed
        return 200, {"id_token": sign(self, claims), "access_token": "x", "token_type": "Bearer"}

    def _is_client(self, form: dict[str, str], authorization: str) -> bool:
        if self.posts_secret:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        told = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        return told.split(":") == [told.split(":")[0], told.split(":")[-1]] and [
            unquote(part) for part in told.split(":")
        ] == [CLIENT_ID, CLIENT_SECRET]


def signed(provider: Provider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, provider.key)


def unsigned(_: Provider, claims: dict[str, Any]) -> str:
    head, body = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join(_part(each) for each in (head, body)) + "."


def with_our_secret(_: Provider, claims: dict[str, Any]) -> str:
    """Sign with HS256 and the client secret, as anyone who knows the secret could."""
    text = ".".join(_part(each) for each in ({"alg": "HS256", "typ": "JWT"}, claims))
    seal = hmac.new(CLIENT_SECRET.encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(seal).decode().rstrip('=')}"


def with_another_key(_: Provider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, RSAKey.generate_key(2048, {"kid": "one"}))


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@contextlib.contextmanager
def provider(**parts: Any) -> Iterator[Provider]:
    """Run a provider on a free port."""
    made = Provider(**parts)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
            if path == "/.well-known/openid-configuration":
                self._json(200, made.configuration())
            elif path == "/keys":
                self._json(200, made.keys())
            elif path == "/authorize":
                self.send_response(302)
                self.send_header("Location", made.authorize(query))
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._json(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._json(*made.token(form, self.headers.get("Authorization", "")))

        def _json(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature that the library expects
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
