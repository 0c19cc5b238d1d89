"""The secrets that the sources in these tests refer to."""

import pytest

from tests.triggers.sources.signing import ENVIRONMENT


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
