"""Sources accept webhooks that the SDK signs, and reject all others."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from assent.core.errors import Unauthenticated
from assent.core.timestamps import SECOND
from assent.kernel.ports import Incoming
from assent.sdk.signing import SIGNERS, Call, digest, signed
from assent.triggers.ports import Hook
from assent.triggers.sources.registry import KINDS
from assent.triggers.sources.tools import SourceTools

AT = 1_800_000_000
SECRET = "It's a Secret to Everybody"
WHSEC = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()
CALL = Call(b'{"ref":"refs/heads/main"}', "push", "d-1", AT)
SOURCES: dict[str, tuple[str, dict[str, Any], str]] = {
    "github": ("github", {"secrets": ["env:X"]}, SECRET),
    "gitlab": ("gitlab", {"secrets": ["env:X"]}, SECRET),
    "gitlab signed": ("gitlab", {"signing_tokens": ["env:X"]}, WHSEC),
    "bitbucket": ("bitbucket", {"secrets": ["env:X"]}, SECRET),
    "gitea": ("gitea", {"secrets": ["env:X"]}, SECRET),
    "forgejo": ("forgejo", {"secrets": ["env:X"]}, SECRET),
    "circleci": ("circleci", {"secrets": ["env:X"]}, SECRET),
    "jira": ("jira", {"secrets": ["env:X"]}, SECRET),
    "standard-webhooks": ("webhook", {"secrets": ["env:X"]}, WHSEC),
    "hmac": ("webhook", {"verify": "hmac", "secrets": ["env:X"]}, SECRET),
    "bearer": ("webhook", {"verify": "bearer", "secrets": ["env:X"]}, "a-token"),
}


def made(name: str) -> tuple[Hook, str]:
    kind, settings, secret = SOURCES[name]
    found: Any = KINDS[kind].make(settings, SourceTools(lambda _: secret, lambda: AT * SECOND, Path()))
    return found, secret


def incoming(headers: dict[str, str], body: bytes) -> Incoming:
    lowered = {name.lower(): value for name, value in headers.items()}
    return Incoming({"content-type": "application/json"} | lowered, body, AT * SECOND)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_accepts_a_correctly_signed_request(name: str) -> None:
    hook, secret = made(name)
    headers = signed(name.split(maxsplit=1)[0], secret, CALL)
    [event] = hook.take(incoming(headers, CALL.body), key=None)
    assert event.data == {"ref": "refs/heads/main"}
    assert event.verified != "none"


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_rejects_a_request_signed_with_another_secret(name: str) -> None:
    hook, secret = made(name)
    other = "whsec_" + base64.b64encode(b"another secret of 24 bytes").decode() if secret == WHSEC else "another"
    with pytest.raises(Unauthenticated):
        hook.take(incoming(signed(name.split(maxsplit=1)[0], other, CALL), CALL.body), key=None)


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"bearer", "gitlab"}))
def test_a_source_rejects_a_modified_body(name: str) -> None:
    hook, secret = made(name)
    with pytest.raises(Unauthenticated):
        hook.take(incoming(signed(name.split(maxsplit=1)[0], secret, CALL), CALL.body + b" "), key=None)


def test_every_signing_scheme_is_tested_against_a_source() -> None:
    assert {name.split()[0] for name in SOURCES} == set(SIGNERS)


def test_signatures_match_the_providers_documented_examples() -> None:
    assert digest(SECRET, b"Hello, World!") == "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert digest(SECRET, b"Hello World!") == "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"


def test_a_plain_hmac_uses_the_configured_header_and_prefix() -> None:
    call = dataclasses.replace(CALL, header="X-Mine", prefix="sha256=")
    assert signed("hmac", SECRET, call) == {"X-Mine": f"sha256={digest(SECRET, CALL.body)}"}


@pytest.mark.parametrize("kind", SIGNERS)
def test_signing_with_an_empty_secret_raises(kind: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        signed(kind, "", CALL)


def test_a_standard_webhooks_secret_must_be_base64() -> None:
    with pytest.raises(ValueError, match="base64"):
        signed("standard-webhooks", "whsec_!!", CALL)
