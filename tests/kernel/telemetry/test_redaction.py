"""Text that looks like a secret is redacted; other text is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.secrets import PREFIXES, secret
from assent.kernel.telemetry import redacted
from assent.kernel.telemetry.redaction import HIDDEN, names_a_secret


@given(st.sampled_from(sorted(PREFIXES)), st.binary(min_size=32, max_size=32), st.text(), st.text())
def test_a_token_is_redacted_anywhere_in_a_text(kind: str, entropy: bytes, before: str, after: str) -> None:
    token = secret(kind, entropy)
    assert token[5:] not in redacted(before + token + after)


@given(st.text())
def test_redacting_text_twice_has_no_further_effect(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@h/db", f"postgresql://u:{HIDDEN}@h/db"),
        ("postgresql://u:p@ss@h/db", f"postgresql://u:{HIDDEN}@h/db"),
        ("https://:key@h/x http://a:b@c", f"https://:{HIDDEN}@h/x http://a:{HIDDEN}@c"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {HIDDEN}"),
        ("authorization=abcdefgh", f"authorization={HIDDEN}"),
        ("Bearer%20abcdefghij", f"Bearer%20{HIDDEN}"),
        ("whsec_abcdefgh+/=", f"whsec_{HIDDEN}"),
        ("PGPASSWORD=x y", f"PGPASSWORD={HIDDEN} y"),
        ("MY_API_KEY='a b' c", f"MY_API_KEY={HIDDEN} c"),
    ],
)
def test_a_secret_is_replaced_and_its_surroundings_are_kept(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:7373/api/breakpoints",
        "Invalid or revoked token. Create one with assent token create.",
        "tok_01kcc5ok00f1cfsfkff6bjbt4k",
        "the forecasts_of_last_year were basic",
        "Send the header Authorization: … (assent token create makes one).".replace(": …", ""),
        "/api/tokens",
        "secret",
    ],
)
def test_ordinary_text_is_not_redacted(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("key", ["password", "Authorization", "set-cookie", "client_secret", "api_key", "agent_token"])
def test_a_field_is_recognized_as_secret_by_its_name(key: str) -> None:
    assert names_a_secret(key)


@pytest.mark.parametrize("key", ["token_id", "tokens_used", "secretary", "path", "passwords_checked"])
def test_a_field_with_a_similar_name_is_not_redacted(key: str) -> None:
    assert not names_a_secret(key)


@pytest.mark.parametrize("part", ["://a:", "authorization:", "bearer ", "asta_", "token=", "eyJ", "'password':'"])
def test_hostile_text_is_redacted_in_linear_time(part: str) -> None:
    """A pattern with quadratic backtracking would exceed the timeout of the test."""
    redacted(part * 100_000)
