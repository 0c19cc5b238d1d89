"""Secrets in event payloads are redacted; everything else is kept unchanged."""

import json

import pytest

from assent.core.canonical import Json
from assent.triggers.payload_secrets import BUILT_IN, HIDDEN, Redactor, names_secret

AWS, GITHUB = "AKIA" + "ABCDEFGHIJKLMNOP", "ghp_" + "a1B2" * 9
SECRETS: dict[str, tuple[str, str]] = {
    "an AWS key": (f"uses {AWS} now", f"uses AKIA{HIDDEN} now"),
    "a GitHub token": (f"set {GITHUB}", f"set ghp_{HIDDEN}"),
    "a GitLab token": ("glpat-" + "x" * 20, f"glpat-{HIDDEN}"),
    "a Slack token": ("xoxb-" + "1" * 12, f"xoxb-{HIDDEN}"),
    "a Stripe key": ("sk_live_" + "x" * 24, f"sk_live_{HIDDEN}"),
    "a webhook secret": ("whsec_" + "x" * 32, f"whsec_{HIDDEN}"),
    "a token of ours": ("asta_" + "x" * 40, f"asta_{HIDDEN}"),
    "a JSON Web Token": ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", HIDDEN),
    "a bearer": ("Authorization: Bearer " + "x" * 20, f"Authorization: Bearer {HIDDEN}"),
    "a password in an address": ("postgres://app:hunter2@db/x", f"postgres://app:{HIDDEN}@db/x"),
    "a password in a text": ("run with PASSWORD=hunter2 today", f"run with PASSWORD={HIDDEN} today"),
    "a Slack webhook": ("https://hooks.slack.com/services/T0/B0/abc", f"https://hooks.slack.com/services/{HIDDEN}"),
    "a private key": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n",
        f"-----BEGIN RSA PRIVATE KEY-----{HIDDEN}\n",
    ),
}


@pytest.mark.parametrize("what", SECRETS)
def test_a_secret_is_redacted_anywhere_in_a_payload(what: str) -> None:
    text, shown = SECRETS[what]
    body: Json = {"a": [{"message": text}], "n": 1}
    assert BUILT_IN(body) == {"a": [{"message": shown}], "n": 1}
    assert BUILT_IN(text) == shown


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "db_password", "client_secret", "clientSecret", "apiKey", "api_key", "x-auth-token",
     "access_token", "accessToken", "privateKey", "authorization", "credentials", "tokens"],
)  # fmt: skip
def test_a_value_is_redacted_if_its_key_names_a_secret(key: str) -> None:
    assert names_secret(key)
    assert BUILT_IN({key: "hunter2"}) == {key: HIDDEN}


@pytest.mark.parametrize("key", ["title", "tokenize", "secretary", "passenger", "keyboard", "monkey", "token_count"])
def test_values_of_ordinary_keys_are_kept(key: str) -> None:
    assert BUILT_IN({key: "hunter2", "password": "x"}) == {key: "hunter2", "password": HIDDEN}


@pytest.mark.parametrize("value", ["", None, 3, True, ["read"], {"scope": "read"}])
def test_a_value_that_cannot_be_a_secret_is_kept_despite_its_key(value: Json) -> None:
    assert BUILT_IN({"token": value}) == {"token": value}


@pytest.mark.parametrize(
    "text",
    ["https://github.com/acme/shop/commit/abc", "https://host:8443/a@b", "Fix the token refresh", "git@host:acme/x",
     "basic authentication", "AKIA", "eyJ.eyJ", "mailto:ann@example.com"],
)  # fmt: skip
def test_text_that_only_resembles_a_secret_is_kept(text: str) -> None:
    assert BUILT_IN({"text": text}) == {"text": text}


def test_a_body_without_secrets_is_returned_unchanged() -> None:
    body: Json = {"title": "Charge once", "paths": ["a.py"]}
    assert BUILT_IN(body) is body


def test_custom_patterns_extend_the_built_in_ones() -> None:
    redactor = Redactor([r"ACME-\d{4}", r"(pin: )\d+"])
    body: Json = {"a": "ACME-1234 and pin: 99", "password": "x"}
    assert redactor(body) == {"a": f"{HIDDEN} and pin: {HIDDEN}", "password": HIDDEN}


def test_redacting_twice_changes_nothing() -> None:
    body: Json = {"password": "x", "text": f"token={GITHUB}"}
    assert BUILT_IN(BUILT_IN(body)) == BUILT_IN(body)


FOUND = "hunter2" * 3
SHAPES: dict[str, Json] = {
    "a GitLab variable": {"variables": [{"key": "DB_PASSWORD", "value": FOUND}]},
    "an environment variable": {"env": [{"name": "API_TOKEN", "value": FOUND}]},
    "a header": {"headers": {"X-Api-Key": FOUND, "Cookie": f"session={FOUND}", "private-key": FOUND}},
    "a pair": {"headers": [["Authorization", FOUND]]},
    "a list": {"passwords": [FOUND]},
    "an object": {"secret": {"value": FOUND}},
    "a short name": {"db_pwd": FOUND, "pass": FOUND, "dbPass": FOUND},
    "a name without separators": {"DBPASSWORD": FOUND, "GITHUBTOKEN": FOUND, "authtoken": FOUND},
    "a connection string": f"AccountName=x;AccountKey={FOUND}==;",
    "an option": f"mysql --password {FOUND} -u root",
    "a header on a command line": f"curl -H 'X-Api-Key: {FOUND}' https://x",
    "a user on a command line": f"curl -u admin:{FOUND} https://x",
    "a scheme": f"Authorization: token {FOUND}",
    "a signature": f"https://x/?access_token={FOUND}&sig={FOUND}",
    "an address without a user": f"redis://:{FOUND}@host/0",
    "a PGP key": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{FOUND}\n-----END PGP PRIVATE KEY BLOCK-----",
    "an encrypted key": f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n{FOUND}\n",
    "a long key": "-----BEGIN PRIVATE KEY-----" + "A" * 20_001 + FOUND,
    "a quoted password with blanks": f'password="correct horse {FOUND}"',
    "an OpenAI key": f"key is sk-{FOUND}",
    "a Hugging Face token": f"hf_{FOUND}",
    "a SendGrid key": f"SG.{FOUND}.{FOUND}",
    "a key of an object": {f"ghp_{FOUND}": 1},
}


@pytest.mark.parametrize("what", SHAPES)
def test_secrets_are_redacted_in_every_structure(what: str) -> None:
    assert FOUND not in json.dumps(BUILT_IN(SHAPES[what]))


def test_a_number_is_redacted_for_the_key_password_but_not_for_the_key_tokens() -> None:
    assert BUILT_IN({"password": 48151623, "tokens": 48151623}) == {"password": HIDDEN, "tokens": 48151623}


@pytest.mark.parametrize(
    "text",
    ["Bypass the cache and pass the token on", "the compass", "git push -u origin main", "disk-usage-report-2026-11",
     "msg.send to everyone", "Use --token-file instead", "cookie banner: accept all", "see https://host/a?sigma=12345678"],
)  # fmt: skip
def test_ordinary_text_is_not_redacted(text: str) -> None:
    assert BUILT_IN({"text": text, "bypass": text}) == {"text": text, "bypass": text}
