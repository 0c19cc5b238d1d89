"""Secrets in settings are references, and no message contains their values."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from assent.kernel.settings import LARGEST_SECRET, Secret, Settings, is_reference, open_to_others, resolve
from tests.cli.commands import here, here_json
from tests.support.keys import key_reference, new_key

URL = "postgresql://ann:hunter2@127.0.0.1:1/x"


def test_a_reference_resolves_to_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    (tmp_path / "secret").write_text("hunter3\n")

    assert resolve("env:MY_SECRET") == "hunter2"
    assert resolve(f"file:{tmp_path / 'secret'}") == "hunter3"
    assert resolve("hunter4") == "hunter4"
    assert [is_reference(each) for each in ("env:X", "file:x", "environment")] == [True, True, False]


def test_the_repr_of_a_secret_shows_only_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")

    assert repr(resolve("env:MY_SECRET")) == "Secret('env:MY_SECRET')"
    assert repr(resolve("hunter2")) == "Secret('***')"
    assert pickle.loads(pickle.dumps(resolve("env:MY_SECRET"))) == "hunter2"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("env:NOT_SET", "the environment variable NOT_SET is not set"),
        ("env:EMPTY", "is empty"),
        ("env:BLANK", "is empty"),
        ("file:{folder}/none", "No such file"),
        ("file:{folder}", "Is a directory"),
        ("file:{folder}/empty", "is empty"),
        ("file:{folder}/large", "is larger than 64 KiB"),
        ("file:{folder}/binary", "is not valid UTF-8 text"),
        ("file:\0", "not a valid path"),
    ],
)
def test_the_error_for_an_unresolvable_reference_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, said: str
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BLANK", " \n")
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_text("x" * (LARGEST_SECRET + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    reference = reference.format(folder=tmp_path)
    with pytest.raises(ValueError, match=said) as refused:
        resolve(reference)
    assert reference in str(refused.value)


@pytest.mark.parametrize("setting", ["ASSENT_DATABASE_URL", "ASSENT_SECRET_KEYS"])
@pytest.mark.parametrize("command", ["check", "serve", "migrate"])
def test_a_command_names_the_setting_with_an_unresolvable_reference(command: str, setting: str) -> None:
    done = here(command, **{setting: "env:NOT_SET"})

    assert done.exit_code == 1
    assert setting in done.stderr
    assert "env:NOT_SET" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_settings_hide_the_database_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_URL", URL)
    for settings in (Settings(database_url="env:MY_URL"), Settings(database_url=URL)):
        assert settings.database_url == URL
        assert isinstance(settings.database_url, Secret)
        assert "hunter2" not in repr(settings)
        assert "hunter2" not in str(settings)
        assert settings.model_copy(update={"port": 1}).database_url == URL


@pytest.mark.parametrize(
    "url",
    ["mysql://ann:hunter2@db/x", "postgresql://ann:hunter2%zz@db/x", "postgresql://ann:hunter2/x@db/x", "hunter2"],
)
def test_the_error_for_an_invalid_database_url_does_not_quote_it(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(database_url=url)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in here("check", ASSENT_DATABASE_URL=url).output


def test_the_check_command_shows_a_reference_instead_of_its_value() -> None:
    done = here("check", "--json", ASSENT_DATABASE_URL="env:MY_URL", MY_URL=URL)

    assert "env:MY_URL" in done.stdout
    assert "hunter2" not in done.output


def test_keys_can_only_be_specified_by_reference(tmp_path: Path) -> None:
    key = new_key()
    refused = here("check", "--data", str(tmp_path), ASSENT_SECRET_KEYS=key)

    assert refused.exit_code == 1
    assert "env:NAME or file:PATH" in refused.stderr
    assert key not in refused.output


def test_keys_can_be_specified_as_a_list_or_on_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = key_reference(tmp_path)
    monkeypatch.setenv("MY_KEY", new_key())
    monkeypatch.setenv("ASSENT_SECRET_KEYS", f"env:MY_KEY, {reference}")
    on_one_line = Settings().secret_keys
    monkeypatch.delenv("ASSENT_SECRET_KEYS")
    (tmp_path / "assent.yaml").write_text(f"secret_keys:\n  - env:MY_KEY\n  - {reference}\n")
    monkeypatch.chdir(tmp_path)

    assert on_one_line == Settings().secret_keys == ("env:MY_KEY", reference)


@pytest.mark.parametrize(("mode", "exposed"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_the_check_command_warns_about_a_file_that_others_can_access(tmp_path: Path, mode: int, exposed: bool) -> None:  # noqa: FBT001
    reference = key_reference(tmp_path)
    path = Path(reference.removeprefix("file:"))
    path.chmod(mode)

    checked = here_json("check", "--data", str(tmp_path / "data"), ASSENT_SECRET_KEYS=reference)

    assert open_to_others(path) == exposed
    assert any("chmod 600" in each["detail"] for each in checked["checks"]) == exposed
    assert checked["ok"]


def test_the_check_command_shows_how_secrets_are_encrypted(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    embedded = here_json("check", *data)
    given = here_json("check", *data, ASSENT_SECRET_KEYS=key_reference(tmp_path))
    without = here("check", "--json", ASSENT_DATABASE_URL=URL)
    broken = here("check", *data, ASSENT_SECRET_KEYS=key_reference(tmp_path, "not-a-key"))

    assert any("when first needed" in each["detail"] for each in embedded["checks"])
    assert any("are encrypted with the key key_" in each["detail"] for each in given["checks"])
    assert "ASSENT_SECRET_KEYS is not set" in without.stdout
    assert broken.exit_code == 1
    assert "not-a-key" not in broken.output
