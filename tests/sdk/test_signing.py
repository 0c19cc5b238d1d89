"""What we sign, the sources take: and nothing else."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from assent.domain.errors import Unauthenticated
from assent.domain.instants import SECOND
from assent.ports import Hook, Incoming
from assent.sdk.signing import SIGNERS, Call, digest, signed
from assent.sources.registry import KINDS
from assent.sources.tools import SourceTools

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
def test_a_source_takes_what_is_signed_for_it(name: str) -> None:
    hook, secret = made(name)
    headers = signed(name.split(maxsplit=1)[0], secret, CALL)
    [event] = hook.take(incoming(headers, CALL.body), key=None)
    assert event.data == {"ref": "refs/heads/main"}
    assert event.verified != "none"


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_refuses_what_is_signed_with_another_secret(name: str) -> None:
    hook, secret = made(name)
    other = "whsec_" + base64.b64encode(b"another secret of 24 bytes").decode() if secret == WHSEC else "another"
    with pytest.raises(Unauthenticated):
        hook.take(incoming(signed(name.split(maxsplit=1)[0], other, CALL), CALL.body), key=None)


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"bearer", "gitlab"}))
def test_a_source_refuses_another_body_than_the_signed_one(name: str) -> None:
    hook, secret = made(name)
    with pytest.raises(Unauthenticated):
        hook.take(incoming(signed(name.split(maxsplit=1)[0], secret, CALL), CALL.body + b" "), key=None)


def test_every_way_to_sign_is_tried_against_a_source() -> None:
    assert {name.split()[0] for name in SOURCES} == set(SIGNERS)


def test_the_signatures_are_those_that_the_providers_document() -> None:
    assert digest(SECRET, b"Hello, World!") == "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert digest(SECRET, b"Hello World!") == "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"


def test_a_plain_hmac_goes_where_it_is_wanted() -> None:
    call = dataclasses.replace(CALL, header="X-Mine", prefix="sha256=")
    assert signed("hmac", SECRET, call) == {"X-Mine": f"sha256={digest(SECRET, CALL.body)}"}


@pytest.mark.parametrize("kind", SIGNERS)
def test_an_empty_secret_signs_nothing(kind: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        signed(kind, "", CALL)


def test_a_secret_that_is_not_base64_is_no_secret_of_standard_webhooks() -> None:
    with pytest.raises(ValueError, match="base64"):
        signed("standard-webhooks", "whsec_!!", CALL)
