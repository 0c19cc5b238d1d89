"""Signs test webhooks in the same way as their providers."""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook to send."""

    body: bytes
    event: str = ""
    """The provider's event name, such as push."""
    delivery: str = ""
    """The delivery ID, which stays the same for a redelivery."""
    at: int = 0
    """Unix time in seconds."""
    header: str = ""
    """The header for a plain HMAC, if it is not X-Signature."""
    prefix: str = ""
    """The prefix of a plain HMAC, such as sha256="""


def signed(kind: str, secret: str, call: Call) -> dict[str, str]:
    """Return the headers that a provider would send."""
    if not secret:
        msg = "The secret is empty."
        raise ValueError(msg)
    return {name: value for name, value in SIGNERS[kind](secret, call).items() if value}


def digest(secret: str, body: bytes) -> str:
    return hmac.digest(secret.encode(), body, "sha256").hex()


def _github(secret: str, call: Call) -> dict[str, str]:
    return {
        "X-GitHub-Event": call.event,
        "X-GitHub-Delivery": call.delivery,
        "X-Hub-Signature-256": f"sha256={digest(secret, call.body)}",
    }


def _gitlab(secret: str, call: Call) -> dict[str, str]:
    told = {"X-Gitlab-Event": call.event, "X-Gitlab-Event-UUID": call.delivery, "Idempotency-Key": call.delivery}
    if secret.startswith("whsec_"):
        return told | _standard_webhooks(secret, call)
    return told | {"X-Gitlab-Token": secret}


def _bitbucket(secret: str, call: Call) -> dict[str, str]:
    signature = f"sha256={digest(secret, call.body)}"
    return {"X-Event-Key": call.event, "X-Request-UUID": call.delivery, "X-Hub-Signature": signature}


def _gitea(secret: str, call: Call) -> dict[str, str]:
    found = digest(secret, call.body)
    return {
        "X-Gitea-Event": call.event,
        "X-Gitea-Delivery": call.delivery,
        "X-Gitea-Signature": found,
        "X-Hub-Signature-256": f"sha256={found}",
    }


def _forgejo(secret: str, call: Call) -> dict[str, str]:
    return _gitea(secret, call) | {
        "X-Forgejo-Event": call.event,
        "X-GitHub-Event": call.event,
        "X-Forgejo-Delivery": call.delivery,
        "X-Forgejo-Signature": digest(secret, call.body),
    }


def _circleci(secret: str, call: Call) -> dict[str, str]:
    return {"circleci-event-type": call.event, "circleci-signature": f"v1={digest(secret, call.body)}"}


def _jira(secret: str, call: Call) -> dict[str, str]:
    signature = f"sha256={digest(secret, call.body)}"
    return {"X-Atlassian-Webhook-Identifier": call.delivery, "X-Hub-Signature": signature}


def _standard_webhooks(secret: str, call: Call) -> dict[str, str]:
    spelt = secret.removeprefix("whsec_")
    try:
        # Accept secrets without padding.
        key = base64.b64decode(spelt + "=" * (-len(spelt) % 4), validate=True)
    except ValueError as error:
        msg = "A Standard Webhooks secret must be whsec_ followed by a base64 string."
        raise ValueError(msg) from error
    content = f"{call.delivery}.{call.at}.".encode() + call.body
    signature = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
    return {"webhook-id": call.delivery, "webhook-timestamp": str(call.at), "webhook-signature": f"v1,{signature}"}


def _hmac(secret: str, call: Call) -> dict[str, str]:
    return {call.header or "X-Signature": f"{call.prefix}{digest(secret, call.body)}"}


def _bearer(secret: str, call: Call) -> dict[str, str]:
    del call
    return {"Authorization": f"Bearer {secret}"}


SIGNERS: Mapping[str, Callable[[str, Call], dict[str, str]]] = {
    "github": _github,
    "gitlab": _gitlab,
    "bitbucket": _bitbucket,
    "gitea": _gitea,
    "forgejo": _forgejo,
    "circleci": _circleci,
    "jira": _jira,
    "standard-webhooks": _standard_webhooks,
    "hmac": _hmac,
    "bearer": _bearer,
}
