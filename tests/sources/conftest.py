"""The secrets that the sources of these tests name."""

import pytest

from tests.sources.signing import ENVIRONMENT


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
