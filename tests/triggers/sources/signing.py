"""The sender's side of each kind of source: settings, and authenticated requests."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from assent.kernel.ports import Incoming
from assent.kernel.settings import resolve
from assent.triggers.event import Arrived
from assent.triggers.ports import Hook
from assent.triggers.sources.registry import KINDS
from assent.triggers.sources.tools import SourceTools
from tests.triggers.sources.moments import NOW, moment

SECRET = "It's a Secret to Everybody"
STANDARD = "whsec_" + base64.b64encode(b"k" * 32).decode()
GOLDEN = Path(__file__).parent / "golden"
SETTINGS: dict[str, dict[str, Any]] = {
    **{
        kind: {"secrets": ["env:HOOK_SECRET"]}
        for kind in ("github", "bitbucket", "gitea", "forgejo", "circleci", "jenkins", "jira")
    },
    "gitlab": {"signing_tokens": ["env:HOOK_STANDARD"]},
    "webhook": {"secrets": ["env:HOOK_STANDARD"]},
}
ENVIRONMENT = {"HOOK_SECRET": SECRET, "HOOK_STANDARD": STANDARD}


def source(kind: str, settings: Mapping[str, Any] | None = None) -> Hook:
    made = KINDS[kind].make(SETTINGS[kind] if settings is None else settings, tools())
    assert made is not None
    return made  # type: ignore[return-value]  # the tests use only hooks here, not watchers


def tools() -> SourceTools:
    return SourceTools(resolve, lambda: NOW, Path())


def hexed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(body: bytes, *, key: str = "msg_1", secret: str = STANDARD, at: int = NOW) -> dict[str, str]:
    signature = Webhook(secret).sign(key, moment(at), body.decode())
    return {"webhook-id": key, "webhook-timestamp": str(at // 1_000_000), "webhook-signature": signature}


SIGNED: dict[str, Callable[[bytes], dict[str, str]]] = {
    "github": lambda body: {"x-hub-signature-256": f"sha256={hexed(body)}"},
    "bitbucket": lambda body: {"x-hub-signature": f"sha256={hexed(body)}"},
    "jira": lambda body: {"x-hub-signature": f"sha256={hexed(body)}"},
    "gitea": lambda body: {"x-gitea-signature": hexed(body), "x-hub-signature-256": f"sha256={hexed(body)}"},
    "forgejo": lambda body: {"x-forgejo-signature": hexed(body), "x-gitea-signature": hexed(body)},
    "circleci": lambda body: {"circleci-signature": f"v1={hexed(body)}"},
    "gitlab": standard,
    "webhook": standard,
    "jenkins": lambda _: {},
}
KEYS = {"jenkins": SECRET}
"""The secret at the end of the URL, for senders that cannot sign."""


def golden(kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / kind / f"{name}.json").read_text())
    return found


def sent(kind: str, headers: Mapping[str, str], body: bytes) -> Incoming:
    """Return a signed request with the provider's headers."""
    return Incoming({**headers, **SIGNED[kind](body)}, body, NOW)


def take(kind: str, headers: Mapping[str, str], body: Any) -> Arrived:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    [arrived] = source(kind).take(sent(kind, headers, raw), key=KEYS.get(kind))
    return arrived
