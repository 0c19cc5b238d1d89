"""Only requests authenticated with a secret of the source are accepted, and only while they are recent."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest, Unauthenticated, Unavailable
from assent.kernel.ports import Incoming
from assent.triggers.sources.fields import Secrets
from assent.triggers.sources.registry import KINDS
from assent.triggers.sources.signatures import circleci, hub, path, signed, standard_webhooks, token
from tests.triggers.sources.moments import NOW
from tests.triggers.sources.signing import (
    KEYS,
    SECRET,
    SETTINGS,
    SIGNED,
    STANDARD,
    golden,
    hexed,
    source,
    standard,
    take,
    tools,
)

BODY = json.dumps({"type": "deployed", "id": "1"}).encode()
MINUTE = 60_000_000
SIGNING = sorted(set(SIGNED) - {"jenkins"})


def secrets(*references: str) -> Secrets:
    return Secrets(references or ("env:HOOK_SECRET",), tools())


def incoming(body: bytes, **headers: str) -> Incoming:
    return Incoming({name.replace("_", "-"): value for name, value in headers.items()}, body, NOW)


@pytest.mark.parametrize(
    ("header", "body", "digest"),
    [
        ("x-hub-signature-256", b"Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
        ("x-hub-signature", b"Hello World!", "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"),
    ],
)
def test_the_example_signatures_published_by_providers_are_accepted(header: str, body: bytes, digest: str) -> None:
    check = hub(header, secrets())
    assert check(Incoming({header: f"sha256={digest}"}, body, NOW), None).how == "hmac-sha256"


def test_the_circleci_example_is_accepted_and_unknown_versions_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "secret")
    right = "734cc62f32841568f45715aeb9f4d7891324e6d948e4c6c60c0621cdac48623a"
    check = circleci(secrets())
    for header in (f"v1={right}", f"v2=beef,v1={right}", f"v1={right},v2=beef"):
        assert check(incoming(b"hello world", circleci_signature=header), None).how == "hmac-sha256"
    for header in (f"v2={right}", right, "v1=", ""):
        with pytest.raises(Unauthenticated):
            check(incoming(b"hello world", circleci_signature=header), None)


def test_the_slack_example_is_accepted_as_a_custom_hmac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "8f742231b10e8888abcd99yyyzzz85a5")
    settings = {
        "verify": "hmac",
        "secrets": ["env:HOOK_SECRET"],
        "header": "X-Slack-Signature",
        "prefix": "v0=",
        "timestamp_header": "X-Slack-Request-Timestamp",
        "signed": "v0:{timestamp}:{body}",
        "tolerance": "5m",
    }
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "x-slack-request-timestamp": "1531420618",
    }
    check = source("webhook", settings)._check  # type: ignore[attr-defined]
    assert check(Incoming(headers, body, 1_531_420_618_000_000), None).how == "hmac-sha256"
    for seconds in (-301, 301):
        with pytest.raises(Unauthenticated, match="by more than 300 seconds"):
            check(Incoming(headers, body, (1_531_420_618 + seconds) * 1_000_000), None)


@pytest.mark.parametrize("kind", SIGNING)
@given(data=st.data())
def test_a_flipped_bit_anywhere_in_the_body_is_rejected(kind: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(BODY) * 8 - 1))
    flipped = bytearray(BODY)
    flipped[place // 8] ^= 1 << place % 8
    with pytest.raises(Unauthenticated):
        source(kind).take(Incoming(SIGNED[kind](BODY), bytes(flipped), NOW), key=None)


@pytest.mark.parametrize("kind", SIGNING)
@given(data=st.data())
def test_a_changed_character_anywhere_in_the_signed_headers_is_rejected(kind: str, data: st.DataObject) -> None:
    headers = SIGNED[kind](BODY)
    # Gitea and Forgejo send a second signature header that Assent does not check.
    name = data.draw(st.sampled_from(sorted(headers)[:1] if kind in {"gitea", "forgejo"} else sorted(headers)))
    value = headers[name]
    place = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda each: each != value[place]))
    changed = {**headers, name: value[:place] + other + value[place + 1 :]}
    with pytest.raises(Unauthenticated):
        source(kind).take(Incoming(changed, BODY, NOW), key=None)


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_a_missing_or_empty_signature_is_rejected(kind: str) -> None:
    made = source(kind)
    empty = {name: "sha256=" if "hub" in name else "" for name in SIGNED[kind](BODY)}
    for headers in ({}, empty, {"circleci-signature": "v1="}, {"x-gitlab-token": ""}, {"authorization": "Bearer "}):
        for key in (None, ""):
            with pytest.raises(Unauthenticated):
                made.take(Incoming(headers, BODY, NOW), key=key)


def test_an_empty_signature_from_gitea_without_a_secret_is_rejected() -> None:
    headers = {"x-gitea-signature": "", "x-hub-signature-256": "sha256=", "x-github-event": "push"}
    with pytest.raises(Unauthenticated):
        source("gitea").take(Incoming(headers, BODY, NOW), key=None)


def test_a_reserialized_body_is_rejected() -> None:
    spaced = b'{"type": "deployed",  "id": "1"}'
    with pytest.raises(Unauthenticated):
        source("github").take(
            Incoming(SIGNED["github"](spaced), json.dumps(json.loads(spaced)).encode(), NOW), key=None
        )


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_a_body_is_not_parsed_before_it_is_verified(kind: str) -> None:
    with pytest.raises(Unauthenticated):
        source(kind).take(Incoming({}, b"{ this is not JSON", NOW), key=None)


@pytest.mark.parametrize("kind", sorted(set(SETTINGS) - {"gitlab", "webhook"}))
def test_both_secrets_are_accepted_during_a_rotation(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_NEXT", "the next one")
    made = source(kind, {"secrets": ["env:HOOK_NEXT", "env:HOOK_SECRET"]})
    assert made.take(Incoming(SIGNED[kind](BODY), BODY, NOW), key=KEYS.get(kind))
    monkeypatch.setenv("HOOK_NEXT", SECRET)
    monkeypatch.setenv("HOOK_SECRET", "gone")
    assert made.take(Incoming(SIGNED[kind](BODY), BODY, NOW), key=KEYS.get(kind)), "secrets must be read each time"


def test_an_unreadable_secret_does_not_affect_other_secrets(tmp_path: Path) -> None:
    gone = tmp_path / "old"
    gone.write_text("old secret")
    made = source("github", {"secrets": [f"file:{gone}", "env:HOOK_SECRET"]})
    gone.unlink()
    assert made.take(Incoming(SIGNED["github"](BODY), BODY, NOW), key=None)


def test_a_source_without_a_readable_secret_is_unavailable_instead_of_rejecting_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    made = source("github", {"secrets": [f"file:{file}"]})
    for content in (None, "", "  \n"):
        if content is None:
            file.unlink()
        else:
            file.write_text(content)
        with pytest.raises(Unavailable):
            made.take(Incoming(SIGNED["github"](BODY), BODY, NOW), key=None)
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(InvalidRequest, match="HOOK_SECRET is not set"):
        source("github")


@pytest.mark.parametrize("kind", ["gitlab", "webhook"])
@pytest.mark.parametrize(("minutes", "good"), [(-6, False), (-4, True), (4, True), (6, False)])
def test_a_signed_timestamp_is_valid_for_five_minutes(kind: str, minutes: int, good: bool) -> None:  # noqa: FBT001
    request = Incoming(standard(BODY, at=NOW + minutes * MINUTE), BODY, NOW)
    if good:
        assert source(kind).take(request, key=None)[0].verified == "standard-webhooks"
    else:
        with pytest.raises(Unauthenticated, match="differs from the server time"):
            source(kind).take(request, key=None)


@pytest.mark.parametrize("signature", ["v1", "v1,", "v1a,abc", "nonsense", "v1,é", ","])
def test_a_malformed_signature_is_rejected_as_unauthenticated(signature: str) -> None:
    headers = {**standard(BODY), "webhook-signature": signature}
    with pytest.raises(Unauthenticated):
        standard_webhooks(secrets("env:HOOK_STANDARD"))(Incoming(headers, BODY, NOW), None)


def test_one_valid_signature_among_several_is_enough() -> None:
    headers = standard(BODY)
    headers["webhook-signature"] = f"v1,AAAA v1a,BBBB {headers['webhook-signature']}"
    found = standard_webhooks(secrets("env:HOOK_STANDARD"))(Incoming(headers, BODY, NOW), None)
    assert (found.how, found.id) == ("standard-webhooks", "msg_1")


def test_gitlab_with_both_kinds_of_secret_accepts_either() -> None:
    made = source("gitlab", {"secrets": ["env:HOOK_SECRET"], "signing_tokens": ["env:HOOK_STANDARD"]})
    for headers, how in ((standard(BODY), "standard-webhooks"), ({"x-gitlab-token": SECRET}, "bearer")):
        assert made.take(Incoming(headers, BODY, NOW), key=None)[0].verified == how
    with pytest.raises(Unauthenticated):
        made.take(Incoming({"x-gitlab-token": STANDARD}, BODY, NOW), key=None)


@given(st.text(max_size=60))
def test_only_the_exact_secret_is_accepted_as_a_path_or_token(guess: str) -> None:
    for check in (path(secrets()), token("x-gitlab-token", secrets())):
        if guess != SECRET:
            with pytest.raises(Unauthenticated):
                check(incoming(BODY, x_gitlab_token=guess), guess)
    assert path(secrets())(incoming(BODY), SECRET).how == "path"


@pytest.mark.parametrize(("encoding", "prefix"), [("hex", ""), ("hex", "sha256="), ("base64", "")])
def test_an_hmac_is_decoded_from_its_configured_encoding(encoding: str, prefix: str) -> None:
    from base64 import b64encode  # noqa: PLC0415

    digest = bytes.fromhex(hexed(BODY))
    spelt = digest.hex() if encoding == "hex" else b64encode(digest).decode()
    check = signed("x-signature", secrets(), prefix=prefix, encoding=encoding)
    assert check(incoming(BODY, x_signature=prefix + spelt), None).how == "hmac-sha256"
    for wrong in (spelt[:-1], spelt + "=", f"{prefix}{spelt} ", prefix):
        with pytest.raises(Unauthenticated):
            check(incoming(BODY, x_signature=wrong), None)


BAD: list[tuple[str, dict[str, Any], str]] = [
    *((kind, {}, "is required") for kind in sorted(set(KINDS) & set(SETTINGS))),
    *((kind, {"secrets": []}, "is required") for kind in ("github", "jenkins", "jira")),
    ("github", {"secrets": ["hunter2"]}, "must be a reference, env:NAME or file:PATH"),
    ("github", {"secrets": ["env:HOOK_MISSING"]}, "HOOK_MISSING is not set"),
    ("github", {"secrets": [7]}, "must be a reference, env:NAME or file:PATH"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "verify": "none"}, "is not one of"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "trust": "blind"}, "untrusted, trusted"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "max_bytes": 26 * 1024 * 1024}, "from 1 to 26214400"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "per_minute": 0}, "from 1"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "dedup": "{{ event.nope }}"}, "events do not have a field named nope"),
    ("github", {"secrets": ["env:HOOK_SECRET"], "expect_every": "often"}, "must be a duration"),
    ("gitlab", {"signing_tokens": ["env:HOOK_SECRET"]}, "must be whsec_"),
    ("jenkins", {"secrets": ["env:HOOK_SECRET"], "verify": "none"}, "path, bearer"),
    ("webhook", {"secrets": ["env:HOOK_SECRET"]}, "must be whsec_"),
]


@pytest.mark.parametrize(("kind", "settings", "why"), BAD)
def test_insecure_settings_are_rejected(kind: str, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        source(kind, settings)
    assert caught.value.message.startswith("/settings/")


def test_a_body_signed_for_one_provider_is_rejected_by_another() -> None:
    case = golden("forgejo", "push")
    body = json.dumps(case["body"]).encode()
    assert take("forgejo", case["headers"], body).type == "forgejo.push"
    with pytest.raises(Unauthenticated):
        source("github").take(Incoming({**case["headers"], **SIGNED["forgejo"](body)}, body, NOW), key=None)
