"""Hooks remember an unreachable server in a private file; an invalid file is ignored."""

import os
from pathlib import Path

import pytest

from assent.agents.hooks.memory import Memory
from assent.sdk.errors import Unreachable

URL = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "assent"


def written(state: Path) -> Path:
    Memory(URL, 60).remember()
    (file,) = state.iterdir()
    return file


def test_a_failed_connection_is_remembered_per_server_for_a_limited_time(state: Path) -> None:
    memory = Memory(URL, 60)
    memory.refuse_if_dead()
    file = written(state)
    assert (state.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(Unreachable, match="will not retry for another"):
        memory.refuse_if_dead()
    Memory("http://127.0.0.1:10", 60).refuse_if_dead()
    Memory(URL, 0).refuse_if_dead()
    memory.forget()
    memory.refuse_if_dead()


@pytest.mark.parametrize("text", ["", "no number", "nan", "99999999999", "0"])
def test_an_invalid_or_old_timestamp_is_ignored(state: Path, text: str) -> None:
    written(state).write_text(text)
    Memory(URL, 60).refuse_if_dead()


def test_a_file_that_other_users_could_have_written_is_ignored(state: Path) -> None:
    file = written(state)
    file.chmod(0o666)
    Memory(URL, 60).refuse_if_dead()
    kept = file.rename(state / "kept")
    kept.chmod(0o600)
    file.symlink_to(kept)
    Memory(URL, 60).refuse_if_dead()
    file.unlink()
    os.mkfifo(file)
    Memory(URL, 60).refuse_if_dead()


def test_an_unwritable_state_folder_is_ignored(state: Path) -> None:
    state.write_text("in the way")
    memory = Memory(URL, 60)
    memory.remember()
    memory.refuse_if_dead()
    memory.forget()
