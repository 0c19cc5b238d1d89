"""Every setting is documented with its default."""

from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from tests.docs.pages import read, rows

ROWS = {row[0].strip("`"): row for row in rows(read("reference/settings.md"))}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_documented_with_its_default(name: str) -> None:
    variable, key, default, meaning = ROWS[f"ASSENT_{name.upper()}"]

    assert variable == f"`ASSENT_{name.upper()}`"
    assert key == f"`{name}`"
    assert default == _shown(Settings.model_fields[name].default)
    assert meaning.startswith(Settings.model_fields[name].description or "?")


def test_only_existing_settings_are_documented() -> None:
    assert set(ROWS) == {f"ASSENT_{name.upper()}" for name in Settings.model_fields}


def _shown(default: object) -> str:
    if default is None:
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_the_environment_takes_precedence_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assent.yaml").write_text("port: 1\nlog_level: error\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENT_PORT", "2")

    assert (Settings().port, Settings().log_level, Settings(port=3).port) == (2, "error", 3)
