"""The settings on the OpenID Connect page exist."""

from pathlib import Path

import pytest

from assent.kernel.settings import Settings, resolve
from tests.docs.pages import DOCS, blocks


def test_the_settings_on_the_page_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [each for each in blocks(DOCS / "how-to" / "sign-in-with-oidc.md") if each.language == "yaml"]
    (tmp_path / "assent.yaml").write_text(block.code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OIDC_SECRET", "not told")
    found = Settings()
    assert (found.oidc_issuer, found.oidc_client_id) == ("https://id.example.com", "assent")
    assert found.oidc_client_secret is not None
    assert (resolve(found.oidc_client_secret), found.oidc_name) == ("not told", "Example ID")
    written = [line.partition(":")[0] for line in block.code.splitlines() if not line.startswith("#")]
    assert set(written) <= set(Settings.model_fields)
